//! The epoch: later than all that a quorum has promised before, promised by the leader on its own disk first,
//! then by a quorum. Only members have a say.

use std::collections::BTreeSet;

use zebu_proto::quorum::Packet;
use zebu_proto::quorum::packet::{LEARNER_PROTOCOL, LearnerInfo};
use zebu_proto::{ServerId, Zxid};

use super::{Leader, Step, Synchronising, limit_ms};
use crate::action::{Action, CloseReason};
use crate::event::LinkId;
use crate::finding::Finding;
use crate::member::Member;
use crate::role_end::{Pause, RoleEnd};
use crate::teaching::{Identity, Kind, LearnerStep, Position, admit, is_listed};

/// The last epoch. They have 31 bits on the wire, and a file that names the largest number is taken for a damaged one. A
/// promise of this epoch or a later one is not counted: otherwise one wrong file would keep all others from leading.
const EPOCH_MAX: i64 = i32::MAX as i64 - 1;

/// What a learner says instead of its epoch when it must not be counted.
const NOT_COUNTED: i32 = -1;

impl Leader {
    /// A learner says who it is.
    pub(super) fn introduce(
        &mut self,
        link: LinkId,
        kind: Kind,
        accepted: Zxid,
        info: LearnerInfo,
        member: &Member,
        out: &mut Vec<Action>,
    ) -> Result<(), CloseReason> {
        let server = info.server;
        admit(server, kind, self.learners.values(), member)?;
        // A server that is not on a list that never changes has no say, also about the epoch.
        let has_say = member.configuration().is_some() || is_listed(server, kind, member);
        let promised_epoch = accepted.0 >> 32;
        let Some(learner) = self.learners.get_mut(&link) else { return Ok(()) };
        if info.config_version > member.settings.config_version {
            return Err(CloseReason::NewerConfig(info.config_version));
        }
        if info.protocol < LEARNER_PROTOCOL || !matches!(learner.step, LearnerStep::Stranger) {
            return Err(CloseReason::OutOfPlace { step: learner.step.name(), packet: "FOLLOWERINFO" });
        }
        learner.step = LearnerStep::AwaitingEpoch(Identity { server, kind });
        self.replace_older(link, server, out);
        if let Step::Gathering { promised, .. } = &mut self.step
            && has_say
            && promised_epoch < EPOCH_MAX
        {
            promised.insert(server, promised_epoch);
        }
        if let Some(epoch) = self.epoch() {
            if kind == Kind::Follower && promised_epoch > i64::from(epoch) {
                let accepted = promised_epoch;
                out.push(Action::Report(Finding::PromisedLater { server, accepted, epoch }));
            }
            self.tell_epoch(link, epoch, out);
        }
        Ok(())
    }

    /// A server that comes again has given up its older connection, whatever that looks like from here.
    fn replace_older(&mut self, link: LinkId, server: ServerId, out: &mut Vec<Action>) {
        let is_older = |other: LinkId, step: &LearnerStep| {
            other != link && step.identity().is_some_and(|identity| identity.server == server)
        };
        let older: Vec<LinkId> = self
            .learners
            .iter()
            .filter(|(other, learner)| is_older(**other, &learner.step))
            .map(|(other, _)| *other)
            .collect();
        for other in older {
            self.close(other, CloseReason::Replaced, out);
        }
    }

    fn tell_epoch(&mut self, link: LinkId, epoch: u32, out: &mut Vec<Action>) {
        if let Some(learner) = self.learners.get_mut(&link)
            && let LearnerStep::AwaitingEpoch(identity) = learner.step
        {
            learner.step = LearnerStep::Promising(identity);
            let packet = Packet::LeaderInfo { zxid: Zxid::new(epoch, 0), protocol: LEARNER_PROTOCOL };
            out.push(Action::Send { link, packet });
        }
    }

