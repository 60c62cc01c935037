//! Leader completeness: a server that begins to lead has every transaction that was committed in earlier
//! epochs. It need not have commits of later leaders: it may learn of its own quorum long after those servers
//! have moved on.

use zebu_proto::Zxid;

use super::Checker;
use crate::history::{CheckResult, Violation};

const NAME: &str = "zab_leader_completeness";

pub(super) fn check_leader(checker: &Checker, server: usize, epoch: u32, last: i64) -> CheckResult {
    let committed = checker.committed.before(Zxid::new(epoch, 0).0);
    if last >= committed {
        return Ok(());
    }
    let text = format!("server {server} begins to lead at {last:#x}, but {committed:#x} is committed");
    Err(Violation::new(NAME, text))
}
