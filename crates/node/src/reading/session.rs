//! Sessions at a server that is cut off. A new one is made here and known here only. One of the ensemble is taken
//! as it is: its client may read, and finds it again at the next server that takes writes. Whether it is still
//! alive is not known here, so nothing is said about that.

use zebu_proto::SessionId;
use zebu_proto::client::ConnectRequest;
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::password::password_matches;

use super::Reader;
use crate::clock::Moment;
use crate::core::Desk;
use crate::lane::{CloseReason, LaneId, LaneSession, Lanes, Phase, Upstream};
use crate::replica::Replica;
use crate::session::{Owner, SessionState};

impl Reader {
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
        if request.read_only != ReadOnlyField::Present(true) {
            // Another server may take its writes.
            lanes.with(lane, |lane| lane.close(CloseReason::ReadOnly));
            return;
        }
        let id = match request.session_id {
            0 => self.unused_id(desk, replica),
            id => SessionId(id),
        };
        if request.session_id != 0 && !self.is_known(id, request, replica) {
            lanes.with(lane, |lane| lane.reject_read_only(request.read_only));
            return;
        }
        let owner = Owner::Lane(lane);
        match self.sessions.state(id) {
            Some(_) => {
                if let Some(Owner::Lane(before)) =
                    self.sessions.attach(id, owner, timeout_ms, now.monotonic_ms)
                {
                    lanes.with(before, |lane| lane.close(CloseReason::Replaced));
                }
            }
            None => self.sessions.track(id, timeout_ms, Some(owner), now.monotonic_ms),
        }
        let service = desk.service(Upstream::Nobody);
        let session = LaneSession { id, timeout_ms };
        let phase = lanes.with(lane, |lane| {
            lane.accept(session, request.read_only, service, now.monotonic_ms);
            lane.phase
        });
        if phase != Some(Phase::Serving) {
            self.sessions.detach(id, lane, now.monotonic_ms);
        }
    }

    /// An id that no session of the ensemble had when this server was cut off. It carries the number of this
    /// server and is not given out again, so it will not be one later either.
    fn unused_id(&self, desk: &mut Desk, replica: &Replica) -> SessionId {
        loop {
            let session = desk.ids.take();
            if self.sessions.state(session).is_none() && !replica.tree.sessions().contains_key(&session) {
                return session;
            }
        }
    }

    /// A session that began elsewhere after this server was cut off is not known. Its client has not done anything
    /// with it yet: otherwise it would have seen a later state than this one, and would not have been admitted.
    fn is_known(&self, session: SessionId, request: &ConnectRequest, replica: &Replica) -> bool {
        password_matches(session, request.password.as_deref().unwrap_or_default())
            && (self.sessions.state(session) == Some(SessionState::Open)
                || replica.tree.sessions().contains_key(&session))
    }
}
