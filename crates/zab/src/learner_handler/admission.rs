//! Admission of learners. The config of this server may be older than a learner's: a rolling restart changes
//! a static config server by server. A limited number of servers outside the config may therefore learn.
//! Quorums are counted over the config, so their acks do not count.

use zebu_proto::ServerId;

use super::handler::LearnerHandler;
use crate::action::LinkCloseReason;
use crate::role::Role;
use crate::zab_state::ZabState;

/// The number of learners outside the config at one time.
const UNLISTED_MAX: usize = 32;

/// Whether the config lists a server in the role that it announced.
pub(crate) fn is_listed(server: ServerId, role: Role, state: &ZabState) -> bool {
    match role {
        Role::Participant => state.settings.quorum.is_voter(server),
        Role::Observer => state.settings.observers.contains(&server),
    }
}

/// Refuses a server with the own id, and servers outside the config above their limit. An older connection
/// of the same server does not count.
pub(crate) fn admit<'a>(
    server: ServerId,
    role: Role,
    present: impl Iterator<Item = &'a LearnerHandler>,
    state: &ZabState,
) -> Result<(), LinkCloseReason> {
    if server == state.settings.me {
        return Err(LinkCloseReason::OwnId(server));
    }
    if is_listed(server, role, state) {
        return Ok(());
    }
    let unlisted = present
        .filter_map(|learner| learner.step.identity())
        .filter(|it| it.server != server && !is_listed(it.server, it.role, state));
    if unlisted.count() < UNLISTED_MAX {
        return Ok(());
    }
    Err(LinkCloseReason::TooManyUnlisted { server, limit: UNLISTED_MAX })
}
