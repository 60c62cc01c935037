//! Durability of committed transactions: when the first server applies one, a quorum of the config in effect
//! has it on disk. If the transaction is a reconfig, a quorum of the new config has it too.

use super::Checker;
use crate::history::{CheckResult, Violation};
use crate::members::proposed_config;

const NAME: &str = "zab_committed_durability";

pub(super) fn check_commit(checker: &Checker, server: usize, zxid: i64, bytes: &[u8]) -> CheckResult {
    let holders = checker.holders(zxid, bytes);
    let proposed = proposed_config(bytes);
    for needed in [checker.committed.configs.last()].into_iter().chain(&proposed) {
        if !needed.is_quorum(&holders) {
            let text = format!(
                "server {server} has applied {zxid:#x}, which {holders:?} have on disk: no quorum of {:?}",
                needed.servers
            );
            return Err(Violation::new(NAME, text));
        }
    }
    Ok(())
}
