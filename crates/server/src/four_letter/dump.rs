//! `dump`: sessions, their ephemeral nodes, and connections.

use std::fmt::Write as _;
use std::net::SocketAddr;

use zebu_proto::SessionId;

use super::java_text;
use super::report::write_indented;

/// `dump`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionDump {
    /// Local sessions by time of expiry, earliest first; `None` if there are none of that kind here.
    pub local: Option<Vec<ExpiryBucket<SessionId>>>,
    /// Global sessions.
    pub sessions: GlobalSessions,
    /// Ephemeral nodes of each session that has some.
    pub ephemerals: Vec<(SessionId, Vec<String>)>,
    /// Connections by time of expiry, earliest first.
    pub connections: Vec<ExpiryBucket<ConnectionOfSession>>,
}

/// Global sessions in `dump`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GlobalSessions {
    /// By time of expiry, earliest first: of a server that expires them.
    ByExpiry(Vec<ExpiryBucket<SessionId>>),
    /// With their timeouts in milliseconds, by id: of a learner.
    WithTimeouts(Vec<(SessionId, i32)>),
}

impl Default for GlobalSessions {
    fn default() -> GlobalSessions {
        GlobalSessions::ByExpiry(Vec::new())
    }
}

/// What expires at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiryBucket<T> {
    /// Wall clock milliseconds.
    pub expires_at_ms: i64,
    /// What expires.
    pub members: Vec<T>,
}

/// A connection in `dump`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionOfSession {
    /// The peer.
    pub remote: SocketAddr,
    /// `SessionId::NONE` before there is one.
    pub session: SessionId,
}

pub(super) fn write_dump(out: &mut String, dump: &SessionDump) {
    out.push_str("SessionTracker dump:\n");
    let id = |session: &SessionId| format!("0x{:x}", session.0);
    if let Some(local) = &dump.local {
        write_buckets(out, "Local Session", local, id);
    }
    match &dump.sessions {
        GlobalSessions::ByExpiry(buckets) => {
            let what = if dump.local.is_some() { "Global Session" } else { "Session" };
            write_buckets(out, what, buckets, id);
        }
        GlobalSessions::WithTimeouts(sessions) => {
            let _ = writeln!(out, "Global Sessions({}):", sessions.len());
            for (session, timeout_ms) in sessions {
                let _ = writeln!(out, "0x{:x}\t{timeout_ms}ms", session.0);
            }
        }
    }
    let _ = write!(out, "ephemeral nodes dump:\nSessions with Ephemerals ({}):\n", dump.ephemerals.len());
    for (session, paths) in &dump.ephemerals {
        let _ = writeln!(out, "0x{:x}:", session.0);
        write_indented(out, paths);
    }
    out.push_str("Connections dump:\n");
    write_buckets(out, "Connections", &dump.connections, |connection| {
        let remote = java_text::socket_address(connection.remote);
        format!("ip: {remote} sessionId: 0x{:x}", connection.session.0)
    });
}

fn write_buckets<T>(out: &mut String, what: &str, buckets: &[ExpiryBucket<T>], text: impl Fn(&T) -> String) {
    let members: usize = buckets.iter().map(|bucket| bucket.members.len()).sum();
    let _ = writeln!(out, "{what} Sets ({})/({members}):", buckets.len());
    for bucket in buckets {
        let date = java_text::date(bucket.expires_at_ms);
        let _ = writeln!(out, "{} expire at {date}:", bucket.members.len());
        write_indented(out, bucket.members.iter().map(&text));
    }
}
