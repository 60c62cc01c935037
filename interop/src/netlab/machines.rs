//! Machines that fail: full disks, processes that stand still, few descriptors, a host that vanishes.

use std::fs::File;
use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use zebu_testing::raw::SESSION_TIMEOUT_MS;

use super::fleet::{Fleet, PATIENCE, QUORUM_PORT, Shape, await_that};
use super::lab::{Family, address};
use super::links::{finish, pause_after};
use super::{Bench, HOSTS};
use crate::client::Client;
use crate::steady::{Pace, Writers};

const PACE: Pace = Pace::Every(Duration::from_millis(20));

/// The disk of a follower fills up: it ends with a clear error, the others go on, and it is back when there is room.
pub(super) fn full_disk(bench: &Bench) -> Result<String> {
    // Its log is prepared in small steps, so that it meets the end of the disk soon.
    let shape = Shape::named(HOSTS, "").with("preAllocSize=64").with("snapCount=1000");
    let mut fleet = Fleet::new(bench.home, bench.launches(), &shape)?;
    let data = fleet.small_disk(1, 48)?;
    fleet.start_all()?;
    let load = Writers::start(&fleet.addresses(), 3, PACE, SESSION_TIMEOUT_MS);
    let filler = data.join("filler");
    fill(&filler)?;
    let status = fleet.await_end(1)?;
    ensure!(status.code().is_some_and(|code| code != 0), "the server ended with {status}");
    let log = fleet.log(1);
    ensure!(log.contains("No space left"), "its log does not say why it ended: {log}");
    let pause = pause_after(&load)?;
    std::fs::remove_file(&filler)?;
    fleet.start(1)?;
    let back = fleet.await_all()?;
    finish(load, &fleet)?;
    Ok(format!("it ended with {status}, longest time without a write {pause:.1?}, back after {back:.1?}"))
}

fn fill(file: &std::path::Path) -> Result<()> {
    let mut file = File::create(file)?;
    let mut piece = vec![1; 1 << 20];
    while !piece.is_empty() {
        if file.write_all(&piece).is_err() {
            piece.truncate(piece.len() / 16);
        }
    }
    Ok(())
}

/// The leader stands still for longer than the others wait; when it goes on it must not answer as a leader.
pub(super) fn stopped_leader(bench: &Bench) -> Result<String> {
    let mut fleet = Fleet::new(bench.home, bench.launches(), &Shape::named(HOSTS, ""))?;
    fleet.start_all()?;
    let leader = fleet.leader()?;
    let load = Writers::start(&fleet.addresses(), 3, PACE, SESSION_TIMEOUT_MS);
    fleet.signal(leader, "STOP")?;
    let others: Vec<u8> = fleet.numbers().filter(|number| *number != leader).collect();
    let took = fleet.await_some(&others)?;
    fleet.signal(leader, "CONT")?;
    let back = fleet.await_all()?;
    ensure!(fleet.leader()? != leader, "the stopped server leads again");
    finish(load, &fleet)?;
    Ok(format!("the others served after {took:.1?}, it follows after {back:.1?}"))
}

/// Strangers keep connections to a leader's quorum port open and say nothing, until it has few descriptors left. It goes on
/// to write, also when it needs a new log file.
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
