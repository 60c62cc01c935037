//! `wchc` and `wchp`: watches by session and by path, in pieces that the caller sends one by one. A
//! line break ends both replies.

use std::fmt::Write as _;

use zebu_proto::SessionId;

/// Appends a session of `wchc`; its paths follow.
pub(crate) fn write_session(out: &mut String, session: SessionId) {
    let _ = writeln!(out, "0x{:x}", session.0);
}

/// Appends a path that the session watches.
pub(crate) fn write_path_of_session(out: &mut String, path: &str) {
    let _ = writeln!(out, "\t{path}");
}

/// Appends a path of `wchp` with the sessions that watch it.
pub(crate) fn write_path(out: &mut String, path: &str, sessions: impl IntoIterator<Item = SessionId>) {
    let _ = writeln!(out, "{path}");
    for session in sessions {
        let _ = writeln!(out, "\t0x{:x}", session.0);
    }
}
