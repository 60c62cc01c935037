//! Begins and ends read-only service of an ensemble member without a leader.

use crate::connection::Connections;
use crate::context::ServeContext;
use crate::core::{Node, NodeRole};
use crate::ensemble::{Effect, ServeEffect};

use super::ReadOnlyRole;

/// The time that a server has been without a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaderless {
    /// The server has a leader, leads, or is joining one.
    No,
    /// The server has looked for a leader since this time, in monotonic milliseconds.
    Since(i64),
}

impl Node {
    /// Updates the state from the peer. When the search for a leader ends, read-only service ends before the
    /// tree that clients read changes.
    pub(crate) fn update_leaderless(&mut self, context: &mut ServeContext<'_, impl Connections>) {
        if self.state.settings.read_only_after_ms.is_none() {
            return;
        }
        let Some(member) = self.state.member_mut() else { return };
        member.leaderless = match (member.peer.can_serve_read_only(), member.leaderless) {
            (false, _) => Leaderless::No,
            (true, Leaderless::No) => Leaderless::Since(context.now.monotonic_ms),
            (true, since @ Leaderless::Since(_)) => since,
        };
        if let (Leaderless::No, NodeRole::ReadOnly(_)) = (member.leaderless, &self.role) {
            self.stop_serving(context);
        }
    }

    /// The time at which this server enters read-only mode if it finds no leader.
    pub(crate) fn read_only_deadline(&self) -> i64 {
        let Some(member) = self.state.member() else { return i64::MAX };
        match (&self.role, member.leaderless, self.state.settings.read_only_after_ms) {
            (NodeRole::NotServing, Leaderless::Since(since_ms), Some(after_ms)) => {
                since_ms.saturating_add(after_ms)
            }
            // Kept connections come first.
            (NodeRole::Suspended(suspended), Leaderless::Since(since_ms), Some(after_ms))
                if suspended.is_idle() =>
            {
                since_ms.saturating_add(after_ms)
            }
            (
                NodeRole::NotServing
                | NodeRole::Suspended(_)
                | NodeRole::Primary(_)
                | NodeRole::Learner(_)
                | NodeRole::ReadOnly(_),
                _,
                _,
            ) => i64::MAX,
        }
    }

    /// Enters read-only mode if no leader was found for long enough.
    pub(crate) fn enter_read_only_if_due(&mut self, context: &mut ServeContext<'_, impl Connections>) {
        if self.read_only_deadline() <= context.now.monotonic_ms {
            self.close_kept(context.connections);
            self.state.term += 1;
            self.role = NodeRole::ReadOnly(Box::new(ReadOnlyRole::new(&self.state)));
            self.effect(Effect::Serve(ServeEffect::ServeReadOnly));
        }
    }
}
