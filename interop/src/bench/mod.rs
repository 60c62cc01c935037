//! Apache ZooKeeper and Zebu in turn on the same machine, disk and load, with ratios. It reports and never
//! judges: no figure makes it fail.

mod ceiling;
mod contender;
mod files;
mod forest;
mod heap;
mod machine;
mod middle;
mod occasions;
mod snapshots;
mod start;
mod table;
mod throughput;

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use tokio::runtime::Runtime;

pub(crate) use ceiling::serve as serve_echo;
use contender::Contender;
use forest::{Filling, Forest};
pub(crate) use machine::Machine;
pub(crate) use middle::median;
pub(crate) use table::{Table, figure};

/// What is compared, and how long.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The zebu binary
    #[arg(long, value_name = "PATH")]
    zebu: PathBuf,
    /// The Apache server: `latest`, `debian` or a version
    #[arg(long, default_value = "latest", value_name = "EDITION")]
    apache: String,
    /// One short round of the small loads, or a tenth of the nodes: to see that everything works
    #[arg(long)]
    quick: bool,
    /// Only these loads: get, exists, children, set, create, ephemeral, multi, multi-read
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// How often each load runs on each server; the middle counts
    #[arg(long)]
    rounds: Option<usize>,
    /// Seconds of each measurement
    #[arg(long)]
    seconds: Option<u64>,
    /// Measure starts and memory with many nodes instead of loads
    #[arg(long)]
    start: bool,
    /// Measure latencies while snapshots are written instead of loads
    #[arg(long)]
    snapshots: bool,
    /// Measure many sessions at once, many watchers and idle sessions instead of loads
    #[arg(long)]
    occasions: bool,
    /// Measure Zebu beside a server that does nothing instead of loads
    #[arg(long)]
    ceiling: bool,
    /// Nodes for --start and --snapshots
    #[arg(long)]
    nodes: Option<usize>,
    /// Sets per second for --snapshots, and gets as well
    #[arg(long, default_value_t = 2000)]
    rate: u32,
    /// Write everything that was measured to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Everything that was measured.
#[derive(Serialize)]
struct Measured {
    machine: Machine,
    load_average_after: String,
    loads: Vec<throughput::Outcome>,
    filling: Vec<Filling>,
    starts: Vec<start::Outcome>,
    snapshots: Vec<snapshots::Outcome>,
    occasions: Option<[occasions::Outcome; 2]>,
    ceiling: Vec<ceiling::Outcome>,
}

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let contenders = Contender::both(&arguments.zebu, &arguments.apache)?;
    let runtime = Runtime::new().context("start the load generator")?;
    let machine = Machine::look();
    println!("{machine}");
    let mut measured = Measured {
        machine,
        load_average_after: String::new(),
        loads: Vec::new(),
        filling: Vec::new(),
        starts: Vec::new(),
        snapshots: Vec::new(),
        occasions: None,
        ceiling: Vec::new(),
    };
    if arguments.start || arguments.snapshots {
        large_tree(arguments, &contenders, &runtime, &mut measured)?;
    }
    if arguments.occasions {
        let plan = occasions_plan(arguments);
        let outcomes = occasions::run(&plan, &contenders, &runtime)?;
        println!("\n{}", occasions::table(&plan, &outcomes));
        measured.occasions = Some(outcomes);
    }
    if arguments.ceiling {
        let plan = load_plan(arguments);
        measured.ceiling = ceiling::run(&contenders[1], plan.rounds, plan.duration, &runtime)?;
        println!("\n{}", ceiling::table(&measured.ceiling));
    }
    if !(arguments.start || arguments.snapshots || arguments.occasions || arguments.ceiling) {
        measured.loads = throughput::run(&load_plan(arguments), &contenders, &runtime)?;
        println!("\nRatios above 1 are in favour of Zebu.\n\n{}", throughput::table(&measured.loads));
    }
    measured.load_average_after = machine::load_average();
    println!("load average at the end {}", measured.load_average_after);
    if let Some(path) = &arguments.json {
        let file = File::create(path).with_context(|| format!("create {}", path.display()))?;
        serde_json::to_writer_pretty(file, &measured).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

fn large_tree(
    arguments: &Arguments,
    contenders: &[Contender; 2],
    runtime: &Runtime,
    measured: &mut Measured,
) -> Result<()> {
    let leaves = arguments.nodes.unwrap_or(if arguments.quick { 100_000 } else { 1_000_000 }).max(1);
    let forests =
        [Forest::grow(&contenders[0], leaves, runtime)?, Forest::grow(&contenders[1], leaves, runtime)?];
    measured.filling = forests.iter().map(|forest| forest.filling).collect();
    println!("\n{leaves} nodes of {} bytes\n\n{}", forest::DATA_BYTES, start::filling_table(&forests));
    if arguments.start {
        let rounds = arguments.rounds.unwrap_or(if arguments.quick { 1 } else { 3 });
        measured.starts = start::run(contenders, &forests, rounds)?;
        println!("\n{}", start::table(&measured.starts));
    }
    if arguments.snapshots {
        let plan = snapshots::Plan {
            writes_per_second: arguments.rate,
            reads_per_second: arguments.rate,
            rounds: arguments.rounds.unwrap_or(if arguments.quick { 1 } else { 2 }),
            warm_up: Duration::from_secs(5),
            duration: Duration::from_secs(arguments.seconds.unwrap_or(if arguments.quick { 10 } else { 40 })),
        };
        measured.snapshots = snapshots::run(&plan, contenders, &forests, runtime)?;
        println!("\n{}", snapshots::table(&measured.snapshots));
    }
    Ok(())
}

fn occasions_plan(arguments: &Arguments) -> occasions::Plan {
    let share = if arguments.quick { 10 } else { 1 };
    occasions::Plan {
        rounds: arguments.rounds.unwrap_or(if arguments.quick { 1 } else { 3 }),
        storm_sessions: 2000 / share,
        watchers: 1000 / share,
        idle_sessions: 1000 / share,
        idle: Duration::from_secs(arguments.seconds.unwrap_or(if arguments.quick { 5 } else { 30 })),
    }
}

fn load_plan(arguments: &Arguments) -> throughput::Plan {
    let largest = if arguments.quick { 100 } else { usize::MAX };
    throughput::Plan {
        rounds: arguments.rounds.unwrap_or(if arguments.quick { 1 } else { 3 }),
        warm_up: Duration::from_secs(1),
        duration: Duration::from_secs(arguments.seconds.unwrap_or(if arguments.quick { 1 } else { 3 })),
        scenarios: throughput::scenarios(&arguments.only, largest),
    }
}
