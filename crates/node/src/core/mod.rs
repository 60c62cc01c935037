//! The core: the one owner of what is decided. It prepares writes into transactions or sends them to the leader,
//! hands transactions to the log, and applies them when they are committed.
//!
//! It never blocks, and fails only when it must not go on. Whoever runs it holds the replica shared for the
//! functions that prepare, exclusively for [`Node::commit`].

mod batch;
mod commit;
mod desk;
mod digest_check;
mod error;
mod reply;
mod role;

pub use batch::{AfterAppend, LogBatch};
pub(crate) use batch::{BatchBuilder, Snapshots};
pub(crate) use desk::Desk;
pub(crate) use digest_check::{DigestCheck, DigestVerdict};
pub use error::CommitError;
pub(crate) use reply::{answer_sync, answer_write};
pub(crate) use role::Role;

use zebu_proto::client::ConnectRequest;
use zebu_proto::{SessionId, Zxid};
use zebu_zab::{Peer, PeerSettings, Recovered, Status};

use crate::agreement::{Agreement, Member, Membership, Standalone};
use crate::clock::Moment;
use crate::deciding::Decider;
use crate::ensemble::Order;
use crate::lane::{CloseReason, LaneId, Lanes, Upstream};
use crate::notice::Notice;
use crate::receive::Submission;
use crate::replica::Replica;
use crate::session::TrackerReport;
use crate::settings::{LeaderClients, NodeSettings};

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
    /// A connection sent a write, or a sync to a member of an ensemble.
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
    pub(crate) desk: Desk,
    pub(crate) role: Role,
}

impl Node {
    /// A standalone server takes over a replica that was just loaded: its sessions get a full timeout from now.
    pub fn new(settings: NodeSettings, replica: &Replica, now: Moment) -> Node {
        let agreement = Agreement::Standalone(Standalone::new(replica.last_zxid()));
        let desk = Desk::new(settings, agreement, replica, now);
        let role = Role::Deciding(Box::new(Decider::new(&desk, Upstream::Standalone, replica, now)));
        Node { desk, role }
    }

    /// A member of an ensemble, which looks for a leader. The replica holds what the log holds.
    pub fn member(
        settings: NodeSettings,
        peer: PeerSettings,
        recovered: Recovered,
        replica: &Replica,
        now: Moment,
    ) -> Node {
        assert_eq!(replica.last_zxid(), recovered.last, "the state of a member is that of its log");
        let mut wanted = Vec::new();
        let peer = Peer::new(peer, recovered, now.monotonic_ms, &mut wanted);
        let member = Member::new(Box::new(peer), wanted);
        Node::of_member(settings, member, replica, now)
    }

    /// A member whose agreement is made elsewhere: for tests that decide themselves what the ensemble does.
    pub fn member_with(
        settings: NodeSettings,
        peer: Box<dyn Membership>,
        replica: &Replica,
        now: Moment,
    ) -> Node {
        Node::of_member(settings, Member::new(peer, Vec::new()), replica, now)
    }

    fn of_member(settings: NodeSettings, member: Member, replica: &Replica, now: Moment) -> Node {
        let desk = Desk::new(settings, Agreement::Member(Box::new(member)), replica, now);
        let mut node = Node { desk, role: Role::Idle };
        node.settle(replica, &mut NoLanes, now);
        node
    }

    /// Takes an event. What has to be logged or sent for it can be fetched afterwards.
    pub fn handle(&mut self, event: Event, replica: &Replica, lanes: &mut impl Lanes, now: Moment) {
        match event {
            Event::Connect { lane, request } => self.connect(lane, &request, replica, lanes, now),
            Event::Write(submission) => self.write(submission, replica, lanes, now),
            Event::Disconnected { lane, session, touched_ms } => {
                if let Some(member) = self.desk.member() {
                    member.lanes.remove(&lane);
                }
                match (&mut self.role, session) {
                    (Role::Deciding(decider), Some(session)) => decider.detach(session, lane, touched_ms),
                    (Role::Learning(learner), Some(session)) => learner.detach(session, lane, touched_ms),
                    (Role::Reading(reader), Some(session)) => reader.detach(session, lane, touched_ms),
                    (Role::Idle, _) | (_, None) => {}
                }
            }
        }
        self.settle(replica, lanes, now);
    }

