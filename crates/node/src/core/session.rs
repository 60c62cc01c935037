//! Sessions at the core: opened, resumed, expired.

use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::client::{ConnectRequest, WriteRequest};
use zebu_proto::password::password_matches;
use zebu_proto::{SessionId, Zxid};

use super::Node;
use crate::agreement::Origin;
use crate::clock::Moment;
use crate::lane::{CloseReason, LaneId, LaneSession, Lanes, Phase};
use crate::replica::Replica;
use crate::session::{Attachment, SessionState};
use crate::throttle::{Admission, Arrival};

/// A connection that takes up a session again while transactions are on the way. Some may be writes of the
/// session's former connection; the client must not read a state in which they have neither happened nor
/// failed, so it is answered when they are applied.
#[derive(Debug)]
pub(super) struct Resuming {
    after: Zxid,
    lane: LaneId,
    session: LaneSession,
    read_only: ReadOnlyField,
}

impl Node {
    /// Decides about a connect request. A refusal without a session is a close, never a rejection: the C
    /// client would take a rejected new session for one with timeout zero.
    pub(super) fn connect(
        &mut self,
        lane: LaneId,
        request: &ConnectRequest,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        let close = |lanes: &mut _, reason| {
            Lanes::with(lanes, lane, |lane| lane.close(reason));
        };
        let arrival = if request.session_id == 0 { Arrival::New } else { Arrival::Resume };
        if self.throttle.admit(arrival, now.monotonic_ms, self.random.fraction()) == Admission::Refused {
            return close(lanes, CloseReason::Throttled);
        }
        if request.last_zxid_seen > replica.last_zxid().0 {
            return close(lanes, CloseReason::AheadOfServer);
        }
        let timeout_ms = self.negotiate(request.timeout_ms);
        match request.session_id {
            0 => {
                let session = self.unused_id();
                self.sessions.track(session, timeout_ms, Attachment::Lane(lane), now.monotonic_ms);
                let origin = Origin::Connect { lane, read_only: request.read_only };
                let create = WriteRequest::CreateSession { timeout_ms };
                self.propose(session, 0, create, origin, None, replica, now);
            }
            id => self.resume(lane, SessionId(id), timeout_ms, request, lanes, now),
        }
    }

    /// Ids begin with the time of the start; if the clock went back meanwhile, some may be taken.
    fn unused_id(&mut self) -> SessionId {
        loop {
            let session = self.ids.take();
            if self.sessions.state(session).is_none() {
                return session;
            }
        }
    }

    /// The password is checked before anything happens to the session's present connection.
    fn resume(
        &mut self,
        lane: LaneId,
        session: SessionId,
        timeout_ms: i32,
        request: &ConnectRequest,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        let known = password_matches(session, request.password.as_deref().unwrap_or_default())
            && self.sessions.state(session) == Some(SessionState::Open);
        if !known {
            lanes.with(lane, |lane| lane.reject(request.read_only));
            return;
        }
        if let Some(before) = self.sessions.attach(session, lane, timeout_ms, now.monotonic_ms) {
            lanes.with(before, |lane| lane.close(CloseReason::Replaced));
        }
        let session = LaneSession { id: session, timeout_ms };
        if self.in_flight() == 0 {
            self.accept(lane, session, request.read_only, lanes, now);
        } else {
            let after = self.agreement.last();
            self.resuming.push_back(Resuming { after, lane, session, read_only: request.read_only });
        }
    }

    /// Accepts the connections that waited for the transactions up to `applied`.
    pub(super) fn accept_resumed(&mut self, applied: Zxid, lanes: &mut impl Lanes, now: Moment) {
        while self.resuming.front().is_some_and(|resuming| resuming.after <= applied) {
            let Some(resuming) = self.resuming.pop_front() else { return };
            self.accept(resuming.lane, resuming.session, resuming.read_only, lanes, now);
        }
    }

    /// Hands a session to the connection that waits for it. A connection that left meanwhile did not know
    /// its session, so its farewell does not name it.
    pub(super) fn accept(
        &mut self,
        lane: LaneId,
        session: LaneSession,
        read_only: ReadOnlyField,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        let phase = lanes.with(lane, |lane| {
            lane.accept(session, read_only, now.monotonic_ms);
            lane.phase
        });
        if phase != Some(Phase::Serving) {
            self.sessions.detach(session.id, lane, now.monotonic_ms);
        }
    }

    /// Sessions that were silent for too long are closed by a transaction like any other.
    pub(super) fn expire_sessions(&mut self, replica: &Replica, lanes: &mut impl Lanes, now: Moment) {
        let mut expired = Vec::new();
        self.sessions.expire(
            now.monotonic_ms,
            |lane| {
                lanes.with(lane, |lane| {
                    // Who waits for the server is not silent, however long its disk takes.
                    if lane.waiting() > 0 { now.monotonic_ms } else { lane.touched_ms }
                })
            },
            |session| expired.push(session),
        );
        for session in expired {
            self.propose(session, 0, WriteRequest::CloseSession, Origin::Housekeeping, None, replica, now);
        }
    }

    fn negotiate(&self, asked_ms: i32) -> i32 {
        asked_ms.clamp(self.settings.session_timeout_ms_min, self.settings.session_timeout_ms_max)
    }
}
