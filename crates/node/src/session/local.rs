//! Local sessions: only one server knows them, and they have no transactions. They end with the role of the
//! server and cannot move. A local session that creates an ephemeral node leaves this table: the caller makes
//! it global first, or refuses the request.

use zebu_proto::SessionId;
use zebu_proto::client::create::{CreateMode, CreateOp};
use zebu_proto::client::{CreateRequest, KeeperPart, KeeperWrite, MultiOp, WriteRequest};

use super::{SessionOwner, SessionTracker, TrackedState, TrackerReport};
use crate::clock::Now;
use crate::connect::PendingConnect;
use crate::connection::{ConnectionId, ConnectionSession, Connections, DisconnectReason, ServingTerm};
use crate::context::ServeContext;
use crate::settings::LocalSessionSupport;

/// The effect of a request on its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LocalSessionEffect {
    /// No effect: the session is global, or stays local.
    None,
    /// The session is local and cannot have the requested ephemeral node.
    EphemeralRefused,
    /// The session was local and must become global before the request is executed.
    Upgraded {
        /// The negotiated timeout.
        timeout_ms: i32,
        /// `None` if the connection was closed while the request waited. No disconnect event follows then.
        owner: Option<SessionOwner>,
    },
    /// The session was local and has ended.
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
    pub(crate) fn enabled(&self) -> bool {
        self.support != LocalSessionSupport::Off
    }

    pub(crate) fn contains(&self, session: SessionId) -> bool {
        self.tracker.state(session) == Some(TrackedState::Open)
    }

    /// Whether the requests of a local session come from this connection.
    pub(crate) fn is_served_by(&self, session: SessionId, connection: ConnectionId) -> bool {
        self.tracker.owner(session) == Some(SessionOwner::Connection(connection))
    }

    /// Whether a local session has moved from this connection to another.
    pub(crate) fn has_moved_from(&self, session: SessionId, connection: ConnectionId) -> bool {
        self.tracker.has_moved_from(session, SessionOwner::Connection(connection))
    }

    /// Opens a session. [`LocalSessions::accept`] answers the connection.
    pub(crate) fn open(&mut self, connect: PendingConnect, now: Now) {
        let owner = SessionOwner::Connection(connect.connection);
        self.tracker.track(connect.session.id, connect.session.timeout_ms, Some(owner), now.monotonic_ms);
    }

    /// Resumes a session of this server. Its former connection is closed.
    pub(crate) fn resume(
        &mut self,
        connect: PendingConnect,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let owner = SessionOwner::Connection(connect.connection);
        let ConnectionSession { id, timeout_ms } = connect.session;
        let before = self.tracker.attach(id, owner, timeout_ms, context.now.monotonic_ms);
        if let Some(SessionOwner::Connection(before)) = before {
            context.close(before, DisconnectReason::Replaced);
        }
    }

    /// Gives a session to the waiting connection. If that was closed meanwhile, the session is detached here,
    /// because no disconnect event will name it.
    pub(crate) fn accept(
        &mut self,
        connect: PendingConnect,
        serving_term: ServingTerm,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        if !context.accept_session(connect, serving_term) {
            self.detach(connect.session.id, connect.connection, context.now.monotonic_ms);
        }
    }

    /// Detaches a closed connection; the session stays open until its timeout.
    pub(crate) fn detach(&mut self, session: SessionId, connection: ConnectionId, touched_ms: i64) {
        self.tracker.detach(session, connection, touched_ms);
    }

    /// Returns the effect of a request on its session.
    pub(crate) fn effect_of(&mut self, session: SessionId, request: &WriteRequest) -> LocalSessionEffect {
        let Some(timeout_ms) = self.tracker.timeout_ms(session) else { return LocalSessionEffect::None };
        if *request == WriteRequest::CloseSession {
            self.tracker.remove(session);
            return LocalSessionEffect::Ended;
        }
        if !asks_for_ephemeral(request) {
            return LocalSessionEffect::None;
        }
        match self.support {
            LocalSessionSupport::WithUpgrade => {
                let owner = self.tracker.remove(session);
                LocalSessionEffect::Upgraded { timeout_ms, owner }
            }
            LocalSessionSupport::WithoutUpgrade | LocalSessionSupport::Off => {
                LocalSessionEffect::EphemeralRefused
            }
        }
    }

    /// The next deadline of [`LocalSessions::expire`], in monotonic milliseconds.
    pub(crate) fn next_deadline(&self) -> i64 {
        self.tracker.next_deadline().unwrap_or(i64::MAX)
    }

    /// Expires silent sessions and closes their connections.
    pub(crate) fn expire(&mut self, context: &mut ServeContext<'_, impl Connections>) {
        let mut expired = Vec::new();
        self.tracker.expire(
            context.now.monotonic_ms,
            |connection| {
                context
                    .connections
                    .with(connection, |connection| connection.last_heard_ms(context.now.monotonic_ms))
            },
            |session| expired.push(session),
        );
        for session in expired {
            if let Some(SessionOwner::Connection(connection)) = self.tracker.remove(session) {
                context.close(connection, DisconnectReason::SessionEnded);
            }
        }
    }

    /// Sessions by deadline; `None` if local sessions are off.
    pub(crate) fn report(&self) -> Option<TrackerReport> {
        self.enabled().then(|| self.tracker.report())
    }
}

/// Whether a request can succeed only for a global session.
fn asks_for_ephemeral(request: &WriteRequest) -> bool {
    let is_ephemeral = |create: &CreateRequest| match create.op {
        CreateOp::Create | CreateOp::Create2 | CreateOp::Container => {
            CreateMode::from_flags(create.flags).is_some_and(CreateMode::is_ephemeral)
        }
        // An ephemeral node with a TTL is refused for every session.
        CreateOp::Ttl => false,
    };
    let is_ephemeral_keeper = |write: &KeeperWrite| match write {
        KeeperWrite::CreateIfNotExists(create) => is_ephemeral(create),
        KeeperWrite::RemoveRecursive(_) | KeeperWrite::TryRemove(_) => false,
    };
    match request {
        WriteRequest::Create(create) => is_ephemeral(create),
        WriteRequest::Multi(ops) => ops.iter().any(|op| match op {
            MultiOp::Create(create) => is_ephemeral(create),
            MultiOp::Keeper(part) => match &**part {
                KeeperPart::Write(write) => is_ephemeral_keeper(write),
                KeeperPart::Check(_) => false,
            },
            MultiOp::Delete(_) | MultiOp::SetData(_) | MultiOp::Check(_) => false,
        }),
        WriteRequest::Keeper(write) => is_ephemeral_keeper(write),
        WriteRequest::Delete(_)
        | WriteRequest::DeleteContainer { .. }
        | WriteRequest::SetData(_)
        | WriteRequest::SetAcl(_)
        | WriteRequest::Reconfig(_)
        | WriteRequest::DeleteTree(_)
        | WriteRequest::CreateSession { .. }
        | WriteRequest::CloseSession
        | WriteRequest::Refused(_) => false,
    }
}
