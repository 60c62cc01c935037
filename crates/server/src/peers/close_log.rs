//! Logs why links to peers are closed: as WARN where an operator must act, else as DEBUG.

use tracing::{debug, warn};
use zebu_zab::{LinkCloseReason, LinkId};

/// Logs that this server closes a link.
pub(super) fn log_close(link: LinkId, reason: &LinkCloseReason) {
    match reason {
        LinkCloseReason::OwnId(_) | LinkCloseReason::TooManyUnlisted { .. } => {
            warn!(link = link.0, %reason, "a learner was refused");
        }
        LinkCloseReason::TooFarBehind { .. }
        | LinkCloseReason::SlowDisk { .. }
        | LinkCloseReason::RelayFull { .. }
        | LinkCloseReason::MovedSession { .. } => {
            warn!(link = link.0, %reason, "a link to another member is closed");
        }
        LinkCloseReason::RoleEnded
        | LinkCloseReason::Resigned
        | LinkCloseReason::ConfigChanged
        | LinkCloseReason::NoQuorum
        | LinkCloseReason::OtherLeader
        | LinkCloseReason::LeaderUnreachable
        | LinkCloseReason::ConnectionLost
        | LinkCloseReason::NotLeading
        | LinkCloseReason::NotFollowing
        | LinkCloseReason::TimedOut
        | LinkCloseReason::Replaced
        | LinkCloseReason::AheadOfLeader { .. }
        | LinkCloseReason::OldEpoch { .. }
        | LinkCloseReason::Gap { .. }
        | LinkCloseReason::TruncatesCommitted { .. }
        | LinkCloseReason::CannotTruncate(_)
        | LinkCloseReason::UnexpectedPacket { .. }
        | LinkCloseReason::UnknownZxid(_)
        | LinkCloseReason::NeedsSnapshot
        | LinkCloseReason::NewerConfig(_) => {
            debug!(link = link.0, %reason, "a link to another member is closed");
        }
    }
}
