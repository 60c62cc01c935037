//! The role of a server that makes transactions: a standalone one, or a leader. It owns what is decided and not
//! applied, and when sessions expire.

mod finish;
mod held;
mod learners;
mod local_session;
mod reaper;
mod reconfig;
mod session;
mod waiting;

use std::collections::VecDeque;

use zebu_proto::client::WriteRequest;
use zebu_proto::txn::{Txn, TxnEntry, TxnHeader};
use zebu_proto::{ErrorCode, SessionId, Zxid};
use zebu_tree::{Credentials, Overlay, PrepareContext};

use crate::agreement::{Origin, Proposal};
use crate::clock::Moment;
use crate::core::Desk;
use crate::lane::{LaneId, LaneSession, Lanes, Upstream};
use crate::notice::Notice;
use crate::receive::{Demand, Submission};
use crate::replica::Replica;
use crate::session::{EndedSessions, LocalSessions, Owner, SessionTracker, TrackerReport, Turn};
pub(crate) use held::TakenUp;
use held::{Held, Matter, Source};
use reaper::Reaper;
use waiting::Waiting;

#[derive(Debug)]
pub(crate) struct Decider {
    upstream: Upstream,
    overlay: Overlay,
    sessions: SessionTracker,
    local_sessions: LocalSessions,
    ended: EndedSessions,
    /// What is answered when the transactions before it are applied.
    waiting: VecDeque<Waiting>,
    /// What is not taken up before this server knows that it leads.
    held: Held,
    reaper: Reaper,
    in_flight: VecDeque<Proposal>,
    /// The last transaction that was proposed, or that was there.
    last: Zxid,
}

/// A request that is to become a transaction.
struct Wanted<'a> {
    session: SessionId,
    cxid: i32,
    request: WriteRequest,
    origin: Origin,
    credentials: Option<&'a Credentials>,
    via: Via,
}

/// How a request came to this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Via {
    /// By a client of its own, or it is its own wish.
    Here,
    /// By a learner.
    Learner,
}

impl Wanted<'_> {
    /// Something that the server wants itself.
    fn of_server(session: SessionId, request: WriteRequest) -> Wanted<'static> {
        Wanted { session, cxid: 0, request, origin: Origin::Nobody, credentials: None, via: Via::Here }
    }
}

impl Decider {
    /// Whether there are others that learn from it.
    pub(crate) fn leads(&self) -> bool {
        self.upstream == Upstream::Leading
    }

    /// Begins with what the tree holds: its sessions get a full timeout from now.
    pub(crate) fn new(desk: &Desk, upstream: Upstream, replica: &Replica, now: Moment) -> Decider {
        let settings = &desk.settings;
        let mut sessions = SessionTracker::new(settings.tick_ms);
        for (&session, &timeout_ms) in replica.tree.sessions() {
            sessions.track(session, timeout_ms, None, now.monotonic_ms);
        }
        Decider {
            upstream,
            overlay: Overlay::new(settings.seed),
            sessions,
            local_sessions: LocalSessions::new(desk.local_sessions(), settings.tick_ms),
            ended: EndedSessions::default(),
            waiting: VecDeque::new(),
            held: Held::default(),
            reaper: Reaper::new(settings, now.monotonic_ms),
            in_flight: VecDeque::new(),
            last: replica.last_zxid(),
        }
    }

    /// Expires sessions, removes empty containers and expired TTL nodes.
    pub(crate) fn tick(&mut self, desk: &mut Desk, replica: &Replica, lanes: &mut impl Lanes, now: Moment) {
        self.expire_sessions(desk, replica, lanes, now);
        self.local_sessions.expire(lanes, now);
        while let Some(path) = self.reaper.next(&replica.tree, now) {
            let wanted = Wanted::of_server(SessionId::NONE, WriteRequest::DeleteContainer { path });
            self.propose(desk, wanted, replica, lanes, now);
        }
    }

