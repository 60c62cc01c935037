//! After a transaction is applied: sends its reply, and updates sessions and waiters.

use zebu_proto::SessionId;
use zebu_proto::txn::Txn;
use zebu_tree::TxnOutcome;

use super::Primary;
use crate::connect::PendingConnect;
use crate::connection::{ConnectionSession, Connections, DisconnectReason};
use crate::consensus::{Proposal, RequestOrigin};
use crate::context::ServeContext;
use crate::core::{AppliedTxn, NodeState, reply_to_write};
use crate::pending_request::PendingRequest;
use crate::session::SessionOwner;

impl Primary {
    pub(crate) fn on_applied(
        &mut self,
        state: &mut NodeState,
        proposal: &Proposal,
        outcome: &TxnOutcome,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let entry = &proposal.entry;
        let session = entry.header.session;
        match proposal.origin {
            RequestOrigin::Request(pending) => {
                let PendingRequest { connection, slot, charged_bytes } = pending;
                state.completed_requests.add(charged_bytes);
                let applied = AppliedTxn { txn: &entry.txn, outcome };
                if let Some(audit) = &mut state.audit {
                    audit.finish(&pending, applied, context.now.wall_ms);
                }
                context.connections.with(connection, |connection| {
                    reply_to_write(connection, slot, applied, context.replica, context.now.monotonic_ms);
                });
            }
            RequestOrigin::Connect { connection, read_only } => {
                let Txn::CreateSession { timeout_ms } = entry.txn else {
                    unreachable!("a connect request is prepared into a session, never refused");
                };
                let session = ConnectionSession { id: session, timeout_ms };
                self.accept_session(state, PendingConnect { connection, session, read_only }, context);
            }
            RequestOrigin::NoClient => {}
        }
        if matches!(outcome, TxnOutcome::SessionClosed { .. }) {
            self.end_session(session, proposal.origin, context.connections);
        }
        self.run_apply_waiters(state, entry.header.zxid, context);
    }

    /// Removes a session. The connection that closed it gets its reply; another connection is closed.
    fn end_session(&mut self, session: SessionId, origin: RequestOrigin, connections: &mut impl Connections) {
        if self.local_sessions.enabled() {
            self.ended_sessions.insert(session);
        }
        let Some(SessionOwner::Connection(attached)) = self.sessions.remove(session) else { return };
        if !matches!(origin, RequestOrigin::Request(request) if request.connection == attached) {
            connections.with(attached, |connection| connection.close(DisconnectReason::SessionEnded));
        }
    }
}
