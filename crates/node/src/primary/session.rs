//! Sessions of the clients of this server: opened, resumed, expired.

use zebu_proto::client::WriteRequest;
use zebu_proto::{ErrorCode, SessionId};

use super::deferred::DeferredRequest;
use super::{Primary, TxnRequest};
use crate::connect::{AdmittedConnect, PendingConnect};
use crate::connection::{ConnectionPhase, ConnectionSession, Connections, DisconnectReason};
use crate::context::ServeContext;
use crate::core::NodeState;
use crate::session::{MOVE_CXID, SessionOwner, TrackedState};

impl Primary {
    /// Handles an admitted connect request.
    pub(crate) fn handle_connect(
        &mut self,
        state: &mut NodeState,
        admitted: AdmittedConnect<'_>,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        match admitted.request.session_id {
            0 if self.local_sessions.enabled() => {
                let connect = admitted.with_session(self.unused_id(state));
                self.local_sessions.open(connect, context.now);
                self.local_sessions.accept(connect, state.serving_term(self.serving_mode), context);
            }
            0 if !state.has_room_to_grow() => {
                state.metrics.growth_refused.increment();
                context.close(admitted.connection, DisconnectReason::NoRoom);
            }
            0 => {
                let connect = admitted.with_session(self.unused_id(state));
                let ConnectionSession { id, timeout_ms } = connect.session;
                let owner = SessionOwner::Connection(connect.connection);
                self.sessions.track(id, timeout_ms, Some(owner), context.now.monotonic_ms);
                let create = WriteRequest::CreateSession { timeout_ms };
                let txn_request = TxnRequest { origin: connect.origin(), ..TxnRequest::internal(id, create) };
                self.propose(state, txn_request, context);
            }
            id => self.resume(state, admitted, SessionId(id), context),
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
        admitted: AdmittedConnect<'_>,
        session: SessionId,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let connect = admitted.with_session(session);
        if !admitted.has_password_of(session) {
            context.reject_session(connect);
            return;
        }
        if self.local_sessions.contains(session) {
            self.local_sessions.resume(connect, context);
            self.accept_after_apply(state, connect, context);
            return;
        }
        let owner = SessionOwner::Connection(connect.connection);
        self.sessions.touch(session, owner, connect.session.timeout_ms, context.now.monotonic_ms);
        match state.start_leadership_check(context.now) {
            unconfirmed @ Some(_) => self.deferred.push(unconfirmed, DeferredRequest::Resume(connect)),
            None => self.finish_resume(state, connect, context),
        }
    }

    /// Gives an open session to a connection that has its password.
    pub(super) fn finish_resume(
        &mut self,
        state: &mut NodeState,
        connect: PendingConnect,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        if self.is_leader() && state.awaits_next_leader() {
            // The connection keeps its connect request for the next leader.
            return;
        }
        let PendingConnect { connection, session, .. } = connect;
        let phase = context.connections.with(connection, |connection| connection.phase);
        if phase != Some(ConnectionPhase::Handshake) {
            return;
        }
        if self.sessions.state(session.id) == Some(TrackedState::Open) {
            self.move_session(state, session, SessionOwner::Connection(connection), context);
            self.accept_after_apply(state, connect, context);
        } else {
            context.reject_session(connect);
        }
    }

    /// Moves an open session to a new owner. A former connection to this server is closed. A learner closes
    /// its former connection when the next request is refused.
    ///
    /// A move between servers is recorded in the log. The caller confirms the session behind the record.
    pub(super) fn move_session(
        &mut self,
        state: &mut NodeState,
        session: ConnectionSession,
        owner: SessionOwner,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        if self.records_moves(state) && self.sessions.is_at_other_server(session.id, owner) {
            let refused = WriteRequest::Refused(ErrorCode::SessionMoved);
            let txn_request = TxnRequest { cxid: MOVE_CXID, ..TxnRequest::internal(session.id, refused) };
            self.propose(state, txn_request, context);
        }
        match self.sessions.attach(session.id, owner, session.timeout_ms, context.now.monotonic_ms) {
            Some(SessionOwner::Connection(before)) => context.close(before, DisconnectReason::Replaced),
            Some(SessionOwner::Learner(_)) | None => {}
        }
    }

    /// Whether each move of a session between servers is in the log of this epoch.
    pub(super) fn records_moves(&self, state: &NodeState) -> bool {
        self.is_leader() && state.settings.election_grace_ms > 0
    }

    /// Gives a session to the waiting connection. A connection that closed meanwhile did not know its
    /// session, so its disconnect event does not name it.
    pub(super) fn accept_session(
        &mut self,
        state: &NodeState,
        connect: PendingConnect,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        if !context.accept_session(connect, state.serving_term(self.serving_mode)) {
            self.detach(connect.session.id, connect.connection, context.now.monotonic_ms);
        }
    }

    /// Expires silent sessions with a closeSession transaction each.
    pub(super) fn expire_sessions(
        &mut self,
        state: &mut NodeState,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let mut expired = Vec::new();
        self.sessions.expire(
            context.now.monotonic_ms,
            |connection| {
                context
                    .connections
                    .with(connection, |connection| connection.last_heard_ms(context.now.monotonic_ms))
            },
            |session| expired.push(session),
        );
        state.metrics.sessions_expired.add(expired.len() as u64);
        for session in expired {
            let txn_request = TxnRequest::internal(session, WriteRequest::CloseSession);
            self.propose(state, txn_request, context);
        }
    }

    /// Closes sessions that own ephemeral nodes but are unknown. A transaction removes the nodes, so that all
    /// servers remove the same ones.
    pub(crate) fn close_orphans(
        &mut self,
        state: &mut NodeState,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let tree = &context.replica.tree;
        let is_orphan = |session: &SessionId| !tree.sessions().contains_key(session);
        let orphans: Vec<SessionId> = tree.sessions_with_ephemerals().filter(is_orphan).collect();
        for session in orphans {
            let txn_request = TxnRequest::internal(session, WriteRequest::CloseSession);
            self.propose(state, txn_request, context);
        }
    }
}
