//! A leader whose configuration changes: who leads from then on, and how this leader goes if that is another one.

use std::collections::BTreeSet;

use zebu_proto::{ServerId, Zxid};

use super::{Leader, Step};
use crate::member::Member;
use crate::membership::Configuration;
use crate::quorum::QuorumRule;
use crate::role_end::RoleEnd;
use crate::teaching::{Kind, LearnerStep, Phase};

/// A leader that goes: everybody is to hear of it first, and its clients are to get their answers.
#[derive(Debug)]
pub(super) struct Leaving {
    pub(super) epoch: u32,
    /// When to look whether everybody has heard.
    pub(super) look_at_ms: i64,
    /// When to go in any case.
    until_ms: i64,
}

impl Leader {
    /// Whether those who follow now could decide in this configuration. Who has just become an observer is about to
    /// come again as one, and then acknowledges nothing.
    pub(crate) fn has_quorum_of(&self, configuration: &Configuration, member: &Member) -> bool {
        let mut synced = BTreeSet::from([member.settings.me]);
        for learner in self.learners.values() {
            if let LearnerStep::Flowing(identity, cursor) = &learner.step
                && identity.kind == Kind::Follower
                && cursor.phase == Phase::UpToDate
                && !member.settings.observers.contains(&identity.server)
            {
                synced.insert(identity.server);
            }
        }
        configuration.quorum().is_quorum(&synced)
    }

    /// A configuration has taken effect.
    pub(super) fn activated(&mut self, zxid: Zxid, member: &mut Member, now_ms: i64) {
        let leader = self.reconsider(member, now_ms);
        self.activated.insert(zxid, leader);
    }

    /// Says who leads now; if that is another one, this leader begins to go.
    pub(super) fn reconsider(&mut self, member: &mut Member, now_ms: i64) -> ServerId {
        let leader = self.designated(member);
        if leader != member.settings.me
            && let Some(epoch) = self.epoch()
        {
            let look_at_ms = now_ms + member.settings.retry_ms;
            let until_ms = now_ms + member.settings.sync_limit * member.settings.tick_ms;
            self.step = Step::Leaving(Leaving { epoch, look_at_ms, until_ms });
            member.next_leader = Some(leader);
        }
        leader
    }

    /// This leader if it still has its vote, else the voter that has acknowledged most.
    fn designated(&self, member: &Member) -> ServerId {
        let me = member.settings.me;
        if member.keeps_vote() {
            return me;
        }
        let quorum: &QuorumRule = &member.settings.quorum;
        let acks = self.acks(member);
        let others = acks.filter(|(server, _)| *server != me && quorum.may_lead(*server));
        others.max_by_key(|&(server, acked)| (acked, server)).map_or(me, |(server, _)| server)
    }

    /// Goes when everybody has heard of the new configuration.
    pub(super) fn leave(&mut self, member: &Member, now_ms: i64) -> Result<(), RoleEnd> {
        let Step::Leaving(leaving) = &mut self.step else { return Ok(()) };
        if leaving.look_at_ms > now_ms {
            return Ok(());
        }
        leaving.look_at_ms = now_ms + member.settings.retry_ms;
        let told = self.learners.values().all(|learner| match &learner.step {
            LearnerStep::Flowing(_, cursor) => {
                cursor.phase != Phase::UpToDate || cursor.committed >= member.committed()
            }
            _ => true,
        });
        let delivered = member.delivered() >= member.committed();
        if (told && delivered) || leaving.until_ms <= now_ms { Err(RoleEnd::LINK_LOST) } else { Ok(()) }
    }
}
