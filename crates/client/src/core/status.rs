//! What the outside sees of a session: a state and the session's name.

use std::sync::Arc;
use std::time::Duration;

use zebu_proto::SessionId;

/// How a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionState {
    /// No session yet.
    Connecting,
    /// A new session, on a server that takes writes.
    Connected,
    /// On a read-only server: it has no quorum, what it shows may be old, and writes fail. The session of before
    /// may be alive, as when suspended; if there was none, this one is known to that server only.
    ReadOnly,
    /// No connection. The session may be alive: its ephemeral nodes may still be there.
    Suspended,
    /// The same session as before, on a connection again.
    Reconnected,
    /// The session is over; its ephemeral nodes go. With [`Renew`](super::SessionPolicy::Renew) a new one
    /// follows.
    Expired,
    /// A server refused a credential. The client is over.
    AuthFailed,
    /// The client was closed, or has handed its session over.
    Closed,
}

impl SessionState {
    /// Whether calls are answered now, writes included.
    pub const fn takes_writes(self) -> bool {
        matches!(self, SessionState::Connected | SessionState::Reconnected)
    }

    /// Whether calls are answered now.
    pub const fn is_connected(self) -> bool {
        matches!(self, SessionState::Connected | SessionState::Reconnected | SessionState::ReadOnly)
    }
}

/// The session behind a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its id; zero before the first session.
    pub id: SessionId,
    /// How many sessions this client has had. Two equal numbers mean that no session was lost between.
    pub epoch: u64,
    /// The timeout that the server agreed to.
    pub timeout: Duration,
    /// The server of the connection.
    pub server: Option<Arc<str>>,
}

/// A state and the session that it speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The state.
    pub state: SessionState,
    /// The session.
    pub session: SessionInfo,
}
