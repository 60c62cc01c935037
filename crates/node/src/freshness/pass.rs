//! The life of a fence in the core: it joins a batch, the batch begins a check, the check passes, and the
//! reads run.

use zebu_proto::{ErrorCode, Zxid};

use super::FencedSlots;
use super::read_fences::{FenceBatch, LeaderCheck, ReadFence};
use super::receive::FenceRequest;
use crate::connection::Connections;
use crate::consensus::RequestOrigin;
use crate::context::ServeContext;
use crate::core::{Node, NodeRole};
use crate::prepared_reply::{PreparedReply, ReplyZxid};
use crate::receive::SubmittedRequest;

impl Node {
    /// Begins a fence. [`Node::start_read_checks`] starts its check.
    pub(crate) fn begin_fence(
        &mut self,
        submitted: SubmittedRequest,
        request: FenceRequest,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let connection = submitted.connection;
        let slots = if request.is_shared() {
            // Reads that come from here on need another fence.
            match context.connections.with(connection, |connection| connection.begin_shared_fence()) {
                Some(end) => FencedSlots::Before(end),
                None => return self.state.drop_request(&submitted.pending()),
            }
        } else {
            FencedSlots::One(submitted.slot)
        };
        self.state.fences.add_fence(connection);
        let fence = ReadFence { submitted, slots };
        if request.needs_leader {
            self.state.fences.joining.push(fence);
        } else {
            self.await_zxid(fence, context);
        }
    }

    /// Starts one check for all fences that have joined since the last one. A learner has one sync in flight;
    /// fences that join meanwhile share the next one. The caller has handled all events of its round, so that
    /// they share the check.
    pub fn start_read_checks(&mut self, context: &mut ServeContext<'_, impl Connections>) {
        let fences_await_leader = self.fences_await_leader();
        let fences = &mut self.state.fences;
        if fences.joining.is_empty() || fences.asked.is_some() || fences_await_leader {
            return;
        }
        let batch =
            FenceBatch { fences: std::mem::take(&mut fences.joining), began_ms: context.now.monotonic_ms };
        self.state.metrics.read_checks.increment();
        match &mut self.role {
            NodeRole::Primary(_) => {
                let after = self.state.member().map_or(Zxid::ZERO, |member| member.peer.last_proposed());
                let ping = self.state.start_leadership_check(context.now);
                self.state.fences.checks.push_back(LeaderCheck { ping, after, batch });
            }
            NodeRole::Learner(learner) => {
                if let Some(first) = batch.fences.first() {
                    learner.send_fence_sync(&mut self.state, &first.submitted);
                }
                self.state.fences.asked = Some(batch);
            }
            NodeRole::Suspended(_) => self.state.fences.joining = batch.fences,
            NodeRole::ReadOnly(_) | NodeRole::NotServing => self.abort_fences(batch, context),
        }
        self.process_effects(context);
    }

    /// Whether checks wait for the next leader.
    fn fences_await_leader(&self) -> bool {
        match &self.role {
            NodeRole::Primary(_) => self.state.awaits_next_leader(),
            NodeRole::Suspended(_) => true,
            NodeRole::Learner(_) | NodeRole::ReadOnly(_) | NodeRole::NotServing => false,
        }
    }

    /// Lets the fences pass whose conditions are met. Returns whether a batch has passed.
    pub(crate) fn pass_fences(&mut self, context: &mut ServeContext<'_, impl Connections>) -> bool {
        while let Some(LeaderCheck { ping, .. }) = self.state.fences.checks.front() {
            if ping.is_some_and(|ping| !self.state.is_leadership_confirmed(ping)) {
                break;
            }
            let Some(LeaderCheck { after, batch, .. }) = self.state.fences.checks.pop_front() else { break };
            if self.state.can_confirm_sessions() {
                self.state.fences.applying.push_back((after, batch));
            } else if self.state.keeps_clients() {
                self.state.fences.joining.extend(batch.fences);
            } else {
                self.abort_fences(batch, context);
            }
        }
        let applied = context.replica.last_zxid();
        let mut has_passed = false;
        while self.state.fences.applying.front().is_some_and(|(after, _)| *after <= applied) {
            let Some((_, batch)) = self.state.fences.applying.pop_front() else { break };
            has_passed = true;
            context.replica.freshness.record_check(batch.began_ms);
            for fence in batch.fences {
                self.await_zxid(fence, context);
            }
        }
        while let Some(fence) = self.state.fences.zxid_waiters.pop_applied(applied) {
            has_passed = true;
            self.release_fence(fence, context);
        }
        has_passed
    }

