//! Which learners count for the quorums of discovery and synchronization. Followers count, and observers
//! that a proposed config makes voters: it may have no quorum without them.

use crate::learner_handler::LearnerIdentity;
use crate::role::Role;
use crate::zab_state::ZabState;

/// Whether a learner counts. An observer counts only for the proposed config, and only if it acked the
/// epoch. A voter with a later accepted epoch connects as an observer and does not count.
///
/// Such an observer is as safe as a voter. It writes the epoch before its ACKEPOCH, and the history before
/// its ack of NEWLEADER. An observer may follow an older leader than it has accepted. Its ACKEPOCH does not
/// count there, so neither does its ack of NEWLEADER. It acks proposals only after it connects as a voter.
pub(super) fn counts(identity: LearnerIdentity, has_acked_epoch: bool, state: &ZabState) -> bool {
    match identity.role {
        Role::Participant => true,
        Role::Observer => {
            has_acked_epoch
                && !state.settings.quorum.is_voter(identity.server)
                && state.pending_quorum().is_some_and(|quorum| quorum.is_voter(identity.server))
        }
    }
}
