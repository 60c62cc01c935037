//! Sessions at a read-only server. A new session is known to this server only. A session of the ensemble is
//! accepted without validation: its client may read, and resumes it later at a server that takes writes.

use zebu_proto::SessionId;
use zebu_proto::client::connect::ReadOnlyField;

use super::ReadOnlyRole;
use crate::connect::AdmittedConnect;
use crate::connection::{Connections, DisconnectReason};
use crate::context::ServeContext;
use crate::core::NodeState;
use crate::replica::Replica;
use crate::serving_mode::ServingMode;
use crate::session::{SessionOwner, TrackedState};

impl ReadOnlyRole {
    /// Handles an admitted connect request.
    pub(crate) fn handle_connect(
        &mut self,
        state: &mut NodeState,
        admitted: AdmittedConnect<'_>,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let AdmittedConnect { connection, request, .. } = admitted;
        if request.read_only != ReadOnlyField::Present(true) {
            // The client may find another server that takes writes.
            context.close(connection, DisconnectReason::ReadOnly);
            return;
        }
        let id = match request.session_id {
            0 => self.unused_id(state, context.replica),
            id => SessionId(id),
        };
        if request.session_id != 0 && !self.is_valid_session(id, admitted, context.replica) {
            context.connections.with(connection, |connection| connection.reject_read_only(request.read_only));
            return;
        }
        let connect = admitted.with_session(id);
        let (owner, timeout_ms) = (SessionOwner::Connection(connection), connect.session.timeout_ms);
        match self.sessions.state(id) {
            Some(_) => {
                if let Some(SessionOwner::Connection(before)) =
                    self.sessions.attach(id, owner, timeout_ms, context.now.monotonic_ms)
                {
                    context.close(before, DisconnectReason::Replaced);
                }
            }
            None => self.sessions.track(id, timeout_ms, Some(owner), context.now.monotonic_ms),
        }
        if !context.accept_session(connect, state.serving_term(ServingMode::ReadOnly)) {
            self.sessions.detach(id, connection, context.now.monotonic_ms);
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
    fn is_valid_session(&self, session: SessionId, admitted: AdmittedConnect<'_>, replica: &Replica) -> bool {
        admitted.has_password_of(session)
            && (self.sessions.state(session) == Some(TrackedState::Open)
                || replica.tree.sessions().contains_key(&session))
    }
}
