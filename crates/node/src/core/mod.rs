//! The core: the one owner of what is decided. It prepares writes into transactions, hands them to the
//! log, and applies them when they are committed. Sessions are opened and closed here.
//!
//! It never blocks and never fails. Whoever runs it holds the replica shared for the functions that
//! prepare, exclusively for [`Node::commit`].

mod batch;
mod commit;
mod error;
mod reaper;
mod session;

pub use batch::{AfterAppend, LogBatch};
pub use error::CommitError;

use std::collections::VecDeque;

use zebu_proto::client::{ConnectRequest, WriteRequest};
use zebu_proto::txn::{TxnEntry, TxnHeader};
use zebu_proto::{ErrorCode, SessionId, Zxid};
use zebu_tree::{Credentials, Overlay, PrepareContext, Reconfig};

use crate::agreement::{Origin, Proposal, Standalone};
use crate::clock::Moment;
use crate::ensemble::Order;
use crate::lane::{Answer, HeaderZxid, LaneId, Lanes, Then};
use crate::random::Random;
use crate::receive::Submission;
use crate::replica::Replica;
use crate::session::{Attachment, SessionIds, SessionState, SessionTracker, TrackerReport};
use crate::settings::{NodeSettings, ReconfigSupport};
use crate::throttle::ConnectionThrottle;
use batch::BatchBuilder;
use reaper::Reaper;
use session::Resuming;

/// What happened at the edge.
#[derive(Debug)]
pub enum Event {
    /// A connection sent its connect request.
    Connect {
        /// The connection.
        lane: LaneId,
        /// What it asked for.
        request: ConnectRequest,
    },
    /// A connection sent a write.
    Write(Submission),
    /// A connection is gone. Comes once for each, and until then its session does not expire.
    Disconnected {
        /// The connection.
        lane: LaneId,
        /// Its session, if it had one.
        session: Option<SessionId>,
        /// When the client was last heard of, monotonic milliseconds.
        touched_ms: i64,
    },
}

/// The brain of a server.
#[derive(Debug)]
pub struct Node {
    settings: NodeSettings,
    agreement: Standalone,
    overlay: Overlay,
    sessions: SessionTracker,
    resuming: VecDeque<Resuming>,
    ids: SessionIds,
    throttle: ConnectionThrottle,
    reaper: Reaper,
    batch: BatchBuilder,
    random: Random,
    nobody: Credentials,
    answered: usize,
    persisted: Zxid,
    peer: Option<zebu_zab::Peer>,
}

impl Node {
    /// A member of an ensemble, which looks for a leader.
    pub fn member(
        settings: NodeSettings,
        peer: zebu_zab::PeerSettings,
        recovered: zebu_zab::Recovered,
        replica: &Replica,
        now: Moment,
    ) -> Node {
        let mut node = Node::new(settings, replica, now);
        node.peer = Some(zebu_zab::Peer::new(peer, recovered, now.monotonic_ms, &mut Vec::new()));
        node
    }

    /// Takes what happened between the members, or on the disk of this one.
    pub fn handle_peer(
        &mut self,
        event: zebu_zab::Event,
        _replica: &Replica,
        _lanes: &mut impl Lanes,
        now: Moment,
    ) {
        if let Some(peer) = &mut self.peer {
            peer.handle(event, now.monotonic_ms, &mut Vec::new());
        }
    }

    /// What a member wants done since the last call, in order. A standalone server wants nothing.
    pub fn take_orders(&mut self, _orders: &mut Vec<Order>) {}

    /// The disk of a standalone server has everything up to here.
    pub fn persisted(&mut self, last: Zxid) {
        self.persisted = last;
    }

    /// Whether [`Node::commit`] has something to do.
    pub fn has_committed(&self) -> bool {
        self.agreement.has_committed(self.persisted)
    }

    /// What this member is doing; `None` for a standalone server.
    pub fn status(&self) -> Option<zebu_zab::Status> {
        self.peer.as_ref().map(zebu_zab::Peer::status)
    }

    /// Transactions whose digest was not that of the tree after they were applied, since the start.
    pub fn digest_mismatches(&self) -> u64 {
        0
    }

    /// Leads no longer: what was proposed is finished, then the others choose again. For a server that stops.
    pub fn hand_over(&mut self, _replica: &Replica, _lanes: &mut impl Lanes, now: Moment) {
        if let Some(peer) = &mut self.peer {
            peer.hand_over(now.monotonic_ms, &mut Vec::new());
        }
    }

    /// Whether [`Node::hand_over`] has nothing left to wait for.
    pub fn has_handed_over(&self) -> bool {
        self.peer.as_ref().is_none_or(zebu_zab::Peer::has_handed_over)
    }

