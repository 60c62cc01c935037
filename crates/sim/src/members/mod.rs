//! Configs as the simulator represents them: the servers, the voters and the quorums. A second
//! implementation; it shares only the text format with the code under test.

mod config_history;
mod reconfig_change;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub(crate) use config_history::{ConfigHistory, proposed_config};
pub(crate) use reconfig_change::{ExpectedVersion, ReconfigChange};

/// The path of the config node.
pub(crate) const CONFIG: &str = "/zookeeper/config";

/// Whether a server votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VoteRight {
    Has,
    Lacks,
}

/// The role and the ports of a server in a config.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerSeat {
    pub(crate) vote: VoteRight,
    pub(crate) quorum_port: u16,
    pub(crate) client_port: u16,
}

/// The default ports of a server.
pub(crate) const QUORUM_PORT: u16 = 2888;
/// The client ports; the first is the default.
pub(crate) const CLIENT_PORTS: [u16; 2] = [2181, 2182];

/// Short, because configs are traced often.
impl fmt::Debug for ServerSeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.vote {
            VoteRight::Has => "voter",
            VoteRight::Lacks => "observer",
        })?;
        if self.quorum_port != QUORUM_PORT {
            write!(f, "@{}", self.quorum_port)?;
        }
        if self.client_port != CLIENT_PORTS[0] {
            write!(f, ":{}", self.client_port)?;
        }
        Ok(())
    }
}

impl ServerSeat {
    pub(crate) fn usual(vote: VoteRight) -> ServerSeat {
        ServerSeat { vote, quorum_port: QUORUM_PORT, client_port: CLIENT_PORTS[0] }
    }

    /// The value of a `server.N` line.
    pub(crate) fn text(&self, server: usize) -> String {
        let role = match self.vote {
            VoteRight::Has => "participant",
            VoteRight::Lacks => "observer",
        };
        format!("s{server}:{}:3888:{role};0.0.0.0:{}", self.quorum_port, self.client_port)
    }
}

/// The config at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EnsembleConfig {
    pub(crate) version: i64,
    pub(crate) servers: BTreeMap<usize, ServerSeat>,
    /// Group and weight of each voter; empty for majority quorums.
    pub(crate) groups: BTreeMap<usize, (i64, i64)>,
}

/// The id of a server.
pub(crate) fn id_of(server: usize) -> i64 {
    server as i64 + 1
}

