//! Local sessions of a learner's clients. They are opened, resumed and closed here; the leader learns of one
//! only when it becomes global.

use std::ops::ControlFlow;

use zebu_proto::client::WriteRequest;
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::{ErrorCode, SessionId};

use super::LearnerRole;
use super::attached_session::AttachedSession;
use super::forwarded_requests::ForwardedKind;
use super::session::Revalidation;
use crate::clock::Now;
use crate::connection::{ConnectionId, ConnectionSession, Connections, ServingMode};
use crate::consensus::RequestOrigin;
use crate::core::NodeState;
use crate::pending_request::PendingRequest;
use crate::replica::Replica;
use crate::session::{LocalSessionEffect, TrackerReport};

impl LearnerRole {
    /// Expires silent local sessions. The leader expires global sessions.
    pub(crate) fn tick(&mut self, connections: &mut impl Connections, now: Now) {
        self.local_sessions.expire(connections, now);
    }

    pub(crate) fn next_deadline(&self) -> i64 {
        self.local_sessions.next_deadline()
    }

    pub(crate) fn local_session_report(&self) -> Option<TrackerReport> {
        self.local_sessions.report()
    }

    /// Whether the requests of a session come from this connection.
    pub(super) fn is_served_by(&self, session: SessionId, connection: ConnectionId) -> bool {
        self.sessions.get(&session).is_some_and(|attached| attached.connection == connection)
            || self.local_sessions.is_served_by(session, connection)
    }

    /// Applies the effect of a request on a local session. Returns the kind under which the request is
    /// forwarded, or `Break` if it is answered here.
    pub(super) fn apply_local_session_effect(
        &mut self,
        state: &mut NodeState,
        (pending, session): (PendingRequest, SessionId),
        request: &WriteRequest,
        replica: &Replica,
        connections: &mut impl Connections,
        now: Now,
    ) -> ControlFlow<(), ForwardedKind> {
        let kind = ForwardedKind::from_request(request);
        match (self.local_sessions.effect_of(session, request), kind) {
            (LocalSessionEffect::None, kind) => ControlFlow::Continue(kind),
            (LocalSessionEffect::Ended, _) => {
                state.ack_close(pending, replica, connections, now);
                ControlFlow::Break(())
            }
            (LocalSessionEffect::Upgraded { timeout_ms }, kind) => {
                self.sessions.insert(session, AttachedSession::new(pending.connection, timeout_ms));
                self.request_session(
                    state,
                    ConnectionSession { id: session, timeout_ms },
                    RequestOrigin::NoClient,
                );
                ControlFlow::Continue(kind)
            }
            // Only the leader knows whether an earlier operation fails for another reason.
            (LocalSessionEffect::EphemeralRefused, ForwardedKind::Multi) => {
                ControlFlow::Continue(ForwardedKind::MultiOfLocalSession)
            }
            (LocalSessionEffect::EphemeralRefused, _) => {
                let error = ErrorCode::EphemeralOnLocalSession;
                state.reply_error(pending, error, replica, connections, now);
                ControlFlow::Break(())
            }
        }
    }

    /// Resumes a local session. The client must not read a state in which its earlier requests have neither
    /// succeeded nor failed.
    pub(super) fn resume_local(
        &mut self,
        state: &NodeState,
        (connection, session, read_only): (ConnectionId, ConnectionSession, ReadOnlyField),
        connections: &mut impl Connections,
        now: Now,
    ) {
        self.local_sessions.resume(session, connection, connections, now);
        if self.forwarded.has_pending(session.id) {
            let revalidation = Revalidation { connection, timeout_ms: session.timeout_ms, read_only };
            self.resuming_local.insert(session.id, revalidation);
        } else {
            self.accept_local_session(state, (connection, session, read_only), connections, now);
        }
    }

    /// Gives a session to its new connection when its last forwarded request was answered.
    pub(super) fn finish_local_resume(
        &mut self,
        state: &NodeState,
        session: SessionId,
        connections: &mut impl Connections,
        now: Now,
    ) {
        if self.resuming_local.is_empty() || self.forwarded.has_pending(session) {
            return;
        }
        let Some(revalidation) = self.resuming_local.remove(&session) else { return };
        // If the session has expired meanwhile, the connection is closed, and this call has no effect.
        let session = ConnectionSession { id: session, timeout_ms: revalidation.timeout_ms };
        self.accept_local_session(
            state,
            (revalidation.connection, session, revalidation.read_only),
            connections,
            now,
        );
    }

    pub(super) fn accept_local_session(
        &mut self,
        state: &NodeState,
        accepted: (ConnectionId, ConnectionSession, ReadOnlyField),
        connections: &mut impl Connections,
        now: Now,
    ) {
        self.local_sessions.accept(accepted, state.serving_term(ServingMode::Learner), connections, now);
    }
}
