//! The watches that commands have left: who waits for what, and the events that came. One event of the
//! server is told once, however many watches it meets.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use zebu_client::{EventKind, OneshotWatcher, WatchEvent, WatchStream};

use super::reply::Event;

/// What a watch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShellWatchKind {
    Data,
    Exists,
    Children,
    Node,
    Tree,
}

impl ShellWatchKind {
    /// What the event of its removal is called.
    const fn removal(self) -> &'static str {
        match self {
            ShellWatchKind::Data | ShellWatchKind::Exists => "DataWatchRemoved",
            ShellWatchKind::Children => "ChildWatchRemoved",
            ShellWatchKind::Node | ShellWatchKind::Tree => "PersistentWatchRemoved",
        }
    }
}

enum Watcher {
    Once(OneshotWatcher),
    Stream(WatchStream),
}

struct Held {
    number: u64,
    kind: ShellWatchKind,
    path: String,
    watcher: Watcher,
}

/// How many events are remembered, to tell the second report of one from another event.
const REMEMBERED: usize = 256;

/// All watches of the shell.
#[derive(Default)]
pub(crate) struct Watches {
    held: Vec<Held>,
    next_number: u64,
    /// The events to print, with the number of their watch.
    told: VecDeque<(u64, WatchEvent)>,
    /// Events that the shell generates itself.
    own: VecDeque<Event>,
}

impl Watches {
    /// Keeps a watch that fires once.
    pub(crate) fn keep(&mut self, kind: ShellWatchKind, path: &str, watcher: OneshotWatcher) {
        self.put(kind, path, Watcher::Once(watcher));
    }

    /// Keeps a watch that stays.
    pub(crate) fn keep_stream(&mut self, kind: ShellWatchKind, path: &str, stream: WatchStream) {
        self.put(kind, path, Watcher::Stream(stream));
    }

    fn put(&mut self, kind: ShellWatchKind, path: &str, watcher: Watcher) {
        // The new one is in place already: dropping the old one takes nothing from the server.
        self.held.retain(|held| !(held.kind == kind && held.path == path));
        self.next_number += 1;
        self.held.push(Held { number: self.next_number, kind, path: path.to_owned(), watcher });
    }

    /// Removes the watches of these kinds from a node, with an event for each kind. False if there are none.
    pub(crate) fn remove(&mut self, path: &str, kinds: &[ShellWatchKind]) -> bool {
        let mut events: Vec<&'static str> = Vec::new();
        self.held.retain(|held| {
            let removed = held.path == path && kinds.contains(&held.kind);
            if removed {
                events.push(held.kind.removal());
            }
            !removed
        });
        events.sort_unstable();
        events.dedup();
        for kind in &events {
            let path = Some(path.to_owned());
            self.own.push_back(Event { state: "SyncConnected", kind, path, zxid: -1 });
        }
        !events.is_empty()
    }

    /// Forgets all of them, with their session.
    pub(crate) fn clear(&mut self) {
        self.held.clear();
        self.told.clear();
    }

    /// Events that are there now.
    pub(crate) fn ready(&mut self) -> Vec<Event> {
        let waker = std::task::Waker::noop();
        let mut context = Context::from_waker(waker);
        let mut events = Vec::new();
        while let Poll::Ready(event) = self.poll(&mut context) {
            events.push(event);
        }
        events
    }

    /// The next event; waits for it. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Event {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        if let Some(event) = self.own.pop_front() {
            return Poll::Ready(event);
        }
        let mut index = 0;
        while let Some(held) = self.held.get_mut(index) {
            let event = match &mut held.watcher {
                Watcher::Once(once) => Pin::new(once).poll(context).map(Some),
                Watcher::Stream(stream) => {
                    // `next` is one poll of the stream's inbox and holds no state of its own.
                    let next = std::pin::pin!(stream.next());
                    next.poll(context)
                }
            };
            let Poll::Ready(event) = event else {
                index += 1;
                continue;
            };
            let number = held.number;
            let over = matches!(held.watcher, Watcher::Once(_))
                || event.as_ref().is_none_or(|event| event.kind == EventKind::WatchLost);
            if over {
                self.held.remove(index);
            }
            if let Some(event) = event.and_then(|event| self.tell(number, event)) {
                return Poll::Ready(event);
            }
        }
        Poll::Pending
    }

    /// The event as it is shown, unless another watch has reported it already or it is none of the server's.
    fn tell(&mut self, number: u64, event: WatchEvent) -> Option<Event> {
        let kind = match event.kind {
            EventKind::NodeCreated => "NodeCreated",
            EventKind::NodeDeleted => "NodeDeleted",
            EventKind::NodeDataChanged => "NodeDataChanged",
            EventKind::NodeChildrenChanged => "NodeChildrenChanged",
            EventKind::Resynced | EventKind::WatchLost => return None,
        };
        if event.zxid.is_some() {
            let by_another = |(other, told): &(u64, WatchEvent)| *other != number && *told == event;
            if self.told.iter().any(by_another) {
                return None;
            }
            if self.told.len() == REMEMBERED {
                self.told.pop_front();
            }
            self.told.push_back((number, event.clone()));
        }
        let path = Some(event.path.to_string());
        Some(Event { state: "SyncConnected", kind, path, zxid: event.zxid.unwrap_or(-1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind, zxid: Option<i64>) -> WatchEvent {
        WatchEvent { kind, path: "/a".into(), zxid }
    }

    #[test]
    fn one_event_is_told_once() {
        let mut watches = Watches::default();
        assert!(watches.tell(1, event(EventKind::NodeDeleted, Some(7))).is_some());
        assert!(watches.tell(2, event(EventKind::NodeDeleted, Some(7))).is_none());
        assert!(watches.tell(1, event(EventKind::NodeDeleted, Some(7))).is_some(), "twice in one multi");
        assert!(watches.tell(2, event(EventKind::NodeDeleted, Some(8))).is_some());
        assert!(watches.tell(1, event(EventKind::NodeCreated, None)).is_some());
        assert!(watches.tell(2, event(EventKind::NodeCreated, None)).is_some(), "who knows");
        assert!(watches.tell(2, event(EventKind::Resynced, None)).is_none());
    }

    #[test]
    fn removing_what_is_not_there() {
        assert!(!Watches::default().remove("/a", &[ShellWatchKind::Data]));
    }
}
