//! Requests that make the tree larger while no quorum has room on its disks. They are refused. A client of
//! this server gets its reply at once. A learner needs an error transaction, which takes room too, so only a
//! few are made per second; the other requests of learners wait, and those behind them in their session.

use zebu_proto::client::WriteRequest;
use zebu_zab::LinkId;

use super::Primary;
use super::deferred::{DeferredRequest, DeferredRequests};
use crate::connection::Connections;
use crate::context::ServeContext;
use crate::core::NodeState;

/// The number of refusals per second.
const REFUSALS_PER_SECOND: u32 = 100;

/// Waiting requests above which further ones are refused at once. Learners bound the requests of their
/// clients, and ZooKeeper's learners do not bound new sessions.
const WAITING_MAX: usize = 10_000;

/// Waiting requests that are executed in one round when there is room again.
const RUN_PER_ROUND: usize = 1_000;

/// The length of the period in which refusals are counted, in milliseconds.
const PERIOD_MS: i64 = 1_000;

/// Whether a request may make the tree larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrowthVerdict {
    /// There is room, or the request needs none.
    Accepted,
    /// The request gets an error transaction.
    Refused,
    /// Enough requests were refused in this second.
    Waits,
}

/// Requests of learners that wait for their refusal, in arrival order.
#[derive(Debug)]
pub(super) struct RefusedRequests {
    waiting: DeferredRequests,
    /// The start of the current second, in monotonic milliseconds.
    second_ms: i64,
    /// Refusals since then.
    made: u32,
    /// Whether the last round has left requests that it could have executed.
    is_unfinished: bool,
}

impl RefusedRequests {
    pub(super) fn new(now_ms: i64) -> RefusedRequests {
        RefusedRequests {
            waiting: DeferredRequests::default(),
            second_ms: now_ms,
            made: 0,
            is_unfinished: false,
        }
    }

    /// Whether waiting requests precede this one.
    pub(super) fn precede(&self, request: &DeferredRequest) -> bool {
        request.ordering_keys().into_iter().flatten().any(|key| self.waiting.contains(key))
    }

    /// The end of the current second, if a request waits for it; in monotonic milliseconds. The begin of the
    /// second, which is over, if the last round has left something to execute.
    pub(super) fn next_deadline(&self) -> i64 {
        match (self.waiting.len(), self.is_unfinished) {
            (0, _) => i64::MAX,
            (_, true) => self.second_ms,
            (_, false) => self.second_ms + PERIOD_MS,
        }
    }

    pub(super) fn remove_learner(&mut self, gone: LinkId) {
        self.waiting.remove_learner(gone);
    }

    fn may_refuse(&mut self, now_ms: i64) -> bool {
        if now_ms >= self.second_ms + PERIOD_MS {
            (self.second_ms, self.made) = (now_ms, 0);
        }
        self.made < REFUSALS_PER_SECOND
    }
}

impl Primary {
    /// Whether a request makes the tree larger, and no quorum has room for that.
    pub(super) fn lacks_room_for(
        &self,
        state: &NodeState,
        request: &WriteRequest,
        context: &ServeContext<'_, impl Connections>,
    ) -> bool {
        !state.has_room_to_grow() && context.replica.tree.grows_by(&self.overlay, request)
    }

    /// Whether a request of a learner may make the tree larger. A refusal counts towards the limit.
    pub(super) fn admit_growth(
        &mut self,
        state: &NodeState,
        request: &WriteRequest,
        context: &ServeContext<'_, impl Connections>,
    ) -> GrowthVerdict {
        if !self.lacks_room_for(state, request, context) {
            return GrowthVerdict::Accepted;
        }
        let may_wait = self.refused.waiting.len() < WAITING_MAX;
        if may_wait && !self.refused.may_refuse(context.now.monotonic_ms) {
            return GrowthVerdict::Waits;
        }
        self.refused.made += 1;
        state.metrics.growth_refused.increment();
        GrowthVerdict::Refused
    }

    /// A request waits until it is refused, or until there is room.
    pub(super) fn wait_for_refusal(&mut self, request: DeferredRequest) {
        self.refused.waiting.push(None, request);
    }

    /// Continues with the waiting requests as far as the limit allows.
    pub(super) fn run_refused(
        &mut self,
        state: &mut NodeState,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let now_ms = context.now.monotonic_ms;
        let mut left = RUN_PER_ROUND;
        while left > 0
            && self.refused.waiting.len() > 0
            && (state.has_room_to_grow() || self.refused.may_refuse(now_ms))
            && let Some(request) = self.refused.waiting.pop_confirmed(|_| true)
        {
            left -= 1;
            match request {
                DeferredRequest::Forwarded { link, packet } => {
                    self.serve_learner_packet_now(state, link, packet, context);
                }
                // Only requests of learners wait.
                DeferredRequest::Client(_)
                | DeferredRequest::Resume(_)
                | DeferredRequest::Revalidate { .. } => {}
            }
        }
        self.refused.is_unfinished = left == 0 && self.refused.waiting.len() > 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_limited_per_second() {
        let mut refused = RefusedRequests::new(0);
        for _ in 0..REFUSALS_PER_SECOND {
            assert!(refused.may_refuse(PERIOD_MS - 1));
            refused.made += 1;
        }
        assert!(!refused.may_refuse(PERIOD_MS - 1));
        assert!(refused.may_refuse(PERIOD_MS));
        assert_eq!((refused.made, refused.next_deadline()), (0, i64::MAX));
    }
}
