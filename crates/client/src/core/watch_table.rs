//! The watchers of this client. Several watchers share one watch of the server. The table removes the
//! server's watch with its last watcher.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zebu_proto::client::{EventType, SetWatches, WatcherType};

use super::request::WatchIntent;

/// Identifies a watcher. The caller assigns it; live watchers have different ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatcherId(pub u64);

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// The node was created.
    NodeCreated,
    /// The node was deleted.
    NodeDeleted,
    /// The node's data was set.
    NodeDataChanged,
    /// A child was created or deleted.
    NodeChildrenChanged,
    /// The watch is registered again after a lost connection or lost events. Changes in between were not
    /// reported: read again.
    Resynced,
    /// The watch has ended, with its session or because the server refused it. No event follows.
    WatchLost,
}

impl From<EventType> for EventKind {
    fn from(kind: EventType) -> EventKind {
        match kind {
            EventType::NodeCreated => EventKind::NodeCreated,
            EventType::NodeDeleted => EventKind::NodeDeleted,
            EventType::NodeDataChanged => EventKind::NodeDataChanged,
            EventType::NodeChildrenChanged => EventKind::NodeChildrenChanged,
        }
    }
}

/// A watch event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchEvent {
    /// The type.
    pub kind: EventKind,
    /// The path of the node.
    pub path: Arc<str>,
    /// The transaction that caused it, if the server reports it (3.9 and later).
    pub zxid: Option<i64>,
}

/// The kind of a watch, as setWatches distinguishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WatchKind {
    Data,
    Exist,
    Child,
    Persistent,
    Recursive,
}

impl WatchKind {
    const ALL: [WatchKind; 5] =
        [WatchKind::Data, WatchKind::Exist, WatchKind::Child, WatchKind::Persistent, WatchKind::Recursive];

    /// The type in removeWatches. A missing node is watched in the data table.
    pub(crate) const fn watcher_type(self) -> WatcherType {
        match self {
            WatchKind::Data | WatchKind::Exist => WatcherType::Data,
            WatchKind::Child => WatcherType::Children,
            WatchKind::Persistent => WatcherType::Persistent,
            WatchKind::Recursive => WatcherType::PersistentRecursive,
        }
    }

    pub(crate) const fn is_one_shot(self) -> bool {
        matches!(self, WatchKind::Data | WatchKind::Exist | WatchKind::Child)
    }
}

impl WatchIntent {
    pub(crate) const fn watcher_type(self) -> WatcherType {
        match self {
            WatchIntent::Data | WatchIntent::Exists => WatcherType::Data,
            WatchIntent::Children => WatcherType::Children,
            WatchIntent::Persistent => WatcherType::Persistent,
            WatchIntent::Recursive => WatcherType::PersistentRecursive,
        }
    }
}

/// One setWatches request and the persistent watches that it restores.
pub(crate) struct SetWatchesChunk {
    pub(crate) record: SetWatches,
    pub(crate) persistent: Vec<(WatchKind, Box<str>)>,
}

type Watchers = BTreeMap<Box<str>, Vec<WatcherId>>;

/// All watchers of a client.
#[derive(Debug, Default)]
pub(crate) struct WatchTable {
    tables: [Watchers; 5],
    locations: BTreeMap<WatcherId, (WatchKind, Box<str>)>,
    /// Registrations in flight, which count as watchers of the server's watch.
    pending: BTreeMap<(i32, Box<str>), u32>,
    /// The watchers of the registrations in flight.
    registering: BTreeSet<WatcherId>,
}

impl WatchTable {
    fn table(&mut self, kind: WatchKind) -> &mut Watchers {
        &mut self.tables[kind as usize]
    }

    /// Records that a registration was sent.
    pub(crate) fn begin_registration(&mut self, watcher: WatcherId, intent: WatchIntent, path: &str) {
        self.registering.insert(watcher);
        *self.pending.entry((intent.watcher_type().wire(), path.into())).or_default() += 1;
    }

