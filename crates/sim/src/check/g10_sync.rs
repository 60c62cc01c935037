//! G10: behind a sync, a session sees everything that was answered to anyone before the sync was called,
//! unless the leader changes meanwhile.

use zebu_client::core::Answer;

use super::Judge;
use crate::history::{Verdict, Violation};
use crate::operation::Operation;

const NAME: &str = "g10_sync";

pub(super) fn check_answer(judge: &Judge, index: usize, answer: &Answer) -> Verdict {
    let call = &judge.calls[index];
    if !matches!(*call.operation, Operation::Sync(_)) || answer.code != 0 {
        return Ok(());
    }
    // What was acknowledged in a later epoch than the one this server lives in proves a change of leader.
    let epochs = |zxid: i64| zxid >> 32;
    if answer.zxid >= call.acked_before || epochs(answer.zxid) < epochs(call.acked_before) {
        return Ok(());
    }
    let text = format!(
        "{:#x} was answered before the sync was called, which came back with the state of {:#x}",
        call.acked_before, answer.zxid
    );
    Err(Violation::new(NAME, text))
}
