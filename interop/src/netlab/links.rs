//! Links that fail: connections that a firewall forgets, cuts in one and in both directions, lost packets.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use zebu_testing::raw::SESSION_TIMEOUT_MS;

use super::fleet::{ELECTION_PORT, Fleet, PATIENCE, Shape, await_that};
use super::{Bench, HOSTS};
use crate::steady::{Acknowledged, Pace, Writers};

const WRITERS: usize = 3;
const PACE: Pace = Pace::Every(Duration::from_millis(20));

/// A firewall has forgotten the idle election connections; then the leader dies. Its packets vanish, no
/// connection is refused: only new connections can bring the votes.
pub(super) fn forgotten_elections(bench: &Bench) -> Result<String> {
    let mut fleet = ensemble(bench)?;
    let forgotten = bench.lab.forget_connections(ELECTION_PORT)?;
    ensure!(forgotten > 0, "there was no election connection to forget");
    let leader = fleet.leader()?;
    fleet.kill(leader)?;
    let others: Vec<u8> = fleet.numbers().filter(|number| *number != leader).collect();
    let took = fleet.await_some(&others)?;
    fleet.start(leader)?;
    fleet.await_all()?;
    fleet.ensure_equal()?;
    Ok(format!("{forgotten} ends of connections forgotten, a new leader after {took:.1?}"))
}

/// A follower's packets vanish in both directions: it stops serving, the others go on, and it comes back.
pub(super) fn isolated_follower(bench: &Bench) -> Result<String> {
    let fleet = ensemble(bench)?;
    let leader = fleet.leader()?;
    let follower = if leader == 1 { 2 } else { 1 };
    let load = start_load(&fleet)?;
    bench.lab.isolate(follower)?;
    let out = fleet.await_out(follower)?;
    let pause = pause_after(&load)?;
    ensure!(fleet.leader()? == leader, "there was an election without need");
    bench.lab.heal()?;
    let back = fleet.await_all()?;
    finish(load, &fleet)?;
    Ok(format!("out after {out:.1?}, back after {back:.1?}, longest time without a write {pause:.1?}"))
}

/// What the followers send to the leader vanishes, what the leader sends arrives: it must give up, and
/// another one lead.
pub(super) fn deaf_leader(bench: &Bench) -> Result<String> {
    one_way(bench, |lab, leader, other| lab.silence(other, leader))
}

/// What the leader sends vanishes, what the followers send arrives.
pub(super) fn mute_leader(bench: &Bench) -> Result<String> {
    one_way(bench, |lab, leader, other| lab.silence(leader, other))
}

fn one_way(bench: &Bench, cut: impl Fn(&super::lab::Lab, u8, u8) -> Result<()>) -> Result<String> {
    let fleet = ensemble(bench)?;
    let leader = fleet.leader()?;
    let load = start_load(&fleet)?;
    let others: Vec<u8> = fleet.numbers().filter(|number| *number != leader).collect();
    others.iter().try_for_each(|other| cut(bench.lab, leader, *other))?;
    let out = fleet.await_out(leader)?;
    let took = fleet.await_some(&others)?;
    let pause = pause_after(&load)?;
    bench.lab.heal()?;
    fleet.await_all()?;
    finish(load, &fleet)?;
    Ok(format!(
        "the leader gave up after {out:.1?}, the others served {took:.1?} later, longest time without a write {pause:.1?}"
    ))
}

/// One packet in twenty is lost at every host: slow, but no session ends and no leader changes.
pub(super) fn lossy(bench: &Bench) -> Result<String> {
    let fleet = ensemble(bench)?;
    fleet.numbers().try_for_each(|number| bench.lab.lossy(number, 5))?;
    let load = start_load(&fleet)?;
    std::thread::sleep(Duration::from_secs(20));
    let pause = longest_pause(&load.acknowledged());
    let count = load.acknowledged().len();
    bench.lab.heal()?;
    finish(load, &fleet)?;
    Ok(format!("{count} writes in 20 s, longest time without one {pause:.1?}"))
}

fn ensemble(bench: &Bench) -> Result<Fleet> {
    let mut fleet = Fleet::new(bench.home, bench.launches(), &Shape::named(HOSTS, ""))?;
    bench.start(&mut fleet)?;
    Ok(fleet)
}

/// Clients that write, each with its first write acknowledged: an outage from now on is a pause of the
/// writes.
pub(super) fn start_load(fleet: &Fleet) -> Result<Writers> {
    let load = Writers::start(&fleet.addresses(), WRITERS, PACE, SESSION_TIMEOUT_MS);
    await_that(PATIENCE, || {
        let all = load.acknowledged();
        Ok((0..WRITERS).all(|writer| all.iter().any(|write| write.writer == writer)))
    })
    .context("not every client has its first write acknowledged")?;
    Ok(load)
}

/// Waits until writes are acknowledged again; the longest time without one so far.
pub(super) fn pause_after(load: &Writers) -> Result<Duration> {
    let now = Instant::now();
    await_that(PATIENCE, || Ok(load.acknowledged().last().is_some_and(|last| last.sent > now)))?;
    Ok(longest_pause(&load.acknowledged()))
}

/// The longest time between two acknowledgements.
fn longest_pause(acknowledged: &[Acknowledged]) -> Duration {
    let gaps = acknowledged.windows(2).map(|pair| pair[1].answered - pair[0].answered);
    gaps.max().unwrap_or_default()
}

/// No session may have ended, and all servers must have the same.
pub(super) fn finish(load: Writers, fleet: &Fleet) -> Result<()> {
    let fates = load.finish()?;
    ensure!(fates.iter().all(|fate| fate.expired == 0), "sessions have expired: {fates:?}");
    fleet.ensure_equal()
}
