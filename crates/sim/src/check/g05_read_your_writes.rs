//! G5: a read shows at least every write of the same session that was answered.

use zebu_client::core::ServerReply;

use super::Checker;
use crate::history::{CheckResult, SentRequest, Violation};

const NAME: &str = "g05_read_your_writes";

pub(super) fn check_answer(checker: &Checker, sent: SentRequest, answer: &ServerReply) -> CheckResult {
    let Some(session) = checker.sessions.get(&sent.session) else { return Ok(()) };
    if answer.zxid > 0 && answer.zxid < session.wrote {
        let text = format!(
            "session {:#x} wrote {:#x}, then read the state of {:#x}",
            sent.session.0, session.wrote, answer.zxid
        );
        return Err(Violation::new(NAME, text));
    }
    Ok(())
}