    /// Ends the wait of reads whose transaction has not come in time.
    pub(crate) fn expire_fences(&mut self, context: &mut ServeContext<'_, impl Connections>) {
        while let Some(fence) = self.state.fences.zxid_waiters.pop_expired(context.now.monotonic_ms) {
            let SubmittedRequest { connection, slot, charged_bytes, .. } = fence.submitted;
            self.state.completed_requests.add(charged_bytes);
            context.connections.with(connection, |connection| {
                let error = Some(ErrorCode::OperationTimeout);
                connection.fail_fence(slot, PreparedReply::header(ReplyZxid::Applied, error));
                context.replica.run_ready_requests(connection, context.now.monotonic_ms);
            });
            self.resume_held(connection, context);
        }
    }

    /// Drops the held requests of a connection that is closed.
    pub(crate) fn disconnect_fences(&mut self, connection: crate::connection::ConnectionId) {
        for submitted in self.state.fences.disconnect(connection) {
            self.state.drop_request(&submitted.pending());
        }
    }

    /// Drops all fences and the requests behind them, because the role ends.
    pub(crate) fn drop_fences(&mut self, connections: &mut impl Connections) {
        for submitted in std::mem::take(&mut self.state.fences).into_requests() {
            self.state.abort_request(RequestOrigin::Request(submitted.pending()), connections);
        }
    }

    /// Drops the fences that need a leader, because the next one cannot prove its leadership.
    pub(crate) fn drop_unproven_fences(&mut self, connections: &mut impl Connections) {
        for fence in std::mem::take(&mut self.state.fences.joining) {
            self.state.abort_request(RequestOrigin::Request(fence.submitted.pending()), connections);
        }
    }

    /// Releases a fence now, or when its transaction is applied.
    fn await_zxid(&mut self, fence: ReadFence, context: &mut ServeContext<'_, impl Connections>) {
        match fence.awaited() {
            Some((zxid, deadline_ms)) if zxid > context.replica.last_zxid() => {
                self.state.fences.zxid_waiters.insert(zxid, deadline_ms, fence);
            }
            Some(_) | None => self.release_fence(fence, context),
        }
    }

    /// Runs the reads behind a fence, and then the requests that waited behind them.
    fn release_fence(&mut self, fence: ReadFence, context: &mut ServeContext<'_, impl Connections>) {
        let ReadFence { submitted, slots } = fence;
        self.state.completed_requests.add(submitted.charged_bytes);
        let released = context.connections.with(submitted.connection, |connection| {
            let released = connection.release_fence(slots);
            context.replica.run_ready_requests(connection, context.now.monotonic_ms);
            released
        });
        self.state.metrics.fenced_reads.add(released.unwrap_or(0));
        self.resume_held(submitted.connection, context);
    }

    fn resume_held(
        &mut self,
        connection: crate::connection::ConnectionId,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        for submitted in self.state.fences.remove_fence(connection) {
            self.handle_request(submitted, context);
        }
    }

    fn abort_fences(&mut self, batch: FenceBatch, context: &mut ServeContext<'_, impl Connections>) {
        for fence in batch.fences {
            let origin = RequestOrigin::Request(fence.submitted.pending());
            self.state.abort_request(origin, context.connections);
        }
    }
}
