//! How far the reading of a backup is, for a person who waits.

use indicatif::{ProgressBar, ProgressStyle};
use zebu_backup::core::plan::Plan;
use zebu_backup::core::replay::{ReplayError, ReplayObserver};

use crate::offline::{Screen, progress_bar};

/// A bar of the bytes that were read.
pub(super) struct BytesRead {
    bar: ProgressBar,
    digests: DigestRule,
    /// Wrong digests after which the replay went on.
    pub(super) wrong_digests: u64,
}

/// What a wrong digest does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DigestRule {
    /// The replay ends.
    Compare,
    /// It is counted.
    Ignore,
}

impl BytesRead {
    /// A bar for a number of bytes.
    pub(super) fn new(total: u64, screen: Screen) -> BytesRead {
        let bar = progress_bar(total, screen);
        BytesRead { bar, digests: DigestRule::Compare, wrong_digests: 0 }
    }

    /// A bar for the objects of a plan.
    pub(super) fn of_plan(plan: &Plan, screen: Screen, digests: DigestRule) -> BytesRead {
        let mut bar = BytesRead::new(bytes_of(plan), screen);
        bar.digests = digests;
        bar
    }
}

impl ReplayObserver for BytesRead {
    fn expect_bytes(&mut self, bytes: u64) {
        self.bar.set_length(bytes);
    }

    fn read_bytes(&mut self, bytes: u64) {
        self.bar.inc(bytes);
    }

    fn goes_on_after(&mut self, _wrong_digest: &ReplayError) -> bool {
        self.wrong_digests += 1;
        self.digests == DigestRule::Ignore
    }
}

/// The bytes of all objects of a plan.
pub(super) fn bytes_of(plan: &Plan) -> u64 {
    plan.base.bytes + plan.segments.iter().map(|segment| segment.bytes).sum::<u64>()
}

/// A bar of things that are counted.
pub(super) struct Counted(ProgressBar);

impl Counted {
    /// A bar for a number of things; zero if it is not known.
    pub(super) fn new(total: u64) -> Counted {
        let bar = progress_bar(total, Screen::Free);
        let template =
            if total == 0 { "{pos} read" } else { "{bar:40} {human_pos} of {human_len}, {eta} left" };
        bar.set_style(ProgressStyle::with_template(template).expect("the template is right"));
        Counted(bar)
    }

    /// So many are done.
    pub(super) fn set(&self, done: u64) {
        self.0.set_position(done);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

impl Drop for BytesRead {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
