//! What clients feel while snapshots of a large tree are written: a steady rate of writes and of reads, once
//! with snapshots and once without.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use zebu_bench::{Load, Mix, Nodes, Pace, Report};
use zebu_testing::ServerProcess;

use super::contender::{Contender, Name, process};
use super::files;
use super::forest::{self, DATA_BYTES, Forest};
use super::machine::load_average;
use super::middle::median;
use super::table::{Table, figure};

/// Sessions of each group.
const SESSIONS: usize = 8;

/// Pause between two looks at the directory.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// How much and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) writes_per_second: u32,
    pub(crate) reads_per_second: u32,
    pub(crate) rounds: usize,
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
}

/// Whether snapshots are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Snapshots {
    /// Never, after the start.
    None,
    /// One after the other.
    Forced,
}

impl Snapshots {
    /// Transactions between snapshots.
    fn count(self) -> &'static str {
        match self {
            Snapshots::None => "2000000000",
            Snapshots::Forced => "20000",
        }
    }
}

/// One run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    server: Name,
    snapshots: Snapshots,
    /// Snapshots that appeared during the run, the warm-up included.
    written: usize,
    load_average: String,
    writes: Report,
    reads: Report,
}

/// Alternates the servers and the two settings, each time on a fresh copy of the server's own files.
pub(crate) fn run(
    plan: &Plan,
    contenders: &[Contender; 2],
    forests: &[Forest; 2],
    runtime: &Runtime,
) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for _ in 0..plan.rounds.max(1) {
        for snapshots in [Snapshots::None, Snapshots::Forced] {
            for (contender, forest) in contenders.iter().zip(forests) {
                let outcome = measure(plan, contender, forest, snapshots, runtime)?;
                println!(
                    "{}, {} snapshots: writes p99.9 {} ms, reads p99.9 {} ms",
                    outcome.server,
                    outcome.written,
                    figure(outcome.writes.latency_us.p999 as f64 / 1000.0),
                    figure(outcome.reads.latency_us.p999 as f64 / 1000.0)
                );
                outcomes.push(outcome);
            }
        }
    }
    Ok(outcomes)
}

fn measure(
    plan: &Plan,
    contender: &Contender,
    forest: &Forest,
    snapshots: Snapshots,
    runtime: &Runtime,
) -> Result<Outcome> {
    let mut server = contender.on_copy_of(&forest.data(), &[("zookeeper.snapCount", snapshots.count())])?;
    server.start()?;
    // Apache writes one when it starts.
    let before: BTreeSet<String> = files::snapshots(&server.data_dir())?.into_iter().collect();
    let nodes = forest::nodes(forest.filling.leaves);
    let writes = group(plan, &server, &nodes, "set", plan.writes_per_second)?;
    let reads = group(plan, &server, &nodes, "get", plan.reads_per_second)?;
    let mut seen = BTreeSet::new();
    let data = server.data_dir();
    let (writes, reads) = runtime.block_on(async {
        let both = async { tokio::join!(zebu_bench::run(&writes, |_| ()), zebu_bench::run(&reads, |_| ())) };
        tokio::pin!(both);
        loop {
            tokio::select! {
                ended = &mut both => break ended,
                () = tokio::time::sleep(LOOK_INTERVAL) => seen.extend(files::snapshots(&data).unwrap_or_default()),
            }
        }
    });
    Ok(Outcome {
        server: contender.name,
        snapshots,
        written: seen.difference(&before).count(),
        load_average: load_average(),
        writes: writes?,
        reads: reads?,
    })
}

fn group(plan: &Plan, server: &ServerProcess, nodes: &Nodes, mix: &str, rate: u32) -> Result<Load> {
    Ok(Load {
        servers: vec![server.address().to_string().into()],
        sessions: SESSIONS,
        pace: Pace::PerSecond(rate),
        mix: mix.parse::<Mix>()?,
        data_bytes: DATA_BYTES,
        nodes: nodes.clone(),
        warm_up: plan.warm_up,
        duration: plan.duration,
        processes: vec![process(server)?],
    })
}

/// The middle of the rounds; of the worst second the worst of all rounds.
pub(crate) fn table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new([
        "server",
        "load",
        "snapshots",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "worst second p99 ms",
        "max ms",
        "CPU s",
        "MiB resident",
    ]);
    for name in [Name::Apache, Name::Zebu] {
        for snapshots in [Snapshots::None, Snapshots::Forced] {
            let runs: Vec<&Outcome> = outcomes
                .iter()
                .filter(|outcome| outcome.server == name && outcome.snapshots == snapshots)
                .collect();
            let written: Vec<String> = runs.iter().map(|outcome| outcome.written.to_string()).collect();
            let writes: Vec<&Report> = runs.iter().map(|outcome| &outcome.writes).collect();
            let reads: Vec<&Report> = runs.iter().map(|outcome| &outcome.reads).collect();
            for (load, reports) in [("set", writes), ("get", reads)] {
                row(&mut table, name, load, &written.join(", "), &reports);
            }
        }
    }
    table
}

fn row(table: &mut Table, name: Name, load: &str, written: &str, reports: &[&Report]) {
    let ms = |value: f64| figure(value / 1000.0);
    let middle = |of: &dyn Fn(&Report) -> f64| median(reports.iter().map(|report| of(report)));
    let worst =
        |of: &dyn Fn(&Report) -> u64| reports.iter().map(|report| of(report)).max().unwrap_or(0) as f64;
    table.row([
        name.to_string(),
        load.to_owned(),
        written.to_owned(),
        ms(middle(&|report| report.latency_us.p50 as f64)),
        ms(middle(&|report| report.latency_us.p99 as f64)),
        ms(middle(&|report| report.latency_us.p999 as f64)),
        ms(worst(&|report| report.worst_second().map_or(0, |second| second.p99_us))),
        ms(worst(&|report| report.latency_us.max)),
        figure(middle(&|report| report.servers.iter().map(|server| server.cpu_seconds).sum())),
        figure(middle(&|report| {
            report.servers.iter().map(|server| server.resident_bytes).sum::<u64>() as f64 / f64::from(1 << 20)
        })),
    ]);
}
