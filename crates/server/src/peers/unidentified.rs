//! Connections that have not said which server they come from. Their number has a limit: each takes a file descriptor,
//! and a server that cannot open its next log file has to stop.

use std::collections::VecDeque;

use tracing::warn;

use crate::peer_ports::PeerPort;

/// Connections of one port that may be unidentified at a time. A peer says who it is at once, and an ensemble has far
/// fewer servers.
pub(super) const UNIDENTIFIED_MAX: usize = 64;

/// How many are closed between two log lines.
const CLOSED_PER_WARNING: u64 = 1000;

/// The unidentified connections of one port, the oldest first.
#[derive(Debug)]
pub(super) struct Unidentified<T> {
    port: PeerPort,
    waiting: VecDeque<(u64, T)>,
    closed: u64,
}

impl<T> Unidentified<T> {
    pub(super) fn new(port: PeerPort) -> Unidentified<T> {
        Unidentified { port, waiting: VecDeque::new(), closed: 0 }
    }

    /// Adds a connection. Returns the oldest one if there are too many: it is to be closed.
    #[must_use = "the connection that has to go"]
    pub(super) fn add(&mut self, number: u64, connection: T) -> Option<T> {
        self.waiting.push_back((number, connection));
        if self.waiting.len() <= UNIDENTIFIED_MAX {
            return None;
        }
        if self.closed.is_multiple_of(CLOSED_PER_WARNING) {
            let (port, limit, closed) = (self.port, UNIDENTIFIED_MAX, self.closed);
            warn!(%port, limit, closed, "too many connections that do not say who they are; the oldest is closed");
        }
        self.closed += 1;
        self.waiting.pop_front().map(|(_, oldest)| oldest)
    }

    /// The connection has said who it is, or is gone.
    pub(super) fn remove(&mut self, number: u64) {
        self.waiting.retain(|(other, _)| *other != number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_first() {
        let mut unidentified = Unidentified::new(PeerPort::Quorum);
        for number in 0..UNIDENTIFIED_MAX as u64 {
            assert_eq!(unidentified.add(number, number), None);
        }
        assert_eq!(unidentified.add(100, 100), Some(0));
        unidentified.remove(1);
        unidentified.remove(1);
        assert_eq!(unidentified.add(101, 101), None);
        assert_eq!(unidentified.add(102, 102), Some(2));
    }
}
