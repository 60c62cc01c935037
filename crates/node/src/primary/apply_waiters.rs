//! Replies that need no transaction, but wait until the transactions in flight at their arrival are applied.

use zebu_proto::Zxid;

use super::Primary;
use crate::connect::PendingConnect;
use crate::connection::Connections;
use crate::consensus::RequestOrigin;
use crate::context::ServeContext;
use crate::core::{NodeState, reply_to_sync};
use crate::pending_request::PendingRequest;

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
    Sync(PendingRequest),
}

impl ApplyWaiter {
    pub(super) fn origin(&self) -> RequestOrigin {
        match self.waiter {
            Waiter::Resume(connect) => connect.origin(),
            Waiter::Sync(request) => RequestOrigin::Request(request),
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
        request: PendingRequest,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        self.after_apply(state, Waiter::Sync(request), context);
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
        if !state.can_confirm_sessions() {
            state.abort_request(apply_waiter.origin(), context.connections);
            return;
        }
        match apply_waiter.waiter {
            Waiter::Resume(connect) => self.accept_session(state, connect, context),
            Waiter::Sync(PendingRequest { connection, slot, charged_bytes }) => {
                state.completed_requests.add(charged_bytes);
                context.connections.with(connection, |connection| {
                    reply_to_sync(connection, slot, context.replica, context.now.monotonic_ms)
                });
            }
        }
    }
}
