//! Durability of what is committed: when the first member applies a transaction, a majority of the voters
//! has it on disk.

use super::Judge;
use crate::history::{Verdict, Violation};

const NAME: &str = "zab_committed_durability";

pub(super) fn check_commit(judge: &Judge, server: usize, zxid: i64, bytes: &[u8]) -> Verdict {
    let voters = &judge.servers[..judge.voters];
    let holders = voters.iter().filter(|view| view.holds(zxid, bytes)).count();
    if holders * 2 > judge.voters {
        return Ok(());
    }
    let text = format!(
        "server {server} has applied {zxid:#x}, which {holders} of {} voters have on disk",
        judge.voters
    );
    Err(Violation::new(NAME, text))
}
