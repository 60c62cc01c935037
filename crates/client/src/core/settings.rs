//! The settings of a session machine.

use std::time::Duration;

use zebu_proto::SessionId;

use super::authentication::SaslSettings;

/// Whether the client accepts a read-only server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReadOnlyServers {
    /// Only servers that accept writes.
    #[default]
    Refuse,
    /// Accepts a read-only server, and keeps searching for a read-write one.
    Accept,
}

/// The reaction to an expired session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SessionPolicy {
    /// A new session is opened; persistent watches move to it.
    #[default]
    Renew,
    /// The client ends: every later call fails with `SessionExpired`.
    Terminal,
}

/// Whether the client moves to another server when its server asks for it, because that one stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ServerMoves {
    /// The client moves with its session: no call fails. It asks each server once whether it can ask.
    Follow,
    /// The client stays until the connection ends, and asks nothing.
    #[default]
    Ignore,
}

/// The credentials with which another client can resume a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionCredentials {
    /// The session.
    pub id: SessionId,
    /// Its password.
    pub password: [u8; 16],
}

/// Settings of a session machine.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// The requested session timeout; servers clamp it.
    pub session_timeout: Duration,
    /// The limit of one attempt to connect, handshake included, and of the time that a call waits for a
    /// connection.
    pub connection_timeout: Duration,
    /// Whether read-only servers are accepted.
    pub read_only: ReadOnlyServers,
    /// The reaction to an expired session.
    pub policy: SessionPolicy,
    /// Whether the client moves when its server asks for it.
    pub moves: ServerMoves,
    /// The session to resume.
    pub resume: Option<SessionCredentials>,
    /// The user that is authenticated on every connection.
    pub sasl: Option<SaslSettings>,
    /// The largest accepted reply, in bytes.
    pub reply_limit: usize,
    /// The size of one write, in bytes.
    pub batch_limit: usize,
    /// The limit of calls in flight, in units: one per call and one more per KiB.
    pub in_flight_limit: u32,
    /// The limit of queued calls; further calls fail as not sent.
    pub queue_limit: usize,
}

impl Default for SessionSettings {
    fn default() -> SessionSettings {
        SessionSettings {
            session_timeout: Duration::from_secs(30),
            connection_timeout: Duration::from_secs(15),
            read_only: ReadOnlyServers::Refuse,
            policy: SessionPolicy::Renew,
            moves: ServerMoves::Ignore,
            resume: None,
            sasl: None,
            reply_limit: 64 << 20,
            batch_limit: 256 << 10,
            in_flight_limit: 1 << 16,
            queue_limit: 1 << 20,
        }
    }
}
