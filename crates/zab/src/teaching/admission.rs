//! Which servers may learn. The list of this server may be older than that of a learner: an ensemble gets other
//! members by restarts with another list, one server after the other. So servers that are not listed may learn, a
//! limited number of them. Quorums are counted over the list, so nothing that they say has weight.

use zebu_proto::ServerId;

use super::learner_link::{Kind, LearnerLink};
use crate::action::CloseReason;
use crate::member::Member;

/// Learners at a time that are not in the configuration.
const UNLISTED_MAX: usize = 32;

/// Whether a server is in the configuration as what it says that it is.
pub(crate) fn is_listed(server: ServerId, kind: Kind, member: &Member) -> bool {
    match kind {
        Kind::Follower => member.settings.quorum.is_voter(server),
        Kind::Observer => member.settings.observers.contains(&server),
    }
}

/// Refuses a server with the id of this one, and servers that are not listed beyond their limit. A connection that
/// the same server had before does not count.
pub(crate) fn admit<'a>(
    server: ServerId,
    kind: Kind,
    present: impl Iterator<Item = &'a LearnerLink>,
    member: &Member,
) -> Result<(), CloseReason> {
    if server == member.settings.me {
        return Err(CloseReason::OwnId(server));
    }
    if is_listed(server, kind, member) {
        return Ok(());
    }
    let unlisted = present
        .filter_map(|learner| learner.step.identity())
        .filter(|it| it.server != server && !is_listed(it.server, it.kind, member));
    if unlisted.count() < UNLISTED_MAX {
        return Ok(());
    }
    Err(CloseReason::TooManyUnlisted { server, limit: UNLISTED_MAX })
}
