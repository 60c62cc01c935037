//! A serving server closes a correct client's connection only for a reason that the client can see. These
//! are: its session has ended or moved, it has seen a later state, or the server has stopped serving.

use zebu_node::DisconnectReason;
use zebu_proto::SessionId;

use super::{Checker, ServerMode, SessionView, g17_session_liveness};
use crate::history::{CheckResult, Violation};

const NAME: &str = "client_connections";

/// Whether the server still has the role in which it accepted the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoleAtClose {
    Same,
    /// The same, and it serves reads only.
    ReadOnly,
    /// The server has another role or none, or it is a leader that hands over leadership.
    Ended,
}

/// A connection that a server closes while the client's end is open.
#[derive(Debug)]
pub(crate) struct ConnectionClose {
    pub(crate) server: usize,
    pub(crate) client: usize,
    pub(crate) reason: DisconnectReason,
    /// `None` before the connect request is answered.
    pub(crate) session: Option<SessionId>,
    /// The last transaction that the server has applied.
    pub(crate) applied: i64,
    pub(crate) role: RoleAtClose,
    /// Whether the server has served since its start.
    pub(crate) has_served: bool,
    /// The least that the client accepts.
    pub(crate) accepts: ServerMode,
    /// Whether the server sends its clients away.
    pub(crate) is_draining: bool,
}

pub(super) fn check_close(checker: &Checker, closing: &ConnectionClose) -> CheckResult {
    let mode = closing.session.map(|session| checker.mode_of(session));
    let was_read_only = closing.role == RoleAtClose::ReadOnly || mode == Some(ServerMode::ReadOnly);
    let allowed = match closing.reason {
        // Sessions end at a read-only server without the ensemble.
        DisconnectReason::SessionEnded if was_read_only => true,
        DisconnectReason::SessionEnded => closing.session.is_none_or(|session| has_ended(checker, session)),
        // The server may have read the connect request before it began to serve reads.
        DisconnectReason::ReadOnly => {
            closing.role != RoleAtClose::Same && closing.accepts == ServerMode::ReadWrite
        }
        DisconnectReason::Drained => closing.is_draining,
        DisconnectReason::NotServing => closing.role == RoleAtClose::Ended,
        DisconnectReason::AheadOfServer => has_seen_later(checker, closing.client, closing.applied),
        DisconnectReason::NoRoom => checker.room.may_refuse(checker.now),
        DisconnectReason::Replaced => was_asked_for_elsewhere(checker, closing),
        DisconnectReason::ReplyOutOfOrder | DisconnectReason::ReplyMismatch => false,
        // The clients read only their own replies, stay within the protocol, and no limit is set.
        DisconnectReason::ClientClosed
        | DisconnectReason::BadFrame
        | DisconnectReason::OutboxFull
        | DisconnectReason::Throttled
        | DisconnectReason::Shed
        | DisconnectReason::SaslTimeout
        | DisconnectReason::OtherEnsemble => false,
    };
    if allowed {
        return Ok(());
    }
    let ConnectionClose { server, client, reason, session, .. } = closing;
    let session = session.map_or(0, |session| session.0);
    let text =
        format!("server {server} serves, and closes client {client} (session {session:#x}): {reason:?}");
    Err(Violation::new(NAME, text))
}

fn has_ended(checker: &Checker, session: SessionId) -> bool {
    let closed = checker.committed.model.session(session).is_some_and(|life| life.closed.is_some());
    let view = checker.sessions.get(&session);
    // A local session ends without a transaction, but not while its client is heard of.
    let silent =
        || checker.is_local(session) && view.is_none_or(|view| !g17_session_liveness::is_live(checker, view));
    closed || view.is_some_and(|view| view.closing) || silent()
}

/// Whether the client has opened another connection since the session began. A server may resume the session
/// for a connection that the client has already given up.
fn was_asked_for_elsewhere(checker: &Checker, closing: &ConnectionClose) -> bool {
    let view = closing.session.and_then(|session| checker.sessions.get(&session));
    checker.dials[closing.client] > view.map_or(1, |view| view.dials)
}

fn has_seen_later(checker: &Checker, client: usize, applied: i64) -> bool {
    let is_later = |view: &SessionView| view.seen.max(view.seen_in_log) > applied;
    checker.fed[client] > applied
        || checker.sessions.values().any(|view| view.client == client && is_later(view))
}
