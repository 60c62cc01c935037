//! A server that serves closes the connection of a correct client only for a reason that the client can see:
//! its session has ended or has moved, it has seen a later state, or the server has stopped serving.

use zebu_node::CloseReason;
use zebu_proto::SessionId;

use super::Judge;
use crate::history::{Verdict, Violation};

const NAME: &str = "client_connections";

/// Whether the server still has the role in which it accepted the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoleThen {
    Same,
    /// It has another one or none, or it leads and hands over.
    Ended,
}

/// A connection that a server closes while the client's end is open.
#[derive(Debug)]
pub(crate) struct Closing {
    pub(crate) server: usize,
    pub(crate) client: usize,
    pub(crate) reason: CloseReason,
    /// `None` before the connect request is answered.
    pub(crate) session: Option<SessionId>,
    /// The last transaction that the server has applied.
    pub(crate) applied: i64,
    pub(crate) role: RoleThen,
}

pub(super) fn check_close(judge: &Judge, closing: &Closing) -> Verdict {
    let allowed = match closing.reason {
        CloseReason::SessionEnded => closing.session.is_none_or(|session| has_ended(judge, session)),
        CloseReason::NotServing => closing.role == RoleThen::Ended,
        CloseReason::AheadOfServer => has_seen_later(judge, closing.client, closing.applied),
        CloseReason::Replaced => was_asked_for_elsewhere(judge, closing),
        CloseReason::AnsweredOutOfOrder | CloseReason::AnswerMismatch => false,
        // The clients read what they ask for, write what the protocol allows, and no limit is set.
        CloseReason::Peer
        | CloseReason::BadFrame
        | CloseReason::OutboxFull
        | CloseReason::Throttled
        | CloseReason::Shed
        | CloseReason::ReadOnly => false,
    };
    if allowed {
        return Ok(());
    }
    let Closing { server, client, reason, session, .. } = closing;
    let session = session.map_or(0, |session| session.0);
    let text =
        format!("server {server} serves, and closes client {client} (session {session:#x}): {reason:?}");
    Err(Violation::new(NAME, text))
}

fn has_ended(judge: &Judge, session: SessionId) -> bool {
    let closed = judge.ledger.model.session(session).is_some_and(|life| life.closed.is_some());
    closed || judge.sessions.get(&session).is_some_and(|view| view.closing)
}

/// Whether the client has asked for another connection since the session began. A server may take up the session for
/// one that the client has given up already.
fn was_asked_for_elsewhere(judge: &Judge, closing: &Closing) -> bool {
    let view = closing.session.and_then(|session| judge.sessions.get(&session));
    judge.dials[closing.client] > view.map_or(1, |view| view.dials)
}

fn has_seen_later(judge: &Judge, client: usize, applied: i64) -> bool {
    judge.sessions.values().any(|session| session.client == client && session.seen > applied)
}
