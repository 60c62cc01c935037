//! When a member that looks for a leader begins to serve reads alone, and when it ends that.

use crate::clock::Moment;
use crate::core::{Node, Role};
use crate::ensemble::Order;
use crate::lane::Lanes;

use super::Reader;

/// How long a member has been without a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Solitude {
    /// It has one, leads, or is about to.
    Over,
    /// It has looked for one since this moment, monotonic milliseconds.
    Since(i64),
}

impl Node {
    /// Looks at what the peer does now. A search that has ended ends the service with it, before anything else
    /// happens to the state that clients see.
    pub(crate) fn mind_solitude(&mut self, lanes: &mut impl Lanes, now: Moment) {
        if self.desk.settings.read_only_after_ms.is_none() {
            return;
        }
        let Some(member) = self.desk.member() else { return };
        member.solitude = match (member.peer.is_cut_off(), member.solitude) {
            (false, _) => Solitude::Over,
            (true, Solitude::Over) => Solitude::Since(now.monotonic_ms),
            (true, since @ Solitude::Since(_)) => since,
        };
        if let (Solitude::Over, Role::Reading(_)) = (member.solitude, &self.role) {
            self.stop_serving(lanes);
        }
    }

    /// When this member serves reads if it finds no leader until then.
    pub(crate) fn solitude_deadline(&self) -> i64 {
        let Some(member) = self.desk.member_ref() else { return i64::MAX };
        match (&self.role, member.solitude, self.desk.settings.read_only_after_ms) {
            (Role::Idle, Solitude::Since(since_ms), Some(after_ms)) => since_ms.saturating_add(after_ms),
            (Role::Idle | Role::Deciding(_) | Role::Learning(_) | Role::Reading(_), _, _) => i64::MAX,
        }
    }

    /// Serves reads, if no leader was found for long enough.
    pub(crate) fn read_alone_if_due(&mut self, now: Moment) {
        if self.solitude_deadline() <= now.monotonic_ms {
            self.desk.term += 1;
            self.role = Role::Reading(Box::new(Reader::new(&self.desk)));
            self.order(Order::ServeReadOnly);
        }
    }
}
