//! Quorum rules. Any two quorums share a voter; the safety of Zab depends on that.

mod hierarchy;

use std::collections::BTreeSet;

use zebu_proto::ServerId;

pub use hierarchy::{Hierarchy, HierarchyError};

/// The sets of voters that are a quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuorumRule {
    /// More than half of the voters.
    Majority {
        /// All voters.
        voters: BTreeSet<ServerId>,
    },
    /// More than half of the weight in more than half of the groups.
    Hierarchy(Hierarchy),
}

impl QuorumRule {
    /// The majority rule for these voters.
    pub fn majority(voters: impl IntoIterator<Item = ServerId>) -> QuorumRule {
        QuorumRule::Majority { voters: voters.into_iter().collect() }
    }

    /// All voters.
    pub fn voters(&self) -> impl Iterator<Item = ServerId> + '_ {
        let (majority, hierarchy) = match self {
            QuorumRule::Majority { voters } => (Some(voters.iter().copied()), None),
            QuorumRule::Hierarchy(hierarchy) => (None, Some(hierarchy.voters())),
        };
        majority.into_iter().flatten().chain(hierarchy.into_iter().flatten())
    }

    /// Whether a server has a vote.
    pub fn is_voter(&self, server: ServerId) -> bool {
        match self {
            QuorumRule::Majority { voters } => voters.contains(&server),
            QuorumRule::Hierarchy(hierarchy) => hierarchy.weight(server).is_some(),
        }
    }

    /// Whether a server may be elected. A voter with weight zero may not.
    pub fn may_lead(&self, server: ServerId) -> bool {
        match self {
            QuorumRule::Majority { voters } => voters.contains(&server),
            QuorumRule::Hierarchy(hierarchy) => hierarchy.weight(server).is_some_and(|weight| weight > 0),
        }
    }

    /// Whether these servers are a quorum. Servers without a vote do not count.
    pub fn is_quorum(&self, servers: &BTreeSet<ServerId>) -> bool {
        self.is_quorum_of(|voter| servers.contains(&voter))
    }

    /// Whether the voters for which `holds` is true are a quorum. It runs for every ack, so it allocates
    /// nothing.
    pub fn is_quorum_of(&self, holds: impl Fn(ServerId) -> bool) -> bool {
        match self {
            QuorumRule::Majority { voters } => {
                voters.iter().filter(|voter| holds(**voter)).count() > voters.len() / 2
            }
            QuorumRule::Hierarchy(hierarchy) => hierarchy.is_quorum_of(holds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(servers: &[i64]) -> BTreeSet<ServerId> {
        servers.iter().copied().map(ServerId).collect()
    }

    #[test]
    fn majorities() {
        let rule = QuorumRule::majority((1..=4).map(ServerId));
        assert!(!rule.is_quorum(&set(&[1, 2])));
        assert!(rule.is_quorum(&set(&[1, 2, 4])));
        assert!(!rule.is_quorum(&set(&[1, 2, 8, 9])), "strangers do not count");
        assert!(QuorumRule::majority([ServerId(7)]).is_quorum(&set(&[7])));
        assert!(!QuorumRule::majority([]).is_quorum(&set(&[])), "nobody decides nothing");
    }

    /// Quorum intersection, over every pair of subsets.
    #[test]
    fn two_quorums_always_meet() {
        let hierarchy = Hierarchy::new(
            [(1, vec![1, 2]), (2, vec![3, 4]), (3, vec![5])]
                .map(|(group, members)| (group, members.into_iter().map(ServerId).collect::<Vec<_>>())),
            [(ServerId(2), 0), (ServerId(4), 3)],
        )
        .unwrap();
        for rule in [QuorumRule::majority((1..=5).map(ServerId)), QuorumRule::Hierarchy(hierarchy)] {
            let subsets: Vec<_> = (0..32u32)
                .map(|bits| (1..=5).filter(|server| bits & (1 << (server - 1)) != 0).map(ServerId).collect())
                .filter(|servers: &BTreeSet<ServerId>| rule.is_quorum(servers))
                .collect();
            assert!(!subsets.is_empty());
            for one in &subsets {
                for other in &subsets {
                    assert!(one.intersection(other).next().is_some(), "{one:?} and {other:?} of {rule:?}");
                }
            }
        }
    }
}
