//! The public state of a session.

use std::sync::Arc;
use std::time::Duration;

use zebu_proto::SessionId;

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionState {
    /// No session yet.
    Connecting,
    /// A new session, on a read-write server.
    Connected,
    /// On a read-only server: it has no quorum, its data may be stale, and writes fail. An earlier session
    /// may still be alive. Without one, this session is known to that server only.
    ReadOnly,
    /// No connection. The session may be alive, and its ephemeral nodes may exist.
    Suspended,
    /// The same session, on a new connection.
    Reconnected,
    /// The session has expired; its ephemeral nodes are deleted. With [`Renew`](super::SessionPolicy::Renew)
    /// a new one follows.
    Expired,
    /// A server refused a credential. The client has ended.
    AuthFailed,
    /// The client was closed or has handed over its session.
    Closed,
}

impl SessionState {
    /// Whether the server accepts reads and writes.
    pub const fn takes_writes(self) -> bool {
        matches!(self, SessionState::Connected | SessionState::Reconnected)
    }

    /// Whether the server accepts reads.
    pub const fn is_connected(self) -> bool {
        matches!(self, SessionState::Connected | SessionState::Reconnected | SessionState::ReadOnly)
    }
}

/// The session of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its id; zero before the first session.
    pub id: SessionId,
    /// The number of sessions of this client. Equal numbers mean that no session was lost in between.
    pub epoch: u64,
    /// The negotiated timeout.
    pub timeout: Duration,
    /// The server of the connection.
    pub server: Option<Arc<str>>,
}

/// A state and its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionStatus {
    /// The state.
    pub state: SessionState,
    /// The session.
    pub session: SessionInfo,
}
