//! Local sessions: one server knows them, and no transaction speaks of them. They end with the role in which the
//! server has taken them, and cannot go on elsewhere. A local session that asks for an ephemeral node leaves this
//! table: whoever runs it makes it a global one first, or refuses.

use zebu_proto::SessionId;
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::client::create::{CreateMode, CreateOp};
use zebu_proto::client::{CreateRequest, MultiOp, WriteRequest};

use super::{Owner, SessionState, SessionTracker, TrackerReport};
use crate::clock::Moment;
use crate::lane::{CloseReason, LaneId, LaneSession, Lanes, Phase, Service};
use crate::settings::LocalSessionSupport;

/// What a request means for the session that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing: it is global, or stays local.
    None,
    /// It is local and asks for an ephemeral node, which it cannot have.
    Refused,
    /// It was local until now, and has to be made global before the request is carried out.
    Upgraded {
        /// What it was given.
        timeout_ms: i32,
    },
    /// It was local, and has ended.
    Ended,
}

/// The local sessions of a server in one role.
#[derive(Debug)]
pub(crate) struct LocalSessions {
    support: LocalSessionSupport,
    tracker: SessionTracker,
}

impl LocalSessions {
    pub(crate) fn new(support: LocalSessionSupport, tick_ms: i64) -> LocalSessions {
        LocalSessions { support, tracker: SessionTracker::new(tick_ms) }
    }

    /// Whether new sessions are local.
    pub(crate) fn are_new_ones(&self) -> bool {
        self.support != LocalSessionSupport::Off
    }

    pub(crate) fn knows(&self, session: SessionId) -> bool {
        self.tracker.state(session) == Some(SessionState::Open)
    }

    /// Whether the requests of a local session come from this connection.
    pub(crate) fn is_served_by(&self, session: SessionId, lane: LaneId) -> bool {
        self.tracker.owner(session) == Some(Owner::Lane(lane))
    }

    /// Whether a local session has gone on with another connection than this one.
    pub(crate) fn has_left(&self, session: SessionId, lane: LaneId) -> bool {
        self.tracker.has_moved_from(session, Owner::Lane(lane))
    }

    /// A new session. The connection is told by [`LocalSessions::accept`].
    pub(crate) fn open(&mut self, session: LaneSession, lane: LaneId, now: Moment) {
        self.tracker.track(session.id, session.timeout_ms, Some(Owner::Lane(lane)), now.monotonic_ms);
    }

    /// A client comes back to the session that it has here; the connection that it had is closed.
    pub(crate) fn resume(&mut self, session: LaneSession, lane: LaneId, lanes: &mut impl Lanes, now: Moment) {
        let owner = Owner::Lane(lane);
        let before = self.tracker.attach(session.id, owner, session.timeout_ms, now.monotonic_ms);
        if let Some(Owner::Lane(before)) = before {
            lanes.with(before, |lane| lane.close(CloseReason::Replaced));
        }
    }

    /// Hands a session to the connection that waits for it. If that has left meanwhile, nobody else will say so.
    pub(crate) fn accept(
        &mut self,
        (lane, session, read_only): (LaneId, LaneSession, ReadOnlyField),
        service: Service,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        let phase = lanes.with(lane, |lane| {
            lane.accept(session, read_only, service, now.monotonic_ms);
            lane.phase
        });
        if phase != Some(Phase::Serving) {
            self.detach(session.id, lane, now.monotonic_ms);
        }
    }

    /// The connection is gone; the session lives on until its timeout.
    pub(crate) fn detach(&mut self, session: SessionId, lane: LaneId, touched_ms: i64) {
        self.tracker.detach(session, lane, touched_ms);
    }

    /// A session makes a request.
    pub(crate) fn turn(&mut self, session: SessionId, request: &WriteRequest) -> Turn {
        let Some(timeout_ms) = self.tracker.timeout_ms(session) else { return Turn::None };
        match (request, self.support) {
            (WriteRequest::CloseSession, _) => {
                self.tracker.remove(session);
                Turn::Ended
            }
            (request, LocalSessionSupport::WithUpgrade) if asks_for_ephemeral(request) => {
                self.tracker.remove(session);
                Turn::Upgraded { timeout_ms }
            }
            (request, _) if asks_for_ephemeral(request) => Turn::Refused,
            _ => Turn::None,
        }
    }

    /// When [`LocalSessions::expire`] has something to look at.
    pub(crate) fn next_deadline(&self) -> i64 {
        self.tracker.next_deadline().unwrap_or(i64::MAX)
    }

    /// Sessions that were silent for too long end, and with them their connections.
    pub(crate) fn expire(&mut self, lanes: &mut impl Lanes, now: Moment) {
        let mut expired = Vec::new();
        self.tracker.expire(
            now.monotonic_ms,
            |lane| lanes.with(lane, |lane| lane.last_sign_ms(now.monotonic_ms)),
            |session| expired.push(session),
        );
        for session in expired {
            if let Some(Owner::Lane(lane)) = self.tracker.remove(session) {
                lanes.with(lane, |lane| lane.close(CloseReason::SessionEnded));
            }
        }
    }

    /// Sessions by their deadline; `None` if there are no local sessions here.
    pub(crate) fn report(&self) -> Option<TrackerReport> {
        self.are_new_ones().then(|| self.tracker.report())
    }
}

/// Whether a request can succeed only for a session that every server knows.
fn asks_for_ephemeral(request: &WriteRequest) -> bool {
    let is_ephemeral = |create: &CreateRequest| match create.op {
        CreateOp::Create | CreateOp::Create2 | CreateOp::Container => {
            CreateMode::from_flags(create.flags).is_some_and(CreateMode::is_ephemeral)
        }
        // It cannot succeed for any.
        CreateOp::Ttl => false,
    };
    match request {
        WriteRequest::Create(create) => is_ephemeral(create),
        WriteRequest::Multi(ops) => ops.iter().any(|op| match op {
            MultiOp::Create(create) => is_ephemeral(create),
            MultiOp::Delete(_) | MultiOp::SetData(_) | MultiOp::Check(_) => false,
        }),
        WriteRequest::Delete(_)
        | WriteRequest::DeleteContainer { .. }
        | WriteRequest::SetData(_)
        | WriteRequest::SetAcl(_)
        | WriteRequest::Reconfig(_)
        | WriteRequest::CreateSession { .. }
        | WriteRequest::CloseSession
        | WriteRequest::Refused(_) => false,
    }
}