    /// Takes what happened between the members, or on the disk of this one. A standalone server has no others.
    pub fn handle_peer(
        &mut self,
        event: zebu_zab::Event,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        if let Some(member) = self.desk.member() {
            member.peer.handle(event, now.monotonic_ms, &mut member.wanted);
            self.settle(replica, lanes, now);
        }
    }

    /// The disk of a standalone server has everything up to here.
    pub fn persisted(&mut self, last: Zxid) {
        if let Agreement::Standalone(standalone) = &mut self.desk.agreement {
            standalone.persisted = last;
        }
    }

    /// Does what time asks for: elections and pings, reads in place of a leader, then the sessions that expire,
    /// empty containers and expired TTL nodes.
    pub fn tick(&mut self, replica: &Replica, lanes: &mut impl Lanes, now: Moment) {
        if let Some(member) = self.desk.member()
            && member.peer.next_deadline() <= now.monotonic_ms
        {
            // First: a leader that lost its learners must not expire the sessions of their clients.
            member.peer.timeout(now.monotonic_ms, &mut member.wanted);
            self.settle(replica, lanes, now);
        }
        self.read_alone_if_due(now);
        match &mut self.role {
            Role::Deciding(decider) => decider.tick(&mut self.desk, replica, lanes, now),
            Role::Learning(learner) => learner.tick(lanes, now),
            Role::Reading(reader) => reader.tick(lanes, now),
            Role::Idle => return,
        }
        self.settle(replica, lanes, now);
    }

    /// When [`Node::tick`] has something to do, in monotonic milliseconds.
    pub fn next_deadline(&self) -> i64 {
        let role = match &self.role {
            Role::Deciding(decider) => decider.next_deadline(),
            Role::Reading(reader) => reader.next_deadline(),
            Role::Learning(learner) => learner.next_deadline(),
            Role::Idle => self.solitude_deadline(),
        };
        match &self.desk.agreement {
            Agreement::Standalone(_) => role,
            Agreement::Member(member) => role.min(member.peer.next_deadline()),
        }
    }

    /// What a standalone server has to log since the last call.
    pub fn take_batch(&mut self) -> Option<LogBatch> {
        match self.desk.agreement {
            Agreement::Standalone(_) => self.desk.batch.take(&mut self.desk.random, Snapshots::Allowed),
            Agreement::Member(_) => None,
        }
    }

    /// What a member wants done since the last call, in order.
    pub fn take_orders(&mut self, orders: &mut Vec<Order>) {
        let snapshots = self.snapshots();
        let Desk { agreement, batch, random, .. } = &mut self.desk;
        if let Agreement::Member(member) = agreement {
            member.orders.flush(batch, random, snapshots);
            member.orders.take(orders);
        }
    }

    /// How many requests of clients were answered, or given up, since the last call: room for new ones.
    pub fn take_answered(&mut self) -> usize {
        std::mem::take(&mut self.desk.answered)
    }

    /// Transactions that were asked for here and are not applied yet.
    pub fn in_flight(&self) -> usize {
        let asked = match &self.role {
            Role::Deciding(decider) => decider.in_flight(),
            Role::Learning(learner) => learner.in_flight(),
            Role::Reading(_) | Role::Idle => 0,
        };
        match &self.desk.agreement {
            Agreement::Standalone(_) => asked,
            Agreement::Member(member) => asked + member.to_apply(),
        }
    }

    /// Sessions by their deadline, for the `dump` word. Only who decides, or is alone, has deadlines: a learner
    /// shows the sessions in its tree.
    pub fn session_report(&self) -> TrackerReport {
        match &self.role {
            Role::Deciding(decider) => decider.session_report(),
            Role::Reading(reader) => reader.session_report(),
            Role::Learning(_) | Role::Idle => TrackerReport::default(),
        }
    }

