//! A leader that does not vote in the config in effect proposes nothing more.

use super::Checker;
use crate::history::{CheckResult, Violation};
use crate::members::EnsembleConfig;

const NAME: &str = "zab_deposed_leader";

/// A config takes effect at a leader, in a step of its state machine.
pub(super) fn note_activation(checker: &mut Checker, server: usize, list: &EnsembleConfig, turn: u64) {
    if !list.is_voter(server) {
        checker.servers[server].deposed = Some(turn);
    }
}

/// A server appends to its log while it leads.
pub(super) fn check_append(checker: &Checker, server: usize, last: i64, turn: u64) -> CheckResult {
    match checker.servers[server].deposed {
        Some(since) if turn > since => {
            let text = format!("server {server} leads without a vote, and goes on with {last:#x}");
            Err(Violation::new(NAME, text))
        }
        Some(_) | None => Ok(()),
    }
}
