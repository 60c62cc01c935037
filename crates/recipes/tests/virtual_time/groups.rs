//! Party and partitioner: each member is counted once, and no item has two owners. In the end each item has
//! one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use zebu_client::Client;
use zebu_recipes::{Ownership, Partitioner, Party, PartyLayout};

use crate::checks::{HolderChecker, until_empty};
use crate::for_each_seed;
use crate::server::{FaultKinds, TIMEOUT};

#[test]
fn a_party_counts_every_member_once() {
    for layout in [PartyLayout::Full, PartyLayout::Shallow] {
        for_each_seed(FaultKinds::Expiry, async |server, clients| {
            let party = |number: usize| Party::new(&clients[number % 3], "/party").layout(layout);
            let mut members = Vec::new();
            for number in 0..6 {
                members.push(party(number).join(&number.to_string()).await.expect("joined"));
            }
            let all: BTreeSet<String> = (0..6).map(|number| number.to_string()).collect();
            for round in 0..20 {
                let seen = party(round).members().await.expect("an answer");
                let once: BTreeSet<String> = seen.iter().cloned().collect();
                assert!(once.len() == seen.len() && once.is_subset(&all), "{seen:?}");
                tokio::time::sleep(Duration::from_secs(3)).await;
            }
            for member in members.split_off(3) {
                let (path, name) = (member.path().to_owned(), member.identifier().to_owned());
                member.leave().await.expect("left");
                assert!(server.state().tree.node(&path).is_none(), "{name} has left");
            }
            server.stop_faults();
            // Lost sessions are replaced by then.
            tokio::time::sleep(TIMEOUT * 4).await;
            for (number, member) in members.iter().enumerate() {
                member.wait_present().await.expect("there");
                let mut seen = party(number).members().await.expect("an answer");
                seen.sort();
                assert_eq!(seen, ["0", "1", "2"]);
                assert_eq!(party(number).count().await.expect("an answer"), 3);
            }
            drop(members);
            until_empty(server, "/party").await;
        });
    }
}

const ITEMS: [&str; 5] = ["blue", "green", "red", "white", "yellow"];

/// The owners of each item.
#[derive(Default)]
struct Owners(BTreeMap<&'static str, HolderChecker>);

impl Owners {
    fn new() -> Owners {
        Owners(ITEMS.into_iter().map(|item| (item, HolderChecker::default())).collect())
    }

    fn record(&self, item: &str, guard: &impl Ownership) {
        self.0[item].record(guard);
    }

    fn check(&self) {
        self.0.values().for_each(|checker| checker.check(1));
    }
}

#[test]
fn everything_that_is_divided_has_one_owner() {
    for_each_seed(FaultKinds::Silence, async |server, clients| {
        let owners = Owners::new();
        // Acquires and releases shares, and returns with one that did not change for a while.
        let work = async |client: &Client, name: &'static str, rounds: usize| {
            let joined = Partitioner::join(client, "/shards", name, ITEMS).await;
            let partitioner = joined.expect("joined");
            for round in 0.. {
                let share = partitioner.acquire().await.expect("a share");
                for (item, guard) in share.items().iter().zip(share.guards()) {
                    owners.record(item, guard);
                }
                owners.check();
                let timeout = if round < rounds { TIMEOUT } else { 10 * TIMEOUT };
                let quiet = tokio::time::timeout(timeout, share.changed()).await.is_err();
                owners.check();
                if quiet && round >= rounds {
                    return (partitioner, share);
                }
                share.release().await.expect("released");
            }
            unreachable!("there is always another round")
        };
        let calm = async {
            tokio::time::sleep(Duration::from_secs(120)).await;
            server.stop_faults();
        };
        let (a, b, c, ()) = tokio::join!(
            work(&clients[0], "x", 3),
            work(&clients[1], "y", 5),
            work(&clients[2], "z", 2),
            calm
        );
        let mut all: Vec<&String> = [&a, &b, &c].into_iter().flat_map(|(_, share)| share.items()).collect();
        all.sort();
        assert_eq!(all, ITEMS, "each has one owner");
        for (partitioner, share) in [a, b, c] {
            assert!(share.guards().iter().all(|guard| guard.check().is_ok()));
            share.release().await.expect("released");
            partitioner.leave().await.expect("left");
        }
        for item in ITEMS {
            until_empty(server, &format!("/shards/locks/{item}")).await;
        }
        until_empty(server, "/shards/party").await;
    });
}
