//! Overload: many clients send as much as they can to all servers. No server may lose the leader, and no
//! client its connection or session.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use zebu_bench::{Load, Mix, Nodes, Pace as BenchPace};
use zebu_testing::four_letter;

use super::{Latencies, launch};
use crate::bench::Machine;
use crate::steady::{Pace, Writers};
use crate::trio::{SERVERS, Trio};

/// Sessions with the shortest timeout there is, which write now and then.
const WATCHED: usize = 30;

/// Two ticks.
const SHORTEST_TIMEOUT_MS: i32 = 4000;

/// How often a watched session says something.
const BEAT: Duration = Duration::from_millis(1000);

const PATIENCE: Duration = Duration::from_secs(30);

/// What to run.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The members: `zebu`, or an edition of Apache ZooKeeper
    #[arg(long, default_value = "zebu", value_name = "KIND")]
    members: String,
    /// How long
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Sessions of the flood
    #[arg(long, default_value_t = 300)]
    sessions: usize,
    /// Requests that each of them has on its way
    #[arg(long, default_value_t = 50)]
    in_flight: usize,
    /// What they ask for
    #[arg(long, default_value = "get=5,set=4,create=1")]
    mix: String,
}

/// Runs it.
pub(crate) fn run(arguments: &Arguments, zebu: &Path) -> Result<()> {
    let launch = launch(&arguments.members, zebu)?;
    let mut trio = Trio::new([launch.clone(), launch.clone(), launch], "")?;
    println!("{}", Machine::look());
    trio.start_all()?;
    let servers: Vec<String> = trio.addresses().iter().map(ToString::to_string).collect();
    let nodes = Nodes { parents: 10, ..Nodes::flat("/zebu-flood", 10_000) };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(zebu_bench::prepare(&servers[0], &nodes, 100, |_| ()))?;
    let before = roles(&trio)?;
    let watched = Writers::start(&trio.addresses(), WATCHED, Pace::Every(BEAT), SHORTEST_TIMEOUT_MS);
    let load = Load {
        servers: servers.into_iter().map(Into::into).collect(),
        sessions: arguments.sessions,
        pace: BenchPace::InFlight(arguments.in_flight),
        mix: arguments.mix.parse::<Mix>()?,
        data_bytes: 100,
        nodes,
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(arguments.seconds),
        processes: (0..SERVERS).map(|index| trio.id(index)).collect::<Result<_>>()?,
    };
    let report = runtime.block_on(zebu_bench::run(&load, |_| ()))?;
    println!(
        "flood: {:.0} operations/s, {} errors, p99 {} ms, max {} ms",
        report.operations_per_second,
        report.errors,
        report.latency_us.p99 / 1000,
        report.latency_us.max / 1000
    );
    println!("watched sessions: {}", Latencies::of(&watched.acknowledged()));
    let fates = watched.finish()?;
    let after = roles(&trio)?;
    let lost: usize = fates.iter().map(|fate| fate.lost).sum();
    let expired: usize = fates.iter().map(|fate| fate.expired).sum();
    println!(
        "roles and epoch before {before:?}, after {after:?}; {lost} connections lost, {expired} sessions expired"
    );
    ensure!(before == after, "there was an election");
    ensure!(lost == 0 && expired == 0, "sessions suffered");
    ensure!(report.errors == 0, "requests failed");
    println!("ok {} s of flood: no election, no expired session", arguments.seconds);
    Ok(())
}

/// What each member is, and in which epoch.
fn roles(trio: &Trio) -> Result<Vec<(Option<String>, i64)>> {
    let role = |index| {
        let epoch = four_letter::last_zxid(trio.address(index), PATIENCE)?.0 >> 32;
        Ok((trio.mode(index), epoch))
    };
    (0..SERVERS).map(role).collect()
}
