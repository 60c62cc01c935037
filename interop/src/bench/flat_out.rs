//! How even a server stays while it writes snapshots of a large tree and has as much to do as it can: the
//! second with fewest answers beside the average one.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use zebu_bench::Report;

use super::contender::{Contender, Name};
use super::files;
use super::forest::{self, Forest};
use super::side::Side;
use super::table::{Table, figure, percent};
use super::target::Target;
use super::throughput::Scenario;

/// Half of the requests are writes.
const MIX: &str = "get=1,set=1";

/// Snapshots should come about so often, in seconds.
const SNAPSHOT_EVERY: f64 = 5.0;

/// Without snapshots, to learn how many writes that is.
const TRIAL: Duration = Duration::from_secs(5);

/// Never, in any run.
const NO_SNAPSHOTS: u64 = 2_000_000_000;

/// How often and how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
}

/// One server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) server: Name,
    pub(crate) snap_count: u64,
    /// Snapshots that appeared in each round.
    pub(crate) written: Vec<usize>,
    pub(crate) without: Side,
    pub(crate) with: Side,
}

impl Outcome {
    /// The worst second of all rounds with snapshots, as a part of its round's average.
    pub(crate) fn worst_second_share(&self) -> f64 {
        self.with.rounds.iter().map(|report| report.worst_second_share).fold(1.0, f64::min)
    }
}

/// Measures each server on copies of its own files.
pub(crate) fn run(
    plan: &Plan,
    contenders: &[Contender; 2],
    forests: &[Forest; 2],
    runtime: &Runtime,
) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for (contender, forest) in contenders.iter().zip(forests) {
        let (trial, _) = measure(plan.warm_up, TRIAL, contender, forest, NO_SNAPSHOTS, runtime)?;
        let writes_per_second = trial.operations_per_second / 2.0;
        let snap_count = (writes_per_second * SNAPSHOT_EVERY).max(1000.0) as u64;
        let (mut rounds, mut written) = (Vec::new(), Vec::new());
        for _ in 0..plan.rounds.max(1) {
            let (report, snapshots) =
                measure(plan.warm_up, plan.duration, contender, forest, snap_count, runtime)?;
            println!(
                "{}: {snapshots} snapshots, worst second {}",
                contender.name,
                percent(report.worst_second_share)
            );
            rounds.push(report);
            written.push(snapshots);
        }
        let (without, with) = (Side::of(vec![trial]), Side::of(rounds));
        outcomes.push(Outcome { server: contender.name, snap_count, written, without, with });
    }
    Ok(outcomes)
}

/// A fresh server under load, and how many snapshots it has written meanwhile.
fn measure(
    warm_up: Duration,
    duration: Duration,
    contender: &Contender,
    forest: &Forest,
    snap_count: u64,
    runtime: &Runtime,
) -> Result<(Report, usize)> {
    let property = snap_count.to_string();
    let mut server = contender.on_copy_of(&forest.data(), &[("zookeeper.snapCount", &property)])?;
    server.start()?;
    let before: BTreeSet<String> = files::snapshots(&server.data_dir())?.into_iter().collect();
    let nodes = forest::nodes(forest.filling.leaves);
    let scenario = Scenario { nodes, ..Scenario::small(MIX, 32, 32) };
    let load = scenario.load(&Target::standalone(&server)?, warm_up, duration);
    let report = runtime.block_on(zebu_bench::run(&load, |_| ()))?;
    let after: BTreeSet<String> = files::snapshots(&server.data_dir())?.into_iter().collect();
    Ok((report, after.difference(&before).count()))
}

/// With snapshots beside without.
pub(crate) fn table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new([
        "server",
        "snapCount",
        "snapshots",
        "operations/s without",
        "with",
        "worst second, of average, without",
        "with",
        "p99 ms without",
        "with",
        "max ms with",
    ]);
    for outcome in outcomes {
        let Outcome { server, snap_count, written, without, with } = outcome;
        let written: Vec<String> = written.iter().map(ToString::to_string).collect();
        let max = with.rounds.iter().map(|report| report.latency_us.max).max().unwrap_or(0);
        table.row([
            server.to_string(),
            snap_count.to_string(),
            written.join(", "),
            format!("{:.0}", without.operations_per_second),
            format!("{:.0}", with.operations_per_second),
            percent(without.worst_second_share),
            percent(outcome.worst_second_share()),
            figure(without.p99_us / 1000.0),
            figure(with.p99_us / 1000.0),
            figure(max as f64 / 1000.0),
        ]);
    }
    table
}
