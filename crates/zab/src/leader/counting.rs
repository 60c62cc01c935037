//! When something is decided: a quorum has it on disk; this leader's own disk has its vote like any other. From
//! the proposal of a configuration on, a quorum of the old one and a quorum of the new one.

use zebu_proto::{ServerId, Zxid};

use super::{Leader, Step};
use crate::action::Action;
use crate::member::Member;
use crate::quorum::QuorumRule;
use crate::teaching::{Kind, LearnerStep, Phase};

/// What each server has acknowledged.
pub(super) type Acks = Vec<(ServerId, Zxid)>;

impl Leader {
    /// Commits what a quorum has. What a new configuration decides alone is counted when it is in effect.
    pub(super) fn count_acks(&mut self, member: &mut Member, now_ms: i64, out: &mut Vec<Action>) {
        while matches!(self.step, Step::Established { .. } | Step::HandingOver { .. }) {
            let mut acks = std::mem::take(&mut self.acks);
            acks.clear();
            acks.extend(self.acks(member));
            let decided = decided(member, &acks);
            self.acks = acks;
            let Some(decided) = decided.filter(|zxid| *zxid > member.committed()) else { return };
            assert!(decided <= member.history.last(), "{decided} was acknowledged, but never proposed");
            member.commit(decided, out);
            if let Some(zxid) = member.activate_through(decided, out) {
                self.activated(zxid, member, now_ms);
            }
            self.pump_all(member, out);
        }
    }

    /// What everybody who may have a say has on disk.
    pub(super) fn acks(&self, member: &Member) -> impl Iterator<Item = (ServerId, Zxid)> {
        let own = (member.settings.me, member.disk.durable());
        std::iter::once(own).chain(self.learners.values().filter_map(|learner| match &learner.step {
            LearnerStep::Flowing(identity, cursor)
                if identity.kind == Kind::Follower
                    && matches!(cursor.phase, Phase::Accepted | Phase::UpToDate) =>
            {
                Some((identity.server, cursor.acked))
            }
            _ => None,
        }))
    }
}

/// The last transaction that is decided. One that is a configuration, and all behind it, need both; when it is
/// decided, that is as far as one can say.
fn decided(member: &Member, acks: &Acks) -> Option<Zxid> {
    let old = decided_by(&member.settings.quorum, acks)?;
    let (Some(pending), Some(quorum)) = (member.pending(), member.pending_quorum()) else { return Some(old) };
    let at = pending.zxid();
    if old < at {
        return Some(old);
    }
    match decided_by(quorum, acks) {
        Some(new) if new >= at => Some(at),
        // The place before the first of an epoch is no transaction: what is decided ends with one.
        _ => member.history.at_or_before(Zxid(at.0 - 1)),
    }
}

/// The last thing that a quorum has, with everything before it: of transactions, of pings.
pub(super) fn decided_by<T: Ord + Copy>(quorum: &QuorumRule, acks: &[(ServerId, T)]) -> Option<T> {
    let has = |voter, wanted| acks.iter().any(|&(server, last)| server == voter && last >= wanted);
    let candidates = acks.iter().map(|&(_, last)| last);
    candidates.filter(|&wanted| quorum.is_quorum_of(|voter| has(voter, wanted))).max()
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
        assert_eq!(decided_by(&quorum, &acks(&[(1, 9), (2, 4), (3, 7)])), Some(Zxid(7)));
        assert_eq!(decided_by(&quorum, &acks(&[(1, 9), (2, 4)])), Some(Zxid(4)));
        assert_eq!(decided_by(&quorum, &acks(&[(1, 9)])), None);
        assert_eq!(decided_by(&quorum, &acks(&[(1, 9), (7, 9), (8, 9)])), None, "strangers have no say");
    }
}
