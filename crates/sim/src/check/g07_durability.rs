//! G7: what was acknowledged stays. Every answered write is in the history when it is answered, and at the
//! end every member that serves holds all of it.

use zebu_client::core::Answer;

use super::Judge;
use super::g01_linearizable_writes::has_no_place;
use crate::history::{End, Verdict, Violation};

const NAME: &str = "g07_durability";

pub(super) fn check_acknowledged(judge: &Judge, index: usize, answer: &Answer) -> Verdict {
    let call = &judge.calls[index];
    if call.place.is_some() || has_no_place(answer.code) {
        return Ok(());
    }
    let text = format!("{:?} was acknowledged as {:#x} and never committed", call.operation, answer.zxid);
    Err(Violation::new(NAME, text))
}

/// What had no effect must have none later either.
pub(super) fn check_end(judge: &Judge) -> Verdict {
    for call in &judge.calls {
        let Some(End::Answered { zxid, code }) = &call.end else { continue };
        if !call.operation.is_write() || has_no_place(*code) {
            continue;
        }
        let kept = judge.ledger.get(*zxid).is_some_and(|entry| entry.call.is_some() || call.place.is_some());
        if !kept {
            let text = format!("{:?} was acknowledged as {zxid:#x} and is gone", call.operation);
            return Err(Violation::new(NAME, text));
        }
    }
    Ok(())
}
