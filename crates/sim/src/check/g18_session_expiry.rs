//! G18: a session ends once, in one transaction that deletes exactly its ephemeral nodes, and is never used
//! again. The committed history compares the nodes. G9 checks that a silent session expires at all.

use zebu_proto::SessionId;
use zebu_proto::txn::Txn;

use super::{Checker, Frame, FrameKind};
use crate::history::{CheckResult, Violation};

const NAME: &str = "g18_session_expiry";

/// Checks that the last transaction changes nothing for a closed session.
pub(super) fn check_commit(checker: &Checker) -> CheckResult {
    let Some(last) = checker.committed.entries().last() else { return Ok(()) };
    let header = last.entry.header;
    let Some(life) = checker.committed.model.session(header.session) else { return Ok(()) };
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

/// Checks that no client goes on with a closed session.
pub(super) fn check_frame(checker: &Checker, session: SessionId, frame: &Frame) -> CheckResult {
    let closed = checker.committed.model.session(session).and_then(|life| life.closed);
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

/// The violation for sessions that were silent for longer than their timeouts and are still open.
pub(crate) fn left(sessions: &[SessionId]) -> Violation {
    let shown: Vec<String> = sessions.iter().map(|session| format!("{:#x}", session.0)).collect();
    Violation::new(NAME, format!("sessions without a client did not expire: {}", shown.join(", ")))
}
