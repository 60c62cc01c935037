//! Why a role ends, and how long to wait before the next election.

use crate::action::CloseReason;

/// Whether the next election begins at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// The leader is gone, or this one leads no more: the sooner the better.
    None,
    /// The same would happen again: wait a little.
    Retry,
    /// The same would happen again until an operator does something.
    Long,
}

/// The end of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoleEnd {
    pub(crate) reason: CloseReason,
    pub(crate) pause: Pause,
}

impl RoleEnd {
    /// The connection to the leader is gone.
    pub(crate) const LINK_LOST: RoleEnd = RoleEnd { reason: CloseReason::RoleEnded, pause: Pause::None };

    pub(crate) fn because(reason: CloseReason) -> RoleEnd {
        let pause = match reason {
            CloseReason::Silent | CloseReason::RoleEnded => Pause::None,
            CloseReason::OldEpoch { .. } => Pause::Long,
            _ => Pause::Retry,
        };
        RoleEnd { reason, pause }
    }
}
