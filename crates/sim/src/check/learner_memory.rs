//! The memory that a server keeps for its learners is bounded in bytes. So is the memory of a learner for
//! transactions that it has not applied. The bound holds however long a learner was away and however slow its
//! disk is.

use crate::history::{CheckResult, Violation};

const NAME: &str = "learner_memory";

/// Bytes beyond the limit of the history: the network's buffer for a connection and one write of a leader.
const SLACK: usize = 128 << 10;

/// Checks the transactions that a server holds in memory.
pub(crate) fn check_history(server: usize, held: usize, limit: usize) -> CheckResult {
    check(server, "transactions", held, limit + SLACK)
}

/// Checks the transactions that a learner holds in memory after a snapshot.
pub(crate) fn check_collected(server: usize, held: usize, limit: usize) -> CheckResult {
    check(server, "transactions behind a snapshot", held, limit + SLACK)
}

/// Checks the packets that a learner holds while its disk changes the history.
pub(crate) fn check_blocked(server: usize, held: usize, limit: usize) -> CheckResult {
    check(server, "packets that wait for the disk", held, limit + SLACK)
}

/// Checks the packets that are queued for one learner's connection.
pub(crate) fn check_queue(server: usize, held: usize, window: usize) -> CheckResult {
    check(server, "packets for a learner", held, window + SLACK)
}

fn check(server: usize, what: &str, held: usize, limit: usize) -> CheckResult {
    if held <= limit {
        return Ok(());
    }
    let text = format!("server {server} holds {held} bytes of {what}; {limit} are allowed");
    Err(Violation::new(NAME, text))
}
