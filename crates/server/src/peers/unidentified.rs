//! Connections that have not yet identified their server. Their number is bounded: each takes a
//! file descriptor, and a server that cannot open its next log file must stop.

use std::collections::VecDeque;

use tracing::warn;

use crate::ports::peer_ports::PeerPort;

/// Most unidentified connections of one port. A peer identifies itself at once, and an ensemble has
/// far fewer servers.
pub(super) const UNIDENTIFIED_MAX: usize = 64;

/// Closed connections between two log lines.
const CLOSED_PER_WARNING: u64 = 1000;

/// The unidentified connections of one port, oldest first.
#[derive(Debug)]
pub(super) struct UnidentifiedConnections<T> {
    port: PeerPort,
    connections: VecDeque<(u64, T)>,
    closed: u64,
}

impl<T> UnidentifiedConnections<T> {
    pub(super) fn new(port: PeerPort) -> UnidentifiedConnections<T> {
        UnidentifiedConnections { port, connections: VecDeque::new(), closed: 0 }
    }

    /// Adds a connection. Returns the oldest one for closing if there are too many.
    #[must_use = "the connection that has to go"]
    pub(super) fn add(&mut self, number: u64, connection: T) -> Option<T> {
        self.connections.push_back((number, connection));
        if self.connections.len() <= UNIDENTIFIED_MAX {
            return None;
        }
        if self.closed.is_multiple_of(CLOSED_PER_WARNING) {
            let (port, limit, closed) = (self.port, UNIDENTIFIED_MAX, self.closed);
            warn!(%port, limit, closed, "too many connections that do not say who they are; the oldest is closed");
        }
        self.closed += 1;
        self.connections.pop_front().map(|(_, oldest)| oldest)
    }

    /// Removes a connection that identified itself or ended.
    pub(super) fn remove(&mut self, number: u64) {
        self.connections.retain(|(other, _)| *other != number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_first() {
        let mut unidentified = UnidentifiedConnections::new(PeerPort::Quorum);
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
