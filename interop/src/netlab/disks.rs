//! Disks that fail: one that fills up, and one whose syncs are slow, at a follower and at the leader.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::fleet::{Fleet, Shape};
use super::links::{finish, pause_after, start_load};
use super::preloaded::Preloaded;
use super::{Bench, HOSTS};
use crate::steady::Acknowledged;

/// What each sync of the slow disk takes longer.
const SYNC_MS: u64 = 500;

/// How long the disk is slow.
const SLOW_FOR: Duration = Duration::from_secs(10);

/// The disk of a follower fills up: it ends with a clear error, the others go on, and it is back when there
/// is room.
pub(super) fn full(bench: &Bench) -> Result<String> {
    // Its log is prepared in small steps, so that it meets the end of the disk soon.
    let shape = Shape::named(HOSTS, "").with("preAllocSize=64").with("snapCount=1000");
    let mut fleet = Fleet::new(bench.home, bench.launches(), &shape)?;
    let data = fleet.small_disk(1, 48)?;
    fleet.start_all()?;
    let load = start_load(&fleet)?;
    let filler = data.join("filler");
    fill(&filler)?;
    let status = fleet.await_end(1)?;
    ensure!(status.code().is_some_and(|code| code != 0), "the server ended with {status}");
    let log = fleet.log(1);
    ensure!(log.contains("No space left"), "its log does not say why it ended: {log}");
    let pause = pause_after(&load)?;
    fs::remove_file(&filler)?;
    fleet.start(1)?;
    let back = fleet.await_all()?;
    finish(load, &fleet)?;
    Ok(format!("it ended with {status}, longest time without a write {pause:.1?}, back after {back:.1?}"))
}

/// Writes until nothing more can be written.
pub(super) fn fill(file: &Path) -> Result<()> {
    let mut file = File::create(file)?;
    let mut piece = vec![1; 1 << 20];
    while !piece.is_empty() {
        if file.write_all(&piece).is_err() {
            piece.truncate(piece.len() / 16);
        }
    }
    Ok(())
}

/// Every sync of a follower takes half a second longer. Clients of the other servers must not notice.
pub(super) fn slow_at_follower(bench: &Bench) -> Result<String> {
    slow(bench, |fleet| Ok(if fleet.leader()? == 1 { 2 } else { 1 }))
}

/// The same at the leader: it hands over to a follower.
pub(super) fn slow_at_leader(bench: &Bench) -> Result<String> {
    slow(bench, Fleet::leader)
}

fn slow(bench: &Bench, choose: impl Fn(&Fleet) -> Result<u8>) -> Result<String> {
    let library = Preloaded::slow_sync(bench.home)?;
    let mut fleet = Fleet::new(bench.home, bench.launches(), &Shape::named(HOSTS, ""))?;
    let numbers: Vec<u8> = fleet.numbers().collect();
    numbers.iter().for_each(|number| library.load_into(&mut fleet, *number));
    fleet.start_all()?;
    let (leader, slow) = (fleet.leader()?, choose(&fleet)?);
    // A writer at each server: the first one begins at server 1.
    let load = start_load(&fleet)?;
    let is_at = |write: &Acknowledged, number: u8| write.writer == usize::from(number) - 1;
    library.set(slow, &SYNC_MS.to_string())?;
    let began = Instant::now();
    std::thread::sleep(SLOW_FOR);
    let ended = Instant::now();
    library.set(slow, "0")?;
    let during: Vec<Acknowledged> =
        load.acknowledged().into_iter().filter(|write| write.sent > began && write.sent < ended).collect();
    let there = Times::of(during.iter().filter(|write| is_at(write, slow)));
    let elsewhere = Times::of(during.iter().filter(|write| !is_at(write, slow)));
    let leads = fleet.leader()?;
    ensure!(leads != slow, "the server with the slow disk leads");
    ensure!(leads == leader || leader == slow, "another server leads");
    ensure!(
        elsewhere.median < Duration::from_millis(SYNC_MS / 2),
        "writes at the other servers wait for the slow disk: {elsewhere}; at the slow one: {there}"
    );
    pause_after(&load)?;
    finish(load, &fleet)?;
    Ok(format!(
        "syncs of server {slow} take {SYNC_MS} ms more; writes there: {there}; elsewhere: {elsewhere}"
    ))
}

/// How long writes took.
struct Times {
    count: usize,
    median: Duration,
    longest: Duration,
}

impl Times {
    /// A writer sends one write at a time: one that was due before the answer to the last one was sent then.
    fn of<'a>(writes: impl Iterator<Item = &'a Acknowledged>) -> Times {
        let mut last: BTreeMap<usize, Instant> = BTreeMap::new();
        let mut all: Vec<Duration> = Vec::new();
        for write in writes {
            let before = last.insert(write.writer, write.answered).unwrap_or(write.sent);
            all.push(write.answered - write.sent.max(before));
        }
        all.sort_unstable();
        Times {
            count: all.len(),
            median: all.get(all.len() / 2).copied().unwrap_or_default(),
            longest: all.last().copied().unwrap_or_default(),
        }
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Times { count, median, longest } = self;
        write!(formatter, "{count} writes, median {median:.1?}, longest {longest:.1?}")
    }
}
