//! A server without data joins a large ensemble under load: it must get the snapshot at the first attempt,
//! without much effect on clients. In the end all servers have the same tree.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use zebu_bench::Nodes;
use zebu_testing::four_letter;
use zebu_testing::raw::SESSION_TIMEOUT_MS;

use super::{Latencies, launch};
use crate::bench::Machine;
use crate::steady::{Pace, Writers};
use crate::trio::{SERVERS, Trio};

/// The member that joins.
const JOINS: usize = 0;

/// How long a transfer may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// How long the load runs before the member comes, and after it has joined.
const AROUND: Duration = Duration::from_secs(5);

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What the leader's memory may grow by.
const GROWTH_MAX: u64 = 64 << 20;

/// Bytes of data in a node.
const DATA_BYTES: usize = 100;

/// Writers that share the rate.
const WRITERS: usize = 20;

/// What to run.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The two that have the tree: `zebu`, or an edition of Apache ZooKeeper
    #[arg(long, default_value = "zebu", value_name = "KIND")]
    leaders: String,
    /// The one that joins
    #[arg(long, default_value = "zebu", value_name = "KIND")]
    joins: String,
    /// Nodes in the tree
    #[arg(long, default_value_t = 1_000_000)]
    nodes: usize,
    /// Writes per second, while it joins
    #[arg(long, default_value_t = 1000)]
    rate: u32,
}

/// Runs it.
pub(crate) fn run(arguments: &Arguments, zebu: &Path) -> Result<()> {
    let leaders = launch(&arguments.leaders, zebu)?;
    let joins = launch(&arguments.joins, zebu)?;
    let mut trio = Trio::new([joins, leaders.clone(), leaders], "")?;
    println!("{}", Machine::look());
    trio.start(1)?;
    trio.start(2)?;
    trio.await_service()?;
    fill(&trio, arguments.nodes)?;
    let leader = trio.leader()?;
    let epoch = epoch(&trio, leader)?;
    let gap = Duration::from_secs(1) * WRITERS as u32 / arguments.rate.max(1);
    let load =
        Writers::start(&[trio.address(1), trio.address(2)], WRITERS, Pace::Every(gap), SESSION_TIMEOUT_MS);
    let (before, quiet) = watch(&trio, leader, Until::Passed(AROUND))?;
    let split = load.acknowledged().len();
    let calm = trio.resident(leader)?;
    trio.start(JOINS)?;
    let (during, took) = watch(&trio, leader, Until::Serves(JOINS))?;
    let acknowledged = load.acknowledged();
    std::thread::sleep(AROUND);
    let fates = load.finish()?;
    println!("before for {quiet:.1?}: {}", Latencies::of(&acknowledged[..split]));
    println!("during for {took:.1?}: {}", Latencies::of(&acknowledged[split..]));
    let growth = during.saturating_sub(calm);
    println!(
        "leader's memory: {} MiB before (at most {}), at most {} MiB during: {} MiB more",
        calm >> 20,
        before >> 20,
        during >> 20,
        growth >> 20
    );
    ensure!(
        fates.iter().all(|fate| fate.lost == 0 && fate.expired == 0),
        "writers were disturbed: {fates:?}"
    );
    ensure!(trio.leader()? == leader, "another server leads");
    ensure!(self::epoch(&trio, leader)? == epoch, "there was an election");
    let states = fs::read_to_string(trio.log(leader))?.matches("sending the whole state").count();
    ensure!(arguments.leaders != "zebu" || states == 1, "the state was sent {states} times");
    compare(&trio, arguments)?;
    ensure!(arguments.leaders != "zebu" || growth <= GROWTH_MAX, "the leader's memory grew too much");
    println!("ok a whole state of {} nodes in {took:.1?}", arguments.nodes);
    Ok(())
}

