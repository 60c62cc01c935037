//! From the connection to the promise: who the learner is, which epoch the leader proposes, and the word that
//! it will never follow an older one, given only when it is on disk.

use zebu_proto::Zxid;
use zebu_proto::quorum::Packet;
use zebu_proto::quorum::packet::{LEARNER_PROTOCOL, LearnerInfo};

use super::targets::Time;
use super::{Dialing, Learner, Promising, QUICK_TRIES, Step, Voice};
use crate::action::{Action, CloseReason};
use crate::election::Role;
use crate::finding::Finding;
use crate::member::Member;
use crate::membership::Refused;
use crate::role_end::RoleEnd;
use crate::settings::Trust;
use crate::wanted::Wanted;

/// Told instead of an epoch by a learner that had promised it before.
const NOT_COUNTED: i32 = -1;

/// Told instead of the last transaction by a learner that needs a whole state: no history holds it, and nothing in
/// common can be found, so every leader sends one. Behind a zero an Apache leader could send its log instead.
const NO_HISTORY: Zxid = Zxid(-1);

/// How long an observer asks followers only, if the limit for connecting is not short.
const FOLLOWERS_FIRST_MS: i64 = 3000;

impl Learner {
    /// A leader that has not yet heard of its election cannot be reached, or closes those who come too early:
    /// they try again, at first very soon: it may be a matter of milliseconds.
    pub(super) fn link_lost(&mut self, member: &mut Member, now_ms: i64) -> Result<(), RoleEnd> {
        if let Step::AwaitingHistory { .. } = self.step {
            member.note_refusal(Refused::Yes);
        }
        let patience_ms = member.settings.connect_limit * member.settings.tick_ms;
        let tried_ms = now_ms - self.began_ms;
        match (&self.step, self.tries_left.checked_sub(1)) {
            // Who closes those who come is there, but may never serve: somebody else may lead by now.
            (Step::Dialing(_) | Step::Greeting, _) if tried_ms >= patience_ms => Err(RoleEnd::LINK_LOST),
            (Step::Dialing(Dialing::Waiting) | Step::Greeting, Some(tries_left)) => {
                self.tries_left = tries_left;
                let late = tried_ms >= FOLLOWERS_FIRST_MS.min(patience_ms / 2);
                self.targets.advance(if late { Time::Late } else { Time::Early });
                let failed = self.targets.tries() - tries_left;
                let retry_ms = member.settings.retry_ms;
                let pause_ms = (retry_ms >> QUICK_TRIES.saturating_sub(failed)).max(1);
                let until_ms = now_ms + pause_ms;
                self.step = Step::Dialing(Dialing::Pausing { until_ms });
                Ok(())
            }
            _ => Err(RoleEnd::LINK_LOST),
        }
    }

    /// Gives up the connection, not the leader.
    pub(super) fn come_again(&mut self, reason: CloseReason, now_ms: i64, out: &mut Vec<Action>) {
        out.push(Action::Close { link: self.link, reason });
        self.backlog.clear();
        self.tries_left = self.targets.tries();
        self.began_ms = now_ms;
        self.heard_ms = now_ms;
        self.step = Step::Dialing(Dialing::Pausing { until_ms: now_ms });
    }

    pub(super) fn greet(&mut self, member: &Member, out: &mut Vec<Action>) {
        let accepted = Zxid(member.accepted_epoch << 32);
        let info = LearnerInfo {
            server: member.settings.me,
            protocol: LEARNER_PROTOCOL,
            config_version: member.settings.config_version,
        };
        self.role = self.role_for_leader(member);
        let packet = match self.role {
            Role::Voter => Packet::FollowerInfo { accepted, info },
            Role::Observer => Packet::ObserverInfo { accepted, info },
        };
        out.push(Action::Send { link: self.link, packet });
        self.step = Step::Greeting;
    }

    pub(super) fn leader_info(
        &mut self,
        packet: Packet,
        member: &mut Member,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Result<(), RoleEnd> {
        let Packet::LeaderInfo { zxid, .. } = packet else { return Err(self.out_of_place(&packet)) };
        let epoch = zxid.epoch();
        let accepted = member.accepted_epoch;
        let refusal = CloseReason::OldEpoch { proposed: epoch, accepted };
        // Nothing is left of a history that cannot be trusted.
        let current = match member.trust {
            Trust::Trusted => member.current_epoch,
            Trust::Untrusted => 0,
        };
        if i64::from(epoch) < current || zxid.0 < 0 {
            let (leader, current) = (self.leader, member.current_epoch);
            out.push(Action::Report(Finding::StaysOut { leader, epoch, accepted, current }));
            return Err(RoleEnd::because(refusal));
        }
        // An observer's promise is counted by nobody: it only must not go back behind a history that it has.
        if i64::from(epoch) < accepted && self.role == Role::Voter {
            out.push(Action::Report(Finding::FollowsUncounted { leader: self.leader, epoch, accepted }));
            self.voice = Voice::Withheld;
            self.come_again(refusal, now_ms, out);
            return Ok(());
        }
        if i64::from(epoch) >= accepted && self.voice == Voice::Withheld {
            self.voice = Voice::Counted;
            self.come_again(CloseReason::RoleEnded, now_ms, out);
            return Ok(());
        }
        member.wanted = member.wanted.of_leader_of(epoch);
        if i64::from(epoch) <= member.accepted_epoch {
            // Promised before, to whomever: this voice must not be counted twice.
            self.acknowledge_epoch(NOT_COUNTED, epoch, member, out);
            return Ok(());
        }
        let current_epoch = i32::try_from(member.current_epoch).unwrap_or(NOT_COUNTED);
        let io = member.save_accepted_epoch(epoch, now_ms, out);
        self.step = Step::Promising(Promising { io, epoch, current_epoch });
        Ok(())
    }

    pub(super) fn promised(&mut self, member: &Member, out: &mut Vec<Action>) {
        if let Step::Promising(Promising { epoch, current_epoch, .. }) = self.step {
            self.acknowledge_epoch(current_epoch, epoch, member, out);
        }
    }

    fn acknowledge_epoch(&mut self, current_epoch: i32, epoch: u32, member: &Member, out: &mut Vec<Action>) {
        let last = match (member.trust, member.wanted) {
            (Trust::Trusted, Wanted::Rest) => member.history.last(),
            (Trust::Untrusted, _) | (_, Wanted::WholeState { .. }) => NO_HISTORY,
        };
        out.push(Action::Send { link: self.link, packet: Packet::AckEpoch { last, current_epoch } });
        self.step = Step::AwaitingHistory { epoch };
    }
}
