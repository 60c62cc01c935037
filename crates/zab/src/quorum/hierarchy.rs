//! Hierarchical quorums: voters in groups, with weights. A quorum has more than half of the weight in more
//! than half of the groups that have weight.

use std::collections::{BTreeMap, BTreeSet};

use zebu_proto::ServerId;

/// The reason for refusing groups and weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HierarchyError {
    /// A server is in two groups.
    InSeveralGroups(ServerId),
    /// A server without a group has a weight.
    WeightWithoutGroup(ServerId),
    /// A weight is negative.
    NegativeWeight(ServerId, i64),
    /// No group has weight, so no quorum exists.
    NoWeight,
    /// The sum of the weights of a group overflows.
    WeightOverflow(i64),
    /// A server in a group has neither a vote nor a weight.
    NotParticipant(ServerId),
}

impl std::fmt::Display for HierarchyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HierarchyError::InSeveralGroups(server) => {
                write!(f, "server {} is in several groups; keep it in one", server.0)
            }
            HierarchyError::WeightWithoutGroup(server) => {
                write!(f, "weight.{} is given, but the server is in no group", server.0)
            }
            HierarchyError::NegativeWeight(server, weight) => {
                write!(f, "weight.{}={weight}: a weight is zero or more", server.0)
            }
            HierarchyError::NoWeight => write!(f, "no group has any weight, so there is no quorum"),
            HierarchyError::WeightOverflow(group) => {
                write!(f, "the weights of group {group} are too large to be added up")
            }
            HierarchyError::NotParticipant(server) => {
                write!(
                    f,
                    "server {} is in a group, but is not a participant; remove it from the group",
                    server.0
                )
            }
        }
    }
}

impl std::error::Error for HierarchyError {}

/// Groups and weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    group: BTreeMap<ServerId, i64>,
    weight: BTreeMap<ServerId, i64>,
    /// The total weight of each group that has weight.
    group_weight: BTreeMap<i64, i64>,
}

impl Hierarchy {
    /// Builds the hierarchy from the servers of each group and the weights other than one.
    pub fn new(
        groups: impl IntoIterator<Item = (i64, Vec<ServerId>)>,
        weights: impl IntoIterator<Item = (ServerId, i64)>,
    ) -> Result<Hierarchy, HierarchyError> {
        let mut hierarchy =
            Hierarchy { group: BTreeMap::new(), weight: BTreeMap::new(), group_weight: BTreeMap::new() };
        for (group, members) in groups {
            for server in members {
                if hierarchy.group.insert(server, group).is_some() {
                    return Err(HierarchyError::InSeveralGroups(server));
                }
                hierarchy.weight.insert(server, 1);
            }
        }
        for (server, weight) in weights {
            if weight < 0 {
                return Err(HierarchyError::NegativeWeight(server, weight));
            }
            match hierarchy.weight.get_mut(&server) {
                Some(known) => *known = weight,
                None => return Err(HierarchyError::WeightWithoutGroup(server)),
            }
        }
        for (server, group) in &hierarchy.group {
            let weight = hierarchy.weight[server];
            if weight > 0 {
                let total = hierarchy.group_weight.entry(*group).or_insert(0);
                *total = total.checked_add(weight).ok_or(HierarchyError::WeightOverflow(*group))?;
            }
        }
        if hierarchy.group_weight.is_empty() { Err(HierarchyError::NoWeight) } else { Ok(hierarchy) }
    }

    /// Restricts the votes to these servers. The weights of other servers still count in the totals, as in
    /// ZooKeeper.
    #[must_use]
    pub fn with_voters(mut self, voters: &BTreeSet<ServerId>) -> Hierarchy {
        self.group.retain(|server, _| voters.contains(server));
        self.weight.retain(|server, _| voters.contains(server));
        self
    }

    /// All voters.
    pub fn voters(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.group.keys().copied()
    }

