//! Activation of a config at a learner. If its role or its leader changes, it reconnects accordingly. Before
//! that it applies all commits, and clients get time for their replies.

use zebu_proto::{ServerId, Zxid};

use super::Learner;
use crate::action::LinkCloseReason;
use crate::peer_context::PeerContext;
use crate::step_down::StepDown;
use crate::zab_state::ZabState;

/// The time for replies in flight, in milliseconds. Correctness does not depend on it.
const REPLY_GRACE_MS: i64 = 20;

/// The scheduled end of a role.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoleChange {
    /// The config that changed the role or the leader.
    config_zxid: Zxid,
    at_ms: i64,
}

impl Learner {
    /// The config transaction is committed: activates it, and schedules the end of the role if needed.
    pub(super) fn activate_config(
        &mut self,
        config_zxid: Zxid,
        leader: ServerId,
        context: &mut PeerContext<'_>,
    ) {
        if context.state.activate_committed(config_zxid, context.out).is_some()
            && (leader != self.leader || self.role != self.role_for_leader(context.state))
        {
            context.state.designated_leader = Some(leader);
            self.role_change = Some(RoleChange { config_zxid, at_ms: context.now_ms + REPLY_GRACE_MS });
        }
    }

    /// When the role ends because of a config, in milliseconds.
    pub(super) fn leaves_at_ms(&self, state: &ZabState) -> i64 {
        match self.role_change {
            Some(RoleChange { config_zxid, at_ms }) if state.delivered() >= config_zxid => at_ms,
            _ => i64::MAX,
        }
    }

    pub(super) fn leave_if_due(&self, context: &PeerContext<'_>) -> Result<(), StepDown> {
        if self.leaves_at_ms(context.state) <= context.now_ms {
            Err(StepDown::for_reason(LinkCloseReason::ConfigChanged))
        } else {
            Ok(())
        }
    }
}
