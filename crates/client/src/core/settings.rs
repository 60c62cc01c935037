//! What a session is told once, before it starts.

use std::time::Duration;

use zebu_proto::SessionId;

/// Whether a server without a quorum behind it will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReadOnlyServers {
    /// Only servers that take writes.
    #[default]
    Refuse,
    /// A read-only server is better than none; a read-write one is looked for all the time.
    Accept,
}

/// What follows the end of a session that nobody asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SessionPolicy {
    /// A new session is opened; persistent watches move to it.
    #[default]
    Renew,
    /// The client is over: every later call fails with the session's end.
    Terminal,
}

/// What another client needs to take a session over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionCredentials {
    /// The session.
    pub id: SessionId,
    /// Its password.
    pub password: [u8; 16],
}

/// Settings of a session machine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The session timeout to ask for; servers clamp it.
    pub session_timeout: Duration,
    /// How long one attempt to connect may take, handshake included, and how long a call waits for a
    /// connection before it fails as not sent.
    pub connection_timeout: Duration,
    /// Read-only servers.
    pub read_only: ReadOnlyServers,
    /// What follows an expired session.
    pub policy: SessionPolicy,
    /// A session to take over.
    pub resume: Option<SessionCredentials>,
    /// The largest frame that is accepted from a server.
    pub reply_limit: usize,
    /// Bytes that are handed out for one write.
    pub batch_limit: usize,
    /// Calls that are written and not answered, each counting one and one more for every KiB. The others wait.
    pub in_flight_limit: u32,
    /// Calls that wait for their turn to be written; the next one fails as not sent.
    pub queue_limit: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            session_timeout: Duration::from_secs(30),
            connection_timeout: Duration::from_secs(15),
            read_only: ReadOnlyServers::Refuse,
            policy: SessionPolicy::Renew,
            resume: None,
            reply_limit: 64 << 20,
            batch_limit: 256 << 10,
            in_flight_limit: 1 << 16,
            queue_limit: 1 << 20,
        }
    }
}
