//! The reason for the end of a role, and the delay before the next election.

use crate::action::LinkCloseReason;

/// The delay before the next election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryDelay {
    /// The leader is lost, or this server no longer leads: the next election starts at once.
    None,
    /// The same error would recur: the next election starts after `retry_ms`.
    Short,
    /// The same error recurs until an operator intervenes: the delay is longer.
    Long,
}

/// The end of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepDown {
    pub(crate) reason: LinkCloseReason,
    pub(crate) retry_delay: RetryDelay,
}

impl StepDown {
    pub(crate) fn for_reason(reason: LinkCloseReason) -> StepDown {
        let retry_delay = match reason {
            LinkCloseReason::TimedOut
            | LinkCloseReason::RoleEnded
            | LinkCloseReason::Resigned
            | LinkCloseReason::ConfigChanged
            | LinkCloseReason::NoQuorum
            | LinkCloseReason::OtherLeader
            | LinkCloseReason::LeaderUnreachable
            | LinkCloseReason::ConnectionLost => RetryDelay::None,
            LinkCloseReason::OldEpoch { .. } => RetryDelay::Long,
            LinkCloseReason::NotLeading
            | LinkCloseReason::NotFollowing
            | LinkCloseReason::TooFarBehind { .. }
            | LinkCloseReason::SlowDisk { .. }
            | LinkCloseReason::Replaced
            | LinkCloseReason::OwnId(_)
            | LinkCloseReason::TooManyUnlisted { .. }
            | LinkCloseReason::AheadOfLeader { .. }
            | LinkCloseReason::Gap { .. }
            | LinkCloseReason::TruncatesCommitted { .. }
            | LinkCloseReason::CannotTruncate(_)
            | LinkCloseReason::UnexpectedPacket { .. }
            | LinkCloseReason::UnknownZxid(_)
            | LinkCloseReason::NeedsSnapshot
            | LinkCloseReason::RelayFull { .. }
            | LinkCloseReason::MovedSession { .. }
            | LinkCloseReason::NewerConfig(_) => RetryDelay::Short,
        };
        StepDown { reason, retry_delay }
    }
}
