//! G5: a read shows at least what the same session has written and was told of.

use zebu_client::core::Answer;

use super::Judge;
use crate::history::{Sent, Verdict, Violation};

const NAME: &str = "g05_read_your_writes";

pub(super) fn check_answer(judge: &Judge, sent: Sent, answer: &Answer) -> Verdict {
    let Some(session) = judge.sessions.get(&sent.session) else { return Ok(()) };
    if answer.zxid > 0 && answer.zxid < session.wrote {
        let text = format!(
            "session {:#x} wrote {:#x}, then read the state of {:#x}",
            sent.session.0, session.wrote, answer.zxid
        );
        return Err(Violation::new(NAME, text));
    }
    Ok(())
}
