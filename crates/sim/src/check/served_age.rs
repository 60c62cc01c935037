//! A server that cannot keep up stops serving: what it shows to clients is never much older than its limits allow.
//! A server that loses its leader notices after syncLimit ticks, and a leader that loses its quorum after as many.

use super::Judge;
use crate::history::{Verdict, Violation};
use crate::queue::{MS, Time};

const NAME: &str = "served_age";

/// What excuses a server that shows an old state.
#[derive(Clone, Debug)]
pub(crate) struct Ages {
    /// What is not younger than this is too old.
    limit: Time,
    /// Until when each server stands still, or has slow paths to the others.
    hindered: Vec<Time>,
}

impl Ages {
    pub(crate) fn new(servers: usize, sync_limit: u64, tick: Time) -> Ages {
        const SLACK_TICKS: u64 = 4;
        Ages { limit: (2 * sync_limit + SLACK_TICKS) * tick, hindered: vec![0; servers] }
    }

    /// A server stands still, or its messages take longer, until a moment.
    pub(crate) fn hinder(&mut self, server: usize, until: Time) {
        self.hindered[server] = self.hindered[server].max(until);
    }
}

/// A server that serves sends something to a client, at a state that ends with `applied`.
pub(super) fn check_shown(judge: &Judge, server: usize, applied: i64) -> Verdict {
    let ages = &judge.ages;
    // A server that went on a moment ago has not had the time to notice.
    if judge.now < ages.hindered[server] + ages.limit {
        return Ok(());
    }
    let next = judge.ledger.entries().partition_point(|entry| entry.zxid <= applied);
    let Some(committed_at) = judge.committed_at.get(next) else { return Ok(()) };
    let age = judge.now - committed_at;
    if age <= ages.limit {
        return Ok(());
    }
    let text = format!(
        "server {server} serves the state of {applied:#x}, which is {} ms old; {} ms are allowed",
        age / MS,
        ages.limit / MS
    );
    Err(Violation::new(NAME, text))
}
