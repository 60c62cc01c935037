//! Replies that need no transaction, but wait until the transactions in flight at their arrival are applied.

use zebu_proto::Zxid;

use super::Primary;
use crate::connect::PendingConnect;
use crate::connection::Connections;
use crate::consensus::RequestOrigin;
use crate::context::ServeContext;
use crate::core::{NodeState, reply_to_sync};
use crate::pending_request::{PendingRequest, UnansweredSync};
use crate::session::LocalSessions;

#[derive(Debug)]
pub(super) struct ApplyWaiter {
    after: Zxid,
    waiter: Waiter,
}

#[derive(Debug)]
enum Waiter {
    /// A connection that resumes a session. Transactions in flight may be writes of the session's former
    /// connection. The client must not read a state in which they have neither succeeded nor failed.
    Resume(PendingConnect),
    /// A sync.
    Sync(UnansweredSync),
}

impl ApplyWaiter {
    pub(super) fn origin(&self) -> RequestOrigin {
        match &self.waiter {
            Waiter::Resume(connect) => connect.origin(),
            Waiter::Sync(sync) => RequestOrigin::Request(sync.pending),
        }
    }

    /// Ends with the role. Returns the sync that waits. A connection that waits has its connect request; no
    /// disconnect event names the session that it waits for.
    pub(super) fn end(self, local_sessions: &mut LocalSessions) -> Option<UnansweredSync> {
        match self.waiter {
            Waiter::Resume(connect) => {
                local_sessions.detach(connect.session.id, connect.connection, i64::MIN);
                None
            }
            Waiter::Sync(sync) => Some(sync),
        }
    }
}

impl Primary {
    /// Gives a session to a connection when all transactions in flight are applied.
    pub(super) fn accept_after_apply(
        &mut self,
        state: &mut NodeState,
        connect: PendingConnect,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        self.after_apply(state, Waiter::Resume(connect), context);
    }

    /// Answers a sync when all proposed transactions are applied.
    pub(super) fn handle_sync(
        &mut self,
        state: &mut NodeState,
        sync: UnansweredSync,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        self.after_apply(state, Waiter::Sync(sync), context);
    }

    fn after_apply(
        &mut self,
        state: &mut NodeState,
        waiter: Waiter,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let apply_waiter = ApplyWaiter { after: self.last_proposed, waiter };
        if self.last_proposed <= context.replica.last_zxid() {
            self.complete_waiter(state, apply_waiter, context);
        } else {
            self.apply_waiters.push_back(apply_waiter);
        }
    }

    /// Completes the waiters for transactions up to `applied`.
    pub(super) fn run_apply_waiters(
        &mut self,
        state: &mut NodeState,
        applied: Zxid,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        while self.apply_waiters.front().is_some_and(|apply_waiter| apply_waiter.after <= applied) {
            let Some(apply_waiter) = self.apply_waiters.pop_front() else { return };
            self.complete_waiter(state, apply_waiter, context);
        }
    }

    fn complete_waiter(
        &mut self,
        state: &mut NodeState,
        apply_waiter: ApplyWaiter,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        if !state.can_confirm_sessions() && !state.keeps_clients() {
            state.abort_request(apply_waiter.origin(), context.connections);
            return;
        }
        match apply_waiter.waiter {
            // The next leader confirms the session.
            Waiter::Resume(_) if state.awaits_next_leader() => {}
            Waiter::Resume(connect) => self.accept_session(state, connect, context),
            // A quorum has confirmed this leader after the sync came, so the sync is complete. Later writes
            // of the connection may be answered next.
            Waiter::Sync(UnansweredSync { pending, .. }) => {
                let PendingRequest { connection, slot, charged_bytes } = pending;
                state.completed_requests.add(charged_bytes);
                context.connections.with(connection, |connection| {
                    reply_to_sync(connection, slot, context.replica, context.now.monotonic_ms)
                });
            }
        }
    }
}
