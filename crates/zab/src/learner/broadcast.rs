//! Broadcast at a learner. After NEWLEADER it logs proposals and acknowledges the durable ones. After
//! UPTODATE it also applies commits.

use zebu_proto::Zxid;
use zebu_proto::quorum::{Capabilities, DiskRoom, Packet};

use super::sync::{advance_commit, append_proposal};
use super::{Learner, LearnerProgress, LearnerStep};
use crate::action::{Action, LinkCloseReason, PeerEffect, ServingRole};
use crate::encoded_txn::EncodedTxn;
use crate::observer_master::ObserverMaster;
use crate::observer_settings::ObserverMasters;
use crate::peer_context::PeerContext;
use crate::role::Role;
use crate::settings::DiskTrust;
use crate::step_down::StepDown;

impl Learner {
    /// History and epoch are on disk: acknowledges NEWLEADER.
    pub(super) fn ack_new_leader(&mut self, context: &mut PeerContext<'_>) {
        let LearnerStep::SavingNewLeader { epoch, progress, .. } = self.step else { return };
        if !context.state.is_ahead_of_disk() {
            context.state.trust = DiskTrust::Trusted;
        }
        context.state.accepted_by_leader();
        let packet = Packet::Ack { zxid: Zxid::new(epoch, 0) };
        context.out.push(Action::Peer(PeerEffect::Send { link: self.link, packet }));
        self.step = LearnerStep::AwaitingUpToDate { epoch, progress };
        self.send_acks(context);
    }

    /// Acknowledges each durable proposal, in order. An observer sends no acks.
    pub(super) fn send_acks(&mut self, context: &mut PeerContext<'_>) {
        let (LearnerStep::AwaitingUpToDate { progress, .. } | LearnerStep::Serving { progress, .. }) =
            &mut self.step
        else {
            return;
        };
        if self.role == Role::Observer || context.state.settings.role == Role::Observer {
            return;
        }
        let durable = context.state.disk.durable();
        while progress.acked < durable && progress.acked >= context.state.history.floor() {
            let Some(next) = context.state.history.after(progress.acked).map(|entry| entry.zxid) else {
                break;
            };
            if next > durable {
                break;
            }
            progress.acked = next;
            let packet = Packet::Ack { zxid: next };
            if let Some(observer_master) = &mut self.observer_master {
                observer_master.goes_to_leader(&packet);
            }
            context.out.push(Action::Peer(PeerEffect::Send { link: self.link, packet }));
        }
    }

    pub(super) fn handle_broadcast_packet(
        &mut self,
        packet: Packet,
        context: &mut PeerContext<'_>,
    ) -> Result<(), StepDown> {
        let observes = self.role == Role::Observer;
        match packet {
            // A serving observer takes INFORM packets only.
            Packet::Proposal { .. } | Packet::Commit { .. } if observes && self.is_serving() => Ok(()),
            Packet::Proposal { zxid, entry } => self.log_proposal(EncodedTxn { zxid, bytes: entry }, context),
            Packet::Commit { zxid } => self.handle_commit(zxid, context),
            Packet::Inform { zxid, entry } if observes => self
                .log_proposal(EncodedTxn { zxid, bytes: entry }, context)
                .and_then(|()| self.handle_commit(zxid, context)),
            Packet::UpToDate => self.handle_up_to_date(context),
            Packet::Ping { .. } => {
                if let LearnerStep::Serving { progress, .. } = self.step {
                    context.out.push(Action::FromLeader { packet, after: progress.committed });
                }
                Ok(())
            }
            Packet::Revalidated { .. } | Packet::Sync => {
                if let LearnerStep::Serving { progress, .. } = self.step
                    && let Some(packet) = self.route_reply(packet, progress.committed, context)
                {
                    context.state.reply_after_commit(progress.committed, packet, context.out);
                }
                Ok(())
            }
            Packet::CommitAndActivate { zxid, designated_leader } => {
                if let Some(observer_master) = &mut self.observer_master {
                    observer_master.record_activation(zxid, designated_leader);
                }
                self.handle_commit(zxid, context)?;
                self.activate_config(zxid, designated_leader, context);
                Ok(())
            }
            Packet::InformAndActivate { zxid, entry, designated_leader } if observes => {
                self.log_proposal(EncodedTxn { zxid, bytes: entry }, context)?;
                self.handle_commit(zxid, context)?;
                self.activate_config(zxid, designated_leader, context);
                Ok(())
            }
            other => Err(self.unexpected_packet(&other)),
        }
    }

