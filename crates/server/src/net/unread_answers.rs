//! Bytes of replies and events that clients have not read, summed over all connections with full
//! sockets. Above a limit, such a connection executes no further request until its client reads.
//! Nothing is refused or dropped, and watch events are still delivered.

use std::sync::atomic::Ordering::Relaxed;

use zebu_node::limits::OUTBOX_PAUSE_BYTES;

use crate::sync::AtomicUsize;

/// Unread bytes of all connections above which the allowance of each connection shrinks.
pub(crate) const UNREAD_TOTAL_MAX: usize = 512 << 20;

/// The allowance of a connection while the total is above its limit.
const SHRUNK_ALLOWANCE: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct UnreadAnswers {
    total: AtomicUsize,
    total_max: usize,
}

impl UnreadAnswers {
    pub(crate) fn new(total_max: usize) -> UnreadAnswers {
        UnreadAnswers { total: AtomicUsize::new(0), total_max }
    }

    /// Updates the sum by a connection's unread bytes, before and now. Connections whose sockets
    /// take replies at once never call this.
    pub(crate) fn note(&self, before: usize, now: usize) {
        if now > before {
            self.total.fetch_add(now - before, Relaxed);
        } else if now < before {
            self.total.fetch_sub(before - now, Relaxed);
        }
    }

    /// Bytes of replies that a connection may hold before it pauses. `unsent` bytes are already
    /// taken for its socket.
    pub(crate) fn allowance(&self, unsent: usize) -> usize {
        if self.total.load(Relaxed) <= self.total_max {
            OUTBOX_PAUSE_BYTES
        } else {
            SHRUNK_ALLOWANCE.saturating_sub(unsent)
        }
    }

    pub(crate) fn total(&self) -> usize {
        self.total.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allowance_shrinks_while_the_total_is_above_its_limit() {
        let unread = UnreadAnswers::new(100);
        unread.note(0, 100);
        assert_eq!(
            (unread.allowance(0), unread.allowance(1 << 30)),
            (OUTBOX_PAUSE_BYTES, OUTBOX_PAUSE_BYTES)
        );
        unread.note(0, 50);
        unread.note(50, 1);
        assert_eq!((unread.allowance(0), unread.allowance(1 << 30)), (SHRUNK_ALLOWANCE, 0));
        unread.note(100, 0);
        assert_eq!((unread.total(), unread.allowance(0)), (1, OUTBOX_PAUSE_BYTES));
    }
}
