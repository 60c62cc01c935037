//! G23: a request is carried out at most once, and never after its client uses the session over another
//! connection. The committed history finds a request with two transactions; G1 compares its reply.

use super::{Checker, ServerMode};
use crate::committed_history::is_refused_with_session;
use crate::history::{CheckResult, Violation};

const NAME: &str = "g23_exactly_once";

/// Checks that the last transaction is not that of a request over a former connection.
pub(super) fn check_commit(checker: &Checker) -> CheckResult {
    let Some(last) = checker.committed.entries().last() else { return Ok(()) };
    let Some(call) = last.call.map(|index| &checker.calls[index]) else { return Ok(()) };
    let (Some(sent), Some(session)) = (call.sent, checker.sessions.get(&last.entry.header.session)) else {
        return Ok(());
    };
    if is_refused_with_session(last) || session.mode == ServerMode::ReadOnly || sent.dials >= session.resumed
    {
        return Ok(());
    }
    let text = format!(
        "{:#x} carries out {:?} of session {:#x}, which its client had resumed over another connection",
        last.zxid, call.operation, last.entry.header.session.0
    );
    Err(Violation::new(NAME, text))
}
