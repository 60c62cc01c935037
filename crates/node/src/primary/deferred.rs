//! Requests that wait until this server knows that it still leads. Its followers may have elected another
//! leader, which restarts all session timeouts; then this server must not confirm a session. Requests behind
//! a deferred sync wait too, because replies keep the request order.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};

use zebu_proto::quorum::Packet;
use zebu_proto::{OpCode, SessionId};
use zebu_zab::{LinkId, PingNumber};

use super::Primary;
use crate::connect::PendingConnect;
use crate::connection::{ConnectionId, Connections};
use crate::consensus::RequestOrigin;
use crate::context::ServeContext;
use crate::core::NodeState;
use crate::receive::SubmittedRequest;

/// A deferred request.
#[derive(Debug)]
pub(super) enum DeferredRequest {
    /// A sync of a client of this server, or a later request of the same connection.
    Client(SubmittedRequest),
    /// A connection that resumes a session.
    Resume(PendingConnect),
    /// A sync of a learner's client, or a later request of the same session.
    Forwarded { link: LinkId, packet: Packet },
    /// A learner's session validation. Later requests do not wait for it.
    Revalidate { link: LinkId, packet: Packet },
}

/// The source whose requests stay in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OrderingKey {
    /// A client of this server.
    Connection(ConnectionId),
    /// A client of a learner. Other clients of the learner do not wait for its syncs.
    Session(LinkId, SessionId),
    /// The syncs of all clients of a learner: their replies carry no number, only an order.
    Learner(LinkId),
}

/// Deferred requests in arrival order, each with the ping that a quorum must answer first. Limits elsewhere
/// bound the requests in flight of a client or a learner.
#[derive(Debug, Default)]
pub(super) struct DeferredRequests {
    queue: VecDeque<(Option<PingNumber>, DeferredRequest)>,
    /// The number of requests per source: a leader without followers may defer many before it notices.
    counts: BTreeMap<OrderingKey, usize>,
}

impl DeferredRequest {
    pub(super) fn ordering_keys(&self) -> [Option<OrderingKey>; 2] {
        match self {
            DeferredRequest::Client(submitted) => [Some(OrderingKey::Connection(submitted.connection)), None],
            DeferredRequest::Forwarded { link, packet: Packet::Request { session, op, .. } } => {
                let is_sync = *op == OpCode::Sync.wire();
                [Some(OrderingKey::Session(*link, *session)), is_sync.then_some(OrderingKey::Learner(*link))]
            }
            DeferredRequest::Forwarded { .. }
            | DeferredRequest::Resume(_)
            | DeferredRequest::Revalidate { .. } => [None, None],
        }
    }

    pub(super) fn origin(&self) -> RequestOrigin {
        match self {
            DeferredRequest::Client(submitted) => RequestOrigin::Request(submitted.pending()),
            DeferredRequest::Resume(connect) => connect.origin(),
            DeferredRequest::Forwarded { .. } | DeferredRequest::Revalidate { .. } => RequestOrigin::NoClient,
        }
    }
}

impl DeferredRequests {
    /// Whether a request of this source is deferred.
    pub(super) fn contains(&self, key: OrderingKey) -> bool {
        self.counts.contains_key(&key)
    }

    pub(super) fn push(&mut self, until: Option<PingNumber>, request: DeferredRequest) {
        for key in request.ordering_keys().into_iter().flatten() {
            *self.counts.entry(key).or_default() += 1;
        }
        self.queue.push_back((until, request));
    }

    /// Removes the requests of a learner that is disconnected.
    pub(super) fn remove_learner(&mut self, gone: LinkId) {
        self.counts.retain(|key, _| match key {
            OrderingKey::Learner(link) | OrderingKey::Session(link, _) => *link != gone,
            OrderingKey::Connection(_) => true,
        });
        self.queue.retain(|(_, request)| match request {
            DeferredRequest::Forwarded { link, .. } | DeferredRequest::Revalidate { link, .. } => {
                *link != gone
            }
            DeferredRequest::Client(_) | DeferredRequest::Resume(_) => true,
        });
    }

