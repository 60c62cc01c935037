//! The fences of all connections. Fences that come while a check begins share it: one check costs a round to
//! a quorum, whatever the number of readers. Requests that a client sent behind a fenced read wait here, so
//! that no write takes effect before an earlier read of its client. Limits of connections bound all queues.

use std::collections::{BTreeMap, VecDeque};

use zebu_proto::Zxid;
use zebu_zab::PingNumber;

use super::FencedSlots;
use super::zxid_waiters::ZxidWaiters;
use crate::connection::ConnectionId;
use crate::receive::{RequestKind, SubmittedRequest};

/// A fence of one connection.
#[derive(Debug)]
pub(super) struct ReadFence {
    /// The first read behind the fence.
    pub(super) submitted: SubmittedRequest,
    pub(super) slots: FencedSlots,
}

impl ReadFence {
    /// The transaction that the read waits for, and the end of the wait in milliseconds.
    pub(super) fn awaited(&self) -> Option<(Zxid, i64)> {
        match &self.submitted.kind {
            RequestKind::Fence(request) => request.awaited,
            RequestKind::Write(_) | RequestKind::Sync => None,
        }
    }
}

/// Fences that share a check.
#[derive(Debug)]
pub(super) struct FenceBatch {
    pub(super) fences: Vec<ReadFence>,
    /// When the check began, in monotonic milliseconds.
    pub(super) began_ms: i64,
}

/// A batch that waits until a quorum has confirmed this leader.
#[derive(Debug)]
pub(super) struct LeaderCheck {
    /// The ping that a quorum must answer.
    pub(super) ping: Option<PingNumber>,
    /// The last transaction that was proposed when the check began.
    pub(super) after: Zxid,
    pub(super) batch: FenceBatch,
}

/// The requests of a connection behind a fence.
#[derive(Debug, Default)]
struct HeldRequests {
    /// Fences that have not passed.
    fences: usize,
    requests: VecDeque<SubmittedRequest>,
}

#[derive(Debug, Default)]
pub(crate) struct ReadFences {
    /// Fences for the next check.
    pub(super) joining: Vec<ReadFence>,
    /// The batch whose sync the leader of this learner has not answered.
    pub(super) asked: Option<FenceBatch>,
    /// The checks of this leader, oldest first.
    pub(super) checks: VecDeque<LeaderCheck>,
    /// Batches that pass when this transaction is applied, in order.
    pub(super) applying: VecDeque<(Zxid, FenceBatch)>,
    pub(super) zxid_waiters: ZxidWaiters,
    held: BTreeMap<ConnectionId, HeldRequests>,
}

impl ReadFences {
    /// Whether a request must wait behind a fence of its connection. A fence itself waits only behind other
    /// requests.
    pub(crate) fn must_hold(&self, submitted: &SubmittedRequest) -> bool {
        let Some(held) = self.held.get(&submitted.connection) else { return false };
        match submitted.kind {
            RequestKind::Fence(_) => !held.requests.is_empty(),
            RequestKind::Write(_) | RequestKind::Sync => true,
        }
    }

    pub(crate) fn hold(&mut self, submitted: SubmittedRequest) {
        self.held.entry(submitted.connection).or_default().requests.push_back(submitted);
    }

    pub(super) fn add_fence(&mut self, connection: ConnectionId) {
        self.held.entry(connection).or_default().fences += 1;
    }

    /// A fence of a connection has passed. Returns the requests that need not wait any more.
    pub(super) fn remove_fence(&mut self, connection: ConnectionId) -> VecDeque<SubmittedRequest> {
        let Some(held) = self.held.get_mut(&connection) else { return VecDeque::new() };
        held.fences = held.fences.saturating_sub(1);
        if held.fences > 0 {
            return VecDeque::new();
        }
        self.held.remove(&connection).map(|held| held.requests).unwrap_or_default()
    }

    /// Removes the requests of a connection that is closed. Its fences pass without effect.
    pub(crate) fn disconnect(&mut self, connection: ConnectionId) -> VecDeque<SubmittedRequest> {
        self.held.remove(&connection).map(|held| held.requests).unwrap_or_default()
    }

    /// The leader has answered the sync; the answer follows the transaction `after`.
    pub(crate) fn leader_answered(&mut self, after: Zxid) {
        if let Some(batch) = self.asked.take() {
            self.applying.push_back((after, batch));
        }
    }

    /// The role has ended, and its checks with it. The next leader is asked for all of them; a read has no
    /// effect that could happen twice.
    pub(crate) fn ask_next_leader(&mut self) {
        let mut batches: Vec<FenceBatch> = self.applying.drain(..).map(|(_, batch)| batch).collect();
        batches.extend(self.checks.drain(..).map(|check| check.batch));
        batches.extend(self.asked.take());
        let joining = std::mem::take(&mut self.joining);
        self.joining = batches.into_iter().flat_map(|batch| batch.fences).chain(joining).collect();
    }

    pub(crate) fn next_deadline(&self) -> i64 {
        self.zxid_waiters.next_deadline()
    }

    /// All requests, when the role ends.
    pub(crate) fn into_requests(self) -> impl Iterator<Item = SubmittedRequest> {
        let ReadFences { joining, asked, checks, applying, zxid_waiters, held } = self;
        let batches = asked
            .into_iter()
            .chain(checks.into_iter().map(|check| check.batch))
            .chain(applying.into_iter().map(|(_, batch)| batch));
        let fences = batches.flat_map(|batch| batch.fences).chain(joining).chain(zxid_waiters.into_fences());
        fences.map(|fence| fence.submitted).chain(held.into_values().flat_map(|held| held.requests))
    }
}
