//! Sessions of the clients of a learner. This server generates their ids; the leader opens, validates and
//! expires them.

use zebu_proto::client::WriteRequest;
use zebu_proto::quorum::Packet;
use zebu_proto::{Jute, OpCode, SessionId};

use super::attached_session::AttachedSession;
use super::forwarded_requests::ForwardedKind;
use super::{LearnerRole, send_to_leader};
use crate::connect::{AdmittedConnect, PendingConnect};
use crate::connection::{ConnectionSession, Connections, DisconnectReason};
use crate::consensus::RequestOrigin;
use crate::context::ServeContext;
use crate::core::NodeState;
use crate::replica::Replica;
use crate::session::is_question;

impl LearnerRole {
    /// Handles an admitted connect request: forwards it to the leader, or opens a local session.
    pub(crate) fn handle_connect(
        &mut self,
        state: &mut NodeState,
        admitted: AdmittedConnect<'_>,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        match admitted.request.session_id {
            0 => {
                let connect = admitted.with_session(self.unused_id(state, context.replica));
                if self.local_sessions.enabled() {
                    self.local_sessions.open(connect, context.now);
                    self.accept_local_session(state, connect, context);
                } else if self.lacks_room_for(state, &WriteRequest::CreateSession { timeout_ms: 0 }, context)
                {
                    state.metrics.growth_refused.increment();
                    context.close(connect.connection, DisconnectReason::NoRoom);
                } else {
                    self.request_session(state, connect.session, connect.origin());
                }
            }
            id => self.resume(state, admitted, SessionId(id), context),
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
        admitted: AdmittedConnect<'_>,
        session: SessionId,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let connect = admitted.with_session(session);
        // No client has the session of a question, although its password can be computed.
        if !admitted.has_password_of(session) || is_question(session) {
            context.reject_session(connect);
            return;
        }
        if self.local_sessions.contains(session) {
            self.resume_local(state, connect, context);
            return;
        }
        if let Some(before) = self.sessions.remove(&session) {
            context.close(before.connection, DisconnectReason::Replaced);
        }
        self.revalidations.entry(session).or_default().push_back(connect);
        send_to_leader(state, Packet::Revalidate { session, timeout_ms: connect.session.timeout_ms });
    }

    /// Removes the oldest connection that waits for the validation of a session.
    pub(super) fn next_revalidation(&mut self, session: SessionId) -> Option<PendingConnect> {
        let queue = self.revalidations.get_mut(&session)?;
        let connect = queue.pop_front();
        if queue.is_empty() {
            self.revalidations.remove(&session);
        }
        connect
    }

    /// Accepts a session that the leader has validated. It may have ended since.
    pub(super) fn accept_revalidated(
        &mut self,
        state: &NodeState,
        connect: PendingConnect,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        if context.replica.tree.sessions().contains_key(&connect.session.id) {
            self.accept_session(state, connect, context);
        } else {
            context.reject_session(connect);
        }
    }

    /// Gives a session to the waiting connection, unless that was closed meanwhile.
    pub(super) fn accept_session(
        &mut self,
        state: &NodeState,
        connect: PendingConnect,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let PendingConnect { connection, session, .. } = connect;
        if context.accept_session(connect, state.serving_term(self.serving_mode))
            && let Some(before) =
                self.sessions.insert(session.id, AttachedSession::new(connection, session.timeout_ms))
        {
            context.close(before.connection, DisconnectReason::Replaced);
        }
    }
}
