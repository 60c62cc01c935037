//! A server that cannot keep up stops serving: the state that it shows to clients is not much older than its
//! limits allow. A server that loses its leader notices after syncLimit ticks. A leader that loses its quorum
//! notices after as many.

use zebu_zab::ObserverMasters;

use super::{Checker, CheckerLimits};
use crate::history::{CheckResult, Violation};
use crate::queue::{MS, VirtualTime};

const NAME: &str = "served_age";

/// The faults that excuse a server that shows an old state.
#[derive(Clone, Debug)]
pub(crate) struct ServedAges {
    /// The age at which a state is too old.
    limit: VirtualTime,
    /// Until when each server is paused, or has slow links to its peers.
    hindered: Vec<VirtualTime>,
}

impl ServedAges {
    pub(crate) fn new(servers: usize, limits: &CheckerLimits) -> ServedAges {
        const SLACK_TICKS: u64 = 4;
        // An observer notices that its master has stopped after as many ticks more.
        let links = match limits.kinds.masters {
            ObserverMasters::LeaderOnly => 2,
            ObserverMasters::Followers => 3,
        };
        ServedAges {
            limit: (links * limits.sync_limit + SLACK_TICKS) * limits.tick
                + limits.kinds.election_grace_ms as VirtualTime * MS,
            hindered: vec![0; servers],
        }
    }

    /// Records that a server is paused, or that its messages are slow, until a moment.
    pub(crate) fn excuse(&mut self, server: usize, until: VirtualTime) {
        self.hindered[server] = self.hindered[server].max(until);
    }
}

/// A serving server sends a frame to a client, at a state that ends with `applied`.
pub(super) fn check_shown(checker: &Checker, server: usize, applied: i64) -> CheckResult {
    let ages = &checker.served_ages;
    // A server that has just resumed has not had the time to notice.
    if checker.now < ages.hindered[server] + ages.limit {
        return Ok(());
    }
    let next = checker.committed.entries().partition_point(|entry| entry.zxid <= applied);
    let Some(committed_at) = checker.committed_at.get(next) else { return Ok(()) };
    let age = checker.now - committed_at;
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
