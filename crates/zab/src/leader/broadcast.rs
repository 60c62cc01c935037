//! Proposals, acks and replies of a leader. `commit.rs` counts the acks.

use zebu_proto::Zxid;

use super::votes::counts;
use super::{Leader, LeaderStep};
use crate::action::{Action, LinkCloseReason};
use crate::encoded_txn::EncodedTxn;
use crate::event::LinkId;
use crate::learner_handler::{HandlerStep, LearnerReply, SyncPhase, next_zxid};
use crate::peer_context::PeerContext;
use crate::role::Role;
use crate::step_down::StepDown;
use crate::zab_state::ZabState;

impl Leader {
    pub(crate) fn next_zxid(&self, state: &ZabState) -> Option<Zxid> {
        match self.step {
            LeaderStep::Broadcasting { epoch } => Some(next_zxid(state.history.last(), epoch)),
            LeaderStep::CollectingEpochs { .. }
            | LeaderStep::SavingEpoch { .. }
            | LeaderStep::AwaitingEpochAcks { .. }
            | LeaderStep::Synchronizing(_)
            | LeaderStep::Resigning { .. }
            | LeaderStep::SteppingDown(_) => None,
        }
    }

    pub(crate) fn propose(&mut self, entry: EncodedTxn, context: &mut PeerContext<'_>) {
        let expected = self.next_zxid(context.state);
        assert_eq!(Some(entry.zxid), expected, "a proposal has the next zxid");
        let is_last = entry.zxid.counter() >= context.state.settings.last_counter;
        context.state.append(entry, context.now_ms, context.out);
        if is_last && let LeaderStep::Broadcasting { epoch } = self.step {
            self.step = LeaderStep::Resigning { epoch };
        }
        self.send_pending_to_all(context);
        self.time_acks(context.now_ms);
    }

    /// Accepts no new proposals. The role ends when all proposals are committed and the commits are sent.
    pub(crate) fn resign(&mut self, state: &ZabState) -> Result<(), StepDown> {
        match self.step {
            LeaderStep::Broadcasting { epoch } => self.step = LeaderStep::Resigning { epoch },
            LeaderStep::Resigning { .. } | LeaderStep::SteppingDown(_) => {}
            LeaderStep::CollectingEpochs { .. }
            | LeaderStep::SavingEpoch { .. }
            | LeaderStep::AwaitingEpochAcks { .. }
            | LeaderStep::Synchronizing(_) => {
                return Err(StepDown::for_reason(LinkCloseReason::Resigned));
            }
        }
        self.finish_resignation(state)
    }

    pub(crate) fn finish_resignation(&self, state: &ZabState) -> Result<(), StepDown> {
        let is_resigning = matches!(self.step, LeaderStep::Resigning { .. });
        if !is_resigning || state.committed() != state.history.last() {
            return Ok(());
        }
        // Every serving follower must get the commits before this leader ends its role.
        let all_committed = self.learners.values().all(|learner| {
            learner.step.replicating().is_none_or(|(identity, progress)| {
                identity.role == Role::Observer
                    || progress.phase != SyncPhase::UpToDate
                    || progress.committed >= state.committed()
            })
        });
        if all_committed { Err(StepDown::for_reason(LinkCloseReason::Resigned)) } else { Ok(()) }
    }

    /// Sends a reply to a learner.
    pub(crate) fn send_after_commit(
        &mut self,
        link: LinkId,
        reply: LearnerReply,
        state: &ZabState,
        out: &mut Vec<Action>,
    ) {
        let result =
            self.with_learner(link, state, |learner, view| learner.send_after_commit(reply, view, out));
        if let Some(Err(reason)) = result {
            self.close_link(link, reason, out);
        }
    }

    /// Handles an ACK of a learner.
    pub(super) fn handle_ack(
        &mut self,
        link: LinkId,
        zxid: Zxid,
        context: &mut PeerContext<'_>,
    ) -> Result<(), LinkCloseReason> {
        let Some(epoch) = self.epoch() else { return Err(LinkCloseReason::UnknownZxid(zxid)) };
        let Some(learner) = self.learners.get_mut(&link) else { return Ok(()) };
        let HandlerStep::Replicating(identity, progress) = &mut learner.step else {
            return Err(LinkCloseReason::UnexpectedPacket { step: learner.step.name(), packet: "ACK" });
        };
        if zxid == Zxid::new(epoch, 0) {
            // The first ACK of NEWLEADER accepts the history; the second only reports that the learner
            // serves.
            if let SyncPhase::AwaitingNewLeaderAck { up_to } = progress.phase {
                progress.phase = SyncPhase::NewLeaderAcked;
                progress.acked = progress.acked.max(up_to);
                if let LeaderStep::Synchronizing(synchronization) = &mut self.step
                    && counts(*identity, learner.has_acked_epoch, context.state)
                {
                    synchronization.acked.insert(identity.server);
                }
                self.send_up_to_date(link, context);
            }
            return Ok(());
        }
        if zxid <= progress.acked || identity.role == Role::Observer {
            // Some learners acknowledge transactions that were committed before they connected.
            return Ok(());
        }
        if zxid > progress.proposed || zxid != next_zxid(progress.acked, epoch) {
            return Err(LinkCloseReason::UnknownZxid(zxid));
        }
        progress.acked = zxid;
        learner.acks.finish(zxid, context.now_ms);
        self.handle_proposal_ack(link, zxid, context);
        Ok(())
    }
}
