//! A lease never outlives its session: while the client's state machine holds the lease, no server has
//! expired the session. Only the client itself may close it earlier.

use std::time::Duration;

use zebu_proto::SessionId;

use super::Checker;
use crate::history::{CheckResult, Violation};

const NAME: &str = "session_lease";

/// Checks a client's lease: its session is open for at least `left`.
pub(crate) fn check_lease(checker: &Checker, session: SessionId, left: Duration) -> CheckResult {
    let ended = checker.committed.model.session(session).and_then(|life| life.closed);
    let asked = checker.sessions.get(&session).is_some_and(|view| view.closing);
    match ended {
        Some(zxid) if !asked && !left.is_zero() => {
            let text =
                format!("session {:#x} ended with {zxid:#x}, its lease lasts {left:?} more", session.0);
            Err(Violation::new(NAME, text))
        }
        Some(_) | None => Ok(()),
    }
}
