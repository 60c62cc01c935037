//! Replies that need no transaction, but wait until the transactions in flight at their arrival are applied.

use zebu_proto::Zxid;
use zebu_proto::client::connect::ReadOnlyField;

use super::Primary;
use crate::clock::Now;
use crate::connection::{ConnectionId, ConnectionSession, Connections};
use crate::consensus::RequestOrigin;
use crate::core::{NodeState, reply_to_sync};
use crate::pending_request::PendingRequest;
use crate::replica::Replica;

#[derive(Debug)]
pub(super) struct ApplyWaiter {
    after: Zxid,
    waiter: Waiter,
}

#[derive(Debug)]
enum Waiter {
    /// A connection that resumes a session. Transactions in flight may be writes of the session's former
    /// connection. The client must not read a state in which they have neither succeeded nor failed.
    Resume { connection: ConnectionId, session: ConnectionSession, read_only: ReadOnlyField },
    /// A sync.
    Sync(PendingRequest),
}

impl ApplyWaiter {
    pub(super) fn origin(&self) -> RequestOrigin {
        match self.waiter {
            Waiter::Resume { connection, read_only, .. } => RequestOrigin::Connect { connection, read_only },
            Waiter::Sync(request) => RequestOrigin::Request(request),
        }
    }
}

impl Primary {
    /// Gives a session to a connection when all transactions in flight are applied.
    pub(super) fn accept_after_apply(
        &mut self,
        state: &mut NodeState,
        (connection, session, read_only): (ConnectionId, ConnectionSession, ReadOnlyField),
        replica: &Replica,
        connections: &mut impl Connections,
        now: Now,
    ) {
        self.after_apply(state, Waiter::Resume { connection, session, read_only }, replica, connections, now);
    }

    /// Answers a sync when all proposed transactions are applied.
    pub(super) fn handle_sync(
        &mut self,
        state: &mut NodeState,
        request: PendingRequest,
        replica: &Replica,
        connections: &mut impl Connections,
        now: Now,
    ) {
        self.after_apply(state, Waiter::Sync(request), replica, connections, now);
    }

    fn after_apply(
        &mut self,
        state: &mut NodeState,
        waiter: Waiter,
        replica: &Replica,
        connections: &mut impl Connections,
        now: Now,
    ) {
        let apply_waiter = ApplyWaiter { after: self.last_proposed, waiter };
        if self.last_proposed <= replica.last_zxid() {
            self.complete_waiter(state, apply_waiter, replica, connections, now);
        } else {
            self.apply_waiters.push_back(apply_waiter);
        }
    }

    /// Completes the waiters for transactions up to `applied`.
    pub(super) fn run_apply_waiters(
        &mut self,
        state: &mut NodeState,
        applied: Zxid,
        replica: &Replica,
        connections: &mut impl Connections,
        now: Now,
    ) {
        while self.apply_waiters.front().is_some_and(|apply_waiter| apply_waiter.after <= applied) {
            let Some(apply_waiter) = self.apply_waiters.pop_front() else { return };
            self.complete_waiter(state, apply_waiter, replica, connections, now);
        }
    }

    fn complete_waiter(
        &mut self,
        state: &mut NodeState,
        apply_waiter: ApplyWaiter,
        replica: &Replica,
        connections: &mut impl Connections,
        now: Now,
    ) {
        if !state.can_confirm_sessions() {
            state.abort_request(apply_waiter.origin(), connections);
            return;
        }
        match apply_waiter.waiter {
            Waiter::Resume { connection, session, read_only } => {
                self.accept_session(state, (connection, session, read_only), connections, now);
            }
            Waiter::Sync(PendingRequest { connection, slot, charged_bytes }) => {
                state.completed_requests.add(charged_bytes);
                connections.with(connection, |connection| {
                    reply_to_sync(connection, slot, replica, now.monotonic_ms)
                });
            }
        }
    }
}
