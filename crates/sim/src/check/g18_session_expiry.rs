//! G18: a session ends once, in one transaction that takes exactly its ephemeral nodes, and is never used
//! again. The ledger compares the nodes; that a silent session ends at all is checked with G9.

use zebu_proto::SessionId;
use zebu_proto::txn::Txn;

use super::{Frame, FrameKind, Judge};
use crate::history::{Verdict, Violation};

const NAME: &str = "g18_session_expiry";

/// The last transaction changes nothing for a session that is over.
pub(super) fn check_commit(judge: &Judge) -> Verdict {
    let Some(last) = judge.ledger.entries().last() else { return Ok(()) };
    let header = last.entry.header;
    let Some(life) = judge.ledger.model.session(header.session) else { return Ok(()) };
    let changes = match &last.entry.txn {
        Txn::Error(_) | Txn::CloseSession(_) => false,
        Txn::Multi(parts) => !parts.iter().any(|part| matches!(part.0, Txn::Error(_))),
        _ => true,
    };
    if changes && life.closed.is_some_and(|closed| closed < header.zxid.0) {
        let text = format!(
            "{} changes something for session {:#x}, which is over: {:?}",
            header.zxid, header.session.0, last.entry.txn
        );
        return Err(Violation::new(NAME, text));
    }
    Ok(())
}

/// Nobody goes on with a session that is over.
pub(super) fn check_frame(judge: &Judge, session: SessionId, frame: &Frame) -> Verdict {
    let closed = judge.ledger.model.session(session).and_then(|life| life.closed);
    match (&frame.kind, closed) {
        (FrameKind::Reply { code: 0, .. }, Some(closed)) if closed < frame.zxid => {
            let text = format!(
                "session {:#x} ended with {closed:#x} and was answered at {:#x}",
                session.0, frame.zxid
            );
            Err(Violation::new(NAME, text))
        }
        _ => Ok(()),
    }
}

/// Sessions that nobody has spoken for longer than their timeouts, and that are still there.
pub(crate) fn left(sessions: &[SessionId]) -> Violation {
    let shown: Vec<String> = sessions.iter().map(|session| format!("{:#x}", session.0)).collect();
    Violation::new(NAME, format!("sessions that nobody holds did not expire: {}", shown.join(", ")))
}
