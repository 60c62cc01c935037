//! What the connections must know about the freshness of the replica: whether its leader can prove more, and
//! since when the state is known to be complete. The core writes it, and every thread with the replica reads
//! it.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

use zebu_proto::client::ReadRequest;
use zebu_proto::quorum::Capabilities;

use crate::replica::Replica;

/// Settings of reads with freshness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreshnessSettings {
    /// Whether clients may use requests that ZooKeeper does not have.
    pub private_requests: bool,
    /// Reads at or below these paths are linearizable for every client (`linearizable.paths`).
    pub linearizable_paths: Box<[Box<str>]>,
}

impl Default for FreshnessSettings {
    fn default() -> FreshnessSettings {
        FreshnessSettings { private_requests: true, linearizable_paths: Box::default() }
    }
}

/// The value of [`ReplicaFreshness::complete_since_ms`] before the first proof.
const NEVER_MS: i64 = i64::MIN;

#[derive(Debug)]
pub(crate) struct ReplicaFreshness {
    pub(crate) settings: FreshnessSettings,
    /// Whether the leader answers a sync only after it has proved its leadership.
    has_strict_leader: AtomicBool,
    /// Whether the leader knows private writes.
    has_private_leader: AtomicBool,
    /// The state contains every transaction that was committed before this time, in monotonic milliseconds.
    complete_since_ms: AtomicI64,
}

impl ReplicaFreshness {
    pub(crate) fn new() -> ReplicaFreshness {
        ReplicaFreshness {
            settings: FreshnessSettings::default(),
            has_strict_leader: AtomicBool::new(false),
            has_private_leader: AtomicBool::new(false),
            complete_since_ms: AtomicI64::new(NEVER_MS),
        }
    }

    /// A serving role begins.
    pub(crate) fn begin_role(&self, leader: Capabilities) {
        self.has_strict_leader.store(leader.has(Capabilities::STRICT_SYNC), Relaxed);
        self.has_private_leader.store(leader.has(Capabilities::PRIVATE_WRITES), Relaxed);
        self.complete_since_ms.store(NEVER_MS, Relaxed);
    }

    /// A check that began at this time has passed. The caller holds the replica.
    pub(super) fn record_check(&self, began_ms: i64) {
        self.complete_since_ms.fetch_max(began_ms, Relaxed);
    }

    pub(super) fn has_strict_leader(&self) -> bool {
        self.has_strict_leader.load(Relaxed)
    }

    /// Whether private writes may be forwarded.
    pub(crate) fn has_private_leader(&self) -> bool {
        self.has_private_leader.load(Relaxed)
    }

    /// Whether the state is at most this old.
    pub(super) fn is_within(&self, max_age_ms: i32, now_ms: i64) -> bool {
        self.complete_since_ms.load(Relaxed) >= now_ms.saturating_sub(i64::from(max_age_ms))
    }
}

impl Replica {
    /// Sets how clients may use reads with freshness.
    #[must_use]
    pub fn with_freshness(mut self, settings: FreshnessSettings) -> Replica {
        self.freshness.settings = settings;
        self
    }

    /// Whether the configuration makes a plain read linearizable.
    pub(crate) fn is_linearizable_by_path(&self, request: &ReadRequest<'_>) -> bool {
        let paths = &self.freshness.settings.linearizable_paths;
        !paths.is_empty() && request.reads(|path| paths.iter().any(|top| is_at_or_below(path, top)))
    }
}

/// Whether the path is that of the node `top`, or below it.
pub(crate) fn is_at_or_below(path: &str, top: &str) -> bool {
    match path.strip_prefix(top) {
        Some(rest) => rest.is_empty() || rest.starts_with('/') || top == "/",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_compared_by_their_parts() {
        for (path, top, expected) in [
            ("/locks", "/locks", true),
            ("/locks/a/b", "/locks", true),
            ("/lockset", "/locks", false),
            ("/lock", "/locks", false),
            ("/a", "/", true),
            ("/", "/", true),
        ] {
            assert_eq!(is_at_or_below(path, top), expected, "{path} {top}");
        }
    }

    #[test]
    fn the_age_counts_from_the_beginning_of_the_check() {
        let freshness = ReplicaFreshness::new();
        assert!(!freshness.is_within(i32::MAX, 0), "no check has passed");
        freshness.record_check(100);
        freshness.record_check(90);
        assert!(freshness.is_within(5, 105) && !freshness.is_within(5, 106));
        freshness.begin_role(Capabilities::STRICT_SYNC);
        assert!(!freshness.has_private_leader());
        assert!(freshness.has_strict_leader() && !freshness.is_within(i32::MAX, 106));
    }
}
