//! Learners in synchronization, by kind. They are sampled at begin and end, as ZooKeeper does.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use zebu_metrics::Summary;
use zebu_zab::LinkId;

/// How a learner is synchronized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncKind {
    /// DIFF or TRUNC.
    Diff,
    /// SNAP.
    Snap,
}

/// The learners in synchronization. The number of links bounds them.
#[derive(Debug, Default)]
pub(crate) struct SyncingLearners {
    learners: Mutex<BTreeMap<LinkId, SyncKind>>,
    pub(crate) diffs: Summary,
    pub(crate) snapshots: Summary,
}

impl SyncingLearners {
    pub(crate) fn begin(&self, link: LinkId, kind: SyncKind) {
        let mut learners = self.lock();
        learners.insert(link, kind);
        self.sample(&learners, kind);
    }

    /// The learner is up to date, or its link has ended.
    pub(crate) fn end(&self, link: LinkId) {
        let mut learners = self.lock();
        if let Some(kind) = learners.remove(&link) {
            self.sample(&learners, kind);
        }
    }

    fn sample(&self, learners: &BTreeMap<LinkId, SyncKind>, kind: SyncKind) {
        let count = learners.values().filter(|other| **other == kind).count() as u64;
        match kind {
            SyncKind::Diff => self.diffs.record(count),
            SyncKind::Snap => self.snapshots.record(count),
        }
    }

    pub(crate) fn reset(&self) {
        self.diffs.reset();
        self.snapshots.reset();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<LinkId, SyncKind>> {
        self.learners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