impl EnsembleConfig {
    pub(crate) fn voters(&self) -> impl Iterator<Item = usize> + '_ {
        self.servers.iter().filter(|(_, seat)| seat.vote == VoteRight::Has).map(|(server, _)| *server)
    }

    pub(crate) fn is_voter(&self, server: usize) -> bool {
        self.servers.get(&server).is_some_and(|seat| seat.vote == VoteRight::Has)
    }

    /// Whether these servers are a quorum: more than half of the voters. With groups, a quorum has more than
    /// half of the weight in more than half of the groups with weight.
    pub(crate) fn is_quorum(&self, servers: &BTreeSet<usize>) -> bool {
        if self.groups.is_empty() {
            let present = self.voters().filter(|voter| servers.contains(voter)).count();
            return present * 2 > self.voters().count();
        }
        let mut weights: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for (server, (group, weight)) in &self.groups {
            let (all, present) = weights.entry(*group).or_default();
            *all += weight;
            *present += if servers.contains(server) { *weight } else { 0 };
        }
        let counted: Vec<_> = weights.values().filter(|(all, _)| *all > 0).collect();
        counted.iter().filter(|(all, present)| present * 2 > *all).count() * 2 > counted.len()
    }

    /// All lines but the version, in unspecified order.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .servers
            .iter()
            .map(|(server, seat)| format!("server.{}={}", id_of(*server), seat.text(*server)))
            .collect();
        let mut groups: BTreeMap<i64, Vec<String>> = BTreeMap::new();
        for (server, (group, weight)) in &self.groups {
            groups.entry(*group).or_default().push(id_of(*server).to_string());
            lines.push(format!("weight.{}={weight}", id_of(*server)));
        }
        // The weight of an observer has no effect.
        for server in self.servers.keys().filter(|it| !groups.is_empty() && !self.groups.contains_key(it)) {
            lines.push(format!("weight.{}=1", id_of(*server)));
        }
        lines.extend(groups.iter().map(|(group, of)| format!("group.{group}={}", of.join(":"))));
        lines.sort();
        lines
    }

    /// The text of `/zookeeper/config`, but for the order of the lines.
    pub(crate) fn text(&self) -> String {
        format!("{}\nversion={:x}", self.lines().join("\n"), self.version)
    }

    /// Parses the output of [`EnsembleConfig::text`], with lines in any order.
    pub(crate) fn read(text: &str) -> Option<EnsembleConfig> {
        let mut list = EnsembleConfig::default();
        let mut weights = BTreeMap::new();
        for line in text.lines() {
            let (key, value) = line.split_once('=')?;
            let number = || key.split_once('.')?.1.parse::<i64>().ok();
            let server = |id: i64| usize::try_from(id - 1).ok();
            if key.starts_with("server.") {
                list.servers.insert(server(number()?)?, read_seat(value)?);
            } else if key.starts_with("group.") {
                for id in value.split(':') {
                    list.groups.insert(server(id.parse().ok()?)?, (number()?, 1));
                }
            } else if key.starts_with("weight.") {
                weights.insert(server(number()?)?, value.parse::<i64>().ok()?);
            } else {
                list.version = i64::from_str_radix(value, 16).ok()?;
            }
        }
        for (server, (_, weight)) in &mut list.groups {
            *weight = weights.get(server).copied().unwrap_or(1);
        }
        Some(list)
    }
}

fn read_seat(value: &str) -> Option<ServerSeat> {
    let (peer, client) = value.split_once(';')?;
    let parts: Vec<&str> = peer.split(':').collect();
    let [_, quorum_port, _, role] = parts[..] else { return None };
    let vote = if role == "participant" { VoteRight::Has } else { VoteRight::Lacks };
    let client_port = client.rsplit(':').next()?.parse().ok()?;
    Some(ServerSeat { vote, quorum_port: quorum_port.parse().ok()?, client_port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_is_written_and_as_the_product_writes_it() {
        let mut list = EnsembleConfig { version: 0x1_0000_0007, ..EnsembleConfig::default() };
        list.servers.insert(0, ServerSeat::usual(VoteRight::Has));
        list.servers.insert(1, ServerSeat { quorum_port: 2889, ..ServerSeat::usual(VoteRight::Has) });
        list.servers.insert(3, ServerSeat { client_port: 2182, ..ServerSeat::usual(VoteRight::Lacks) });
        assert_eq!(EnsembleConfig::read(&list.text()).as_ref(), Some(&list));
        list.groups = BTreeMap::from([(0, (1, 2)), (1, (2, 0))]);
        let product = zebu_zab::Configuration::parse(&list.text()).expect("a list").to_string();
        assert_eq!(EnsembleConfig::read(&product), Some(list));
    }

    #[test]
    fn quorums_by_heads_and_by_weight() {
        let mut list = EnsembleConfig::default();
        for server in 0..4 {
            list.servers.insert(server, ServerSeat::usual(VoteRight::Has));
        }
        list.servers.insert(4, ServerSeat::usual(VoteRight::Lacks));
        assert!(!list.is_quorum(&BTreeSet::from([0, 1, 4])));
        assert!(list.is_quorum(&BTreeSet::from([0, 1, 2])));
        list.groups = BTreeMap::from([(0, (1, 3)), (1, (1, 1)), (2, (2, 1)), (3, (3, 0))]);
        assert!(!list.is_quorum(&BTreeSet::from([1, 2, 3])));
        assert!(list.is_quorum(&BTreeSet::from([0, 2])));
    }
}
