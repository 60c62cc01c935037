//! Local sessions of a learner's clients. They are opened, resumed and closed here; the leader learns of one
//! only when it becomes global.

use zebu_proto::client::WriteRequest;
use zebu_proto::{ErrorCode, SessionId};

use super::LearnerRole;
use super::attached_session::AttachedSession;
use super::forwarded_requests::ForwardedKind;
use crate::connect::PendingConnect;
use crate::connection::{ConnectionId, ConnectionSession, Connections};
use crate::consensus::RequestOrigin;
use crate::context::ServeContext;
use crate::core::NodeState;
use crate::session::{LocalSessionEffect, TrackerReport};

/// The treatment of a request after its effect on a local session.
pub(super) enum LocalSessionOutcome {
    /// The request is forwarded.
    Forward(ForwardedKind),
    /// The request is answered here with an error.
    Refuse(ErrorCode),
    /// The request closed a local session and is acknowledged here.
    AckClose,
}

impl LearnerRole {
    /// Expires silent local sessions. The leader expires global sessions.
    pub(crate) fn tick(&mut self, context: &mut ServeContext<'_, impl Connections>) {
        self.local_sessions.expire(context);
    }

    pub(crate) fn next_deadline(&self) -> i64 {
        self.local_sessions.next_deadline()
    }

    pub(crate) fn local_session_report(&self) -> Option<TrackerReport> {
        self.local_sessions.report()
    }

    /// Whether the requests of a session come from this connection.
    pub(crate) fn is_served_by(&self, session: SessionId, connection: ConnectionId) -> bool {
        self.sessions.get(&session).is_some_and(|attached| attached.connection == connection)
            || self.local_sessions.is_served_by(session, connection)
    }

    /// Applies the effect of a request on a local session.
    pub(super) fn apply_local_session_effect(
        &mut self,
        state: &mut NodeState,
        session: SessionId,
        connection: ConnectionId,
        request: &WriteRequest,
    ) -> LocalSessionOutcome {
        let kind = ForwardedKind::from_request(request);
        match (self.local_sessions.effect_of(session, request), kind) {
            (LocalSessionEffect::None, kind) => LocalSessionOutcome::Forward(kind),
            (LocalSessionEffect::Ended, _) => LocalSessionOutcome::AckClose,
            (LocalSessionEffect::Upgraded { timeout_ms, .. }, kind) => {
                self.sessions.insert(session, AttachedSession::new(connection, timeout_ms));
                let session = ConnectionSession { id: session, timeout_ms };
                self.request_session(state, session, RequestOrigin::NoClient);
                LocalSessionOutcome::Forward(kind)
            }
            // Only the leader knows whether an earlier operation fails for another reason.
            (LocalSessionEffect::EphemeralRefused, ForwardedKind::Multi) => {
                LocalSessionOutcome::Forward(ForwardedKind::MultiOfLocalSession)
            }
            (LocalSessionEffect::EphemeralRefused, _) => {
                LocalSessionOutcome::Refuse(ErrorCode::EphemeralOnLocalSession)
            }
        }
    }

    /// Resumes a local session. The client must not read a state in which its earlier requests have neither
    /// succeeded nor failed.
    pub(super) fn resume_local(
        &mut self,
        state: &NodeState,
        connect: PendingConnect,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        self.local_sessions.resume(connect, context);
        if self.forwarded.has_pending(connect.session.id) {
            self.resuming_local.insert(connect.session.id, connect);
        } else {
            self.accept_local_session(state, connect, context);
        }
    }

    /// Gives a session to its new connection when its last forwarded request was answered.
    pub(super) fn finish_local_resume(
        &mut self,
        state: &NodeState,
        session: SessionId,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        if self.resuming_local.is_empty() || self.forwarded.has_pending(session) {
            return;
        }
        let Some(connect) = self.resuming_local.remove(&session) else { return };
        // If the session has expired meanwhile, the connection is closed, and this call has no effect.
        self.accept_local_session(state, connect, context);
    }

    pub(super) fn accept_local_session(
        &mut self,
        state: &NodeState,
        connect: PendingConnect,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        self.local_sessions.accept(connect, state.serving_term(self.serving_mode), context);
    }
}
