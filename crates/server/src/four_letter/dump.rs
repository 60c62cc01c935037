//! `dump`: sessions, their ephemeral nodes, and connections, in pieces that the caller sends one by
//! one.

use std::fmt::{self, Write as _};
use std::net::SocketAddr;

use zebu_proto::SessionId;

use super::java_text;

/// The values of `dump`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SessionDump {
    /// Local sessions by expiry, earliest first; `None` if local sessions are off.
    pub(crate) local: Option<Vec<ExpiryBucket<SessionId>>>,
    /// Global sessions.
    pub(crate) sessions: GlobalSessions,
    /// Number of sessions with ephemeral nodes.
    pub(crate) sessions_with_ephemerals: usize,
    /// Connections by expiry, earliest first.
    pub(crate) connections: Vec<ExpiryBucket<DumpedConnection>>,
}

/// Global sessions in `dump`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GlobalSessions {
    /// By expiry, earliest first, on a server that expires sessions.
    ByExpiry(Vec<ExpiryBucket<SessionId>>),
    /// With timeouts in milliseconds, by id, on a learner.
    WithTimeouts(Vec<(SessionId, i32)>),
}

impl Default for GlobalSessions {
    fn default() -> GlobalSessions {
        GlobalSessions::ByExpiry(Vec::new())
    }
}

/// The entries that expire at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExpiryBucket<T> {
    /// Wall clock milliseconds.
    pub(crate) expires_at_ms: i64,
    /// Sessions or connections.
    pub(crate) entries: Vec<T>,
}

/// A connection in `dump`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DumpedConnection {
    /// Remote address.
    pub(crate) remote: SocketAddr,
    /// `SessionId::NONE` before the session is established.
    pub(crate) session: SessionId,
}

/// Appends the part before the ephemeral nodes.
pub(crate) fn write_sessions(out: &mut String, dump: &SessionDump) {
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
    let sessions = dump.sessions_with_ephemerals;
    let _ = write!(out, "ephemeral nodes dump:\nSessions with Ephemerals ({sessions}):\n");
}

/// Appends the ephemeral nodes of one session.
pub(crate) fn write_ephemerals(out: &mut String, session: SessionId, paths: &[Box<str>]) {
    let _ = writeln!(out, "0x{:x}:", session.0);
    write_indented(out, paths);
}

/// Appends the part after the ephemeral nodes.
pub(crate) fn write_connections_of_sessions(out: &mut String, dump: &SessionDump) {
    out.push_str("Connections dump:\n");
    write_buckets(out, "Connections", &dump.connections, |connection| {
        let remote = java_text::socket_address(connection.remote);
        format!("ip: {remote} sessionId: 0x{:x}", connection.session.0)
    });
}

fn write_buckets<T>(out: &mut String, what: &str, buckets: &[ExpiryBucket<T>], text: impl Fn(&T) -> String) {
    let members: usize = buckets.iter().map(|bucket| bucket.entries.len()).sum();
    let _ = writeln!(out, "{what} Sets ({})/({members}):", buckets.len());
    for bucket in buckets {
        let date = java_text::date(bucket.expires_at_ms);
        let _ = writeln!(out, "{} expire at {date}:", bucket.entries.len());
        write_indented(out, bucket.entries.iter().map(&text));
    }
}

fn write_indented(out: &mut String, lines: impl IntoIterator<Item = impl fmt::Display>) {
    for line in lines {
        let _ = writeln!(out, "\t{line}");
    }
}