    /// Once a quorum has said which epochs it promised, the next one is chosen.
    pub(super) fn choose_epoch(
        &mut self,
        member: &mut Member,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Result<(), RoleEnd> {
        let Step::Gathering { promised, until_ms } = &self.step else { return Ok(()) };
        let servers: BTreeSet<ServerId> = promised.keys().copied().collect();
        if !member.is_quorum(&servers) {
            return Ok(());
        }
        let highest = promised.values().copied().max().unwrap_or(0).max(member.accepted_epoch);
        // A log may hold what was promised nowhere, if somebody else's word was believed.
        let highest = highest.max(i64::from(member.history.last().epoch()));
        let next = highest.checked_add(1).filter(|epoch| *epoch <= EPOCH_MAX);
        let Some(epoch) = next.and_then(|epoch| u32::try_from(epoch).ok()) else {
            out.push(Action::Report(Finding::NoEpochLeft { highest }));
            return Err(RoleEnd { reason: CloseReason::RoleEnded, pause: Pause::Retry });
        };
        let until_ms = *until_ms;
        let io = member.save_accepted_epoch(epoch, now_ms, out);
        self.step = Step::Promising { io, epoch, until_ms };
        Ok(())
    }

    /// The own promise is on disk: now others may hear of the epoch.
    pub(super) fn propose_epoch(&mut self, member: &mut Member, now_ms: i64, out: &mut Vec<Action>) {
        let Step::Promising { epoch, .. } = self.step else { return };
        let promised = BTreeSet::from([member.settings.me]);
        self.step = Step::Polling { epoch, promised, until_ms: now_ms + limit_ms(member) };
        let links: Vec<LinkId> = self.links().collect();
        for link in links {
            self.tell_epoch(link, epoch, out);
        }
        // An ensemble of one has its quorum already, and nobody else will send an event.
        self.adopt_epoch(member, now_ms, out);
    }

    /// A learner has promised the epoch.
    pub(super) fn epoch_promised(
        &mut self,
        link: LinkId,
        last: Zxid,
        current_epoch: i32,
        member: &mut Member,
        out: &mut Vec<Action>,
    ) -> Result<(), CloseReason> {
        let Some(learner) = self.learners.get_mut(&link) else { return Ok(()) };
        let LearnerStep::Promising(identity) = learner.step else {
            return Err(CloseReason::OutOfPlace { step: learner.step.name(), packet: "ACKEPOCH" });
        };
        if let Step::Polling { promised, .. } = &mut self.step {
            let own = (member.current_epoch, member.history.last());
            // Who ends at the same place has the same history, whichever leaders it has accepted since.
            if (i64::from(current_epoch), last) > own && last != own.1 {
                let current_epoch = i64::from(current_epoch);
                return Err(CloseReason::AheadOfLeader { last, current_epoch });
            }
            let counts = current_epoch != NOT_COUNTED && last.0 != -1 && identity.kind == Kind::Follower;
            if counts {
                promised.insert(identity.server);
            }
        }
        learner.step = LearnerStep::Promised(identity, Position { last });
        if matches!(self.step, Step::Synchronising(_) | Step::Established { .. } | Step::HandingOver { .. }) {
            self.synchronise(link, member, out);
        }
        Ok(())
    }

    /// A quorum has promised the epoch, and nobody in it knows more than this leader: its history becomes the
    /// beginning of the epoch.
    pub(super) fn adopt_epoch(&mut self, member: &mut Member, now_ms: i64, out: &mut Vec<Action>) {
        let Step::Polling { epoch, promised, .. } = &self.step else { return };
        if !member.is_quorum(promised) {
            return;
        }
        let epoch = *epoch;
        member.name_first_version(epoch, out);
        let adopted = member.save_current_epoch(epoch, now_ms, out);
        self.step = Step::Synchronising(Synchronising {
            epoch,
            initial: member.history.last(),
            adopted,
            accepted: BTreeSet::new(),
            until_ms: now_ms + limit_ms(member),
        });
        let links: Vec<LinkId> = self.links().collect();
        for link in links {
            self.synchronise(link, member, out);
        }
    }
}
