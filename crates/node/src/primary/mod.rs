//! The primary role: a standalone server or a leader, which orders writes. It owns the proposals in flight
//! and the expiry of sessions.

mod apply_waiters;
mod deferred;
mod learner_packets;
mod local_session;
mod on_applied;
mod reaper;
mod reconfig;
mod room;
mod session;
mod suspend;

use std::collections::VecDeque;

use zebu_proto::client::WriteRequest;
use zebu_proto::txn::{Txn, TxnEntry, TxnHeader};
use zebu_proto::{ErrorCode, SessionId, Zxid};
use zebu_tree::access::{Policy, QuotaEnforcement};
use zebu_tree::{Credentials, Overlay, PrepareContext};
use zebu_zab::ServingRole;

use crate::clock::Now;
use crate::connection::{ConnectionId, ConnectionSession, Connections, DisconnectReason};
use crate::consensus::{Proposal, RequestOrigin};
use crate::context::ServeContext;
use crate::core::NodeState;
use crate::metrics::NodeMetrics;
use crate::notice::OperatorNotice;
use crate::pending_request::UnansweredSync;
use crate::receive::{RequestKind, SubmittedRequest};
use crate::replica::Replica;
use crate::request_copy::RequestCopy;
use crate::serving_mode::ServingMode;
use crate::session::{
    EndedSessions, LocalSessionEffect, LocalSessions, SessionOwner, SessionTracker, TrackedState,
    TrackerReport,
};
use apply_waiters::ApplyWaiter;
use deferred::{DeferredRequest, DeferredRequests, OrderingKey};
use reaper::Reaper;
use room::RefusedRequests;

#[derive(Debug)]
pub(crate) struct Primary {
    serving_mode: ServingMode,
    /// The epoch of this leader; `None` for a standalone server.
    epoch: Option<u32>,
    overlay: Overlay,
    sessions: SessionTracker,
    local_sessions: LocalSessions,
    ended_sessions: EndedSessions,
    /// Replies that wait until earlier transactions are applied.
    apply_waiters: VecDeque<ApplyWaiter>,
    /// Requests that wait until a quorum confirms leadership.
    deferred: DeferredRequests,
    /// Requests of learners that wait for their refusal, and those behind them.
    refused: RefusedRequests,
    reaper: Reaper,
    in_flight: VecDeque<Proposal>,
    /// Requests of clients that arrived while this leader hands over leadership. Their slots bound them.
    awaiting_next_leader: VecDeque<SubmittedRequest>,
    /// The last proposed transaction, or the last one of the tree.
    last_proposed: Zxid,
}

/// A request that becomes a transaction.
struct TxnRequest<'a> {
    session: SessionId,
    cxid: i32,
    request: WriteRequest,
    origin: RequestOrigin,
    /// The request of a client of this server, if the next leader may get it.
    copy: Option<Box<RequestCopy>>,
    credentials: Option<&'a Credentials>,
    source: TxnSource,
}

/// The source of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TxnSource {
    /// A client of this server, or the server itself.
    Local,
    /// A learner.
    Learner,
}

impl TxnRequest<'_> {
    /// Creates a request of the server itself.
    fn internal(session: SessionId, request: WriteRequest) -> TxnRequest<'static> {
        TxnRequest {
            session,
            cxid: 0,
            request,
            origin: RequestOrigin::NoClient,
            copy: None,
            credentials: None,
            source: TxnSource::Local,
        }
    }
}

impl Primary {
    /// Whether this server leads an ensemble.
    pub(crate) fn is_leader(&self) -> bool {
        self.serving_mode == ServingMode::Leader
    }

    /// Returns the epoch of this leader; `None` for a standalone server.
    pub(crate) fn epoch(&self) -> Option<u32> {
        self.epoch
    }

    /// Begins with the sessions of the tree. Each gets a full timeout from now. A standalone server has no
    /// role in an ensemble.
    pub(crate) fn new(
        state: &NodeState,
        serving: Option<ServingRole>,
        replica: &Replica,
        now: Now,
    ) -> Primary {
        let settings = &state.settings;
        let mut sessions = SessionTracker::new(settings.tick_ms);
        for (&session, &timeout_ms) in replica.tree.sessions() {
            sessions.track(session, timeout_ms, None, now.monotonic_ms);
        }
        Primary {
            serving_mode: serving.map_or(ServingMode::Standalone, ServingMode::from),
            epoch: serving.map(ServingRole::epoch),
            overlay: Overlay::new(settings.seed),
            sessions,
            local_sessions: LocalSessions::new(state.local_sessions(), settings.tick_ms),
            ended_sessions: EndedSessions::default(),
            apply_waiters: VecDeque::new(),
            deferred: DeferredRequests::default(),
            refused: RefusedRequests::new(now.monotonic_ms),
            reaper: Reaper::new(settings, now.monotonic_ms),
            in_flight: VecDeque::new(),
            awaiting_next_leader: VecDeque::new(),
            last_proposed: replica.last_zxid(),
        }
    }

