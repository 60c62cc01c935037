//! Local sessions of a learner's clients: they begin, end and are taken up again here, and the leader hears of one
//! only when it is to become global.

use std::ops::ControlFlow;

use zebu_proto::client::WriteRequest;
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::{ErrorCode, SessionId};

use super::Learner;
use super::attached::Attached;
use super::forwarding::Kind;
use super::session::Returning;
use crate::agreement::Origin;
use crate::clock::Moment;
use crate::core::Desk;
use crate::lane::{LaneId, LaneSession, Lanes, Upstream};
use crate::replica::Replica;
use crate::session::{TrackerReport, Turn};

impl Learner {
    /// Ends local sessions that were silent for too long. All others are the leader's business.
    pub(crate) fn tick(&mut self, lanes: &mut impl Lanes, now: Moment) {
        self.local_sessions.expire(lanes, now);
    }

    pub(crate) fn next_deadline(&self) -> i64 {
        self.local_sessions.next_deadline()
    }

    pub(crate) fn local_session_report(&self) -> Option<TrackerReport> {
        self.local_sessions.report()
    }

    /// Whether the requests of a session come from this connection.
    pub(super) fn is_served_by(&self, session: SessionId, lane: LaneId) -> bool {
        self.attached.get(&session).is_some_and(|attached| attached.lane == lane)
            || self.local_sessions.is_served_by(session, lane)
    }

    /// Sees what a request means for the session that makes it. What it is to be sent on as, unless it is answered.
    pub(super) fn turn(
        &mut self,
        desk: &mut Desk,
        (lane, slot, session): (LaneId, u64, SessionId),
        request: &WriteRequest,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) -> ControlFlow<(), Kind> {
        let kind = Kind::of_request(request);
        match (self.local_sessions.turn(session, request), kind) {
            (Turn::None, kind) => ControlFlow::Continue(kind),
            (Turn::Ended, _) => {
                desk.bid_farewell((lane, slot), replica, lanes, now);
                ControlFlow::Break(())
            }
            (Turn::Upgraded { timeout_ms }, kind) => {
                self.attached.insert(session, Attached::new(lane, timeout_ms));
                self.ask_for_session(desk, LaneSession { id: session, timeout_ms }, Origin::Nobody);
                ControlFlow::Continue(kind)
            }
            // Only the leader knows whether an operation before it fails for another reason.
            (Turn::Refused, Kind::Multi) => ControlFlow::Continue(Kind::MultiOfLocal),
            (Turn::Refused, _) => {
                let error = ErrorCode::EphemeralOnLocalSession;
                desk.refuse((lane, slot), error, replica, lanes, now);
                ControlFlow::Break(())
            }
        }
    }

    /// A client comes back to its local session. It must not read a state in which what it asked for before has
    /// neither happened nor failed.
    pub(super) fn resume_local(
        &mut self,
        desk: &Desk,
        (lane, session, read_only): (LaneId, LaneSession, ReadOnlyField),
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        self.local_sessions.resume(session, lane, lanes, now);
        if self.forwarding.knows(session.id) {
            let returning = Returning { lane, timeout_ms: session.timeout_ms, read_only };
            self.returning_locals.insert(session.id, returning);
        } else {
            self.accept_local(desk, (lane, session, read_only), lanes, now);
        }
    }

    /// What a session asked for has come back; if that was the last, its new connection has waited long enough.
    pub(super) fn release_local(
        &mut self,
        desk: &Desk,
        session: SessionId,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        if self.returning_locals.is_empty() || self.forwarding.knows(session) {
            return;
        }
        let Some(returning) = self.returning_locals.remove(&session) else { return };
        // If the session has expired meanwhile, the connection is closed, and this passes it by.
        let session = LaneSession { id: session, timeout_ms: returning.timeout_ms };
        self.accept_local(desk, (returning.lane, session, returning.read_only), lanes, now);
    }

    pub(super) fn accept_local(
        &mut self,
        desk: &Desk,
        accepted: (LaneId, LaneSession, ReadOnlyField),
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        self.local_sessions.accept(accepted, desk.service(Upstream::Learning), lanes, now);
    }
}
