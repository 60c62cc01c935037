//! Machines that fail: processes that stand still, few descriptors, a host that vanishes.

use std::net::TcpStream;

use anyhow::{Context, Result, ensure};
use zebu_testing::raw::SESSION_TIMEOUT_MS;

use super::fleet::{Fleet, PATIENCE, QUORUM_PORT, Shape, await_that};
use super::lab::{Family, address};
use super::links::{finish, start_load};
use super::{Bench, HOSTS};
use crate::client::Client;
use crate::steady::{Pace, Writers};

/// The leader stands still for longer than the others wait; when it goes on it must not answer as a leader.
pub(super) fn stopped_leader(bench: &Bench) -> Result<String> {
    let mut fleet = Fleet::new(bench.home, bench.launches(), &Shape::named(HOSTS, ""))?;
    fleet.start_all()?;
    let leader = fleet.leader()?;
    let load = start_load(&fleet)?;
    fleet.signal(leader, "STOP")?;
    let others: Vec<u8> = fleet.numbers().filter(|number| *number != leader).collect();
    let took = fleet.await_some(&others)?;
    fleet.signal(leader, "CONT")?;
    let back = fleet.await_all()?;
    ensure!(fleet.leader()? != leader, "the stopped server leads again");
    finish(load, &fleet)?;
    Ok(format!("the others served after {took:.1?}, it follows after {back:.1?}"))
}

/// Strangers keep connections to a leader's quorum port open and say nothing, until it has few descriptors
/// left. It goes on to write, also when it needs a new log file.
pub(super) fn few_descriptors(bench: &Bench) -> Result<String> {
    let shape = Shape::named(HOSTS, "").with("snapCount=500");
    let mut fleet = Fleet::new(bench.home, bench.launches(), &shape)?;
    fleet.numbers().for_each(|number| fleet.start_with(number, &["prlimit", "--nofile=200"]));
    fleet.start_all()?;
    let leader = fleet.leader()?;
    let place = (address(leader, Family::V4), QUORUM_PORT);
    let strangers: Vec<TcpStream> = (0..250).filter_map(|_| TcpStream::connect(place).ok()).collect();
    ensure!(strangers.len() > 100, "only {} connections were taken", strangers.len());
    let load = Writers::start(&fleet.addresses(), 3, Pace::Unbounded, SESSION_TIMEOUT_MS);
    await_that(PATIENCE, || Ok(load.acknowledged().len() > 3000))?;
    ensure!(fleet.leader()? == leader, "another server leads");
    finish(load, &fleet)?;
    Ok(format!("{} silent strangers, 3000 writes over several log files", strangers.len()))
}

/// A client's host vanishes without a word: its session expires and its ephemeral node goes.
pub(super) fn vanished(bench: &Bench) -> Result<String> {
    let mut fleet = Fleet::new(bench.home, bench.launches(), &Shape::named(HOSTS, ""))?;
    fleet.start_all()?;
    let leader = fleet.leader()?;
    let home = if leader == 1 { 2 } else { 1 };
    let client = Client::open(fleet.address(home, Family::V4), 4000)?;
    let id = format!("0x{:x}", client.session().id.0);
    let known = |text: &str| text.contains(&id);
    let sessions = |number| fleet.ask(number, "dump").context("dump is not answered");
    ensure!(known(&sessions(leader)?), "the leader does not know the session {id}");
    // The client's bytes stop; its connection stays open.
    let took = await_that(PATIENCE, || Ok(!known(&sessions(leader)?)))?;
    drop(client);
    Ok(format!("a silent session of 4 s was gone after {took:.1?}"))
}
