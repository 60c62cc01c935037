//! The bounded queue of events for one watcher. A slow watcher loses events and is notified; it never blocks
//! the connection.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::core::{EventKind, WatchEvent};

/// The limit of pending events for one watcher. At the limit one `Resynced` event replaces them all.
const INBOX_LIMIT: usize = 4096;

#[derive(Debug, Default)]
struct InboxState {
    events: VecDeque<WatchEvent>,
    ended: bool,
    waker: Option<Waker>,
}

/// The queue between the driver and a watcher.
#[derive(Debug, Default)]
pub(crate) struct WatcherInbox {
    state: Mutex<InboxState>,
    /// Whether a call with this watcher was sent to the driver.
    is_submitted: AtomicBool,
}

impl WatcherInbox {
    fn lock(&self) -> MutexGuard<'_, InboxState> {
        // No code that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Call this before the watcher's call is sent to the driver.
    pub(crate) fn set_submitted(&self) {
        self.is_submitted.store(true, Ordering::Release);
    }

    pub(crate) fn is_submitted(&self) -> bool {
        self.is_submitted.load(Ordering::Acquire)
    }

    pub(crate) fn push(&self, mut event: WatchEvent) {
        let mut state = self.lock();
        state.ended |= event.kind == EventKind::WatchLost;
        if state.events.len() >= INBOX_LIMIT {
            state.events.clear();
            if event.kind != EventKind::WatchLost {
                event.kind = EventKind::Resynced;
            }
        }
        state.events.push_back(event);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ends the queue.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        let mut state = self.lock();
        if let Some(event) = state.events.pop_front() {
            return Poll::Ready(Some(event));
        }
        if state.ended {
            return Poll::Ready(None);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind) -> WatchEvent {
        WatchEvent { kind, path: "/a".into(), zxid: None }
    }

    #[test]
    fn a_slow_watcher_gets_a_resync() {
        let inbox = WatcherInbox::default();
        (0..INBOX_LIMIT + 2).for_each(|_| inbox.push(event(EventKind::NodeDataChanged)));
        inbox.end();
        let mut context = Context::from_waker(Waker::noop());
        let mut kinds = Vec::new();
        while let Poll::Ready(Some(event)) = inbox.poll(&mut context) {
            kinds.push(event.kind);
        }
        assert_eq!(kinds, [EventKind::Resynced, EventKind::NodeDataChanged]);
        assert_eq!(inbox.poll(&mut context), Poll::Ready(None));
    }
}
