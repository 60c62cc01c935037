//! What a server keeps in memory for learners, and a learner of what it has not applied yet, is bounded in bytes,
//! however long a learner was away and however slow its disk is.

use crate::history::{Verdict, Violation};

const NAME: &str = "learner_memory";

/// Bytes beyond the limit of the history: what the network holds for a connection, and what a leader sends at once.
const SLACK: usize = 128 << 10;

/// The transactions that a server holds in memory.
pub(crate) fn check_history(server: usize, held: usize, limit: usize) -> Verdict {
    check(server, "transactions", held, limit + SLACK)
}

/// The packets that wait for one learner's connection.
pub(crate) fn check_queue(server: usize, held: usize, window: usize) -> Verdict {
    check(server, "packets for a learner", held, window + SLACK)
}

fn check(server: usize, what: &str, held: usize, limit: usize) -> Verdict {
    if held <= limit {
        return Ok(());
    }
    let text = format!("server {server} holds {held} bytes of {what}; {limit} are allowed");
    Err(Violation::new(NAME, text))
}
