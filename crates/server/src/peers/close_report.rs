//! Says in the log why links to other members are closed: loudly where an operator has to do something.

use tracing::{debug, warn};
use zebu_zab::{CloseReason, LinkId};

/// A link is closed from here.
pub(super) fn closed(link: LinkId, reason: &CloseReason) {
    match reason {
        CloseReason::OwnId(_) | CloseReason::TooManyUnlisted { .. } => {
            warn!(link = link.0, %reason, "a learner was refused");
        }
        CloseReason::TooFarBehind { .. } | CloseReason::SlowDisk { .. } => {
            warn!(link = link.0, %reason, "a link to another member is closed");
        }
        CloseReason::RoleEnded
        | CloseReason::NotLeading
        | CloseReason::NotFollowing
        | CloseReason::Silent
        | CloseReason::Replaced
        | CloseReason::AheadOfLeader { .. }
        | CloseReason::OldEpoch { .. }
        | CloseReason::Gap { .. }
        | CloseReason::TruncatesCommitted { .. }
        | CloseReason::CannotTruncate(_)
        | CloseReason::OutOfPlace { .. }
        | CloseReason::UnknownZxid(_)
        | CloseReason::HistoryGone
        | CloseReason::NewerConfig(_) => {
            debug!(link = link.0, %reason, "a link to another member is closed");
        }
    }
}
