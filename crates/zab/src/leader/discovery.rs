//! Discovery at the leader. The leader chooses an epoch later than the accepted epochs of a quorum, and
//! writes it to its own disk. Then it collects the ACKEPOCHs of a quorum. Only servers of the config count.

use std::collections::BTreeSet;

use zebu_proto::quorum::Packet;
use zebu_proto::quorum::packet::{LEARNER_PROTOCOL, LearnerInfo};
use zebu_proto::{ServerId, Zxid};

use super::votes::counts;
use super::{Leader, LeaderStep, Synchronization, init_limit_ms};
use crate::action::{Action, LinkCloseReason, PeerEffect};
use crate::event::LinkId;
use crate::learner_handler::{HandlerStep, LearnerIdentity, LearnerPosition, admit, is_listed};
use crate::peer_context::PeerContext;
use crate::role::Role;
use crate::step_down::{RetryDelay, StepDown};
use crate::warning::PeerWarning;

/// The last epoch. Epochs have 31 bits in the protocol, and a file with the largest number counts as
/// damaged. Accepted epochs from this one on are ignored: otherwise one wrong file would block every leader.
const EPOCH_MAX: i64 = i32::MAX as i64 - 1;

/// The epoch in an ACKEPOCH that must not be counted.
const NOT_COUNTED: i32 = -1;

/// The last zxid in the ACKEPOCH of a learner that needs a snapshot.
const NO_HISTORY: Zxid = Zxid(-1);

/// The content of FOLLOWERINFO or OBSERVERINFO.
#[derive(Debug)]
pub(super) struct AnnouncedLearner {
    pub(super) role: Role,
    /// The accepted epoch, as a zxid.
    pub(super) accepted: Zxid,
    pub(super) info: LearnerInfo,
}

impl Leader {
    /// Handles FOLLOWERINFO and OBSERVERINFO.
    pub(super) fn handle_learner_info(
        &mut self,
        link: LinkId,
        announced: AnnouncedLearner,
        context: &mut PeerContext<'_>,
    ) -> Result<(), LinkCloseReason> {
        let AnnouncedLearner { role, accepted, info } = announced;
        let server = info.server;
        admit(server, role, self.learners.values(), context.state)?;
        // With a static config, a server outside the config does not influence the epoch.
        let has_say = context.state.configuration().is_some() || is_listed(server, role, context.state);
        let accepted_epoch = accepted.0 >> 32;
        let Some(learner) = self.learners.get_mut(&link) else { return Ok(()) };
        if info.config_version > context.state.settings.config_version {
            return Err(LinkCloseReason::NewerConfig(info.config_version));
        }
        if info.protocol < LEARNER_PROTOCOL || !matches!(learner.step, HandlerStep::Unidentified) {
            return Err(LinkCloseReason::UnexpectedPacket {
                step: learner.step.name(),
                packet: "FOLLOWERINFO",
            });
        }
        learner.step = HandlerStep::AwaitingEpoch(LearnerIdentity { server, role });
        learner.zebu = info.zebu;
        self.close_older_links(link, server, context.out);
        if let LeaderStep::CollectingEpochs { accepted_epochs, .. } = &mut self.step
            && has_say
            && accepted_epoch < EPOCH_MAX
        {
            accepted_epochs.insert(server, accepted_epoch);
        }
        if let Some(epoch) = self.epoch() {
            if role == Role::Participant && accepted_epoch > i64::from(epoch) {
                let accepted = accepted_epoch;
                context.out.push(Action::Report(PeerWarning::LearnerAcceptedLaterEpoch {
                    server,
                    accepted,
                    epoch,
                }));
            }
            self.send_leader_info(link, epoch, context);
        }
        Ok(())
    }

    /// Closes older connections of a server that has reconnected.
    fn close_older_links(&mut self, link: LinkId, server: ServerId, out: &mut Vec<Action>) {
        let is_older = |other: LinkId, step: &HandlerStep| {
            other != link && step.identity().is_some_and(|identity| identity.server == server)
        };
        let older: Vec<LinkId> = self
            .learners
            .iter()
            .filter(|(other, learner)| is_older(**other, &learner.step))
            .map(|(other, _)| *other)
            .collect();
        for other in older {
            self.close_link(other, LinkCloseReason::Replaced, out);
        }
    }

    fn send_leader_info(&mut self, link: LinkId, epoch: u32, context: &mut PeerContext<'_>) {
        if let Some(learner) = self.learners.get_mut(&link)
            && let HandlerStep::AwaitingEpoch(identity) = learner.step
        {
            learner.step = HandlerStep::EpochProposed(identity);
            let zebu = context.state.settings.announcement;
            let packet = Packet::LeaderInfo { zxid: Zxid::new(epoch, 0), protocol: LEARNER_PROTOCOL, zebu };
            context.out.push(Action::Peer(PeerEffect::Send { link, packet }));
        }
    }