    /// Takes over a replica that was just loaded: its sessions get a full timeout from now.
    pub fn new(settings: NodeSettings, replica: &Replica, now: Moment) -> Node {
        let mut random = Random::new(settings.seed);
        let mut sessions = SessionTracker::new(settings.tick_ms);
        for (&session, &timeout_ms) in replica.tree.sessions() {
            let detached = Attachment::Detached { touched_ms: now.monotonic_ms };
            sessions.track(session, timeout_ms, detached, now.monotonic_ms);
        }
        Node {
            agreement: Standalone::new(replica.last_zxid()),
            overlay: Overlay::new(settings.seed),
            sessions,
            resuming: VecDeque::new(),
            ids: SessionIds::new(settings.server_id, now.wall_ms),
            throttle: ConnectionThrottle::new(settings.throttle.clone(), now.monotonic_ms),
            reaper: Reaper::new(&settings, now.monotonic_ms),
            batch: BatchBuilder::new(&settings, &mut random),
            random,
            nobody: Credentials::default(),
            answered: 0,
            persisted: Zxid::ZERO,
            peer: None,
            settings,
        }
    }

    /// Takes an event. What has to be logged for it is in the batch afterwards.
    pub fn handle(&mut self, event: Event, replica: &Replica, lanes: &mut impl Lanes, now: Moment) {
        match event {
            Event::Connect { lane, request } => self.connect(lane, &request, replica, lanes, now),
            Event::Write(submission) => self.write(submission, replica, lanes, now),
            Event::Disconnected { lane, session, touched_ms } => {
                if let Some(session) = session {
                    self.sessions.detach(session, lane, touched_ms);
                }
            }
        }
    }

    /// Does what time asks for: expires sessions, removes empty containers and expired TTL nodes.
    pub fn tick(&mut self, replica: &Replica, lanes: &mut impl Lanes, now: Moment) {
        self.expire_sessions(replica, lanes, now);
        while let Some(path) = self.reaper.next(&replica.tree, now) {
            let request = WriteRequest::DeleteContainer { path };
            self.propose(SessionId::NONE, 0, request, Origin::Housekeeping, None, replica, now);
        }
    }

    /// When [`Node::tick`] has something to do, in monotonic milliseconds.
    pub fn next_deadline(&self) -> i64 {
        let sessions = self.sessions.next_deadline().unwrap_or(i64::MAX);
        sessions.min(self.reaper.next_deadline())
    }

    /// What is to be logged since the last call.
    pub fn take_batch(&mut self) -> Option<LogBatch> {
        self.batch.take(&mut self.random)
    }

    /// How many requests of clients were answered, or given up, since the last call: room for new ones.
    pub fn take_answered(&mut self) -> usize {
        std::mem::take(&mut self.answered)
    }

    /// Transactions that are not committed yet.
    pub fn in_flight(&self) -> usize {
        self.agreement.in_flight()
    }

    /// Sessions by their deadline, for the `dump` word.
    pub fn session_report(&self) -> TrackerReport {
        self.sessions.report()
    }

    /// Probability with which a new session is dropped, for monitoring.
    pub fn drop_probability(&self) -> f64 {
        self.throttle.drop_probability()
    }

    fn write(&mut self, submission: Submission, replica: &Replica, lanes: &mut impl Lanes, now: Moment) {
        let Submission { lane, slot, session, xid, request, credentials, received_ms } = submission;
        if self.sessions.has_moved_from(session, lane) {
            // The connection is closed, and the client has gone on without this write.
            self.answered += 1;
            return;
        }
        let closes = matches!(request, WriteRequest::CloseSession);
        let waited_ms = now.monotonic_ms - received_ms;
        if !closes && self.settings.throttled_op_wait_ms > 0 && waited_ms > self.settings.throttled_op_wait_ms
        {
            self.answered += 1;
            let error = Some(ErrorCode::ThrottledOp);
            lanes.with(lane, |lane| {
                let answer = Answer::Header { zxid: HeaderZxid::Applied, error };
                lane.answer_slot(slot, answer, Then::Continue);
                replica.drain_ready(lane, now.monotonic_ms);
            });
            return;
        }
        if closes {
            self.sessions.close(session);
        }
        self.propose(session, xid, request, Origin::Request { lane, slot }, Some(&credentials), replica, now);
    }

    /// Prepares a request into a transaction and puts it on its way.
    fn propose(
        &mut self,
        session: SessionId,
        cxid: i32,
        request: WriteRequest,
        origin: Origin,
        credentials: Option<&Credentials>,
        replica: &Replica,
        now: Moment,
    ) {
        let zxid = self.agreement.reserve();
        let header = TxnHeader { session, cxid, zxid, time_ms: now.wall_ms };
        let live = match self.sessions.state(session) {
            Some(SessionState::Open) => Ok(()),
            Some(SessionState::Closing) | None => Err(ErrorCode::SessionExpired),
        };
        let context = PrepareContext {
            header,
            credentials: credentials.unwrap_or(&self.nobody),
            session: live,
            ephemeral_session: live,
            policy: &replica.policy,
            reconfig: match self.settings.reconfig {
                ReconfigSupport::Disabled => Reconfig::Disabled,
                ReconfigSupport::Standalone => Reconfig::Refused(ErrorCode::Unimplemented),
            },
        };
        let prepared = replica.tree.prepare(&mut self.overlay, request, &context);
        let entry = TxnEntry { header, txn: prepared.txn, digest: prepared.digest };
        self.batch.append(&entry);
        self.agreement.propose(Proposal { entry, origin });
    }
}
