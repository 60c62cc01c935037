//! G7: acknowledged writes are durable. Every answered write is in the history when it is answered, and at
//! the end every serving server has all of it.

use zebu_client::core::ServerReply;

use super::Checker;
use super::g01_linearizable_writes::has_no_zxid;
use crate::history::{CallEnd, CheckResult, Violation};

const NAME: &str = "g07_durability";

pub(super) fn check_acknowledged(checker: &Checker, index: usize, answer: &ServerReply) -> CheckResult {
    let call = &checker.calls[index];
    if call.place.is_some() || has_no_zxid(answer.code) {
        return Ok(());
    }
    let text = format!("{:?} was acknowledged as {:#x} and never committed", call.operation, answer.zxid);
    Err(Violation::new(NAME, text))
}

/// Checks that a write without effect has none later either.
pub(super) fn check_end(checker: &Checker) -> CheckResult {
    for call in &checker.calls {
        let Some(CallEnd::Answered { zxid, code }) = &call.end else { continue };
        if !call.operation.is_write() || has_no_zxid(*code) {
            continue;
        }
        let kept =
            checker.committed.get(*zxid).is_some_and(|entry| entry.call.is_some() || call.place.is_some());
        if !kept {
            let text = format!("{:?} was acknowledged as {zxid:#x} and is gone", call.operation);
            return Err(Violation::new(NAME, text));
        }
    }
    Ok(())
}
