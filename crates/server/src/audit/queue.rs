//! The bounded queue between the core and the thread of the audit log.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zebu_node::AuditEvent;

/// Events that wait for the log. More are dropped.
pub(super) const QUEUE_EVENTS_MAX: usize = 65_536;
/// Bytes of these events: paths have up to a megabyte.
pub(super) const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Events that the thread takes at once.
const TAKEN_EVENTS_MAX: usize = 1024;

/// The fill level of the queue, for the policy that loses no line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueLevel {
    /// Below a quarter of its limits.
    Short,
    Middle,
    /// Above half of its limits.
    Long,
}

/// The result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pushed {
    pub(super) dropped: usize,
    pub(super) level: QueueLevel,
}

/// The result of a take.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) events: Vec<AuditEvent>,
    pub(super) level: QueueLevel,
    /// No further event comes.
    pub(super) is_closed: bool,
}

#[derive(Debug, Default)]
struct QueuedEvents {
    events: VecDeque<AuditEvent>,
    bytes: usize,
    is_closed: bool,
}

impl QueuedEvents {
    fn level(&self) -> QueueLevel {
        let is_above =
            |part| self.events.len() > QUEUE_EVENTS_MAX / part || self.bytes > QUEUE_BYTES_MAX / part;
        if is_above(2) {
            QueueLevel::Long
        } else if is_above(4) {
            QueueLevel::Middle
        } else {
            QueueLevel::Short
        }
    }
}

/// A queue that never makes its producer wait.
#[derive(Debug, Default)]
pub(super) struct AuditQueue {
    queued: Mutex<QueuedEvents>,
    filled: Condvar,
}

impl AuditQueue {
    fn lock(&self) -> MutexGuard<'_, QueuedEvents> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends events as far as they fit, and leaves `events` empty.
    pub(super) fn push(&self, events: &mut Vec<AuditEvent>) -> Pushed {
        let mut queued = self.lock();
        let was_empty = queued.events.is_empty();
        let mut dropped = 0;
        for event in events.drain(..) {
            let size = event.size();
            if queued.is_closed
                || queued.events.len() >= QUEUE_EVENTS_MAX
                || queued.bytes + size > QUEUE_BYTES_MAX
            {
                dropped += 1;
                continue;
            }
            queued.bytes += size;
            queued.events.push_back(event);
        }
        let level = queued.level();
        drop(queued);
        if was_empty {
            self.filled.notify_one();
        }
        Pushed { dropped, level }
    }

    /// Waits for events, at most for the timeout.
    pub(super) fn take(&self, timeout: Duration) -> Taken {
        let queued = self.lock();
        let is_idle = |queued: &mut QueuedEvents| queued.events.is_empty() && !queued.is_closed;
        let (mut queued, _) =
            self.filled.wait_timeout_while(queued, timeout, is_idle).unwrap_or_else(PoisonError::into_inner);
        let count = queued.events.len().min(TAKEN_EVENTS_MAX);
        let events: Vec<AuditEvent> = queued.events.drain(..count).collect();
        queued.bytes -= events.iter().map(AuditEvent::size).sum::<usize>();
        Taken { events, level: queued.level(), is_closed: queued.is_closed && queued.events.is_empty() }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Ends the queue: later events are dropped, earlier ones can be taken.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zebu_node::{AuditOperation, AuditResult};

    fn event(path_bytes: usize) -> AuditEvent {
        let event = AuditEvent::of_server(0, AuditOperation::Create, AuditResult::Success);
        AuditEvent { path: Some("x".repeat(path_bytes).into()), ..event }
    }

    #[test]
    fn events_beyond_the_limits_are_dropped() {
        let queue = AuditQueue::default();
        let mut events = vec![event(1); QUEUE_EVENTS_MAX + 3];
        assert_eq!(queue.push(&mut events), Pushed { dropped: 3, level: QueueLevel::Long });
        assert!(events.is_empty());
        let mut taken = 0;
        while taken < QUEUE_EVENTS_MAX {
            taken += queue.take(Duration::ZERO).events.len();
        }
        assert_eq!(queue.take(Duration::ZERO).level, QueueLevel::Short);

        let large = QUEUE_BYTES_MAX / 3;
        let pushed = queue.push(&mut vec![event(large), event(large), event(large), event(1)]);
        assert_eq!(pushed, Pushed { dropped: 1, level: QueueLevel::Long });
        assert_eq!(queue.take(Duration::ZERO).events.len(), 3);
    }

    #[test]
    fn a_closed_queue_is_emptied_and_takes_no_more() {
        let queue = AuditQueue::default();
        queue.push(&mut vec![event(1)]);
        queue.close();
        assert_eq!(queue.push(&mut vec![event(1)]).dropped, 1);
        let taken = queue.take(Duration::from_secs(60));
        assert_eq!((taken.events.len(), taken.is_closed), (1, true));
        assert!(queue.take(Duration::from_secs(60)).events.is_empty());
    }
}
