//! After a transaction of the leader is applied: sends the reply if a client of this server requested it, and
//! updates sessions.

use zebu_proto::quorum::Touch;
use zebu_proto::txn::{Txn, TxnEntry};
use zebu_proto::{ErrorCode, SessionId};
use zebu_tree::TxnOutcome;

use super::LearnerRole;
use super::forwarded_requests::{ForwardedKind, MatchedRequest};
use crate::connect::PendingConnect;
use crate::connection::{ConnectionSession, Connections, DisconnectReason};
use crate::consensus::RequestOrigin;
use crate::context::ServeContext;
use crate::core::{AppliedTxn, NodeState, reply_to_write};
use crate::pending_request::PendingRequest;

impl LearnerRole {
    pub(crate) fn on_applied(
        &mut self,
        state: &mut NodeState,
        entry: &TxnEntry,
        outcome: &TxnOutcome,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let session = entry.header.session;
        let MatchedRequest { origin, kind, skipped } = self.forwarded.take_match(entry);
        for origin in skipped {
            state.abort_request_with(DisconnectReason::ReplyOutOfOrder, origin, context.connections);
        }
        let refused =
            (kind == Some(ForwardedKind::MultiOfLocalSession)).then(|| with_local_session_error(outcome));
        let outcome = refused.as_ref().unwrap_or(outcome);
        match origin {
            RequestOrigin::Request(PendingRequest { connection, slot, charged_bytes }) => {
                state.completed_requests.add(charged_bytes);
                let applied = AppliedTxn { txn: &entry.txn, outcome };
                context.connections.with(connection, |connection| {
                    if connection.is_idle() {
                        // The connection was closed meanwhile.
                    } else if is_session_moved(outcome) {
                        // The session has moved to another server; the client no longer reads replies here.
                        connection.close(DisconnectReason::Replaced);
                    } else if connection.is_first(slot) {
                        reply_to_write(connection, slot, applied, context.replica, context.now.monotonic_ms);
                    } else {
                        connection.close(DisconnectReason::ReplyOutOfOrder);
                    }
                });
            }
            RequestOrigin::Connect { connection, read_only } => {
                if let Txn::CreateSession { timeout_ms } = entry.txn {
                    let session = ConnectionSession { id: session, timeout_ms };
                    self.accept_session(state, PendingConnect { connection, session, read_only }, context);
                } else {
                    state.abort_request(origin, context.connections);
                }
            }
            RequestOrigin::NoClient => {}
        }
        match (outcome, &entry.txn) {
            (TxnOutcome::SessionCreated, &Txn::CreateSession { timeout_ms }) => {
                self.touched.push(Touch { session, timeout_ms });
            }
            (TxnOutcome::SessionClosed { .. }, _) => self.end_session(session, origin, context.connections),
            // The session failed to become global, so it no longer exists.
            (TxnOutcome::Error(_), _) if kind == Some(ForwardedKind::CreateSession) => {
                self.end_session(session, origin, context.connections);
            }
            (
                TxnOutcome::Error(_)
                | TxnOutcome::Created { .. }
                | TxnOutcome::Deleted
                | TxnOutcome::DataSet { .. }
                | TxnOutcome::AclSet { .. }
                | TxnOutcome::Checked
                | TxnOutcome::SessionCreated
                | TxnOutcome::Multi(_)
                | TxnOutcome::Reconfigured { .. },
                _,
            ) => {}
        }
        self.finish_local_resume(state, session, context);
        self.deliver_leader_replies(state, context);
    }

    /// Removes a session. The connection that closed it gets its reply; another connection is closed.
    fn end_session(&mut self, session: SessionId, origin: RequestOrigin, connections: &mut impl Connections) {
        let Some(attached) = self.sessions.remove(&session) else { return };
        if !matches!(origin, RequestOrigin::Request(request) if request.connection == attached.connection) {
            connections
                .with(attached.connection, |connection| connection.close(DisconnectReason::SessionEnded));
        }
    }
}

/// Whether the leader refused a request because its session has moved.
fn is_session_moved(outcome: &TxnOutcome) -> bool {
    let moved = TxnOutcome::error(ErrorCode::SessionMoved);
    match outcome {
        TxnOutcome::Multi(parts) => parts.contains(&moved),
        outcome => *outcome == moved,
    }
}

/// Replaces the leader's error with the true one: the leader does not know a local session that creates
/// ephemeral nodes.
fn with_local_session_error(outcome: &TxnOutcome) -> TxnOutcome {
    let expired = TxnOutcome::error(ErrorCode::SessionExpired);
    match outcome {
        TxnOutcome::Multi(parts) => TxnOutcome::Multi(parts.iter().map(with_local_session_error).collect()),
        outcome if *outcome == expired => TxnOutcome::error(ErrorCode::EphemeralOnLocalSession),
        outcome => outcome.clone(),
    }
}
