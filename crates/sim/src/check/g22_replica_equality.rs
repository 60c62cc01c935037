//! G22: all servers have the same state after the same transaction.

use super::Checker;
use crate::history::{CheckResult, Violation};

const NAME: &str = "g22_replica_equality";

pub(super) fn check_state(checker: &Checker, server: usize, last: i64, digest: i64) -> CheckResult {
    match checker.committed.digest_at(last) {
        Some(expected) if expected == digest => Ok(()),
        Some(expected) => {
            let text = format!("server {server} hashes to {digest:#x} at {last:#x}, not to {expected:#x}");
            Err(Violation::new(NAME, text))
        }
        None => {
            Err(Violation::new(NAME, format!("server {server} is at {last:#x}, which was never committed")))
        }
    }
}
