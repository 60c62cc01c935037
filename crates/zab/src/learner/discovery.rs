//! Discovery at a learner: connect, send FOLLOWERINFO or OBSERVERINFO, and accept the epoch of the leader.
//! ACKEPOCH leaves only when the epoch is on disk.

use zebu_proto::quorum::packet::{LEARNER_PROTOCOL, LearnerInfo};
use zebu_proto::quorum::{Packet, PeerAnnouncement};
use zebu_proto::{ServerId, Zxid};

use super::learner_masters::MasterSearch;
use super::{DialState, Learner, LearnerStep, LearnerVote, QUICK_TRIES, SavingEpoch};
use crate::action::{Action, LinkCloseReason, PeerEffect};
use crate::peer_context::PeerContext;
use crate::role::Role;
use crate::settings::DiskTrust;
use crate::step_down::StepDown;
use crate::sync_need::SyncNeed;
use crate::warning::PeerWarning;

/// The epoch in the ACKEPOCH of a learner that had accepted it before.
const NOT_COUNTED: i32 = -1;

/// The last zxid in the ACKEPOCH of a learner that needs a snapshot. No history contains it, so every leader
/// sends a SNAP. For a zero, an Apache leader could send its log instead.
const NO_HISTORY: Zxid = Zxid(-1);

/// The time for which an observer tries only followers, in milliseconds; at most half of the connect limit.
const FOLLOWERS_FIRST_MS: i64 = 3000;

impl Learner {
    /// The connection failed or was closed. An elected server that does not know its election yet refuses
    /// learners. They try again, first after milliseconds.
    pub(super) fn handle_link_lost(&mut self, context: &mut PeerContext<'_>) -> Result<(), StepDown> {
        if let LearnerStep::AwaitingSync { .. } = self.step {
            context.state.refused_by_leader();
        }
        let limit_ms = context.state.settings.connect_limit * context.state.settings.tick_ms;
        let tried_ms = context.now_ms - self.connecting_since_ms;
        match (&self.step, self.tries_left.checked_sub(1)) {
            // The server is reachable but may never lead: another server may lead by now.
            (LearnerStep::Dialing(_) | LearnerStep::AwaitingLeaderInfo, _) if tried_ms >= limit_ms => {
                Err(StepDown::for_reason(LinkCloseReason::LeaderUnreachable))
            }
            (
                LearnerStep::Dialing(DialState::Waiting) | LearnerStep::AwaitingLeaderInfo,
                Some(tries_left),
            ) => {
                self.tries_left = tries_left;
                let late = tried_ms >= FOLLOWERS_FIRST_MS.min(limit_ms / 2);
                self.masters.advance(if late {
                    MasterSearch::LeaderOnly
                } else {
                    MasterSearch::FollowersFirst
                });
                let failed = self.masters.attempts_max() - tries_left;
                let retry_ms = context.state.settings.retry_ms;
                let pause_ms = (retry_ms >> QUICK_TRIES.saturating_sub(failed)).max(1);
                let until_ms = context.now_ms + pause_ms;
                self.step = LearnerStep::Dialing(DialState::Pausing { until_ms });
                Ok(())
            }
            (LearnerStep::Dialing(_) | LearnerStep::AwaitingLeaderInfo, _) => {
                Err(StepDown::for_reason(LinkCloseReason::LeaderUnreachable))
            }
            (
                LearnerStep::SavingEpoch(_)
                | LearnerStep::AwaitingSync { .. }
                | LearnerStep::ReceivingSnapshot { .. }
                | LearnerStep::ReceivingSnapshotTail(_)
                | LearnerStep::InstallingSnapshot { .. }
                | LearnerStep::Truncating { .. }
                | LearnerStep::Quarantining { .. }
                | LearnerStep::ReceivingDiff(_)
                | LearnerStep::SavingNewLeader { .. }
                | LearnerStep::AwaitingUpToDate { .. }
                | LearnerStep::Serving { .. },
                _,
            ) => Err(StepDown::for_reason(LinkCloseReason::ConnectionLost)),
        }
    }

    /// Closes the connection and connects again to the same leader.
    pub(super) fn reconnect(&mut self, reason: LinkCloseReason, context: &mut PeerContext<'_>) {
        context.out.push(Action::Peer(PeerEffect::Close { link: self.link, reason }));
        self.blocked_packets.clear();
        self.tries_left = self.masters.attempts_max();
        self.connecting_since_ms = context.now_ms;
        self.last_heard_ms = context.now_ms;
        self.step = LearnerStep::Dialing(DialState::Pausing { until_ms: context.now_ms });
    }

