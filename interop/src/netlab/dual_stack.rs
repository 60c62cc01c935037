//! Two kinds of addresses: names that have both, IPv6 alone, and servers with several addresses.

use anyhow::{Result, ensure};

use super::fleet::{ELECTION_PORT, Fleet, QUORUM_PORT, Shape};
use super::lab::{Family, address};
use super::{Bench, HOSTS};
use crate::client::Client;

const TIMEOUT_MS: i32 = 10_000;

/// Names that resolve to both kinds: the ensemble forms, also if one kind does not get through.
pub(super) fn both_kinds(bench: &Bench) -> Result<String> {
    let mut fleet = Fleet::new(bench.home, bench.launches(), &Shape::named(HOSTS, ""))?;
    fleet.start_all()?;
    ensure_clients_of_both_kinds(&fleet)?;
    let mut seen = Vec::new();
    for family in [Family::V6, Family::V4] {
        drop(fleet);
        bench.lab.heal()?;
        bench.lab.without(family)?;
        fleet = Fleet::new(bench.home, bench.launches(), &Shape::named(HOSTS, ""))?;
        fleet.numbers().try_for_each(|number| fleet.start(number))?;
        seen.push(format!("without {family} it serves after {:.1?}", fleet.await_all()?));
    }
    fleet.ensure_equal()?;
    Ok(seen.join(", "))
}

/// Addresses of IPv6 and the switch that listens on all of them.
pub(super) fn six_on_all(bench: &Bench) -> Result<String> {
    let place = |host| format!("[{}]:{QUORUM_PORT}:{ELECTION_PORT}", address(host, Family::V6));
    let shape = Shape::of(HOSTS, place).with("quorumListenOnAllIPs=true");
    let mut fleet = Fleet::new(bench.home, bench.launches(), &shape)?;
    fleet.start_all()?;
    ensure_clients_of_both_kinds(&fleet)?;
    fleet.ensure_equal()?;
    Ok("three servers serve".to_owned())
}

/// Each server has two addresses; one kind of them stops working while the ensemble serves.
pub(super) fn several_addresses(bench: &Bench) -> Result<String> {
    let place = |host| {
        let one = |family| match address(host, family) {
            std::net::IpAddr::V4(four) => format!("{four}:{QUORUM_PORT}:{ELECTION_PORT}"),
            std::net::IpAddr::V6(six) => format!("[{six}]:{QUORUM_PORT}:{ELECTION_PORT}"),
        };
        format!("{}|{}", one(Family::V4), one(Family::V6))
    };
    let shape = Shape::of(HOSTS, place).with("multiAddress.enabled=true");
    let mut fleet = Fleet::new(bench.home, bench.launches(), &shape)?;
    fleet.start_all()?;
    let mut seen = Vec::new();
    for family in [Family::V4, Family::V6] {
        bench.lab.heal()?;
        bench.lab.without(family)?;
        // A leader may still have a quorum by the links that it has; a new one must find the other addresses.
        let leader = fleet.leader()?;
        fleet.kill(leader)?;
        let others: Vec<u8> = fleet.numbers().filter(|number| *number != leader).collect();
        seen.push(format!("without {family} a new leader after {:.1?}", fleet.await_some(&others)?));
        fleet.start(leader)?;
        fleet.await_all()?;
    }
    fleet.ensure_equal()?;
    Ok(seen.join(", "))
}

/// The same names with one Apache server, which dials IPv4 alone: without IPv6 all serve, without IPv4 the
/// other two.
pub(super) fn with_apache(bench: &Bench) -> Result<String> {
    let mut fleet = Fleet::new(bench.home, bench.launches(), &Shape::named(HOSTS, ""))?;
    bench.start(&mut fleet)?;
    let leader = fleet.leader()?;
    fleet.ensure_equal()?;
    drop(fleet);
    bench.lab.without(Family::V6)?;
    let mut fleet = Fleet::new(bench.home, bench.launches(), &Shape::named(HOSTS, ""))?;
    fleet.numbers().try_for_each(|number| fleet.start(number))?;
    let without_six = fleet.await_all()?;
    fleet.ensure_equal()?;
    drop(fleet);
    bench.lab.heal()?;
    bench.lab.without(Family::V4)?;
    let mut fleet = Fleet::new(bench.home, bench.launches(), &Shape::named(HOSTS, ""))?;
    fleet.numbers().try_for_each(|number| fleet.start(number))?;
    let tested: Vec<u8> = fleet.numbers().filter(|number| bench.apache != Some(*number)).collect();
    let without_four = fleet.await_some(&tested)?;
    Ok(format!(
        "server {leader} leads; without IPv6 all serve after {without_six:.1?}, \
         without IPv4 servers {tested:?} after {without_four:.1?}"
    ))
}

fn ensure_clients_of_both_kinds(fleet: &Fleet) -> Result<()> {
    for number in fleet.numbers() {
        for family in [Family::V4, Family::V6] {
            let client = Client::open(fleet.address(number, family), TIMEOUT_MS)?;
            ensure!(client.session().id.0 != 0, "no session at server {number} with {family}");
        }
    }
    Ok(())
}