fn fill(trio: &Trio, leaves: usize) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let nodes = Nodes { parents: leaves.div_ceil(1000), ..Nodes::flat("/zebu-heavy", leaves) };
    let started = Instant::now();
    let server = trio.address(trio.leader()?).to_string();
    runtime.block_on(zebu_bench::prepare(&server, &nodes, DATA_BYTES, |_| ())).context("fill the tree")?;
    println!("{leaves} nodes in {:.0?}", started.elapsed());
    Ok(())
}

enum Until {
    Passed(Duration),
    Serves(usize),
}

/// Watches the leader's memory; returns the most that was seen, and how long it was watched.
fn watch(trio: &Trio, leader: usize, until: Until) -> Result<(u64, Duration)> {
    let started = Instant::now();
    let mut most = 0;
    loop {
        most = most.max(trio.resident(leader)?);
        let done = match until {
            Until::Passed(duration) => started.elapsed() >= duration,
            Until::Serves(index) => trio.mode(index).is_some(),
        };
        if done {
            return Ok((most, started.elapsed()));
        }
        if started.elapsed() > PATIENCE {
            bail!("it does not serve after {PATIENCE:?}; log: {}", fs::read_to_string(trio.log(JOINS))?);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn epoch(trio: &Trio, index: usize) -> Result<i64> {
    Ok(four_letter::last_zxid(trio.address(index), PATIENCE)?.0 >> 32)
}

/// All have the same number of nodes, the same last transaction, and equal digests wherever both tell one.
fn compare(trio: &Trio, arguments: &Arguments) -> Result<()> {
    let started = Instant::now();
    loop {
        let ends: Vec<i64> = (0..SERVERS)
            .map(|index| Ok(four_letter::last_zxid(trio.address(index), PATIENCE)?.0))
            .collect::<Result<_>>()?;
        if ends.iter().all(|end| *end == ends[0]) {
            break;
        }
        ensure!(started.elapsed() < PATIENCE, "the members do not come together: {ends:x?}");
        std::thread::sleep(LOOK_EVERY);
    }
    let counts: Vec<Option<String>> = (0..SERVERS).map(|index| trio.mntr(index, "zk_znode_count")).collect();
    ensure!(counts.iter().all(|count| count.is_some() && *count == counts[0]), "node counts {counts:?}");
    let all: Vec<BTreeMap<String, String>> =
        (0..SERVERS).map(|index| digests(trio, index)).collect::<Result<_>>()?;
    let common = |one: &BTreeMap<String, String>| {
        one.iter().filter(|(zxid, _)| all[JOINS].contains_key(*zxid)).count()
    };
    for (index, one) in all.iter().enumerate() {
        let wrong = one.iter().find(|(zxid, digest)| all[JOINS].get(*zxid).is_some_and(|own| own != *digest));
        ensure!(wrong.is_none(), "member {} and the new one differ at {wrong:?}", index + 1);
        ensure!(common(one) > 0, "no digest of member {} can be compared", index + 1);
    }
    println!(
        "ok {} nodes everywhere, {} digests compared",
        counts[0].as_deref().unwrap_or(""),
        common(&all[1])
    );
    // An Apache server that joins under load counts about one for each writer, behind leaders of either kind;
    // the digests above say that it has the right tree all the same.
    let counted = |index: &usize| *index != JOINS || arguments.joins == "zebu";
    let mismatches: Vec<Option<String>> =
        (0..SERVERS).filter(counted).map(|index| trio.mntr(index, "zk_digest_mismatches_count")).collect();
    ensure!(
        mismatches.iter().flatten().all(|count| count == "0"),
        "digests that the trees did not have when they were told: {mismatches:?}"
    );
    Ok(())
}

/// Digests by transaction, as `hash` tells them.
fn digests(trio: &Trio, index: usize) -> Result<BTreeMap<String, String>> {
    let text = four_letter::ask(trio.address(index), "hash", PATIENCE)?;
    Ok(text
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(zxid, digest)| (zxid.trim_start_matches("0x").to_owned(), digest.trim().to_owned()))
        .collect())
}