    /// Local sessions by their deadline; `None` if this server has none in its present role.
    pub fn local_session_report(&self) -> Option<TrackerReport> {
        match &self.role {
            Role::Deciding(decider) => decider.local_session_report(),
            Role::Learning(learner) => learner.local_session_report(),
            Role::Reading(_) | Role::Idle => None,
        }
    }

    /// Probability with which a new session is dropped, for monitoring.
    pub fn drop_probability(&self) -> f64 {
        self.desk.throttle.drop_probability()
    }

    /// What this member is doing; `None` for a standalone server.
    pub fn status(&self) -> Option<Status> {
        match &self.desk.agreement {
            Agreement::Standalone(_) => None,
            Agreement::Member(member) => Some(member.peer.status()),
        }
    }

    /// Transactions of the ensemble whose digest was not that of the tree after they were applied.
    pub fn digest_mismatches(&self) -> u64 {
        self.desk.digests.mismatches()
    }

    /// What an operator should read about since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.desk.notices.take()
    }

    /// Leads no longer: what was proposed is finished, then the others choose again. For a server that stops.
    pub fn hand_over(&mut self, replica: &Replica, lanes: &mut impl Lanes, now: Moment) {
        if let Some(member) = self.desk.member() {
            member.peer.hand_over(now.monotonic_ms, &mut member.wanted);
            self.settle(replica, lanes, now);
        }
    }

    /// Whether this server leads and takes no more writes, because another one is to lead.
    pub fn is_handing_over(&self) -> bool {
        matches!(&self.role, Role::Deciding(_)) && !self.desk.can_confirm()
    }

    /// Whether [`Node::hand_over`] has nothing left to wait for.
    pub fn has_handed_over(&self) -> bool {
        match &self.desk.agreement {
            Agreement::Standalone(_) => true,
            Agreement::Member(member) => member.peer.has_handed_over(),
        }
    }

    fn connect(
        &mut self,
        lane: LaneId,
        request: &ConnectRequest,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        if !self.takes_clients() {
            lanes.with(lane, |lane| lane.close(CloseReason::NotServing));
            return;
        }
        let timeout_ms = match self.desk.admit(request, replica.last_zxid(), now) {
            Ok(timeout_ms) => timeout_ms,
            Err(reason) => {
                lanes.with(lane, |lane| lane.close(reason));
                return;
            }
        };
        if let Some(member) = self.desk.member() {
            member.lanes.insert(lane);
        }
        match &mut self.role {
            Role::Deciding(decider) => {
                decider.connect(&mut self.desk, (lane, timeout_ms), request, replica, lanes, now);
            }
            Role::Learning(learner) => {
                learner.connect(&mut self.desk, (lane, timeout_ms), request, replica, lanes, now);
            }
            Role::Reading(reader) => {
                reader.connect(&mut self.desk, (lane, timeout_ms), request, replica, lanes, now);
            }
            Role::Idle => {}
        }
    }

    fn takes_clients(&self) -> bool {
        match &self.role {
            Role::Deciding(decider) => {
                !decider.leads() || self.desk.settings.leader_clients == LeaderClients::Served
            }
            Role::Learning(_) | Role::Reading(_) => true,
            Role::Idle => false,
        }
    }

    fn write(&mut self, submission: Submission, replica: &Replica, lanes: &mut impl Lanes, now: Moment) {
        if submission.service.term != self.desk.term {
            // What the connection was accepted into has ended, and so has the connection.
            self.desk.answered += 1;
            return;
        }
        match &mut self.role {
            Role::Deciding(decider) => decider.write(&mut self.desk, submission, replica, lanes, now),
            Role::Learning(learner) => learner.write(&mut self.desk, submission, replica, lanes, now),
            Role::Reading(reader) => reader.write(&mut self.desk, submission, replica, lanes, now),
            Role::Idle => self.desk.answered += 1,
        }
    }
}

/// Nobody is connected before the start.
struct NoLanes;

impl Lanes for NoLanes {
    fn with<R>(&mut self, _: LaneId, _: impl FnOnce(&mut crate::lane::Lane) -> R) -> Option<R> {
        None
    }
}
