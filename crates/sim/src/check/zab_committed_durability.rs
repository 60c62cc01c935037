//! Durability of what is committed: when the first member applies a transaction, a quorum of the list in effect has it
//! on disk; if it is a new list, a quorum of that one too.

use super::Judge;
use crate::history::{Verdict, Violation};
use crate::members::proposed_list;

const NAME: &str = "zab_committed_durability";

pub(super) fn check_commit(judge: &Judge, server: usize, zxid: i64, bytes: &[u8]) -> Verdict {
    let holders = judge.holders(zxid, bytes);
    let proposed = proposed_list(bytes);
    for needed in [judge.ledger.chronicle.last()].into_iter().chain(&proposed) {
        if !needed.is_quorum(&holders) {
            let text = format!(
                "server {server} has applied {zxid:#x}, which {holders:?} have on disk: no quorum of {:?}",
                needed.seats
            );
            return Err(Violation::new(NAME, text));
        }
    }
    Ok(())
}
