//! Requests that make the tree larger while no quorum has room on its disks. They are refused, each with an
//! error transaction, because the client may be one of a learner. Such a transaction takes room too, so only
//! a few are made per second; the other requests wait, and those behind them in their session.

use zebu_proto::client::WriteRequest;
use zebu_zab::LinkId;

use super::Primary;
use super::deferred::{DeferredRequest, DeferredRequests, OrderingKey};
use crate::connection::Connections;
use crate::context::ServeContext;
use crate::core::NodeState;
use crate::receive::SubmittedRequest;

/// The number of refusals per second.
const REFUSALS_PER_SECOND: u32 = 100;

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

/// Requests that wait for their refusal, in arrival order. Limits elsewhere bound the requests in flight of a
/// client or a learner.
#[derive(Debug)]
pub(super) struct RefusedRequests {
    waiting: DeferredRequests,
    /// The start of the current second, in monotonic milliseconds.
    second_ms: i64,
    /// Refusals since then.
    made: u32,
}

impl RefusedRequests {
    pub(super) fn new(now_ms: i64) -> RefusedRequests {
        RefusedRequests { waiting: DeferredRequests::default(), second_ms: now_ms, made: 0 }
    }

    /// Whether a request of this source waits.
    pub(super) fn contains(&self, key: OrderingKey) -> bool {
        self.waiting.contains(key)
    }

    /// Whether waiting requests precede this one.
    pub(super) fn precede(&self, request: &DeferredRequest) -> bool {
        request.ordering_keys().into_iter().flatten().any(|key| self.waiting.contains(key))
    }

    /// The end of the current second, if a request waits for it; in monotonic milliseconds.
    pub(super) fn next_deadline(&self) -> i64 {
        if self.waiting.len() == 0 { i64::MAX } else { self.second_ms + PERIOD_MS }
    }

    pub(super) fn remove_learner(&mut self, gone: LinkId) {
        self.waiting.remove_learner(gone);
    }

    /// The requests of this server's own clients.
    pub(super) fn into_client_requests(self) -> impl Iterator<Item = SubmittedRequest> {
        self.waiting.into_client_requests()
    }

    pub(super) fn abort(self, state: &mut NodeState, connections: &mut impl Connections) {
        self.waiting.abort(state, connections);
    }

    fn may_refuse(&mut self, now_ms: i64) -> bool {
        if now_ms >= self.second_ms + PERIOD_MS {
            (self.second_ms, self.made) = (now_ms, 0);
        }
        self.made < REFUSALS_PER_SECOND
    }
}

impl Primary {
    /// Whether a request may make the tree larger. A refusal counts towards the limit.
    pub(super) fn admit_growth(
        &mut self,
        state: &NodeState,
        request: &WriteRequest,
        context: &ServeContext<'_, impl Connections>,
    ) -> GrowthVerdict {
        if state.has_room_to_grow() || !context.replica.tree.grows_by(&self.overlay, request) {
            return GrowthVerdict::Accepted;
        }
        if !self.refused.may_refuse(context.now.monotonic_ms) {
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
        while self.refused.waiting.len() > 0
            && (state.has_room_to_grow() || self.refused.may_refuse(now_ms))
            && let Some(request) = self.refused.waiting.pop_confirmed(|_| true)
        {
            match request {
                DeferredRequest::Client(submitted) => self.execute_now(state, submitted, context),
                DeferredRequest::Forwarded { link, packet } => {
                    self.serve_learner_packet_now(state, link, packet, context);
                }
                // These do not make the tree larger, and no request precedes them.
                DeferredRequest::Resume(_) | DeferredRequest::Revalidate { .. } => {}
            }
        }
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
