//! G8: what was shown to anyone is never undone, and what was undone is never shown. A state that a read
//! names is a state of the one history, which only grows.

use super::Judge;
use crate::history::{Verdict, Violation};

const NAME: &str = "g08_no_resurrection";

pub(super) fn check_seen(judge: &Judge, zxid: i64) -> Verdict {
    if zxid <= 0 || judge.ledger.get(zxid).is_some() {
        return Ok(());
    }
    // A server may name the beginning of an epoch, of which there is no transaction.
    if zxid <= judge.ledger.last() && zebu_proto::Zxid(zxid).counter() == 0 {
        return Ok(());
    }
    Err(Violation::new(NAME, format!("a read shows the state of {zxid:#x}, which was never committed")))
}
