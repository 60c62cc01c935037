//! The roles that this server had, as a task of the admin thread saw them. Exists only with a console.
//!
//! The task looks at two values in memory at an interval. Only after a change it asks the core for the
//! leader.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zebu_node::ServingMode;
use zebu_proto::ServerId;

use crate::admin_state::AttachedViews;

/// Pause between two looks. Shorter roles may be missed.
pub(crate) const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);
/// Changes that are kept.
const CHANGES_MAX: usize = 200;

/// A role that began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoleChange {
    /// Milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// `None` without service for clients.
    pub(crate) role: Option<ServingMode>,
    pub(crate) epoch: Option<u32>,
    pub(crate) leader: Option<ServerId>,
}

/// The last changes, oldest first.
#[derive(Debug, Default)]
pub(crate) struct RoleTimeline(Mutex<VecDeque<RoleChange>>);

impl RoleTimeline {
    pub(crate) fn changes(&self) -> Vec<RoleChange> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    fn is_known(&self, role: Option<ServingMode>, epoch: Option<u32>) -> bool {
        let changes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        changes.back().is_some_and(|last| last.role == role && last.epoch == epoch)
    }

    fn add(&self, change: RoleChange) {
        let mut changes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if changes.len() == CHANGES_MAX {
            changes.pop_front();
        }
        changes.push_back(change);
    }

    /// Looks at the role of the server until the task is dropped.
    pub(crate) async fn follow(self: Arc<RoleTimeline>, views: AttachedViews) {
        loop {
            if let Some(views) = views.get() {
                let (role, epoch) = (views.serving_mode(), views.serving_epoch());
                if !self.is_known(role, epoch) {
                    let leader = views.core().await.and_then(|core| core.leader);
                    self.add(RoleChange { at_ms: now_ms(), role, epoch, leader });
                }
            }
            tokio::time::sleep(SAMPLE_INTERVAL).await;
        }
    }
}

fn now_ms() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_changes_are_kept() {
        let timeline = RoleTimeline::default();
        assert!(!timeline.is_known(None, None), "the first look is a change");
        for epoch in 0..CHANGES_MAX as u32 + 5 {
            timeline.add(RoleChange { at_ms: 0, role: None, epoch: Some(epoch), leader: None });
        }
        let changes = timeline.changes();
        assert_eq!((changes.len(), changes[0].epoch), (CHANGES_MAX, Some(5)));
        assert!(timeline.is_known(None, Some(CHANGES_MAX as u32 + 4)));
    }
}
