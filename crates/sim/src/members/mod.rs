//! Lists of members as the simulator thinks of them: who has a seat, who votes, and which sets of voters decide.
//! Written a second time; it shares nothing with the code under test but the text.

mod chronicle;
mod wish;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub(crate) use chronicle::{Chronicle, proposed_list};
pub(crate) use wish::{Asked, Wish};

/// Where the members are shown to clients.
pub(crate) const CONFIG: &str = "/zookeeper/config";

/// Whether a member votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    Has,
    Lacks,
}

/// The place of a member.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) vote: Vote,
    pub(crate) quorum_port: u16,
    pub(crate) client_port: u16,
}

/// The ports of a seat that nobody has moved.
pub(crate) const QUORUM_PORT: u16 = 2888;
/// Where clients come first.
pub(crate) const CLIENT_PORTS: [u16; 2] = [2181, 2182];

/// Short, because lists are shown often.
impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.vote {
            Vote::Has => "voter",
            Vote::Lacks => "observer",
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

impl Seat {
    pub(crate) fn usual(vote: Vote) -> Seat {
        Seat { vote, quorum_port: QUORUM_PORT, client_port: CLIENT_PORTS[0] }
    }

    /// The value of a `server.N` line.
    pub(crate) fn text(&self, server: usize) -> String {
        let role = match self.vote {
            Vote::Has => "participant",
            Vote::Lacks => "observer",
        };
        format!("s{server}:{}:3888:{role};0.0.0.0:{}", self.quorum_port, self.client_port)
    }
}

/// The members at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) version: i64,
    pub(crate) seats: BTreeMap<usize, Seat>,
    /// Group and weight of each voter; empty if heads are counted.
    pub(crate) groups: BTreeMap<usize, (i64, i64)>,
}

/// The number by which servers call each other.
pub(crate) fn id_of(server: usize) -> i64 {
    server as i64 + 1
}

impl List {
    pub(crate) fn voters(&self) -> impl Iterator<Item = usize> + '_ {
        self.seats.iter().filter(|(_, seat)| seat.vote == Vote::Has).map(|(server, _)| *server)
    }

    pub(crate) fn is_voter(&self, server: usize) -> bool {
        self.seats.get(&server).is_some_and(|seat| seat.vote == Vote::Has)
    }

    /// Whether these servers may decide: more than half of the voters, or more than half of the weight in more than
    /// half of the groups that have any.
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

    /// All lines but the version, in no order that means anything.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .seats
            .iter()
            .map(|(server, seat)| format!("server.{}={}", id_of(*server), seat.text(*server)))
            .collect();
        let mut groups: BTreeMap<i64, Vec<String>> = BTreeMap::new();
        for (server, (group, weight)) in &self.groups {
            groups.entry(*group).or_default().push(id_of(*server).to_string());
            lines.push(format!("weight.{}={weight}", id_of(*server)));
        }
        // Observers have a weight that means nothing.
        for server in self.seats.keys().filter(|it| !groups.is_empty() && !self.groups.contains_key(it)) {
            lines.push(format!("weight.{}=1", id_of(*server)));
        }
        lines.extend(groups.iter().map(|(group, of)| format!("group.{group}={}", of.join(":"))));
        lines.sort();
        lines
    }

    /// As `/zookeeper/config` shows it, but for the order of the lines.
    pub(crate) fn text(&self) -> String {
        format!("{}\nversion={:x}", self.lines().join("\n"), self.version)
    }

    /// Reads what [`List::text`] writes, in any order.
    pub(crate) fn read(text: &str) -> Option<List> {
        let mut list = List::default();
        let mut weights = BTreeMap::new();
        for line in text.lines() {
            let (key, value) = line.split_once('=')?;
            let number = || key.split_once('.')?.1.parse::<i64>().ok();
            let server = |id: i64| usize::try_from(id - 1).ok();
            if key.starts_with("server.") {
                list.seats.insert(server(number()?)?, read_seat(value)?);
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

fn read_seat(value: &str) -> Option<Seat> {
    let (peer, client) = value.split_once(';')?;
    let parts: Vec<&str> = peer.split(':').collect();
    let [_, quorum_port, _, role] = parts[..] else { return None };
    let vote = if role == "participant" { Vote::Has } else { Vote::Lacks };
    let client_port = client.rsplit(':').next()?.parse().ok()?;
    Some(Seat { vote, quorum_port: quorum_port.parse().ok()?, client_port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_is_written_and_as_the_product_writes_it() {
        let mut list = List { version: 0x1_0000_0007, ..List::default() };
        list.seats.insert(0, Seat::usual(Vote::Has));
        list.seats.insert(1, Seat { quorum_port: 2889, ..Seat::usual(Vote::Has) });
        list.seats.insert(3, Seat { client_port: 2182, ..Seat::usual(Vote::Lacks) });
        assert_eq!(List::read(&list.text()).as_ref(), Some(&list));
        list.groups = BTreeMap::from([(0, (1, 2)), (1, (2, 0))]);
        let product = zebu_zab::Configuration::parse(&list.text()).expect("a list").to_string();
        assert_eq!(List::read(&product), Some(list));
    }

    #[test]
    fn quorums_by_heads_and_by_weight() {
        let mut list = List::default();
        for server in 0..4 {
            list.seats.insert(server, Seat::usual(Vote::Has));
        }
        list.seats.insert(4, Seat::usual(Vote::Lacks));
        assert!(!list.is_quorum(&BTreeSet::from([0, 1, 4])));
        assert!(list.is_quorum(&BTreeSet::from([0, 1, 2])));
        list.groups = BTreeMap::from([(0, (1, 3)), (1, (1, 1)), (2, (2, 1)), (3, (3, 0))]);
        assert!(!list.is_quorum(&BTreeSet::from([1, 2, 3])));
        assert!(list.is_quorum(&BTreeSet::from([0, 2])));
    }
}