    /// Chooses the next epoch once a quorum has reported its accepted epochs.
    pub(super) fn choose_epoch(&mut self, context: &mut PeerContext<'_>) -> Result<(), StepDown> {
        let LeaderStep::CollectingEpochs { accepted_epochs, until_ms } = &self.step else {
            return Ok(());
        };
        let servers: BTreeSet<ServerId> = accepted_epochs.keys().copied().collect();
        if !context.state.is_quorum(&servers) {
            return Ok(());
        }
        let highest = accepted_epochs.values().copied().max().unwrap_or(0).max(context.state.accepted_epoch);
        // The log may contain a later epoch than all accepted epochs; proposals must come after it.
        let highest = highest.max(i64::from(context.state.history.last().epoch()));
        let next = highest.checked_add(1).filter(|epoch| *epoch <= EPOCH_MAX);
        let Some(epoch) = next.and_then(|epoch| u32::try_from(epoch).ok()) else {
            context.out.push(Action::Report(PeerWarning::EpochsExhausted { highest }));
            return Err(StepDown { reason: LinkCloseReason::RoleEnded, retry_delay: RetryDelay::Short });
        };
        let until_ms = *until_ms;
        let io = context.state.save_accepted_epoch(epoch, context.now_ms, context.out);
        self.step = LeaderStep::SavingEpoch { io, epoch, until_ms };
        Ok(())
    }

    /// The accepted epoch is on the own disk: now the leader sends it to the learners.
    pub(super) fn propose_epoch(&mut self, context: &mut PeerContext<'_>) {
        let LeaderStep::SavingEpoch { epoch, .. } = self.step else { return };
        let acked = BTreeSet::from([context.state.settings.me]);
        self.step = LeaderStep::AwaitingEpochAcks {
            epoch,
            acked,
            until_ms: context.now_ms + init_limit_ms(context.state),
        };
        let links: Vec<LinkId> = self.links().collect();
        for link in links {
            self.send_leader_info(link, epoch, context);
        }
        // An ensemble of one already has its quorum, and gets no further event.
        self.begin_synchronization(context);
    }

    /// Handles an ACKEPOCH.
    pub(super) fn handle_ack_epoch(
        &mut self,
        link: LinkId,
        last: Zxid,
        current_epoch: i32,
        context: &mut PeerContext<'_>,
    ) -> Result<(), LinkCloseReason> {
        let Some(learner) = self.learners.get_mut(&link) else { return Ok(()) };
        let HandlerStep::EpochProposed(identity) = learner.step else {
            return Err(LinkCloseReason::UnexpectedPacket { step: learner.step.name(), packet: "ACKEPOCH" });
        };
        let has_acked_epoch = current_epoch != NOT_COUNTED && last != NO_HISTORY;
        if let LeaderStep::AwaitingEpochAcks { acked, .. } = &mut self.step {
            let own = (context.state.current_epoch, context.state.history.last());
            // A learner with the same last zxid has the same history, whichever leaders it has accepted
            // since.
            if (i64::from(current_epoch), last) > own && last != own.1 {
                let current_epoch = i64::from(current_epoch);
                return Err(LinkCloseReason::AheadOfLeader { last, current_epoch });
            }
            if has_acked_epoch && counts(identity, has_acked_epoch, context.state) {
                acked.insert(identity.server);
            }
        }
        learner.has_acked_epoch = has_acked_epoch;
        learner.step = HandlerStep::EpochAcked(identity, LearnerPosition { last });
        if matches!(
            self.step,
            LeaderStep::Synchronizing(_) | LeaderStep::Broadcasting { .. } | LeaderStep::Resigning { .. }
        ) {
            self.synchronize(link, context);
        }
        Ok(())
    }

    /// A quorum has acked the epoch, and no server in it is ahead of this leader. The leader's history
    /// becomes the initial history of the epoch.
    pub(super) fn begin_synchronization(&mut self, context: &mut PeerContext<'_>) {
        let LeaderStep::AwaitingEpochAcks { epoch, acked, .. } = &self.step else { return };
        if !context.state.is_quorum(acked) {
            return;
        }
        let epoch = *epoch;
        context.state.assign_initial_version(epoch, context.out);
        let save_epoch_io = context.state.save_current_epoch(epoch, context.now_ms, context.out);
        self.step = LeaderStep::Synchronizing(Synchronization {
            epoch,
            initial_zxid: context.state.history.last(),
            save_epoch_io,
            acked: BTreeSet::new(),
            until_ms: context.now_ms + init_limit_ms(context.state),
        });
        let links: Vec<LinkId> = self.links().collect();
        for link in links {
            self.synchronize(link, context);
        }
    }
}
