//! Sessions at a read-only server. A new session is known to this server only. A session of the ensemble is
//! accepted without validation: its client may read, and resumes it later at a server that takes writes.

use zebu_proto::SessionId;
use zebu_proto::client::ConnectRequest;
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::password::password_matches;

use super::ReadOnlyRole;
use crate::clock::Now;
use crate::connection::{
    ConnectionId, ConnectionPhase, ConnectionSession, Connections, DisconnectReason, ServingMode,
};
use crate::core::NodeState;
use crate::replica::Replica;
use crate::session::{SessionOwner, TrackedState};

impl ReadOnlyRole {
    /// Handles an admitted connect request.
    pub(crate) fn handle_connect(
        &mut self,
        state: &mut NodeState,
        (connection, timeout_ms): (ConnectionId, i32),
        request: &ConnectRequest,
        replica: &Replica,
        connections: &mut impl Connections,
        now: Now,
    ) {
        if request.read_only != ReadOnlyField::Present(true) {
            // The client may find another server that takes writes.
            connections.with(connection, |connection| connection.close(DisconnectReason::ReadOnly));
            return;
        }
        let id = match request.session_id {
            0 => self.unused_id(state, replica),
            id => SessionId(id),
        };
        if request.session_id != 0 && !self.is_valid_session(id, request, replica) {
            connections.with(connection, |connection| connection.reject_read_only(request.read_only));
            return;
        }
        let owner = SessionOwner::Connection(connection);
        match self.sessions.state(id) {
            Some(_) => {
                if let Some(SessionOwner::Connection(before)) =
                    self.sessions.attach(id, owner, timeout_ms, now.monotonic_ms)
                {
                    connections.with(before, |connection| connection.close(DisconnectReason::Replaced));
                }
            }
            None => self.sessions.track(id, timeout_ms, Some(owner), now.monotonic_ms),
        }
        let serving_term = state.serving_term(ServingMode::ReadOnly);
        let session = ConnectionSession { id, timeout_ms };
        let phase = connections.with(connection, |connection| {
            connection.accept(session, request.read_only, serving_term, now.monotonic_ms);
            connection.phase
        });
        if phase != Some(ConnectionPhase::Serving) {
            self.sessions.detach(id, connection, now.monotonic_ms);
        }
    }

    /// Returns an id that no session of the ensemble had when this server was partitioned. It contains the id
    /// of this server and is never reused, so no later session will have it.
    fn unused_id(&self, state: &mut NodeState, replica: &Replica) -> SessionId {
        loop {
            let session = state.session_ids.next_id();
            if self.sessions.state(session).is_none() && !replica.tree.sessions().contains_key(&session) {
                return session;
            }
        }
    }

    /// A session that was opened elsewhere after the partition is unknown here. Its client has not used it
    /// yet: otherwise the client would have seen a later zxid and would not have been admitted.
    fn is_valid_session(&self, session: SessionId, request: &ConnectRequest, replica: &Replica) -> bool {
        password_matches(session, request.password.as_deref().unwrap_or_default())
            && (self.sessions.state(session) == Some(TrackedState::Open)
                || replica.tree.sessions().contains_key(&session))
    }
}
