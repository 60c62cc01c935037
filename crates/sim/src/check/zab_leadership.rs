//! Leadership: an epoch has one leader, and it leads once.

use super::Checker;
use crate::history::{CheckResult, Violation};

const NAME: &str = "zab_leadership";

pub(super) fn check_leader(judge: &mut Checker, server: usize, incarnation: u32, epoch: u32) -> CheckResult {
    judge.led_since.entry(epoch).or_insert(judge.now);
    match judge.leaders.insert(epoch, (server, incarnation)) {
        None => Ok(()),
        Some((before, run)) => {
            let text = format!(
                "server {server} (run {incarnation}) leads epoch {epoch}, which server {before} (run {run}) has led"
            );
            Err(Violation::new(NAME, text))
        }
    }
}
