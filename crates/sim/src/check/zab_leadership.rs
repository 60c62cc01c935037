//! Leadership: an epoch has one leader, and it leads once.

use super::Checker;
use crate::history::{CheckResult, Violation};

const NAME: &str = "zab_leadership";

pub(super) fn check_leader(
    checker: &mut Checker,
    server: usize,
    incarnation: u32,
    epoch: u32,
) -> CheckResult {
    checker.led_since.entry(epoch).or_insert(checker.now);
    match checker.leaders.insert(epoch, (server, incarnation)) {
        None => Ok(()),
        Some((before, run)) => {
            let text = format!(
                "server {server} (run {incarnation}) leads epoch {epoch}, which server {before} (run {run}) has led"
            );
            Err(Violation::new(NAME, text))
        }
    }
}
