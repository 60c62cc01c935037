//! Which syncs are held to their promise. Apache ZooKeeper's leader answers a sync of its own client as it
//! answers a read: it may not have applied yet what its followers have answered. All others ask their leader,
//! and are checked.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result};
use zebu_sim::live::ServerReply;

use super::members::Members;

/// How a Zebu server says in its log that it leads.
const LEADS: &str = "serving=Leading { epoch: ";

/// The servers that may have answered as a ZooKeeper leader.
#[derive(Debug)]
pub(super) struct Syncs {
    apache: BTreeSet<String>,
    /// Epochs whose leader was no Apache server.
    led_by_zebu: BTreeSet<i64>,
}

impl Syncs {
    /// Reads what the logs say.
    pub(super) fn of(members: &Members) -> Result<Syncs> {
        let mut syncs = Syncs { apache: BTreeSet::new(), led_by_zebu: BTreeSet::new() };
        for (index, address) in members.public_addresses().into_iter().enumerate() {
            if members.is_zebu(index) {
                let text = fs::read_to_string(members.log(index)).context("the log of a member")?;
                syncs.led_by_zebu.extend(epochs_led(&text));
            } else {
                syncs.apache.insert(address.to_string());
            }
        }
        Ok(syncs)
    }

    /// Whether the answer to a sync is certainly not that of an Apache server that leads.
    pub(super) fn are_checked(&self, answer: &ServerReply) -> bool {
        !self.apache.contains(&*answer.server) || self.led_by_zebu.contains(&(answer.zxid >> 32))
    }
}

fn epochs_led(log: &str) -> impl Iterator<Item = i64> + '_ {
    let digits = |rest: &str| rest.split_once(' ').and_then(|(epoch, _)| epoch.parse().ok());
    log.lines().filter_map(move |line| line.split_once(LEADS).and_then(|(_, rest)| digits(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(server: &str, zxid: i64) -> ServerReply {
        ServerReply { zxid, code: 0, body: Default::default(), server: server.into(), connection: 1 }
    }

    #[test]
    fn only_who_may_be_apaches_leader_is_let_off() {
        let log = "INFO core: this member serves serving=Following { leader: ServerId(3), epoch: 1 }\n\
                   INFO core: this member serves serving=Leading { epoch: 2 }\n";
        assert_eq!(epochs_led(log).collect::<Vec<_>>(), [2]);
        let syncs = Syncs { apache: ["a:1".to_owned()].into(), led_by_zebu: epochs_led(log).collect() };
        assert!(!syncs.are_checked(&answer("a:1", 0x1_0000_0005)));
        assert!(syncs.are_checked(&answer("a:1", 0x2_0000_0005)), "an Apache follower of Zebu");
        assert!(syncs.are_checked(&answer("b:1", 0x1_0000_0005)), "a Zebu follower of Apache");
    }
}
