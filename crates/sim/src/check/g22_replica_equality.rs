//! G22: all members have the same state after the same transaction.

use super::Judge;
use crate::history::{Verdict, Violation};

const NAME: &str = "g22_replica_equality";

pub(super) fn check_state(judge: &Judge, server: usize, last: i64, digest: i64) -> Verdict {
    match judge.ledger.digest_at(last) {
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
