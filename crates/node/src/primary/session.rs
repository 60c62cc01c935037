//! Sessions of the clients of this server: opened, resumed, expired.

use zebu_proto::SessionId;
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::client::{ConnectRequest, WriteRequest};
use zebu_proto::password::password_matches;

use super::deferred::DeferredRequest;
use super::{Primary, TxnRequest};
use crate::clock::Now;
use crate::connection::{ConnectionId, ConnectionPhase, ConnectionSession, Connections, DisconnectReason};
use crate::consensus::RequestOrigin;
use crate::core::NodeState;
use crate::replica::Replica;
use crate::session::{SessionOwner, TrackedState};

impl Primary {
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
        match request.session_id {
            0 if self.local_sessions.enabled() => {
                let session = ConnectionSession { id: self.unused_id(state), timeout_ms };
                self.local_sessions.open(session, connection, now);
                let accepted = (connection, session, request.read_only);
                self.local_sessions.accept(accepted, state.serving_term(self.serving_mode), connections, now);
            }
            0 => {
                let session = self.unused_id(state);
                self.sessions.track(
                    session,
                    timeout_ms,
                    Some(SessionOwner::Connection(connection)),
                    now.monotonic_ms,
                );
                let origin = RequestOrigin::Connect { connection, read_only: request.read_only };
                let create = WriteRequest::CreateSession { timeout_ms };
                let txn_request = TxnRequest { origin, ..TxnRequest::internal(session, create) };
                self.propose(state, txn_request, replica, connections, now);
            }
            id => {
                let session = ConnectionSession { id: SessionId(id), timeout_ms };
                self.resume(state, (connection, session), request, replica, connections, now);
            }
        }
    }

    /// Ids begin with the start time; if the clock went back meanwhile, some ids may be in use.
    fn unused_id(&mut self, state: &mut NodeState) -> SessionId {
        loop {
            let session = state.session_ids.next_id();
            if self.sessions.state(session).is_none() && !self.local_sessions.contains(session) {
                return session;
            }
        }
    }

    /// Resumes a session. The password is checked before the session's current connection is closed.
    fn resume(
        &mut self,
        state: &mut NodeState,
        (connection, session): (ConnectionId, ConnectionSession),
        request: &ConnectRequest,
        replica: &Replica,
        connections: &mut impl Connections,
        now: Now,
    ) {
        let read_only = request.read_only;
        if !password_matches(session.id, request.password.as_deref().unwrap_or_default()) {
            connections.with(connection, |connection| connection.reject(read_only));
            return;
        }
        if self.local_sessions.contains(session.id) {
            self.local_sessions.resume(session, connection, connections, now);
            self.accept_after_apply(state, (connection, session, read_only), replica, connections, now);
            return;
        }
        self.sessions.touch(
            session.id,
            SessionOwner::Connection(connection),
            session.timeout_ms,
            now.monotonic_ms,
        );
        match state.start_leadership_check(now) {
            unconfirmed @ Some(_) => {
                self.deferred.push(unconfirmed, DeferredRequest::Resume { connection, session, read_only })
            }
            None => self.finish_resume(state, (connection, session, read_only), replica, connections, now),
        }
    }

    /// Gives an open session to a connection that has its password.
    pub(super) fn finish_resume(
        &mut self,
        state: &mut NodeState,
        (connection, session, read_only): (ConnectionId, ConnectionSession, ReadOnlyField),
        replica: &Replica,
        connections: &mut impl Connections,
        now: Now,
    ) {
        if connections.with(connection, |connection| connection.phase) != Some(ConnectionPhase::Handshake) {
            return;
        }
        if self.sessions.state(session.id) == Some(TrackedState::Open) {
            self.move_session(
                session.id,
                SessionOwner::Connection(connection),
                session.timeout_ms,
                connections,
                now,
            );
            self.accept_after_apply(state, (connection, session, read_only), replica, connections, now);
        } else {
            connections.with(connection, |connection| connection.reject(read_only));
        }
    }

    /// Moves an open session to a new owner. A former connection to this server is closed. A learner closes
    /// its former connection when the next request is refused.
    pub(super) fn move_session(
        &mut self,
        session: SessionId,
        owner: SessionOwner,
        timeout_ms: i32,
        connections: &mut impl Connections,
        now: Now,
    ) {
        match self.sessions.attach(session, owner, timeout_ms, now.monotonic_ms) {
            Some(SessionOwner::Connection(before)) => {
                connections.with(before, |connection| connection.close(DisconnectReason::Replaced));
            }
            Some(SessionOwner::Learner(_)) | None => {}
        }
    }

    /// Gives a session to the waiting connection. A connection that closed meanwhile did not know its
    /// session, so its disconnect event does not name it.
    pub(super) fn accept_session(
        &mut self,
        state: &NodeState,
        (connection, session, read_only): (ConnectionId, ConnectionSession, ReadOnlyField),
        connections: &mut impl Connections,
        now: Now,
    ) {
        let serving_term = state.serving_term(self.serving_mode);
        let phase = connections.with(connection, |connection| {
            connection.accept(session, read_only, serving_term, now.monotonic_ms);
            connection.phase
        });
        if phase != Some(ConnectionPhase::Serving) {
            self.detach(session.id, connection, now.monotonic_ms);
        }
    }

    /// Expires silent sessions with a closeSession transaction each.
    pub(super) fn expire_sessions(
        &mut self,
        state: &mut NodeState,
        replica: &Replica,
        connections: &mut impl Connections,
        now: Now,
    ) {
        let mut expired = Vec::new();
        self.sessions.expire(
            now.monotonic_ms,
            |connection| {
                connections.with(connection, |connection| connection.last_heard_ms(now.monotonic_ms))
            },
            |session| expired.push(session),
        );
        for session in expired {
            let txn_request = TxnRequest::internal(session, WriteRequest::CloseSession);
            self.propose(state, txn_request, replica, connections, now);
        }
    }

    /// Closes sessions that own ephemeral nodes but are unknown. A transaction removes the nodes, so that all
    /// servers remove the same ones.
    pub(crate) fn close_orphans(
        &mut self,
        state: &mut NodeState,
        replica: &Replica,
        connections: &mut impl Connections,
        now: Now,
    ) {
        let tree = &replica.tree;
        let is_orphan = |session: &SessionId| !tree.sessions().contains_key(session);
        let orphans: Vec<SessionId> = tree.sessions_with_ephemerals().filter(is_orphan).collect();
        for session in orphans {
            let txn_request = TxnRequest::internal(session, WriteRequest::CloseSession);
            self.propose(state, txn_request, replica, connections, now);
        }
    }
}
