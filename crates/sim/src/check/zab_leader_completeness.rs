//! Completeness of leaders: who begins to lead holds everything that was committed in earlier epochs. What later
//! leaders have decided it need not know: it may be told of its own quorum long after that has gone on.

use zebu_proto::Zxid;

use super::Judge;
use crate::history::{Verdict, Violation};

const NAME: &str = "zab_leader_completeness";

pub(super) fn check_leader(judge: &Judge, server: usize, epoch: u32, last: i64) -> Verdict {
    let committed = judge.ledger.before(Zxid::new(epoch, 0).0);
    if last >= committed {
        return Ok(());
    }
    let text = format!("server {server} begins to lead at {last:#x}, but {committed:#x} is committed");
    Err(Violation::new(NAME, text))
}
