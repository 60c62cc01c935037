//! Sessions of the clients of a learner. This server generates their ids; the leader opens, validates and
//! expires them.

use zebu_proto::client::ConnectRequest;
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::password::password_matches;
use zebu_proto::quorum::Packet;
use zebu_proto::{Jute, OpCode, SessionId};

use super::attached_session::AttachedSession;
use super::forwarded_requests::ForwardedKind;
use super::{LearnerRole, send_to_leader};
use crate::clock::Now;
use crate::connection::{
    ConnectionId, ConnectionPhase, ConnectionSession, Connections, DisconnectReason, ServingMode,
};
use crate::consensus::RequestOrigin;
use crate::core::NodeState;
use crate::replica::Replica;

/// A connection that resumes a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Revalidation {
    pub(super) connection: ConnectionId,
    pub(super) timeout_ms: i32,
    pub(super) read_only: ReadOnlyField,
}

impl LearnerRole {
    /// Handles an admitted connect request: forwards it to the leader, or opens a local session.
    pub(crate) fn handle_connect(
        &mut self,
        state: &mut NodeState,
        (connection, timeout_ms): (ConnectionId, i32),
        request: &ConnectRequest,
        replica: &Replica,
        connections: &mut impl Connections,
        now: Now,
    ) {
        match request.session_id {
            0 => {
                let session = ConnectionSession { id: self.unused_id(state, replica), timeout_ms };
                if self.local_sessions.enabled() {
                    self.local_sessions.open(session, connection, now);
                    self.accept_local_session(
                        state,
                        (connection, session, request.read_only),
                        connections,
                        now,
                    );
                } else {
                    let origin = RequestOrigin::Connect { connection, read_only: request.read_only };
                    self.request_session(state, session, origin);
                }
            }
            id => {
                let session = ConnectionSession { id: SessionId(id), timeout_ms };
                self.resume(state, (connection, session), request, connections, now);
            }
        }
    }

    /// Forwards a createSession request to the leader.
    pub(super) fn request_session(
        &mut self,
        state: &mut NodeState,
        session: ConnectionSession,
        origin: RequestOrigin,
    ) {
        let ConnectionSession { id: session, timeout_ms } = session;
        self.forwarded.push(session, 0, ForwardedKind::CreateSession, origin);
        let mut payload = Vec::new();
        timeout_ms.encode(&mut payload);
        let op = OpCode::CreateSession.wire();
        send_to_leader(state, Packet::Request { session, cxid: 0, op, payload: payload.into(), auth: None });
    }

    /// Ids begin with the start time; if the clock went back meanwhile, some ids may be in use.
    fn unused_id(&mut self, state: &mut NodeState, replica: &Replica) -> SessionId {
        loop {
            let session = state.session_ids.next_id();
            let is_taken = replica.tree.sessions().contains_key(&session)
                || self.forwarded.has_pending(session)
                || self.local_sessions.contains(session);
            if !is_taken {
                return session;
            }
        }
    }

    /// Resumes a session. The password is checked before the session's current connection is closed. That
    /// connection is closed before the validation request, so that none of its requests follow it.
    fn resume(
        &mut self,
        state: &mut NodeState,
        (connection, session): (ConnectionId, ConnectionSession),
        request: &ConnectRequest,
        connections: &mut impl Connections,
        now: Now,
    ) {
        if !password_matches(session.id, request.password.as_deref().unwrap_or_default()) {
            connections.with(connection, |connection| connection.reject(request.read_only));
            return;
        }
        if self.local_sessions.contains(session.id) {
            self.resume_local(state, (connection, session, request.read_only), connections, now);
            return;
        }
        let ConnectionSession { id: session, timeout_ms } = session;
        if let Some(before) = self.sessions.remove(&session) {
            connections.with(before.connection, |connection| connection.close(DisconnectReason::Replaced));
        }
        let revalidation = Revalidation { connection, timeout_ms, read_only: request.read_only };
        self.revalidations.entry(session).or_default().push_back(revalidation);
        send_to_leader(state, Packet::Revalidate { session, timeout_ms });
    }

    /// Removes the oldest connection that waits for the validation of a session.
    pub(super) fn next_revalidation(&mut self, session: SessionId) -> Option<Revalidation> {
        let queue = self.revalidations.get_mut(&session)?;
        let revalidation = queue.pop_front();
        if queue.is_empty() {
            self.revalidations.remove(&session);
        }
        revalidation
    }

    /// Accepts a session that the leader has validated. It may have ended since.
    pub(super) fn accept_revalidated(
        &mut self,
        state: &NodeState,
        session: SessionId,
        revalidation: Revalidation,
        replica: &Replica,
        connections: &mut impl Connections,
        now: Now,
    ) {
        if replica.tree.sessions().contains_key(&session) {
            let session = ConnectionSession { id: session, timeout_ms: revalidation.timeout_ms };
            self.accept_session(
                state,
                (revalidation.connection, session, revalidation.read_only),
                connections,
                now,
            );
        } else {
            reject_session(revalidation, connections);
        }
    }

    /// Gives a session to the waiting connection, unless that was closed meanwhile.
    pub(super) fn accept_session(
        &mut self,
        state: &NodeState,
        (connection, session, read_only): (ConnectionId, ConnectionSession, ReadOnlyField),
        connections: &mut impl Connections,
        now: Now,
    ) {
        let serving_term = state.serving_term(ServingMode::Learner);
        let phase = connections.with(connection, |connection| {
            connection.accept(session, read_only, serving_term, now.monotonic_ms);
            connection.phase
        });
        if phase == Some(ConnectionPhase::Serving)
            && let Some(before) =
                self.sessions.insert(session.id, AttachedSession::new(connection, session.timeout_ms))
        {
            connections.with(before.connection, |connection| connection.close(DisconnectReason::Replaced));
        }
    }
}

/// Rejects the connect request: the client has no such session.
pub(super) fn reject_session(revalidation: Revalidation, connections: &mut impl Connections) {
    connections.with(revalidation.connection, |connection| connection.reject(revalidation.read_only));
}
