//! Facts about the quorum of a config: the voters, how many servers may fail, and which must not fail now.
//! They follow groups and weights, so readers count no majorities of their own.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use zebu_proto::ServerId;
use zebu_server::config::membership::{Configuration, Role};
use zebu_server::views::CoreView;

/// Voters up to which the losses of a quorum with groups are counted.
const COUNTED_VOTERS_MAX: usize = 12;
/// Rows of the list of losses.
const LOSSES_MAX: usize = 4;

/// The synchronized voters, which only the leader knows; `None` for another server.
pub(crate) fn synced_voters(
    core: &CoreView,
    own: Option<ServerId>,
    config: &Configuration,
) -> Option<BTreeSet<ServerId>> {
    own.filter(|own| core.leader == Some(*own))?;
    let learners = core.learners.iter().filter(|learner| learner.synced).map(|learner| learner.server);
    let voting = learners.filter(|id| config.role_of(*id) == Role::Participant);
    Some(voting.chain(own).collect())
}

/// Whether a quorum is left after a number of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Survival {
    Always,
    /// It depends on which servers are lost.
    Sometimes,
    Never,
}

impl Survival {
    fn name(self) -> &'static str {
        match self {
            Survival::Always => "always",
            Survival::Sometimes => "sometimes",
            Survival::Never => "never",
        }
    }
}

/// What follows the loss of none, one, two and more voters; `None` if there are too many to try all.
fn survivals(config: &Configuration) -> Option<Vec<Survival>> {
    let voters: Vec<ServerId> = config.voters().collect();
    let count = voters.len();
    if config.groups.is_none() {
        let needed = count / 2 + 1;
        let of_losses = |lost| if count - lost >= needed { Survival::Always } else { Survival::Never };
        return Some((0..count).map(of_losses).collect());
    }
    if count > COUNTED_VOTERS_MAX {
        return None;
    }
    let rule = config.quorum();
    let mut seen = vec![(false, false); count];
    for lost in 0..1_u32 << count {
        let Some((survives, fails)) = seen.get_mut(lost.count_ones() as usize) else { continue };
        let left = voters.iter().enumerate().filter(|(index, _)| lost & (1 << index) == 0);
        match rule.is_quorum(&left.map(|(_, id)| *id).collect()) {
            true => *survives = true,
            false => *fails = true,
        }
    }
    let survival = |(survives, fails): (bool, bool)| match (survives, fails) {
        (true, false) => Survival::Always,
        (true, true) => Survival::Sometimes,
        (false, _) => Survival::Never,
    };
    Some(seen.into_iter().map(survival).collect())
}

/// The facts of a config. `synced` are the voters that are synchronized, if that is known.
pub fn quorum_facts(config: &Configuration, synced: Option<&BTreeSet<ServerId>>) -> Map<String, Value> {
    let ids = |list: &mut dyn Iterator<Item = ServerId>| list.map(|id| id.0).collect::<Vec<i64>>();
    let voters: Vec<ServerId> = config.voters().collect();
    let rule = config.quorum();
    let survivals = survivals(config);
    let tolerated = survivals.as_ref().map(|list| {
        list.iter().take_while(|survival| **survival == Survival::Always).count().saturating_sub(1)
    });
    let losses = survivals.map(|list| {
        let names = list.into_iter().take(LOSSES_MAX).map(Survival::name);
        names.enumerate().map(|(lost, name)| json!({ "lost": lost, "quorum": name })).collect::<Vec<Value>>()
    });
    // Voters without which the synchronized servers are no quorum.
    let critical = synced.map(|synced| {
        let without = |id: &ServerId| {
            let mut left = synced.clone();
            left.remove(id) && !rule.is_quorum(&left)
        };
        ids(&mut voters.iter().copied().filter(without))
    });
    let mut object = Map::new();
    let mut add = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
    add("voters", json!(ids(&mut voters.iter().copied())));
    add("observers", json!(ids(&mut config.observers().into_iter())));
    add("groups", json!(config.groups.is_some()));
    add("needed", json!(config.groups.is_none().then_some(voters.len() / 2 + 1)));
    add("toleratedLosses", json!(tolerated));
    add("losses", json!(losses));
    add(
        "synchronized",
        json!(synced.map(|synced| ids(&mut voters.iter().copied().filter(|id| synced.contains(id))))),
    );
    add("hasQuorum", json!(synced.map(|synced| rule.is_quorum(synced))));
    add("critical", json!(critical));
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(count: i64, more: &str) -> Configuration {
        let servers = (1..=count).map(|id| format!("server.{id}=h{id}:1:2\n")).collect::<String>();
        Configuration::parse(&(servers + more)).unwrap()
    }

    fn ids(list: &[i64]) -> BTreeSet<ServerId> {
        list.iter().copied().map(ServerId).collect()
    }

    #[test]
    fn majorities_are_counted_as_groups_are() {
        for (count, tolerated) in [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 2)] {
            let one_group = (1..=count).map(|id| id.to_string()).collect::<Vec<_>>().join(":");
            let grouped = quorum_facts(&config(count, &format!("group.1={one_group}\n")), None);
            let plain = quorum_facts(&config(count, ""), None);
            assert_eq!(plain["toleratedLosses"], tolerated, "{count}");
            assert_eq!(plain["toleratedLosses"], grouped["toleratedLosses"], "{count}");
            assert_eq!(plain["losses"], grouped["losses"], "{count}");
        }
        let five = quorum_facts(&config(5, ""), Some(&ids(&[1, 2, 3])));
        assert_eq!(
            (&five["critical"], &five["hasQuorum"], &five["needed"]),
            (&json!([1, 2, 3]), &json!(true), &json!(3))
        );
    }

    #[test]
    fn groups_decide_which_servers_may_fail() {
        // Two of three groups are needed, so one group may be lost, and one server of each other group.
        let nine = config(9, "group.1=1:2:3\ngroup.2=4:5:6\ngroup.3=7:8:9\n");
        let facts = quorum_facts(&nine, Some(&ids(&[1, 2, 3, 4, 5])));
        assert_eq!((&facts["groups"], &facts["needed"]), (&json!(true), &Value::Null));
        assert_eq!((&facts["hasQuorum"], &facts["critical"]), (&json!(true), &json!([4, 5])));
        assert_eq!(facts["toleratedLosses"], 3);
        // A server of weight zero votes for nothing.
        let weighted = config(3, "group.1=1:2:3\nweight.1=1\nweight.2=0\nweight.3=0\n");
        let facts = quorum_facts(&weighted, Some(&ids(&[1, 2, 3])));
        assert_eq!((&facts["toleratedLosses"], &facts["critical"]), (&json!(0), &json!([1])));
        let names: Vec<&str> =
            facts["losses"].as_array().unwrap().iter().map(|loss| loss["quorum"].as_str().unwrap()).collect();
        assert_eq!(names, ["always", "sometimes", "sometimes"]);
        assert_eq!(
            quorum_facts(&config(13, "group.1=1:2:3:4:5:6:7:8:9:10:11:12:13\n"), None)["losses"],
            Value::Null
        );
    }
}
