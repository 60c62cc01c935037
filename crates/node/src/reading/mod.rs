//! The role of a member that is cut off from its ensemble and may show what it has: reads are answered to clients
//! that asked for it, and nothing changes. It owns the sessions of its connections, which nobody else knows.

mod refusal;
mod session;
mod solitude;

pub(crate) use refusal::is_refused;
pub(crate) use solitude::Solitude;

use zebu_proto::SessionId;
use zebu_proto::client::WriteRequest;

use crate::clock::Moment;
use crate::core::Desk;
use crate::lane::{Answer, CloseReason, HeaderZxid, LaneId, Lanes, Then};
use crate::receive::{Demand, Submission};
use crate::replica::Replica;
use crate::session::{Owner, SessionTracker, TrackerReport};

#[derive(Debug)]
pub(crate) struct Reader {
    /// Sessions of the connections here: those that were made here, and those of the ensemble that came back here.
    /// When one of the ensemble ends here, it ends here only.
    sessions: SessionTracker,
}

impl Reader {
    pub(crate) fn new(desk: &Desk) -> Reader {
        Reader { sessions: SessionTracker::new(desk.settings.tick_ms) }
    }

    pub(crate) fn next_deadline(&self) -> i64 {
        self.sessions.next_deadline().unwrap_or(i64::MAX)
    }

    pub(crate) fn session_report(&self) -> TrackerReport {
        self.sessions.report()
    }

    pub(crate) fn detach(&mut self, session: SessionId, lane: LaneId, touched_ms: i64) {
        self.sessions.detach(session, lane, touched_ms);
    }

    /// Closes connections that were silent for too long. No transaction tells of it.
    pub(crate) fn tick(&mut self, lanes: &mut impl Lanes, now: Moment) {
        let mut expired = Vec::new();
        self.sessions.expire(
            now.monotonic_ms,
            |lane| lanes.with(lane, |lane| lane.touched_ms),
            |session| expired.push(session),
        );
        for session in expired {
            if let Some(Owner::Lane(lane)) = self.sessions.remove(session) {
                lanes.with(lane, |lane| lane.close(CloseReason::SessionEnded));
            }
        }
    }

    /// Takes the farewell of a session that was made here. Every other write was refused when it was received.
    pub(crate) fn write(
        &mut self,
        desk: &mut Desk,
        submission: Submission,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        let Submission { lane, slot, session, demand, .. } = submission;
        desk.answered += 1;
        let Demand::Write(WriteRequest::CloseSession) = demand else {
            unreachable!("a connection that was accepted by a reader sends no writes on, found {demand:?}");
        };
        if self.sessions.has_moved_from(session, Owner::Lane(lane)) {
            // The connection is closed, and the client has gone on with another one.
            return;
        }
        self.sessions.remove(session);
        lanes.with(lane, |lane| {
            let answer = Answer::Header { zxid: HeaderZxid::Applied, error: None };
            lane.answer_slot(slot, answer, Then::Drain);
            replica.drain_ready(lane, now.monotonic_ms);
        });
    }
}
