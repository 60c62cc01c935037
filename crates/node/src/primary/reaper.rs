//! Schedules the removal of empty containers and expired TTL nodes. It checks the tree at intervals and
//! limits the rate of removals, so that clients are not delayed.

use std::collections::VecDeque;

use zebu_tree::Tree;

use crate::clock::Now;
use crate::settings::NodeSettings;

#[derive(Debug)]
pub(super) struct Reaper {
    check_ms: i64,
    spacing_ms: i64,
    never_used_ms: i64,
    next_check_ms: i64,
    next_removal_ms: i64,
    candidates: VecDeque<Box<str>>,
}

impl Reaper {
    pub(super) fn new(settings: &NodeSettings, now_ms: i64) -> Reaper {
        Reaper {
            check_ms: settings.container_check_ms.max(1),
            spacing_ms: 60_000 / settings.container_max_per_minute.max(1),
            never_used_ms: settings.container_never_used_ms,
            next_check_ms: now_ms + settings.container_check_ms.max(1),
            next_removal_ms: now_ms,
            candidates: VecDeque::new(),
        }
    }

    pub(super) fn next_deadline(&self) -> i64 {
        if self.candidates.is_empty() { self.next_check_ms } else { self.next_removal_ms }
    }

    /// Returns the next node to remove now, if any. It may have changed since the check; preparing the
    /// removal checks that it is still empty.
    pub(super) fn next(&mut self, tree: &Tree, now: Now) -> Option<Box<str>> {
        if self.candidates.is_empty() && now.monotonic_ms >= self.next_check_ms {
            self.next_check_ms = now.monotonic_ms + self.check_ms;
            self.candidates = tree.removable(now.wall_ms, self.never_used_ms).into();
        }
        if now.monotonic_ms < self.next_removal_ms {
            return None;
        }
        let path = self.candidates.pop_front()?;
        self.next_removal_ms = now.monotonic_ms + self.spacing_ms;
        Some(path)
    }
}
