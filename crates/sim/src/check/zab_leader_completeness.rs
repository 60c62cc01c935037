//! Completeness of leaders: who begins to lead holds everything that was ever committed.

use super::Judge;
use crate::history::{Verdict, Violation};

const NAME: &str = "zab_leader_completeness";

pub(super) fn check_leader(judge: &Judge, server: usize, last: i64) -> Verdict {
    let committed = judge.ledger.last();
    if last >= committed {
        return Ok(());
    }
    let text = format!("server {server} begins to lead at {last:#x}, but {committed:#x} is committed");
    Err(Violation::new(NAME, text))
}