    /// Expires sessions, and removes empty containers and expired TTL nodes.
    pub(crate) fn tick(&mut self, state: &mut NodeState, context: &mut ServeContext<'_, impl Connections>) {
        self.run_refused(state, context);
        self.expire_sessions(state, context);
        self.local_sessions.expire(context);
        while let Some(path) = self.reaper.next(&context.replica.tree, context.now) {
            let txn_request = TxnRequest::internal(SessionId::NONE, WriteRequest::DeleteContainer { path });
            self.propose(state, txn_request, context);
        }
    }

    pub(crate) fn next_deadline(&self) -> i64 {
        let sessions = self.sessions.next_deadline().unwrap_or(i64::MAX);
        let housekeeping = self.local_sessions.next_deadline().min(self.reaper.next_deadline());
        sessions.min(housekeeping).min(self.refused.next_deadline())
    }

    /// Serves the sessions of the role before. A session that is no longer open has no connection.
    pub(crate) fn adopt(
        &mut self,
        sessions: Vec<(ConnectionSession, ConnectionId)>,
        local_sessions: Option<LocalSessions>,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        for (ConnectionSession { id, timeout_ms }, connection) in sessions {
            if self.sessions.state(id) == Some(TrackedState::Open) {
                let owner = SessionOwner::Connection(connection);
                self.sessions.attach(id, owner, timeout_ms, context.now.monotonic_ms);
            } else {
                context.close(connection, DisconnectReason::SessionEnded);
            }
        }
        if let Some(local_sessions) = local_sessions {
            self.local_sessions = local_sessions;
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    pub(crate) fn pending_syncs(&self) -> usize {
        self.apply_waiters.len()
    }

    pub(crate) fn session_report(&self) -> TrackerReport {
        self.sessions.report()
    }

    pub(crate) fn local_session_report(&self) -> Option<TrackerReport> {
        self.local_sessions.report()
    }

    pub(crate) fn detach(&mut self, session: SessionId, connection: ConnectionId, touched_ms: i64) {
        self.sessions.detach(session, connection, touched_ms);
        self.local_sessions.detach(session, connection, touched_ms);
    }

    /// Whether the oldest proposal in flight is at most `last`.
    pub(crate) fn has_next_up_to(&self, last: Zxid) -> bool {
        self.in_flight.front().is_some_and(|first| first.entry.header.zxid <= last)
    }

    /// Removes the oldest proposal in flight, if it is at most `last`.
    pub(crate) fn pop_next_up_to(&mut self, last: Zxid) -> Option<Proposal> {
        if self.has_next_up_to(last) { self.in_flight.pop_front() } else { None }
    }

    /// Clears the overlay up to an applied transaction.
    pub(crate) fn mark_applied(&mut self, zxid: Zxid, metrics: &NodeMetrics) {
        let before = self.overlay.len();
        self.overlay.applied(zxid);
        metrics.changes_removed.add((before - self.overlay.len()) as u64);
    }

    /// Ends the role: pending requests get no reply, and their connections are closed.
    pub(crate) fn abort(self, state: &mut NodeState, connections: &mut impl Connections) {
        for proposal in self.in_flight {
            state.abort_request(proposal.origin, connections);
        }
        for apply_waiter in self.apply_waiters {
            state.abort_request(apply_waiter.origin(), connections);
        }
        self.deferred.abort(state, connections);
        for submitted in self.awaiting_next_leader {
            state.abort_request(RequestOrigin::Request(submitted.pending()), connections);
        }
    }

    /// Handles a request of a client of this server.
    pub(crate) fn handle_request(
        &mut self,
        state: &mut NodeState,
        submitted: SubmittedRequest,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let unconfirmed = match submitted.kind {
            RequestKind::Sync => state.start_leadership_check(context.now),
            RequestKind::Write(_) | RequestKind::Fence(_) => None,
        };
        if unconfirmed.is_some() || self.deferred.contains(OrderingKey::Connection(submitted.connection)) {
            self.deferred.push(unconfirmed, DeferredRequest::Client(submitted));
        } else {
            self.execute(state, submitted, context);
        }
    }

    /// Executes a request that no request of its connection precedes.
    fn execute(
        &mut self,
        state: &mut NodeState,
        submitted: SubmittedRequest,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let pending = submitted.pending();
        let (session, connection) = (submitted.session, submitted.connection);
        if self.sessions.has_moved_from(session, SessionOwner::Connection(connection))
            || self.local_sessions.has_moved_from(session, connection)
        {
            // The connection is closed; the client uses the session elsewhere without this write.
            state.drop_request(&pending);
            return;
        }
        if state.awaits_next_leader() && self.is_leader() {
            self.awaiting_next_leader.push_back(submitted);
            return;
        }
        let SubmittedRequest { xid, kind, credentials, received_ms, forward, .. } = submitted;
        // The next leader must not execute the bytes of a request that was refused when it was received.
        let refused = match &kind {
            RequestKind::Write(WriteRequest::Refused(error)) => Some(*error),
            RequestKind::Write(_) | RequestKind::Sync | RequestKind::Fence(_) => None,
        };
        let copy = forward
            .map(|payload| Box::new(RequestCopy::new(payload, refused, credentials.clone(), received_ms)));
        let closes = matches!(kind, RequestKind::Write(WriteRequest::CloseSession));
        if !closes && state.is_stale(received_ms, context.now) {
            state.reply_error(pending, ErrorCode::ThrottledOp, context);
            return;
        }
        if let RequestKind::Write(request) = &kind
            && self.lacks_room_for(state, request, context)
        {
            // A transaction would take room too, and the slot keeps the order of the replies without one.
            state.metrics.growth_refused.increment();
            return state.reply_error(pending, ErrorCode::SystemError, context);
        }
        match kind {
            RequestKind::Sync => {
                let sync = UnansweredSync { pending, session, xid, copy };
                self.handle_sync(state, sync, context);
            }
            RequestKind::Fence(_) => unreachable!("the node begins a fence before the role sees it"),
            RequestKind::Write(request) => {
                let waited_ms = context.now.monotonic_ms - received_ms;
                state.prep_queue_times.add_elapsed(&state.metrics.prep_queue_time, waited_ms);
                match self.local_sessions.effect_of(session, &request) {
                    LocalSessionEffect::Ended => return state.ack_close(pending, context),
                    LocalSessionEffect::Upgraded { timeout_ms, owner } => {
                        let session = ConnectionSession { id: session, timeout_ms };
                        self.upgrade(state, session, owner, context);
                    }
                    // A refusal is a transaction on the primary, like every other write.
                    LocalSessionEffect::None | LocalSessionEffect::EphemeralRefused => {}
                }
                if closes {
                    self.sessions.close(session);
                }
                let origin = RequestOrigin::Request(pending);
                let credentials = Some(&credentials);
                let txn_request = TxnRequest {
                    copy,
                    cxid: xid,
                    origin,
                    credentials,
                    ..TxnRequest::internal(session, request)
                };
                self.propose(state, txn_request, context);
            }
        }
    }

    /// Prepares a transaction and proposes it. If this leader has no zxid left, the connection is closed, and
    /// the client retries with the next leader.
    fn propose(
        &mut self,
        state: &mut NodeState,
        txn_request: TxnRequest<'_>,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let TxnRequest { session, cxid, request, origin, copy, credentials, source } = txn_request;
        let Some(zxid) = state.consensus.next_zxid() else {
            state.abort_request(origin, context.connections);
            return;
        };
        let header = TxnHeader { session, cxid, zxid, time_ms: context.now.wall_ms };
        let permissions = self.session_permissions(state, session, source);
        let prepare = PrepareContext {
            header,
            credentials: credentials.unwrap_or(&state.no_credentials),
            session: permissions.write,
            ephemeral_session: permissions.ephemeral,
            policy: &context.replica.policy,
            reconfig: reconfig::check_reconfig(state, &request, zxid),
        };
        let namespace = quota_namespace(&request, &context.replica.policy);
        let pending_changes = self.overlay.len();
        let prepared = context.replica.tree.prepare(&mut self.overlay, request, &prepare);
        state.metrics.changes_queued.add((self.overlay.len() - pending_changes) as u64);
        if let (Txn::Error(code), Some(namespace)) = (&prepared.txn, namespace)
            && *code == ErrorCode::QuotaExceeded.wire()
        {
            state.metrics.quota_exceeded.increment(&namespace);
        }
        if let Some(bytes) = prepared.refused_bytes {
            let bytes_max = context.replica.policy.transaction_bytes_max;
            state.notices.push(OperatorNotice::TransactionTooLong { session, bytes, bytes_max });
        }
        if matches!(prepared.txn, Txn::CloseSession(None)) {
            state.notices.push(OperatorNotice::EphemeralsNotListed { session });
        }
        let entry = TxnEntry { header, txn: prepared.txn, digest: prepared.digest };
        state.consensus.propose(&entry, &mut state.batch, context.now);
        self.in_flight.push_back(Proposal { entry, origin, copy });
        self.last_proposed = zxid;
    }
}

/// The namespace of a write that a quota may refuse; `None` without quota enforcement.
fn quota_namespace(request: &WriteRequest, policy: &Policy) -> Option<Box<str>> {
    if policy.quota == QuotaEnforcement::Off {
        return None;
    }
    let path = match request {
        WriteRequest::Create(create) => create.path.as_deref(),
        WriteRequest::SetData(set) => set.path.as_deref(),
        // Wildcard: no other write makes the tree larger, and a multi is not taken apart.
        _ => None,
    };
    path?.split('/').nth(1).map(Box::from)
}