    /// Records the end of a registration, successful or not.
    pub(crate) fn end_registration(&mut self, watcher: WatcherId, intent: WatchIntent, path: &str) {
        self.registering.remove(&watcher);
        let key = (intent.watcher_type().wire(), path.into());
        if let Some(count) = self.pending.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.pending.remove(&key);
            }
        }
    }

    pub(crate) fn is_registering(&self, watcher: WatcherId) -> bool {
        self.registering.contains(&watcher)
    }

    pub(crate) fn add(&mut self, watcher: WatcherId, kind: WatchKind, path: &str) {
        self.table(kind).entry(path.into()).or_default().push(watcher);
        self.locations.insert(watcher, (kind, path.into()));
    }

    /// Removes a watcher. Returns the server's watch if no other watcher needs it.
    pub(crate) fn remove(&mut self, watcher: WatcherId) -> Option<(WatcherType, Box<str>)> {
        let (kind, path) = self.locations.remove(&watcher)?;
        let table = self.table(kind);
        if let Some(watchers) = table.get_mut(&path) {
            watchers.retain(|other| *other != watcher);
            if watchers.is_empty() {
                table.remove(&path);
            }
        }
        (!self.needs(kind.watcher_type(), &path)).then_some((kind.watcher_type(), path))
    }

    /// Whether a watcher or a registration needs the server's watch of this type.
    pub(crate) fn needs(&self, watcher_type: WatcherType, path: &str) -> bool {
        let of_type =
            |kind: &&WatchKind| watcher_type == WatcherType::Any || kind.watcher_type() == watcher_type;
        let held =
            WatchKind::ALL.iter().filter(of_type).any(|kind| self.tables[*kind as usize].contains_key(path));
        let types = match watcher_type {
            WatcherType::Any => 1..=5,
            one => one.wire()..=one.wire(),
        };
        held || types.into_iter().any(|wire| self.pending.contains_key(&(wire, path.into())))
    }

    /// The watchers of an event. One-shot watchers are removed.
    pub(crate) fn fire(&mut self, event: EventType, path: &str) -> Vec<WatcherId> {
        let mut watchers = Vec::new();
        let one_shot: &[WatchKind] = match event {
            EventType::NodeCreated | EventType::NodeDataChanged => &[WatchKind::Data, WatchKind::Exist],
            EventType::NodeChildrenChanged => &[WatchKind::Child],
            EventType::NodeDeleted => &[WatchKind::Data, WatchKind::Exist, WatchKind::Child],
        };
        for kind in one_shot {
            watchers.extend(self.table(*kind).remove(path).unwrap_or_default());
        }
        for watcher in &watchers {
            self.locations.remove(watcher);
        }
        watchers.extend(self.tables[WatchKind::Persistent as usize].get(path).into_iter().flatten());
        if event != EventType::NodeChildrenChanged {
            let recursive = &self.tables[WatchKind::Recursive as usize];
            let mut next = Some(path);
            while let Some(node) = next {
                watchers.extend(recursive.get(node).into_iter().flatten());
                next = crate::path::parent(node);
            }
        }
        watchers
    }

    /// The watchers of one persistent watch.
    pub(crate) fn watchers(&self, kind: WatchKind, path: &str) -> Vec<WatcherId> {
        self.tables[kind as usize].get(path).cloned().unwrap_or_default()
    }

    /// Removes all watchers of a persistent watch that the server refused.
    pub(crate) fn remove_all(&mut self, kind: WatchKind, path: &str) -> Vec<WatcherId> {
        let watchers = self.table(kind).remove(path).unwrap_or_default();
        for watcher in &watchers {
            self.locations.remove(watcher);
        }
        watchers
    }

    /// Removes the one-shot watchers, or all, at the end of their session.
    pub(crate) fn remove_on_session_end(&mut self, keep_persistent: bool) -> Vec<(WatcherId, Box<str>)> {
        let mut lost = Vec::new();
        for kind in WatchKind::ALL {
            if keep_persistent && !kind.is_one_shot() {
                continue;
            }
            for (path, watchers) in std::mem::take(self.table(kind)) {
                for watcher in watchers {
                    self.locations.remove(&watcher);
                    lost.push((watcher, path.clone()));
                }
            }
        }
        lost
    }

    /// The setWatches requests for all watches, each with about `size` bytes of paths.
    pub(crate) fn chunks(&self, relative_zxid: i64, size: usize) -> Vec<SetWatchesChunk> {
        let mut chunks = Vec::new();
        let mut chunk = empty_chunk(relative_zxid);
        let mut used = 0;
        for kind in WatchKind::ALL {
            for path in self.tables[kind as usize].keys() {
                if used > 0 && used + path.len() > size {
                    chunks.push(std::mem::replace(&mut chunk, empty_chunk(relative_zxid)));
                    used = 0;
                }
                used += path.len() + 4;
                let record = &mut chunk.record;
                let list = match kind {
                    WatchKind::Data => &mut record.data,
                    WatchKind::Exist => &mut record.exist,
                    WatchKind::Child => &mut record.child,
                    WatchKind::Persistent => &mut record.persistent,
                    WatchKind::Recursive => &mut record.persistent_recursive,
                };
                list.get_or_insert_default().push(Some(path.clone()));
                if !kind.is_one_shot() {
                    chunk.persistent.push((kind, path.clone()));
                }
            }
        }
        if used > 0 {
            chunks.push(chunk);
        }
        chunks
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.locations.len()
    }
}