    /// The weight of a voter.
    pub fn weight(&self, server: ServerId) -> Option<i64> {
        self.weight.get(&server).copied()
    }

    /// Whether the voters for which `holds` is true are a quorum.
    pub fn is_quorum_of(&self, holds: impl Fn(ServerId) -> bool) -> bool {
        let reached = |group: i64| -> i64 {
            let members = self.group.iter().filter(|(_, of)| **of == group).map(|(server, _)| *server);
            members.filter(|server| holds(*server)).filter_map(|server| self.weight(server)).sum()
        };
        let won = self.group_weight.iter().filter(|(group, total)| reached(**group) > **total / 2).count();
        won > self.group_weight.len() / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(ids: &[i64]) -> Vec<ServerId> {
        ids.iter().copied().map(ServerId).collect()
    }

    fn is_quorum(hierarchy: &Hierarchy, ids: &[i64]) -> bool {
        hierarchy.is_quorum_of(|server| ids.contains(&server.0))
    }

    #[test]
    fn most_of_the_weight_in_most_of_the_groups() {
        let groups = [(1, servers(&[1, 2, 3])), (2, servers(&[4, 5, 6])), (3, servers(&[7, 8, 9]))];
        let hierarchy = Hierarchy::new(groups, []).unwrap();
        assert!(is_quorum(&hierarchy, &[1, 2, 4, 5]));
        assert!(!is_quorum(&hierarchy, &[1, 2, 3, 4, 7]), "one whole group is not two");
        assert!(!is_quorum(&hierarchy, &[1, 4, 7]));
    }

    #[test]
    fn groups_without_weight_do_not_count() {
        let groups = [(1, servers(&[1, 2, 3])), (2, servers(&[4]))];
        let hierarchy = Hierarchy::new(groups, [(ServerId(4), 0)]).unwrap();
        assert!(is_quorum(&hierarchy, &[1, 2]));
    }

    #[test]
    fn who_has_no_vote_weighs_but_does_not_count() {
        let hierarchy = Hierarchy::new([(1, servers(&[1, 2, 3]))], []).unwrap();
        let hierarchy = hierarchy.with_voters(&servers(&[1, 2]).into_iter().collect());
        assert_eq!(hierarchy.voters().collect::<Vec<_>>(), servers(&[1, 2]));
        assert!(!is_quorum(&hierarchy, &[1, 3]));
        assert!(is_quorum(&hierarchy, &[1, 2]));
    }

    #[test]
    fn mistakes_have_names() {
        let twice = [(1, servers(&[1])), (2, servers(&[1]))];
        assert_eq!(Hierarchy::new(twice, []), Err(HierarchyError::InSeveralGroups(ServerId(1))));
        let one = || [(1, servers(&[1]))];
        let stray = Hierarchy::new(one(), [(ServerId(2), 1)]);
        assert_eq!(stray, Err(HierarchyError::WeightWithoutGroup(ServerId(2))));
        assert_eq!(Hierarchy::new(one(), [(ServerId(1), 0)]), Err(HierarchyError::NoWeight));
        let negative = Hierarchy::new(one(), [(ServerId(1), -1)]);
        assert_eq!(negative, Err(HierarchyError::NegativeWeight(ServerId(1), -1)));
    }

    #[test]
    fn weights_that_no_number_holds_are_refused() {
        let group = || [(1, servers(&[1, 2])), (2, servers(&[3]))];
        let weights = |weight| [(ServerId(1), i64::MAX - 1), (ServerId(2), weight), (ServerId(3), i64::MAX)];
        assert_eq!(Hierarchy::new(group(), weights(2)), Err(HierarchyError::WeightOverflow(1)));
        let heavy = Hierarchy::new(group(), weights(1)).unwrap();
        assert!(is_quorum(&heavy, &[1, 2, 3]) && is_quorum(&heavy, &[1, 3]) && !is_quorum(&heavy, &[2, 3]));
    }
}
