//! Commit rules. A transaction is committed when a quorum has it on disk; the leader's own disk counts like
//! any other. From the proposal of a config on, a quorum of the old and of the new config is needed.

use zebu_proto::{ServerId, Zxid};

use super::{Leader, LeaderStep};
use crate::peer_context::PeerContext;
use crate::quorum::QuorumRule;
use crate::zab_state::ZabState;

/// The last transaction that each server has acknowledged.
pub(super) type Acks = Vec<(ServerId, Zxid)>;

impl Leader {
    /// Commits what a quorum has acknowledged. Acks that count only in a new config count once it is active.
    pub(super) fn maybe_commit(&mut self, context: &mut PeerContext<'_>) {
        while matches!(self.step, LeaderStep::Broadcasting { .. } | LeaderStep::Resigning { .. }) {
            let mut acks = std::mem::take(&mut self.ack_buffer);
            acks.clear();
            acks.extend(self.acks(context.state));
            let committed = committed_zxid(context.state, &acks);
            self.ack_buffer = acks;
            let Some(committed) = committed.filter(|zxid| *zxid > context.state.committed()) else { return };
            assert!(
                committed <= context.state.history.last(),
                "{committed} was acknowledged but never proposed"
            );
            context.state.commit(committed, context.out);
            if let Some(zxid) = context.state.activate_committed(committed, context.out) {
                self.config_activated(zxid, context);
            }
            self.send_pending_to_all(context);
        }
    }

    /// The acks of all servers that may have a vote, with the own disk.
    pub(super) fn acks(&self, state: &ZabState) -> impl Iterator<Item = (ServerId, Zxid)> {
        let own = (state.settings.me, state.disk.durable());
        let followers = self.learners.values().filter_map(|learner| {
            let (identity, progress) = learner.step.replicating()?;
            identity.is_follower_after_ack(progress).then_some((identity.server, progress.acked))
        });
        std::iter::once(own).chain(followers)
    }
}

/// The last committed transaction. A config transaction, and everything after it, needs a quorum of both
/// configs. The result never passes the config transaction, because the rule changes there.
fn committed_zxid(state: &ZabState, acks: &Acks) -> Option<Zxid> {
    let old = acked_by_quorum(&state.settings.quorum, acks)?;
    let (Some(pending), Some(quorum)) = (state.pending_configuration(), state.pending_quorum()) else {
        return Some(old);
    };
    let at = pending.zxid();
    if old < at {
        return Some(old);
    }
    match acked_by_quorum(quorum, acks) {
        Some(new) if new >= at => Some(at),
        // The position before the first transaction of an epoch is not a transaction. The committed history
        // ends with a transaction.
        _ => state.history.at_or_before(Zxid(at.0 - 1)),
    }
}

/// The last value that a quorum has reached, for acks and for ping numbers.
pub(super) fn acked_by_quorum<T: Ord + Copy>(quorum: &QuorumRule, acks: &[(ServerId, T)]) -> Option<T> {
    let has = |voter, target| acks.iter().any(|&(server, last)| server == voter && last >= target);
    let candidates = acks.iter().map(|&(_, last)| last);
    candidates.filter(|&target| quorum.is_quorum_of(|voter| has(voter, target))).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_one_decides() {
        let quorum = QuorumRule::majority((1..=3).map(ServerId));
        let acks = |acks: &[(i64, i64)]| {
            acks.iter().map(|&(server, zxid)| (ServerId(server), Zxid(zxid))).collect::<Vec<_>>()
        };
        assert_eq!(acked_by_quorum(&quorum, &acks(&[(1, 9), (2, 4), (3, 7)])), Some(Zxid(7)));
        assert_eq!(acked_by_quorum(&quorum, &acks(&[(1, 9), (2, 4)])), Some(Zxid(4)));
        assert_eq!(acked_by_quorum(&quorum, &acks(&[(1, 9)])), None);
        assert_eq!(acked_by_quorum(&quorum, &acks(&[(1, 9), (7, 9), (8, 9)])), None, "strangers have no say");
    }
}
