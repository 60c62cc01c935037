//! A standalone server whose whole state is replaced: it serves no client meanwhile, and then begins as after
//! a start.

use super::{Node, NodeRole};
use crate::clock::Now;
use crate::connection::{ConnectionId, ConnectionPhase, Connections, DisconnectReason};
use crate::consensus::{Consensus, Standalone};
use crate::primary::Primary;
use crate::replica::Replica;

impl Node {
    /// Ends the service of a standalone server and closes these connections. No transaction is in flight. The
    /// log stays as it is. A member of an ensemble does not change.
    pub fn suspend(&mut self, open: &[ConnectionId], connections: &mut impl Connections) {
        if let Consensus::Member(_) = self.state.consensus {
            return;
        }
        for &connection in open {
            connections.with(connection, |connection| {
                // A closed session still receives its last reply.
                if connection.phase != ConnectionPhase::Draining || connection.queued_requests() > 0 {
                    connection.close(DisconnectReason::NotServing);
                }
            });
        }
        if let NodeRole::Primary(primary) = std::mem::replace(&mut self.role, NodeRole::NotServing) {
            debug_assert_eq!(primary.in_flight(), 0, "a write in flight would be lost");
            primary.abort(&mut self.state, connections);
        }
    }

    /// Serves again with the state of the replica, in a new term. Its sessions get a full timeout from now.
    pub fn resume(&mut self, replica: &Replica, now: Now) {
        if let Consensus::Member(_) = self.state.consensus {
            return;
        }
        self.state.term += 1;
        self.state.consensus = Consensus::Standalone(Standalone::new(replica.last_zxid()));
        self.role = NodeRole::Primary(Box::new(Primary::new(&self.state, None, replica, now)));
    }
}
