//! The surroundings of a call into the node: the replica, the connections and the time of the round.

use crate::clock::Now;
use crate::connect::PendingConnect;
use crate::connection::{ConnectionId, ConnectionPhase, Connections, DisconnectReason, ServingTerm};
use crate::replica::Replica;

/// The replica, held shared, the connections that receive replies, and the current time.
#[derive(Debug)]
pub struct ServeContext<'a, C> {
    /// The state that requests are checked against.
    pub replica: &'a Replica,
    /// The connections of clients.
    pub connections: &'a mut C,
    /// The time of the round.
    pub now: Now,
}

impl<C: Connections> ServeContext<'_, C> {
    /// Closes a connection without a further reply.
    pub(crate) fn close(&mut self, connection: ConnectionId, reason: DisconnectReason) {
        self.connections.with(connection, |connection| connection.close(reason));
    }

    /// Gives a session to the connection that waits for it. Returns whether the connection is served: it may
    /// have been closed meanwhile.
    pub(crate) fn accept_session(&mut self, connect: PendingConnect, serving_term: ServingTerm) -> bool {
        let phase = self.connections.with(connect.connection, |connection| {
            connection.accept(connect.session, connect.read_only, serving_term, self.now.monotonic_ms);
            connection.phase
        });
        phase == Some(ConnectionPhase::Serving)
    }

    /// Answers the connect request: the client has no such session.
    pub(crate) fn reject_session(&mut self, connect: PendingConnect) {
        self.connections.with(connect.connection, |connection| connection.reject(connect.read_only));
    }
}
