//! A leader without a vote in the list that has taken effect proposes nothing more.

use super::Judge;
use crate::history::{Verdict, Violation};
use crate::members::List;

const NAME: &str = "zab_deposed_leader";

/// A list takes effect at a leader, in a turn of its brain.
pub(super) fn note_activation(judge: &mut Judge, server: usize, list: &List, turn: u64) {
    if !list.is_voter(server) {
        judge.servers[server].deposed = Some(turn);
    }
}

/// A server writes to its log while it leads.
pub(super) fn check_append(judge: &Judge, server: usize, last: i64, turn: u64) -> Verdict {
    match judge.servers[server].deposed {
        Some(since) if turn > since => {
            let text = format!("server {server} leads without a vote, and goes on with {last:#x}");
            Err(Violation::new(NAME, text))
        }
        Some(_) | None => Ok(()),
    }
}
