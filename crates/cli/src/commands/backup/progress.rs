//! How far the reading of a backup is, for a person who waits.

use indicatif::ProgressBar;
use zebu_backup::core::plan::Plan;
use zebu_backup::core::replay::ReplayObserver;

use crate::offline::{Screen, progress_bar};

/// A bar of the bytes that were read.
pub(super) struct BytesRead {
    bar: ProgressBar,
}

impl BytesRead {
    /// A bar for a number of bytes.
    pub(super) fn new(total: u64, screen: Screen) -> BytesRead {
        BytesRead { bar: progress_bar(total, screen) }
    }

    /// A bar for the objects of a plan.
    pub(super) fn of_plan(plan: &Plan, screen: Screen) -> BytesRead {
        let segments: u64 = plan.segments.iter().map(|segment| segment.bytes).sum();
        BytesRead::new(plan.base.bytes + segments, screen)
    }
}

impl ReplayObserver for BytesRead {
    fn expect_bytes(&mut self, bytes: u64) {
        self.bar.set_length(bytes);
    }

    fn read_bytes(&mut self, bytes: u64) {
        self.bar.inc(bytes);
    }
}

impl Drop for BytesRead {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
