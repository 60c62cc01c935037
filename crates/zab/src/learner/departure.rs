//! A learner whose configuration changes: who has another role in it comes again as what it is, and who has another
//! leader turns to him. Before it goes, what is decided is applied, and clients get a moment to hear of it.

use zebu_proto::{ServerId, Zxid};

use super::Learner;
use crate::action::Action;
use crate::member::Member;
use crate::role_end::RoleEnd;

/// For the answers on their way; nothing depends on it.
const FAREWELL_MS: i64 = 20;

/// The end of a role that is near.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    /// The configuration that asks for it.
    decided: Zxid,
    at_ms: i64,
}

impl Learner {
    /// Everything up to here is decided; if that is a new configuration, it takes effect.
    pub(super) fn activate(
        &mut self,
        decided: Zxid,
        leader: ServerId,
        member: &mut Member,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) {
        if member.activate_through(decided, out).is_some()
            && (leader != self.leader || self.role != self.role_for_leader(member))
        {
            member.next_leader = Some(leader);
            self.departure = Some(Departure { decided, at_ms: now_ms + FAREWELL_MS });
        }
    }

    /// When it is to go, if it is.
    pub(super) fn departs_at_ms(&self, member: &Member) -> i64 {
        match self.departure {
            Some(Departure { decided, at_ms }) if member.delivered() >= decided => at_ms,
            _ => i64::MAX,
        }
    }

    pub(super) fn depart(&self, member: &Member, now_ms: i64) -> Result<(), RoleEnd> {
        if self.departs_at_ms(member) <= now_ms { Err(RoleEnd::LINK_LOST) } else { Ok(()) }
    }
}