fn empty_chunk(relative_zxid: i64) -> SetWatchesChunk {
    let none = || Some(Vec::new());
    let record = SetWatches {
        relative_zxid,
        data: none(),
        exist: none(),
        child: none(),
        persistent: none(),
        persistent_recursive: none(),
    };
    SetWatchesChunk { record, persistent: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(numbers: &[u64]) -> Vec<WatcherId> {
        numbers.iter().copied().map(WatcherId).collect()
    }

    #[test]
    fn each_event_reaches_the_watchers_that_it_concerns() {
        let build = || {
            let mut table = WatchTable::default();
            table.add(WatcherId(1), WatchKind::Data, "/a/b");
            table.add(WatcherId(2), WatchKind::Exist, "/a/b");
            table.add(WatcherId(3), WatchKind::Child, "/a/b");
            table.add(WatcherId(4), WatchKind::Persistent, "/a/b");
            table.add(WatcherId(5), WatchKind::Recursive, "/a");
            table.add(WatcherId(6), WatchKind::Recursive, "/");
            table.add(WatcherId(7), WatchKind::Data, "/a");
            table
        };
        for (event, expected, left) in [
            (EventType::NodeCreated, &[1, 2, 4, 5, 6][..], 5),
            (EventType::NodeDataChanged, &[1, 2, 4, 5, 6], 5),
            (EventType::NodeChildrenChanged, &[3, 4], 6),
            (EventType::NodeDeleted, &[1, 2, 3, 4, 5, 6], 4),
        ] {
            let mut table = build();
            assert_eq!(table.fire(event, "/a/b"), ids(expected), "{event:?}");
            assert_eq!(table.len(), left);
        }
        assert_eq!(build().fire(EventType::NodeDeleted, "/x/y"), ids(&[6]));
    }

    #[test]
    fn the_last_watcher_frees_the_servers_watch() {
        let mut table = WatchTable::default();
        table.add(WatcherId(1), WatchKind::Data, "/a");
        table.add(WatcherId(2), WatchKind::Exist, "/a");
        table.begin_registration(WatcherId(3), WatchIntent::Data, "/a");
        assert_eq!(table.remove(WatcherId(1)), None);
        assert_eq!(table.remove(WatcherId(2)), None, "a registration is on its way");
        table.end_registration(WatcherId(3), WatchIntent::Data, "/a");
        table.add(WatcherId(3), WatchKind::Data, "/a");
        assert_eq!(table.remove(WatcherId(3)), Some((WatcherType::Data, "/a".into())));
        assert_eq!(table.remove(WatcherId(3)), None);
    }

    #[test]
    fn a_hundred_thousand_watches_fit_into_small_requests() {
        let mut table = WatchTable::default();
        for number in 0..100_000 {
            let kind = WatchKind::ALL[number % 5];
            table.add(WatcherId(number as u64), kind, &format!("/some/path/of/usual/length/{number}"));
        }
        let chunks = table.chunks(7, 128 << 10);
        let mut total = 0;
        for chunk in &chunks {
            let mut bytes = Vec::new();
            chunk.record.encode(&mut bytes);
            assert!(bytes.len() < (128 << 10) + 1024, "{}", bytes.len());
            let record = &chunk.record;
            assert_eq!(record.relative_zxid, 7);
            let lists = [&record.data, &record.exist, &record.child, &record.persistent];
            total += lists.iter().map(|list| list.as_ref().unwrap().len()).sum::<usize>();
            total += record.persistent_recursive.as_ref().unwrap().len();
        }
        assert_eq!(total, 100_000);
        assert!(WatchTable::default().chunks(7, 1).is_empty());
    }
}
