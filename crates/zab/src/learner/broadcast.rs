//! Broadcast at a learner. After NEWLEADER it logs proposals and acknowledges the durable ones. After
//! UPTODATE it also applies commits.

use zebu_proto::Zxid;
use zebu_proto::quorum::Packet;

use super::sync::{advance_commit, append_proposal};
use super::{Learner, LearnerProgress, LearnerStep};
use crate::action::{Action, LinkCloseReason, PeerEffect, ServingRole};
use crate::election::Role;
use crate::encoded_txn::EncodedTxn;
use crate::membership::RefusedByLeader;
use crate::observer_master::ObserverMaster;
use crate::observer_settings::ObserverMasters;
use crate::settings::DiskTrust;
use crate::step_down::StepDown;
use crate::zab_state::ZabState;

impl Learner {
    /// History and epoch are on disk: acknowledges NEWLEADER.
    pub(super) fn ack_new_leader(&mut self, state: &mut ZabState, out: &mut Vec<Action>) {
        let LearnerStep::SavingNewLeader { epoch, progress, .. } = self.step else { return };
        if !state.is_ahead_of_disk() {
            state.trust = DiskTrust::Trusted;
        }
        state.set_refused_by_leader(RefusedByLeader::No);
        let packet = Packet::Ack { zxid: Zxid::new(epoch, 0) };
        out.push(Action::Peer(PeerEffect::Send { link: self.link, packet }));
        self.step = LearnerStep::AwaitingUpToDate { epoch, progress };
        self.send_acks(state, out);
    }

    /// Acknowledges each durable proposal, in order. An observer sends no acks.
    pub(super) fn send_acks(&mut self, state: &ZabState, out: &mut Vec<Action>) {
        let (LearnerStep::AwaitingUpToDate { progress, .. } | LearnerStep::Serving { progress, .. }) =
            &mut self.step
        else {
            return;
        };
        if self.role == Role::Observer || state.settings.role == Role::Observer {
            return;
        }
        let durable = state.disk.durable();
        while progress.acked < durable && progress.acked >= state.history.floor() {
            let Some(next) = state.history.after(progress.acked).map(|entry| entry.zxid) else { break };
            if next > durable {
                break;
            }
            progress.acked = next;
            let packet = Packet::Ack { zxid: next };
            if let Some(observer_master) = &mut self.observer_master {
                observer_master.goes_to_leader(&packet);
            }
            out.push(Action::Peer(PeerEffect::Send { link: self.link, packet }));
        }
    }

    pub(super) fn handle_broadcast_packet(
        &mut self,
        packet: Packet,
        state: &mut ZabState,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Result<(), StepDown> {
        let observes = self.role == Role::Observer;
        match packet {
            // A serving observer takes INFORM packets only.
            Packet::Proposal { .. } | Packet::Commit { .. } if observes && self.is_serving() => Ok(()),
            Packet::Proposal { zxid, entry } => {
                self.log_proposal(EncodedTxn { zxid, bytes: entry }, state, now_ms, out)
            }
            Packet::Commit { zxid } => self.handle_commit(zxid, state, out),
            Packet::Inform { zxid, entry } if observes => self
                .log_proposal(EncodedTxn { zxid, bytes: entry }, state, now_ms, out)
                .and_then(|()| self.handle_commit(zxid, state, out)),
            Packet::UpToDate => self.handle_up_to_date(state, now_ms, out),
            Packet::Ping { .. } => {
                if let LearnerStep::Serving { progress, .. } = self.step {
                    out.push(Action::FromLeader { packet, after: progress.committed });
                }
                Ok(())
            }
            Packet::Revalidated { .. } | Packet::Sync => {
                if let LearnerStep::Serving { progress, .. } = self.step
                    && let Some(packet) = self.route_reply(packet, progress.committed, state, out)
                {
                    state.reply_after_commit(progress.committed, packet, out);
                }
                Ok(())
            }
            Packet::CommitAndActivate { zxid, designated_leader } => {
                if let Some(observer_master) = &mut self.observer_master {
                    observer_master.record_activation(zxid, designated_leader);
                }
                self.handle_commit(zxid, state, out)?;
                self.activate_config(zxid, designated_leader, state, now_ms, out);
                Ok(())
            }
            Packet::InformAndActivate { zxid, entry, designated_leader } if observes => {
                self.log_proposal(EncodedTxn { zxid, bytes: entry }, state, now_ms, out)?;
                self.handle_commit(zxid, state, out)?;
                self.activate_config(zxid, designated_leader, state, now_ms, out);
                Ok(())
            }
            other => Err(self.unexpected_packet(&other)),
        }
    }

    fn log_proposal(
        &mut self,
        entry: EncodedTxn,
        state: &mut ZabState,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Result<(), StepDown> {
        let epoch = match self.step {
            LearnerStep::SavingNewLeader { epoch, .. }
            | LearnerStep::AwaitingUpToDate { epoch, .. }
            | LearnerStep::Serving { epoch, .. } => epoch,
            _ => return Ok(()),
        };
        if entry.zxid.epoch() != epoch {
            let after = state.history.last();
            return Err(StepDown::for_reason(LinkCloseReason::Gap { after, found: entry.zxid }));
        }
        append_proposal(entry, state, now_ms, out).map_err(StepDown::for_reason)
    }

    fn handle_commit(
        &mut self,
        zxid: Zxid,
        state: &mut ZabState,
        out: &mut Vec<Action>,
    ) -> Result<(), StepDown> {
        let serves = self.is_serving();
        let Some(progress) = self.progress() else { return Ok(()) };
        advance_commit(&mut progress.committed, zxid, state).map_err(StepDown::for_reason)?;
        if serves {
            state.commit(zxid, out);
            if let Some(observer_master) = &mut self.observer_master {
                observer_master.handle_commit(state, out);
            }
        }
        Ok(())
    }

    /// Handles UPTODATE. A quorum has accepted the history: the history and the commits since then are
    /// committed.
    fn handle_up_to_date(
        &mut self,
        state: &mut ZabState,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Result<(), StepDown> {
        let LearnerStep::AwaitingUpToDate { epoch, progress } = self.step else { return Ok(()) };
        state.commit(progress.committed, out);
        if let Some(announced) = self.announced_config.take() {
            state.activate_announced(*announced, progress.committed, out);
        }
        if self.role != self.role_for_leader(state) {
            state.designated_leader = Some(self.leader);
            return Err(StepDown::for_reason(LinkCloseReason::ConfigChanged));
        }
        out.push(Action::Peer(PeerEffect::Send {
            link: self.link,
            packet: Packet::Ack { zxid: Zxid::new(epoch, 0) },
        }));
        self.step = LearnerStep::Serving { epoch, progress };
        if self.role == Role::Participant && state.settings.observer.masters == ObserverMasters::Followers {
            self.observer_master = Some(Box::new(ObserverMaster::new(epoch, self.link, state, now_ms)));
        }
        out.push(Action::Serve(match self.role {
            Role::Participant => ServingRole::Following { leader: self.leader, epoch },
            Role::Observer => ServingRole::Observing { leader: self.leader, epoch },
        }));
        Ok(())
    }

    /// Passes a reply of the leader to the observer that it is for; returns it if it is for this server.
    fn route_reply(
        &mut self,
        packet: Packet,
        after: Zxid,
        state: &ZabState,
        out: &mut Vec<Action>,
    ) -> Option<Packet> {
        match &mut self.observer_master {
            Some(observer_master) => observer_master.route_reply(packet, after, state, out),
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
            _ => None,
        }
    }
}