    /// Adds the room on the own disk to a ping reply, if the leader reads it. An observer master passes the
    /// leader's announcement on as it is, so its own capabilities are not known.
    pub(super) fn tell_room(&self, own_room: DiskRoom, packet: &mut Packet) {
        if let Packet::PingReply { room, .. } = packet {
            let reads_room = self.masters.is_leader_selected()
                && self.leader_zebu.is_some_and(|zebu| zebu.capabilities.has(Capabilities::DISK_ROOM));
            *room = reads_room.then_some(own_room);
        }
    }

    fn log_proposal(&mut self, entry: EncodedTxn, context: &mut PeerContext<'_>) -> Result<(), StepDown> {
        let epoch = match self.step {
            LearnerStep::SavingNewLeader { epoch, .. }
            | LearnerStep::AwaitingUpToDate { epoch, .. }
            | LearnerStep::Serving { epoch, .. } => epoch,
            LearnerStep::Dialing(_)
            | LearnerStep::AwaitingLeaderInfo
            | LearnerStep::SavingEpoch(_)
            | LearnerStep::AwaitingSync { .. }
            | LearnerStep::ReceivingSnapshot { .. }
            | LearnerStep::ReceivingSnapshotTail(_)
            | LearnerStep::InstallingSnapshot { .. }
            | LearnerStep::Truncating { .. }
            | LearnerStep::Quarantining { .. }
            | LearnerStep::ReceivingDiff(_) => return Ok(()),
        };
        if entry.zxid.epoch() != epoch {
            let after = context.state.history.last();
            return Err(StepDown::for_reason(LinkCloseReason::Gap { after, found: entry.zxid }));
        }
        append_proposal(entry, context).map_err(StepDown::for_reason)
    }

    fn handle_commit(&mut self, zxid: Zxid, context: &mut PeerContext<'_>) -> Result<(), StepDown> {
        let serves = self.is_serving();
        let Some(progress) = self.progress() else { return Ok(()) };
        advance_commit(&mut progress.committed, zxid, context.state).map_err(StepDown::for_reason)?;
        if serves {
            context.state.commit(zxid, context.out);
            if let Some(observer_master) = &mut self.observer_master {
                observer_master.handle_commit(context);
            }
        }
        Ok(())
    }

    /// Handles UPTODATE. A quorum has accepted the history: the history and the commits since then are
    /// committed.
    fn handle_up_to_date(&mut self, context: &mut PeerContext<'_>) -> Result<(), StepDown> {
        let LearnerStep::AwaitingUpToDate { epoch, progress } = self.step else { return Ok(()) };
        context.state.commit(progress.committed, context.out);
        if let Some(announced) = self.announced_config.take() {
            context.state.activate_announced(*announced, progress.committed, context.out);
        }
        if self.role != self.role_for_leader(context.state) {
            context.state.designated_leader = Some(self.leader);
            return Err(StepDown::for_reason(LinkCloseReason::ConfigChanged));
        }
        context.out.push(Action::Peer(PeerEffect::Send {
            link: self.link,
            packet: Packet::Ack { zxid: Zxid::new(epoch, 0) },
        }));
        self.step = LearnerStep::Serving { epoch, progress };
        if self.role == Role::Participant
            && context.state.settings.observer.masters == ObserverMasters::Followers
        {
            self.observer_master =
                Some(Box::new(ObserverMaster::new(epoch, self.link, self.leader_zebu, context)));
        }
        context.out.push(Action::Serve(match self.role {
            Role::Participant => ServingRole::Following { leader: self.leader, epoch },
            Role::Observer => ServingRole::Observing { leader: self.leader, epoch },
        }));
        Ok(())
    }

    /// Passes a reply of the leader to the observer that it is for; returns it if it is for this server.
    fn route_reply(&mut self, packet: Packet, after: Zxid, context: &mut PeerContext<'_>) -> Option<Packet> {
        match &mut self.observer_master {
            Some(observer_master) => observer_master.route_reply(packet, after, context),
            None => Some(packet),
        }
    }

    fn is_serving(&self) -> bool {
        matches!(self.step, LearnerStep::Serving { .. })
    }

    fn progress(&mut self) -> Option<&mut LearnerProgress> {
        match &mut self.step {
            LearnerStep::SavingNewLeader { progress, .. }
            | LearnerStep::AwaitingUpToDate { progress, .. }
            | LearnerStep::Serving { progress, .. } => Some(progress),
            LearnerStep::Dialing(_)
            | LearnerStep::AwaitingLeaderInfo
            | LearnerStep::SavingEpoch(_)
            | LearnerStep::AwaitingSync { .. }
            | LearnerStep::ReceivingSnapshot { .. }
            | LearnerStep::ReceivingSnapshotTail(_)
            | LearnerStep::InstallingSnapshot { .. }
            | LearnerStep::Truncating { .. }
            | LearnerStep::Quarantining { .. }
            | LearnerStep::ReceivingDiff(_) => None,
        }
    }
}
