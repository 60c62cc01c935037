//! A server without data joins a large tree over a slow link, while clients write.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use zebu_bench::Nodes;
use zebu_testing::raw::SESSION_TIMEOUT_MS;

use super::fleet::{Fleet, Shape, await_that};
use super::lab::Family;
use super::links::finish;
use super::{Bench, HOSTS};
use crate::steady::{Pace, Writers};

const PATIENCE: Duration = Duration::from_secs(600);
const MEGABITS: u32 = 40;
const DATA_BYTES: usize = 100;

/// What a leader may need beyond its tree while it sends a snapshot.
const GROWTH_MAX: u64 = 64 << 20;

/// Runs it.
pub(super) fn run(bench: &Bench) -> Result<String> {
    let mut fleet = Fleet::new(bench.home, bench.launches(), &Shape::named(HOSTS, ""))?;
    fleet.start(2)?;
    fleet.start(3)?;
    fleet.await_all()?;
    let leader = fleet.leader()?;
    fill(&fleet, leader, bench.nodes)?;
    let before = fleet.peak_memory(leader)?;
    bench.lab.slow(1, MEGABITS)?;
    let others = [2, 3].map(|number| fleet.address(number, Family::V4));
    let load = Writers::start(&others, 10, Pace::Every(Duration::from_millis(20)), SESSION_TIMEOUT_MS);
    let started = Instant::now();
    fleet.start(1)?;
    await_that(PATIENCE, || Ok(fleet.mode(1).is_some())).context("the server does not serve")?;
    let took = started.elapsed();
    let growth = fleet.peak_memory(leader)?.saturating_sub(before);
    ensure!(growth <= GROWTH_MAX, "the leader's memory grew by {} MiB", growth >> 20);
    ensure!(fleet.leader()? == leader, "another server leads");
    finish(load, &fleet)?;
    let size: u64 = fs::read_dir(fleet.data(leader).join("version-2"))?
        .filter_map(|entry| entry.ok()?.metadata().ok().map(|about| about.len()))
        .sum();
    Ok(format!(
        "{} nodes ({} MiB of files) over {MEGABITS} Mbit/s in {took:.1?}, the leader's memory grew by {} MiB",
        bench.nodes,
        size >> 20,
        growth >> 20
    ))
}

fn fill(fleet: &Fleet, leader: u8, leaves: usize) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let nodes = Nodes { parents: leaves.div_ceil(1000), ..Nodes::flat("/zebu-netlab", leaves) };
    let server = fleet.address(leader, Family::V4).to_string();
    runtime.block_on(zebu_bench::prepare(&server, &nodes, DATA_BYTES, |_| ())).context("fill the tree")?;
    Ok(())
}
