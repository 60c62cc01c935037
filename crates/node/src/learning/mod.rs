//! The role of a server that has another one decide: reads are answered here, everything else is sent to the
//! leader and answered when it comes back as a transaction. It owns what its clients wait for.

mod attached;
mod finish;
mod forwarding;
mod leader;
mod local_session;
mod session;

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

use zebu_proto::client::WriteRequest;
use zebu_proto::quorum::{Packet, Touch};
use zebu_proto::{ErrorCode, SessionId};

use crate::agreement::Origin;
use crate::clock::Moment;
use crate::core::Desk;
use crate::lane::{LaneId, Lanes};
use crate::receive::{Demand, Forward, Submission};
use crate::replica::Replica;
use crate::session::LocalSessions;
use attached::Attached;
use forwarding::Forwarding;
use leader::Told;
use session::Returning;

#[derive(Debug)]
pub(crate) struct Learner {
    /// Global sessions whose connection is here.
    attached: BTreeMap<SessionId, Attached>,
    /// Sessions that the leader does not know.
    local_sessions: LocalSessions,
    /// Connections that take up a local session whose former requests have not come back.
    returning_locals: BTreeMap<SessionId, Returning>,
    /// What was sent to the leader and has not come back.
    forwarding: Forwarding,
    /// Connections that wait for the leader's word about their session, by session, in the order of the questions.
    returning: BTreeMap<SessionId, VecDeque<Returning>>,
    /// Syncs that the leader has not answered; its answers name none.
    syncing: VecDeque<(LaneId, u64)>,
    /// Answers of the leader that are ahead of the tree.
    told: VecDeque<Told>,
    /// What the leader is to hear with the next ping, beside the connections that are here.
    touched: Vec<Touch>,
    /// When the connections that are here were looked at for touches, monotonic milliseconds.
    looked_ms: Option<i64>,
}

impl Learner {
    pub(crate) fn new(desk: &Desk) -> Learner {
        Learner {
            attached: BTreeMap::new(),
            local_sessions: LocalSessions::new(desk.local_sessions(), desk.settings.tick_ms),
            returning_locals: BTreeMap::new(),
            forwarding: Forwarding::default(),
            returning: BTreeMap::new(),
            syncing: VecDeque::new(),
            told: VecDeque::new(),
            touched: Vec::new(),
            looked_ms: None,
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.forwarding.len()
    }

    /// The role has ended: whoever waits for something gets no answer.
    pub(crate) fn give_up(self, desk: &mut Desk, lanes: &mut impl Lanes) {
        for origin in self.forwarding.into_origins() {
            desk.give_up(origin, lanes);
        }
        let told = self.told.iter().filter_map(Told::syncing);
        for (lane, slot) in told.chain(self.syncing.iter().copied()) {
            desk.give_up(Origin::Request { lane, slot }, lanes);
        }
        // Connections that wait for the leader's word are closed with all others.
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
        let Submission { lane, slot, session, xid, demand, credentials, received_ms, forward, .. } =
            submission;
        if !self.is_served_by(session, lane) {
            // The session has ended or goes on with another connection; this one is closed.
            desk.answered += 1;
            return;
        }
        let request = match demand {
            Demand::Sync => None,
            Demand::Write(WriteRequest::Refused(error)) => {
                // A request that does not decode is nothing that a leader should have to deal with.
                return desk.refuse((lane, slot), error, replica, lanes, now);
            }
            Demand::Write(request) => Some(request),
        };
        if request != Some(WriteRequest::CloseSession) && desk.is_stale(received_ms, now) {
            return desk.refuse((lane, slot), ErrorCode::ThrottledOp, replica, lanes, now);
        }
        let turn =
            request.map(|request| self.turn(desk, (lane, slot, session), &request, replica, lanes, now));
        let kind = match turn {
            None => None,
            Some(ControlFlow::Continue(kind)) => Some(kind),
            Some(ControlFlow::Break(())) => return,
        };
        let Some(Forward { op, record }) = forward else {
            unreachable!("a connection that was accepted by a learner keeps what is to be sent on");
        };
        // First the queue, then the leader: its answer must find who waits.
        match kind {
            None => self.syncing.push_back((lane, slot)),
            Some(kind) => self.forwarding.push(session, xid, kind, Origin::Request { lane, slot }),
        }
        let auth = Some(credentials.shared());
        tell(desk, Packet::Request { session, cxid: xid, op, payload: record, auth });
    }
}

fn tell(desk: &mut Desk, packet: Packet) {
    if let Some(member) = desk.member() {
        member.tell_leader(packet);
    }
}