    /// What the leader has told about itself.
    pub(crate) fn leader_announcement(&self) -> Option<PeerAnnouncement> {
        self.leader_zebu
    }

    pub(crate) fn leader(&self) -> ServerId {
        self.leader
    }

    pub(super) fn send_learner_info(&mut self, context: &mut PeerContext<'_>) {
        let accepted = Zxid(context.state.accepted_epoch << 32);
        let info = LearnerInfo {
            server: context.state.settings.me,
            protocol: LEARNER_PROTOCOL,
            config_version: context.state.settings.config_version,
            zebu: context.state.settings.announcement,
        };
        self.role = self.role_for_leader(context.state);
        let packet = match self.role {
            Role::Participant => Packet::FollowerInfo { accepted, info },
            Role::Observer => Packet::ObserverInfo { accepted, info },
        };
        context.out.push(Action::Peer(PeerEffect::Send { link: self.link, packet }));
        self.step = LearnerStep::AwaitingLeaderInfo;
    }

    pub(super) fn handle_leader_info(
        &mut self,
        packet: Packet,
        context: &mut PeerContext<'_>,
    ) -> Result<(), StepDown> {
        let Packet::LeaderInfo { zxid, zebu, .. } = packet else {
            return Err(self.unexpected_packet(&packet));
        };
        self.leader_zebu = zebu;
        let epoch = zxid.epoch();
        let accepted = context.state.accepted_epoch;
        let refusal = LinkCloseReason::OldEpoch { proposed: epoch, accepted };
        // Untrusted data counts as no history.
        let current = match context.state.trust {
            DiskTrust::Trusted => context.state.current_epoch,
            DiskTrust::Untrusted => 0,
        };
        if i64::from(epoch) < current || zxid.0 < 0 {
            let (leader, current) = (self.leader, context.state.current_epoch);
            context.out.push(Action::Report(PeerWarning::CannotFollow { leader, epoch, accepted, current }));
            return Err(StepDown::for_reason(refusal));
        }
        // The accepted epoch of an observer counts for no quorum. Only its current epoch limits it.
        if i64::from(epoch) < accepted && self.role == Role::Participant {
            context.out.push(Action::Report(PeerWarning::FollowingWithoutVote {
                leader: self.leader,
                epoch,
                accepted,
            }));
            self.vote = LearnerVote::Withheld;
            self.reconnect(refusal, context);
            return Ok(());
        }
        if i64::from(epoch) >= accepted && self.vote == LearnerVote::Withheld {
            self.vote = LearnerVote::Counted;
            self.reconnect(LinkCloseReason::RoleEnded, context);
            return Ok(());
        }
        context.state.sync_need = context.state.sync_need.for_leader_of(epoch);
        if i64::from(epoch) <= context.state.accepted_epoch {
            // The epoch was accepted before, perhaps from another leader: this ack must not count again.
            self.send_ack_epoch(NOT_COUNTED, epoch, context);
            return Ok(());
        }
        // A proposed config may make this observer a voter, but its disk will not contain the leader's
        // history.
        let current_epoch = match context.state.writes_log() {
            true => i32::try_from(context.state.current_epoch).unwrap_or(NOT_COUNTED),
            false => NOT_COUNTED,
        };
        let io = context.state.save_accepted_epoch(epoch, context.now_ms, context.out);
        self.step = LearnerStep::SavingEpoch(SavingEpoch { io, epoch, current_epoch });
        Ok(())
    }

    pub(super) fn epoch_saved(&mut self, context: &mut PeerContext<'_>) {
        if let LearnerStep::SavingEpoch(SavingEpoch { epoch, current_epoch, .. }) = self.step {
            self.send_ack_epoch(current_epoch, epoch, context);
        }
    }

    fn send_ack_epoch(&mut self, current_epoch: i32, epoch: u32, context: &mut PeerContext<'_>) {
        let last = match (context.state.trust, context.state.sync_need) {
            (DiskTrust::Trusted, SyncNeed::Diff) => context.state.history.last(),
            (DiskTrust::Untrusted, _) | (_, SyncNeed::Snapshot { .. }) => NO_HISTORY,
        };
        context.out.push(Action::Peer(PeerEffect::Send {
            link: self.link,
            packet: Packet::AckEpoch { last, current_epoch },
        }));
        self.step = LearnerStep::AwaitingSync { epoch };
    }
}
