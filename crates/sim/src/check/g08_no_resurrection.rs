//! G8: a state that was shown is never undone, and an undone state is never shown. A state that a read names
//! is a state of the one history, which only grows.

use super::Checker;
use crate::history::{CheckResult, Violation};

const NAME: &str = "g08_no_resurrection";

pub(super) fn check_seen(checker: &Checker, zxid: i64) -> CheckResult {
    if zxid <= 0 || checker.committed.get(zxid).is_some() {
        return Ok(());
    }
    // A server may name the beginning of an epoch, which has no transaction.
    if zxid <= checker.committed.last() && zebu_proto::Zxid(zxid).counter() == 0 {
        return Ok(());
    }
    Err(Violation::new(NAME, format!("a read shows the state of {zxid:#x}, which was never committed")))
}
