//! Sessions of the clients of this server: opened, resumed, expired.

use zebu_proto::SessionId;
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::client::{ConnectRequest, WriteRequest};
use zebu_proto::password::password_matches;

use super::held::Matter;
use super::{Decider, Wanted};
use crate::agreement::Origin;
use crate::clock::Moment;
use crate::core::Desk;
use crate::lane::{CloseReason, LaneId, LaneSession, Lanes, Phase};
use crate::replica::Replica;
use crate::session::{Owner, SessionState};

impl Decider {
    /// Decides about a connect request that was admitted.
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
            0 if self.local_sessions.are_new_ones() => {
                let session = LaneSession { id: self.unused_id(desk), timeout_ms };
                self.local_sessions.open(session, lane, now);
                let accepted = (lane, session, request.read_only);
                self.local_sessions.accept(accepted, desk.service(self.upstream), lanes, now);
            }
            0 => {
                let session = self.unused_id(desk);
                self.sessions.track(session, timeout_ms, Some(Owner::Lane(lane)), now.monotonic_ms);
                let origin = Origin::Connect { lane, read_only: request.read_only };
                let create = WriteRequest::CreateSession { timeout_ms };
                let wanted = Wanted { origin, ..Wanted::of_server(session, create) };
                self.propose(desk, wanted, replica, lanes, now);
            }
            id => {
                let session = LaneSession { id: SessionId(id), timeout_ms };
                self.resume(desk, (lane, session), request, replica, lanes, now);
            }
        }
    }

    /// Ids begin with the time of the start; if the clock went back meanwhile, some may be taken.
    fn unused_id(&mut self, desk: &mut Desk) -> SessionId {
        loop {
            let session = desk.ids.take();
            if self.sessions.state(session).is_none() && !self.local_sessions.knows(session) {
                return session;
            }
        }
    }

    /// The password is checked before anything happens to the session's present connection.
    fn resume(
        &mut self,
        desk: &mut Desk,
        (lane, session): (LaneId, LaneSession),
        request: &ConnectRequest,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        let read_only = request.read_only;
        if !password_matches(session.id, request.password.as_deref().unwrap_or_default()) {
            lanes.with(lane, |lane| lane.reject(read_only));
            return;
        }
        if self.local_sessions.knows(session.id) {
            self.local_sessions.resume(session, lane, lanes, now);
            self.accept_in_turn(desk, (lane, session, read_only), replica, lanes, now);
            return;
        }
        self.sessions.touch(session.id, Owner::Lane(lane), session.timeout_ms, now.monotonic_ms);
        match desk.doubt(now) {
            doubt @ Some(_) => self.held.push(doubt, Matter::Resume { lane, session, read_only }),
            None => self.give_session(desk, (lane, session, read_only), replica, lanes, now),
        }
    }

    /// Hands a session to a connection that has its password, if it lives.
    pub(super) fn give_session(
        &mut self,
        desk: &mut Desk,
        (lane, session, read_only): (LaneId, LaneSession, ReadOnlyField),
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        if lanes.with(lane, |lane| lane.phase) != Some(Phase::Handshake) {
            return;
        }
        if self.sessions.state(session.id) == Some(SessionState::Open) {
            self.move_session(session.id, Owner::Lane(lane), session.timeout_ms, lanes, now);
            self.accept_in_turn(desk, (lane, session, read_only), replica, lanes, now);
        } else {
            lanes.with(lane, |lane| lane.reject(read_only));
        }
    }

    /// An open session goes on elsewhere; a connection here that it had is closed. One at a learner is closed by
    /// that learner, when its next request is refused.
    pub(super) fn move_session(
        &mut self,
        session: SessionId,
        owner: Owner,
        timeout_ms: i32,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        match self.sessions.attach(session, owner, timeout_ms, now.monotonic_ms) {
            Some(Owner::Lane(before)) => {
                lanes.with(before, |lane| lane.close(CloseReason::Replaced));
            }
            Some(Owner::Link(_)) | None => {}
        }
    }

    /// Hands a session to the connection that waits for it. A connection that left meanwhile did not know
    /// its session, so its farewell does not name it.
    pub(super) fn accept(
        &mut self,
        desk: &Desk,
        (lane, session, read_only): (LaneId, LaneSession, ReadOnlyField),
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        let service = desk.service(self.upstream);
        let phase = lanes.with(lane, |lane| {
            lane.accept(session, read_only, service, now.monotonic_ms);
            lane.phase
        });
        if phase != Some(Phase::Serving) {
            self.detach(session.id, lane, now.monotonic_ms);
        }
    }

    /// Sessions that were silent for too long are closed by a transaction like any other.
    pub(super) fn expire_sessions(
        &mut self,
        desk: &mut Desk,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        let mut expired = Vec::new();
        self.sessions.expire(
            now.monotonic_ms,
            |lane| lanes.with(lane, |lane| lane.last_sign_ms(now.monotonic_ms)),
            |session| expired.push(session),
        );
        for session in expired {
            let wanted = Wanted::of_server(session, WriteRequest::CloseSession);
            self.propose(desk, wanted, replica, lanes, now);
        }
    }

    /// Ephemeral nodes whose session is unknown would stay for ever: their sessions are closed like any other, so
    /// that all members remove the same.
    pub(crate) fn close_orphans(
        &mut self,
        desk: &mut Desk,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        let tree = &replica.tree;
        let is_orphan = |session: &SessionId| !tree.sessions().contains_key(session);
        let orphans: Vec<SessionId> = tree.sessions_with_ephemerals().filter(is_orphan).collect();
        for session in orphans {
            let wanted = Wanted::of_server(session, WriteRequest::CloseSession);
            self.propose(desk, wanted, replica, lanes, now);
        }
    }
}
