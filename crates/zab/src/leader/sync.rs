//! Synchronization at the leader: learners receive its history, and a quorum of NEWLEADER acks commits it.

use zebu_proto::Zxid;

use super::{Leader, LeaderStep};
use crate::action::{Action, ServingRole};
use crate::event::{LinkId, LogRead};
use crate::zab_state::ZabState;

impl Leader {
    /// Starts the synchronization of a learner that has acked the epoch.
    pub(super) fn synchronize(&mut self, link: LinkId, state: &ZabState, out: &mut Vec<Action>) {
        self.with_learner(link, state, |learner, view| learner.synchronize(link, view, out));
    }

    /// The snapshot stream to a learner was sent.
    pub(super) fn snapshot_sent(&mut self, link: LinkId, state: &ZabState, out: &mut Vec<Action>) {
        self.with_learner(link, state, |learner, view| learner.snapshot_sent(link, view, out));
    }

    /// A read from the log has finished.
    pub(super) fn log_read(&mut self, link: LinkId, read: LogRead, state: &ZabState, out: &mut Vec<Action>) {
        let result = self.with_learner(link, state, |learner, view| learner.log_read(link, read, view, out));
        if let Some(Err(reason)) = result {
            self.close_link(link, reason, out);
        }
    }

    /// Starts broadcast once a quorum, this leader's disk included, has accepted the history. The history is
    /// then committed.
    pub(super) fn establish(&mut self, state: &mut ZabState, now_ms: i64, out: &mut Vec<Action>) {
        let LeaderStep::Synchronizing(synchronization) = &mut self.step else { return };
        if state.disk.has_done(synchronization.save_epoch_io) {
            synchronization.acked.insert(state.settings.me);
        }
        if !state.is_quorum(&synchronization.acked) {
            return;
        }
        if !synchronization.acked.contains(&state.settings.me) {
            return;
        }
        let (epoch, initial) = (synchronization.epoch, synchronization.initial_zxid);
        let accepted = std::mem::take(&mut synchronization.acked);
        self.step = LeaderStep::Broadcasting { epoch };
        state.commit(initial, out);
        let activated = state.activate_committed(initial, out);
        out.push(Action::Serve(ServingRole::Leading { epoch }));
        let links: Vec<LinkId> = self.links().collect();
        for link in links {
            self.send_up_to_date(link, state, out);
        }
        if activated.is_some() {
            self.update_designated_leader(&accepted, state, now_ms);
        }
    }

    /// Sends UPTODATE to a learner that has acked NEWLEADER, if the leader is established.
    pub(super) fn send_up_to_date(&mut self, link: LinkId, state: &ZabState, out: &mut Vec<Action>) {
        if matches!(self.step, LeaderStep::Broadcasting { .. } | LeaderStep::Resigning { .. }) {
            self.with_learner(link, state, |learner, view| learner.send_up_to_date(link, view, out));
        }
    }
}

/// The last transaction that learners may commit: committed, or part of the initial history.
pub(super) fn committable_zxid(step: &LeaderStep, state: &ZabState) -> Zxid {
    match step {
        LeaderStep::Synchronizing(synchronization) => synchronization.initial_zxid,
        _ => state.committed(),
    }
}
