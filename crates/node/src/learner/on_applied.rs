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
use crate::session::is_move;

impl LearnerRole {
    pub(crate) fn on_applied(
        &mut self,
        state: &mut NodeState,
        entry: &TxnEntry,
        outcome: &TxnOutcome,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let session = entry.header.session;
        self.leader_room.note(entry, context.now.monotonic_ms);
        if is_move(entry) {
            self.close_moved(session, context);
        }
        let MatchedRequest { origin, kind, skipped } = self.forwarded.take_match(entry);
        for origin in skipped {
            state.abort_request_with(DisconnectReason::ReplyOutOfOrder, origin, context.connections);
        }
        let has_moved = is_session_moved(kind, outcome);
        let refused =
            (kind == Some(ForwardedKind::MultiOfLocalSession)).then(|| with_local_session_error(outcome));
        let outcome = refused.as_ref().unwrap_or(outcome);
        match origin {
            RequestOrigin::Request(pending) => {
                let PendingRequest { connection, slot, charged_bytes } = pending;
                state.completed_requests.add(charged_bytes);
                let applied = AppliedTxn { txn: &entry.txn, outcome };
                if let Some(audit) = &mut state.audit {
                    audit.finish(&pending, applied, context.now.wall_ms);
                }
                context.connections.with(connection, |connection| {
                    if connection.is_idle() {
                        // The connection was closed meanwhile.
                    } else if has_moved {
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
                } else if entry.txn == Txn::error(ErrorCode::SystemError) {
                    state.abort_request_with(DisconnectReason::NoRoom, origin, context.connections);
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
            (TxnOutcome::SessionClosed { .. }, _) => {
                if let Some(member) = state.member_mut() {
                    member.session_ended(session);
                }
                self.end_session(session, origin, context.connections);
            }
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

    /// Closes the connection of a session that has moved to another server. A connection that waits for the
    /// session here is not attached yet: the leader confirms the session behind the record.
    fn close_moved(&mut self, session: SessionId, context: &mut ServeContext<'_, impl Connections>) {
        if let Some(attached) = self.sessions.remove(&session) {
            context.close(attached.connection, DisconnectReason::Replaced);
        }
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

/// Whether the leader or an observer master refused a request because its session has moved.
fn is_session_moved(kind: Option<ForwardedKind>, outcome: &TxnOutcome) -> bool {
    let moved = TxnOutcome::error(ErrorCode::SessionMoved);
    if let TxnOutcome::Multi(parts) = outcome {
        return parts.contains(&moved);
    }
    let TxnOutcome::Error(code) = outcome else { return false };
    let is_refused = |kind| {
        ErrorCode::from_wire(*code)
            .is_some_and(|code| zebu_zab::is_refused_as_moved(kind == ForwardedKind::Create, code))
    };
    *outcome == moved || kind.is_some_and(is_refused)
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
