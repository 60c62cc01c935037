//! Synchronization at the leader: learners receive its history, and a quorum of NEWLEADER acks commits it.

use zebu_proto::Zxid;

use super::{Leader, LeaderStep, init_limit_ms};
use crate::action::{Action, ServingRole};
use crate::event::{LinkId, LogRead};
use crate::peer_context::PeerContext;
use crate::quorum::QuorumRule;
use crate::zab_state::ZabState;

impl Leader {
    /// Starts the synchronization of a learner that has acked the epoch.
    pub(super) fn synchronize(&mut self, link: LinkId, context: &mut PeerContext<'_>) {
        self.with_learner(link, context.state, |learner, view| learner.synchronize(view, context.out));
    }

    /// The snapshot stream to a learner was sent.
    pub(super) fn snapshot_sent(&mut self, link: LinkId, context: &mut PeerContext<'_>) {
        self.with_learner(link, context.state, |learner, view| learner.snapshot_sent(view, context.out));
    }

    /// A read from the log has finished.
    pub(super) fn log_read(&mut self, link: LinkId, read: LogRead, context: &mut PeerContext<'_>) {
        let result =
            self.with_learner(link, context.state, |learner, view| learner.log_read(read, view, context.out));
        if let Some(Err(reason)) = result {
            self.close_link(link, reason, context.out);
        }
    }

    /// Starts broadcast once a quorum, this leader's disk included, has accepted the history. The history is
    /// then committed.
    pub(super) fn establish(&mut self, context: &mut PeerContext<'_>) {
        let LeaderStep::Synchronizing(synchronization) = &mut self.step else { return };
        if context.state.disk.has_done(synchronization.save_epoch_io) {
            synchronization.acked.insert(context.state.settings.me);
        }
        if !context.state.is_quorum(&synchronization.acked) {
            return;
        }
        if !synchronization.acked.contains(&context.state.settings.me) {
            return;
        }
        let (epoch, initial) = (synchronization.epoch, synchronization.initial_zxid);
        let accepted = std::mem::take(&mut synchronization.acked);
        self.step = LeaderStep::Broadcasting { epoch };
        let pending = context.state.pending_quorum().into_iter().flat_map(QuorumRule::voters);
        let voters = context.state.settings.quorum.voters().chain(pending).collect();
        self.awaited_voters.begin(voters, context.now_ms + init_limit_ms(context.state));
        context.state.commit(initial, context.out);
        let activated = context.state.activate_committed(initial, context.out);
        context.out.push(Action::Serve(ServingRole::Leading { epoch }));
        let links: Vec<LinkId> = self.links().collect();
        for link in links {
            self.send_up_to_date(link, context);
        }
        if activated.is_some() {
            self.update_designated_leader(&accepted, context);
        }
    }

    /// Sends UPTODATE to a learner that has acked NEWLEADER, if the leader is established.
    pub(super) fn send_up_to_date(&mut self, link: LinkId, context: &mut PeerContext<'_>) {
        if matches!(self.step, LeaderStep::Broadcasting { .. } | LeaderStep::Resigning { .. }) {
            self.with_learner(link, context.state, |learner, view| {
                learner.send_up_to_date(view, context.out)
            });
        }
    }
}

/// The last transaction that learners may commit: committed, or part of the initial history.
pub(super) fn committable_zxid(step: &LeaderStep, state: &ZabState) -> Zxid {
    match step {
        LeaderStep::Synchronizing(synchronization) => synchronization.initial_zxid,
        LeaderStep::CollectingEpochs { .. }
        | LeaderStep::SavingEpoch { .. }
        | LeaderStep::AwaitingEpochAcks { .. }
        | LeaderStep::Broadcasting { .. }
        | LeaderStep::Resigning { .. }
        | LeaderStep::SteppingDown(_) => state.committed(),
    }
}