    pub(super) fn abort(self, state: &mut NodeState, connections: &mut impl Connections) {
        for (_, request) in self.queue {
            state.abort_request(request.origin(), connections);
        }
    }

    /// The requests of this server's own clients.
    pub(super) fn into_client_requests(self) -> impl Iterator<Item = SubmittedRequest> {
        self.queue.into_iter().filter_map(|(_, request)| match request {
            DeferredRequest::Client(submitted) => Some(submitted),
            DeferredRequest::Resume(_)
            | DeferredRequest::Forwarded { .. }
            | DeferredRequest::Revalidate { .. } => None,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn pop_confirmed(
        &mut self,
        is_answered: impl Fn(PingNumber) -> bool,
    ) -> Option<DeferredRequest> {
        let (until, _) = self.queue.front()?;
        if until.is_some_and(|ping| !is_answered(ping)) {
            return None;
        }
        let (_, request) = self.queue.pop_front()?;
        for key in request.ordering_keys().into_iter().flatten() {
            if let Entry::Occupied(mut count) = self.counts.entry(key) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        Some(request)
    }
}

impl Primary {
    /// Runs the deferred requests whose ping was answered. Returns whether there were any.
    pub(crate) fn run_deferred(
        &mut self,
        state: &mut NodeState,
        context: &mut ServeContext<'_, impl Connections>,
    ) -> bool {
        let mut has_run = false;
        while let Some(request) = self.deferred.pop_confirmed(|ping| state.is_leadership_confirmed(ping)) {
            has_run = true;
            match request {
                DeferredRequest::Client(submitted) => self.execute(state, submitted, context),
                DeferredRequest::Resume(connect) => self.finish_resume(state, connect, context),
                DeferredRequest::Forwarded { link, packet }
                | DeferredRequest::Revalidate { link, packet } => {
                    self.serve_learner_packet(state, link, packet, context);
                }
            }
        }
        has_run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionId = SessionId(7);

    fn forwarded(link: LinkId, op: OpCode) -> DeferredRequest {
        let (session, op, payload) = (SESSION, op.wire(), Default::default());
        DeferredRequest::Forwarded {
            link,
            packet: Packet::Request { session, cxid: 1, op, payload, auth: None },
        }
    }

    fn sync(link: LinkId) -> DeferredRequest {
        forwarded(link, OpCode::Sync)
    }

    #[test]
    fn who_has_something_held_is_known_until_the_last_is_taken_up() {
        let (one, other) = (LinkId::accepted(1), LinkId::accepted(2));
        let (waits, next_waits) = (OrderingKey::Session(one, SESSION), OrderingKey::Learner(other));
        let mut deferred = DeferredRequests::default();
        deferred.push(Some(PingNumber(1)), sync(one));
        deferred.push(None, forwarded(one, OpCode::Create));
        deferred.push(None, DeferredRequest::Revalidate { link: one, packet: Packet::Sync });
        deferred.push(Some(PingNumber(2)), sync(other));
        assert!(
            deferred.pop_confirmed(|_| false).is_none()
                && deferred.contains(waits)
                && deferred.contains(next_waits)
        );
        let answered = |ping| ping <= PingNumber(1);
        assert!(
            deferred.contains(OrderingKey::Learner(one))
                && !deferred.contains(OrderingKey::Session(one, SessionId(8)))
        );
        assert!(deferred.pop_confirmed(answered).is_some() && deferred.contains(waits), "one of two");
        assert!(!deferred.contains(OrderingKey::Learner(one)), "the other one is no sync");
        assert!(
            deferred.pop_confirmed(answered).is_some() && !deferred.contains(waits),
            "a question keeps nobody waiting"
        );
        assert!(
            deferred.pop_confirmed(answered).is_some()
                && deferred.pop_confirmed(answered).is_none()
                && deferred.contains(next_waits)
        );
        deferred.remove_learner(other);
        assert!(!deferred.contains(next_waits) && deferred.pop_confirmed(|_| true).is_none());
    }
}
