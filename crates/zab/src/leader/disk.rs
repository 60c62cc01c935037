//! Rules of a leader about disks: whether a quorum has room for a larger tree, which followers are slow, and
//! when this leader hands over: because its own disk is full or slow, or because an operator asks for it.

use std::collections::BTreeSet;

use zebu_proto::ServerId;
use zebu_proto::quorum::DiskRoom;

use super::{Leader, LeaderStep};
use crate::action::Action;
use crate::disk_health::{HandOverReason, HandOverRefusal};
use crate::learner_handler::LearnerHandler;
use crate::peer_context::PeerContext;
use crate::role::Role;
use crate::warning::PeerWarning;
use crate::zab_state::ZabState;

/// A disk is slow only if it is this many times slower than the median of the others.
const SLOW_FACTOR: i64 = 4;

/// The number of slow appends after which a disk counts as slow: one may have another reason.
const SLOW_SAMPLES_MIN: usize = 3;

impl Leader {
    /// Whether a quorum of voters has room, of those that are connected or may still join. Without a full
    /// disk the answer is yes.
    pub(crate) fn quorum_has_room(&self, state: &ZabState) -> bool {
        let own = state.disk_health.room;
        if own != DiskRoom::Full && self.followers().all(|(_, learner)| learner.room != DiskRoom::Full) {
            return true;
        }
        let mut with_room: BTreeSet<ServerId> = self
            .followers()
            .filter(|(_, learner)| learner.room != DiskRoom::Full)
            .map(|(server, _)| server)
            .collect();
        let is_connected = |server| self.followers().any(|(follower, _)| follower == server);
        let me = state.settings.me;
        with_room.extend(self.awaited_voters.iter().filter(|&voter| voter != me && !is_connected(voter)));
        if own != DiskRoom::Full {
            with_room.insert(me);
        }
        state.is_quorum(&with_room)
    }

    /// The identified voters that are connected, synchronized or not.
    fn followers(&self) -> impl Iterator<Item = (ServerId, &LearnerHandler)> {
        self.learners.values().filter_map(|learner| {
            let identity = learner.step.identity()?;
            (identity.role == Role::Participant).then_some((identity.server, learner))
        })
    }

    /// The followers that serve.
    fn synced_followers(&self) -> impl Iterator<Item = (ServerId, &LearnerHandler)> {
        self.followers().filter(|(_, learner)| learner.is_up_to_date())
    }

    /// Begins to time the ACKs of the proposals that have just left.
    pub(super) fn time_acks(&mut self, now_ms: i64) {
        for learner in self.learners.values_mut() {
            if let Some((identity, progress)) = learner.step.replicating()
                && identity.role == Role::Participant
                && progress.proposed > progress.acked
            {
                let proposed = progress.proposed;
                learner.acks.begin(proposed, now_ms);
            }
        }
    }

    /// Finds the followers whose ACKs are much slower than those of the others. They are only shown.
    pub(super) fn compare_latencies(&mut self, context: &mut PeerContext<'_>) {
        context.state.disk_health.appends.expire(context.now_ms);
        for learner in self.learners.values_mut() {
            learner.acks.expire(context.now_ms);
        }
        let Some(slow_ms) = context.state.settings.slow_disk_ms else { return };
        let own = context.state.disk_health.appends.p99_ms();
        let latencies: Vec<(ServerId, i64)> = self
            .synced_followers()
            .filter_map(|(server, learner)| Some((server, learner.acks.p99_ms()?)))
            .collect();
        for learner in self.learners.values_mut() {
            let (Some(identity), Some(p99_ms)) = (learner.step.identity(), learner.acks.p99_ms()) else {
                learner.is_slow = false;
                continue;
            };
            let others = latencies.iter().filter(|(server, _)| *server != identity.server);
            let others = others.map(|(_, p99_ms)| *p99_ms).chain(own).collect();
            learner.is_slow = is_much_slower(p99_ms, others, slow_ms)
                && learner.acks.count_from(slow_ms) >= SLOW_SAMPLES_MIN;
        }
    }

    /// Hands over if the own disk is full or slow, and a follower can do better.
    pub(super) fn hand_over_if_due(&mut self, context: &mut PeerContext<'_>) {
        let LeaderStep::Broadcasting { epoch } = self.step else { return };
        let Some(reason) = self.hand_over_reason(context.state) else { return };
        if !context.state.disk_health.may_hand_over(reason, context.now_ms) {
            return;
        }
        self.begin_hand_over(epoch, reason, context);
    }

    /// Hands over because an operator asks for it.
    pub(crate) fn hand_over_as_asked(
        &mut self,
        context: &mut PeerContext<'_>,
    ) -> Result<(), HandOverRefusal> {
        let LeaderStep::Broadcasting { epoch } = self.step else { return Err(HandOverRefusal::NotReady) };
        let may_lead = |server| context.state.settings.quorum.may_lead(server);
        let has_successor = self
            .synced_followers()
            .any(|(server, learner)| learner.room != DiskRoom::Full && may_lead(server));
        if !has_successor {
            return Err(HandOverRefusal::NoSuccessor);
        }
        self.begin_hand_over(epoch, HandOverReason::Asked, context);
        Ok(())
    }

    fn begin_hand_over(&mut self, epoch: u32, reason: HandOverReason, context: &mut PeerContext<'_>) {
        let append_p99_ms = context.state.disk_health.appends.p99_ms().unwrap_or_default();
        context.state.disk_health.record_hand_over(reason, context.now_ms);
        context.out.push(Action::Report(PeerWarning::HandsOver { reason, append_p99_ms }));
        self.step = LeaderStep::Resigning { epoch };
    }

    fn hand_over_reason(&self, state: &ZabState) -> Option<HandOverReason> {
        let mut successors = self.synced_followers().filter(|(server, learner)| {
            learner.room != DiskRoom::Full && !learner.is_slow && state.settings.quorum.may_lead(*server)
        });
        let has_successor = successors.next().is_some();
        if !has_successor {
            None
        } else if state.disk_health.room == DiskRoom::Full && self.quorum_has_room(state) {
            Some(HandOverReason::FullDisk)
        } else if self.is_own_disk_slow(state) {
            Some(HandOverReason::SlowDisk)
        } else {
            None
        }
    }

    fn is_own_disk_slow(&self, state: &ZabState) -> bool {
        let appends = &state.disk_health.appends;
        let (Some(slow_ms), Some(own)) = (state.settings.slow_disk_ms, appends.p99_ms()) else {
            return false;
        };
        let others = self.synced_followers().filter_map(|(_, learner)| learner.acks.p99_ms()).collect();
        is_much_slower(own, others, slow_ms) && appends.count_from(slow_ms) >= SLOW_SAMPLES_MIN
    }
}

/// Whether a latency is above the limit and far above the median of the others.
fn is_much_slower(p99_ms: i64, mut others: Vec<i64>, slow_ms: i64) -> bool {
    others.sort_unstable();
    let Some(median_ms) = others.get(others.len() / 2) else { return false };
    p99_ms >= slow_ms && p99_ms > median_ms.saturating_mul(SLOW_FACTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_slow_by_itself_and_compared_with_the_others() {
        assert!(is_much_slower(500, vec![2, 100, 124], 500));
        assert!(!is_much_slower(499, vec![2, 100, 124], 500), "below the limit");
        assert!(!is_much_slower(500, vec![2, 125, 130], 500), "the others are slow too");
        assert!(!is_much_slower(9_000, vec![], 500), "there is none to compare with");
    }
}
