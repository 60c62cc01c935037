//! G10: behind a sync, a session sees everything that was answered to anyone before the sync was called. A new
//! leader may have begun a moment ago: a leader answers if a quorum was with it within [`margin`], so what the new
//! one has answered before that is seen too.

use zebu_client::core::Answer;

use super::Judge;
use crate::history::{Verdict, Violation};
use crate::operation::Operation;
use crate::queue::{MS, Time};

const NAME: &str = "g10_sync";

/// How far the promise reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Across {
    /// Whichever server leads.
    Leaders,
    /// Unless the leader changes meanwhile: all that a leader of ZooKeeper promises.
    OneEpoch,
}

pub(super) fn check_answer(judge: &Judge, index: usize, answer: &Answer) -> Verdict {
    let call = &judge.calls[index];
    if !matches!(*call.operation, Operation::Sync(_)) || answer.code != 0 {
        return Ok(());
    }
    let epochs = |zxid: i64| zxid >> 32;
    let is_of_later_epoch = epochs(answer.zxid) < epochs(call.acked_before);
    let expected = match (is_of_later_epoch, judge.syncs) {
        (false, _) => call.acked_before,
        (true, Across::Leaders) => judge.acked_at(call.at.saturating_sub(margin(judge.tick))),
        (true, Across::OneEpoch) => 0,
    };
    if answer.zxid >= expected {
        return Ok(());
    }
    let text = format!(
        "{expected:#x} was answered before the sync was called, which came back with the state of {:#x}",
        answer.zxid
    );
    Err(Violation::new(NAME, text))
}

/// How long ago a quorum may have answered the leader that answers a sync: 5/16 of the shortest session timeout,
/// which is two ticks, and what the clock of a server rounds off.
fn margin(tick: Time) -> Time {
    2 * tick * 5 / 16 + 2 * MS
}
