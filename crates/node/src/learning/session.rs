//! Sessions of the clients of a learner: their ids are made here, everything else about them is decided by the
//! leader.

use zebu_proto::client::ConnectRequest;
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::password::password_matches;
use zebu_proto::quorum::Packet;
use zebu_proto::{Jute, OpCode, SessionId};

use super::attached::Attached;
use super::forwarding::Kind;
use super::{Learner, tell};
use crate::agreement::Origin;
use crate::clock::Moment;
use crate::core::Desk;
use crate::lane::{CloseReason, LaneId, LaneSession, Lanes, Phase, Upstream};
use crate::replica::Replica;

/// A connection that takes up a session again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Returning {
    pub(super) lane: LaneId,
    pub(super) timeout_ms: i32,
    pub(super) read_only: ReadOnlyField,
}

impl Learner {
    /// Sends a connect request that was admitted on to the leader.
    pub(crate) fn connect(
        &mut self,
        desk: &mut Desk,
        (lane, timeout_ms): (LaneId, i32),
        request: &ConnectRequest,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        match request.session_id {
            0 => {
                let session = LaneSession { id: self.unused_id(desk, replica), timeout_ms };
                if self.local_sessions.are_new_ones() {
                    self.local_sessions.open(session, lane, now);
                    self.accept_local(desk, (lane, session, request.read_only), lanes, now);
                } else {
                    let origin = Origin::Connect { lane, read_only: request.read_only };
                    self.ask_for_session(desk, session, origin);
                }
            }
            id => {
                let session = LaneSession { id: SessionId(id), timeout_ms };
                self.resume(desk, (lane, session), request, lanes, now);
            }
        }
    }

    /// Has the leader make a session.
    pub(super) fn ask_for_session(&mut self, desk: &mut Desk, session: LaneSession, origin: Origin) {
        let LaneSession { id: session, timeout_ms } = session;
        self.forwarding.push(session, 0, Kind::CreateSession, origin);
        let mut payload = Vec::new();
        timeout_ms.encode(&mut payload);
        let op = OpCode::CreateSession.wire();
        tell(desk, Packet::Request { session, cxid: 0, op, payload: payload.into(), auth: None });
    }

    /// Ids begin with the time of the start; if the clock went back meanwhile, some may be taken.
    fn unused_id(&mut self, desk: &mut Desk, replica: &Replica) -> SessionId {
        loop {
            let session = desk.ids.take();
            let is_taken = replica.tree.sessions().contains_key(&session)
                || self.forwarding.knows(session)
                || self.local_sessions.knows(session);
            if !is_taken {
                return session;
            }
        }
    }

    /// The password is checked before anything happens to the session's present connection. That one is closed
    /// before the leader is asked: nothing that it still sends may be behind the question.
    fn resume(
        &mut self,
        desk: &mut Desk,
        (lane, session): (LaneId, LaneSession),
        request: &ConnectRequest,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        if !password_matches(session.id, request.password.as_deref().unwrap_or_default()) {
            lanes.with(lane, |lane| lane.reject(request.read_only));
            return;
        }
        if self.local_sessions.knows(session.id) {
            self.resume_local(desk, (lane, session, request.read_only), lanes, now);
            return;
        }
        let LaneSession { id: session, timeout_ms } = session;
        if let Some(before) = self.attached.remove(&session) {
            lanes.with(before.lane, |lane| lane.close(CloseReason::Replaced));
        }
        let returning = Returning { lane, timeout_ms, read_only: request.read_only };
        self.returning.entry(session).or_default().push_back(returning);
        tell(desk, Packet::Revalidate { session, timeout_ms });
    }

    /// The oldest connection that waits for word about a session.
    pub(super) fn next_returning(&mut self, session: SessionId) -> Option<Returning> {
        let queue = self.returning.get_mut(&session)?;
        let returning = queue.pop_front();
        if queue.is_empty() {
            self.returning.remove(&session);
        }
        returning
    }

    /// The leader has said that a session lives. It may have ended since.
    pub(super) fn welcome(
        &mut self,
        desk: &Desk,
        session: SessionId,
        returning: Returning,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        if replica.tree.sessions().contains_key(&session) {
            let session = LaneSession { id: session, timeout_ms: returning.timeout_ms };
            self.accept(desk, (returning.lane, session, returning.read_only), lanes, now);
        } else {
            turn_away(returning, lanes);
        }
    }

    /// Hands a session to the connection that waits for it, unless that has left meanwhile.
    pub(super) fn accept(
        &mut self,
        desk: &Desk,
        (lane, session, read_only): (LaneId, LaneSession, ReadOnlyField),
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        let service = desk.service(Upstream::Learning);
        let phase = lanes.with(lane, |lane| {
            lane.accept(session, read_only, service, now.monotonic_ms);
            lane.phase
        });
        if phase == Some(Phase::Serving)
            && let Some(before) = self.attached.insert(session.id, Attached::new(lane, session.timeout_ms))
        {
            lanes.with(before.lane, |lane| lane.close(CloseReason::Replaced));
        }
    }
}

/// There is no such session for this client.
pub(super) fn turn_away(returning: Returning, lanes: &mut impl Lanes) {
    lanes.with(returning.lane, |lane| lane.reject(returning.read_only));
}