    pub(crate) fn next_deadline(&self) -> i64 {
        let sessions = self.sessions.next_deadline().unwrap_or(i64::MAX);
        sessions.min(self.local_sessions.next_deadline()).min(self.reaper.next_deadline())
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    pub(crate) fn session_report(&self) -> TrackerReport {
        self.sessions.report()
    }

    pub(crate) fn local_session_report(&self) -> Option<TrackerReport> {
        self.local_sessions.report()
    }

    pub(crate) fn detach(&mut self, session: SessionId, lane: LaneId, touched_ms: i64) {
        self.sessions.detach(session, lane, touched_ms);
        self.local_sessions.detach(session, lane, touched_ms);
    }

    /// Whether the oldest transaction on its way is not behind `last`.
    pub(crate) fn is_next_up_to(&self, last: Zxid) -> bool {
        self.in_flight.front().is_some_and(|first| first.entry.header.zxid <= last)
    }

    /// The oldest transaction on its way, if it is not behind `last`.
    pub(crate) fn next_up_to(&mut self, last: Zxid) -> Option<Proposal> {
        if self.is_next_up_to(last) { self.in_flight.pop_front() } else { None }
    }

    /// Everything up to here is in the tree.
    pub(crate) fn applied(&mut self, zxid: Zxid) {
        self.overlay.applied(zxid);
    }

    /// The role has ended: whoever waits for something gets no answer.
    pub(crate) fn give_up(self, desk: &mut Desk, lanes: &mut impl Lanes) {
        for proposal in self.in_flight {
            desk.give_up(proposal.origin, lanes);
        }
        for waiting in self.waiting {
            desk.give_up(waiting.origin(), lanes);
        }
        self.held.give_up(desk, lanes);
    }

    /// Takes a request of a client of this server.
    pub(crate) fn write(
        &mut self,
        desk: &mut Desk,
        submission: Submission,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        let doubt = match submission.demand {
            Demand::Sync => desk.doubt(now),
            Demand::Write(_) => None,
        };
        if doubt.is_some() || self.held.holds(Source::Lane(submission.lane)) {
            self.held.push(doubt, Matter::Request(submission));
        } else {
            self.carry_out(desk, submission, replica, lanes, now);
        }
    }

    fn carry_out(
        &mut self,
        desk: &mut Desk,
        submission: Submission,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        let Submission { lane, slot, session, xid, demand, credentials, received_ms, .. } = submission;
        if self.sessions.has_moved_from(session, Owner::Lane(lane))
            || self.local_sessions.has_left(session, lane)
        {
            // The connection is closed, and the client has gone on without this write.
            desk.answered += 1;
            return;
        }
        let closes = matches!(demand, Demand::Write(WriteRequest::CloseSession));
        if !closes && desk.is_stale(received_ms, now) {
            desk.refuse((lane, slot), ErrorCode::ThrottledOp, replica, lanes, now);
            return;
        }
        match demand {
            Demand::Sync => self.sync(desk, (lane, slot), replica, lanes, now),
            Demand::Write(request) => {
                match self.local_sessions.turn(session, &request) {
                    Turn::Ended => return desk.bid_farewell((lane, slot), replica, lanes, now),
                    Turn::Upgraded { timeout_ms } => {
                        let session = LaneSession { id: session, timeout_ms };
                        self.upgrade(desk, (lane, session), replica, lanes, now);
                    }
                    // A refusal is a transaction, like any other of who decides.
                    Turn::None | Turn::Refused => {}
                }
                if closes {
                    self.sessions.close(session);
                }
                let origin = Origin::Request { lane, slot };
                let credentials = Some(&credentials);
                let wanted = Wanted { session, cxid: xid, request, origin, credentials, via: Via::Here };
                self.propose(desk, wanted, replica, lanes, now);
            }
        }
    }

    /// Prepares a request into a transaction and puts it on its way. If there is no place left in the history of
    /// this leader, whoever asked is closed and asks the next one.
    fn propose(
        &mut self,
        desk: &mut Desk,
        wanted: Wanted<'_>,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        let Wanted { session, cxid, request, origin, credentials, via } = wanted;
        let Some(zxid) = desk.agreement.next_zxid() else {
            desk.give_up(origin, lanes);
            return;
        };
        let header = TxnHeader { session, cxid, zxid, time_ms: now.wall_ms };
        let rights = self.rights(desk, session, via);
        let context = PrepareContext {
            header,
            credentials: credentials.unwrap_or(&desk.nobody),
            session: rights.write,
            ephemeral_session: rights.ephemeral,
            policy: &replica.policy,
            reconfig: reconfig::judge(desk, &request, zxid),
        };
        let prepared = replica.tree.prepare(&mut self.overlay, request, &context);
        if let Some(bytes) = prepared.refused_bytes {
            let bytes_max = replica.policy.transaction_bytes_max;
            desk.notices.push(Notice::TransactionTooLong { session, bytes, bytes_max });
        }
        if matches!(prepared.txn, Txn::CloseSession(None)) {
            desk.notices.push(Notice::UnlistedEnd { session });
        }
        let entry = TxnEntry { header, txn: prepared.txn, digest: prepared.digest };
        desk.agreement.propose(&entry, &mut desk.batch, now);
        self.in_flight.push_back(Proposal { entry, origin });
        self.last = zxid;
    }
}
