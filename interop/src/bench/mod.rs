//! Apache ZooKeeper and Zebu in turn on the same machine, disk and load, with ratios. It reports and never
//! judges: no figure makes it fail.

mod bare_sends;
mod bare_sync;
mod ceiling;
mod contender;
mod document;
mod ensembles;
mod files;
mod fixed_rate;
mod flat_out;
mod forest;
mod full;
mod heap;
mod machine;
mod measured;
mod middle;
mod occasions;
mod pauses;
mod plot;
mod regression;
mod scaling;
mod side;
mod snapshots;
mod start;
mod table;
mod target;
mod targets;
mod throughput;
mod tls;
mod versions;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use tokio::runtime::Runtime;

pub(crate) use ceiling::serve as serve_echo;
use contender::Contender;
use forest::Forest;
use full::Extent;
pub(crate) use machine::Machine;
use measured::Measured;
pub(crate) use middle::median;
pub(crate) use table::{Table, figure};
use versions::Versions;

use crate::apache::Edition;

/// The servers to compare, and the time per measurement.
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
    /// Only these loads: get, exists, children, set, create, ephemeral, multi, multi-read; or tls, for
    /// requests and handshakes through TLS
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
    /// Measure everything, about an hour (with --quick about five minutes)
    #[arg(long, conflicts_with_all = ["start", "snapshots", "occasions", "ceiling", "ensembles", "fixed_rate", "scaling"])]
    full: bool,
    /// With --full: only these parts, such as "one server"; the file of --json keeps the others as it has
    /// them
    #[arg(long = "part", value_delimiter = ',', value_name = "NAMES", requires_all = ["full", "json"])]
    parts: Vec<String>,
    /// Measure three servers of each kind instead of one
    #[arg(long)]
    ensembles: bool,
    /// Measure latencies at half of Apache's maximum instead of loads
    #[arg(long)]
    fixed_rate: bool,
    /// Measure larger and larger trees, and more and more sessions, instead of loads
    #[arg(long)]
    scaling: bool,
    /// Compare with this older zebu binary instead of Apache: all loads on one server and on three
    #[arg(long, value_name = "PATH", conflicts_with_all = ["full", "json", "document"])]
    before: Option<PathBuf>,
    /// Measure nothing: make tables, plots and document from a file that --json has written
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// The document whose generated part is replaced; plots go into `plots` beside it
    #[arg(long, value_name = "FILE")]
    document: Option<PathBuf>,
    /// The commit that the zebu binary was built from
    #[arg(long, default_value = "unknown")]
    commit: String,
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

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if let Some(before) = &arguments.before {
        println!("{}", Machine::look());
        let runtime = Runtime::new().context("start the load generator")?;
        return regression::run(&load_plan(arguments), before, &arguments.zebu, &runtime);
    }
    let measured = match &arguments.from {
        Some(path) => Measured::read(path)?,
        None => measure(arguments)?,
    };
    if let Some(path) = &arguments.json {
        measured.write(path)?;
    }
    if arguments.full || arguments.from.is_some() {
        println!("\n{}", targets::table(&targets::targets(&measured)));
    }
    match &arguments.document {
        Some(document) => document::write(&measured, document),
        None => Ok(()),
    }
}

fn measure(arguments: &Arguments) -> Result<Measured> {
    let contenders = Contender::both(&arguments.zebu, &arguments.apache)?;
    let runtime = Runtime::new().context("start the load generator")?;
    let machine = Machine::look();
    let apache = Edition::parse(&arguments.apache).version();
    let versions = Versions::ask(&arguments.zebu, &apache, &arguments.commit);
    println!("{machine}\n{versions}");
    let mut measured = match &arguments.json {
        Some(path) if !arguments.parts.is_empty() => Measured::read(path)?,
        _ => Measured::new(machine, versions),
    };
    if arguments.full {
        let extent = if arguments.quick { Extent::Quick } else { Extent::Whole };
        let (parts, keep) = (&arguments.parts, arguments.json.as_deref());
        full::run(extent, parts, &contenders, &runtime, &mut measured, keep)?;
    } else {
        some(arguments, &contenders, &runtime, &mut measured)?;
    }
    measured.load_average_after = machine::load_average();
    println!("load average at the end {}", measured.load_average_after);
    Ok(measured)
}

/// The parts that were asked for; loads on one server if none was.
fn some(
    arguments: &Arguments,
    contenders: &[Contender; 2],
    runtime: &Runtime,
    measured: &mut Measured,
) -> Result<()> {
    let Arguments { start, snapshots, occasions, ceiling, ensembles, fixed_rate, scaling, .. } = *arguments;
    if start || snapshots {
        large_tree(arguments, contenders, runtime, measured)?;
    }
    if occasions {
        let outcomes = occasions::run(&occasions_plan(arguments), contenders, runtime)?;
        println!("\n{}", occasions::table(&outcomes));
        measured.occasions = Some(outcomes);
    }
    if ceiling {
        let plan = load_plan(arguments);
        measured.ceiling = ceiling::run(&contenders[1], plan.rounds, plan.duration, runtime)?;
        println!("\n{}", ceiling::table(&measured.ceiling));
    }
    if ensembles {
        let plan = throughput::Plan { scenarios: ensembles::scenarios(), ..load_plan(arguments) };
        measured.ensembles = ensembles::run(&plan, contenders, runtime)?;
        print_loads(&measured.ensembles);
    }
    if fixed_rate {
        measured.fixed_rates = fixed_rate::run(&load_plan(arguments), contenders, runtime)?;
        println!("\n{}", fixed_rate::table(&measured.fixed_rates));
    }
    if scaling {
        let extent = if arguments.quick { Extent::Quick } else { Extent::Whole };
        let scaling = scaling::run(&extent.scaling(), contenders, runtime)?;
        println!("\n{}", scaling::table("nodes", &scaling.by_nodes));
        println!("\n{}", scaling::table("sessions", &scaling.by_sessions));
        println!("\n{}", scaling::growth_table(&scaling.growth));
        measured.scaling = Some(scaling);
    }
    if arguments.only.iter().any(|name| name == "tls") {
        let outcome = tls::run(&load_plan(arguments), contenders, runtime)?;
        println!("\nRatios above 1 are in favour of Zebu.\n\n{}", tls::request_table(&outcome));
        println!("{}", tls::handshake_table(&outcome));
        measured.tls = Some(outcome);
        return Ok(());
    }
    if !(start || snapshots || occasions || ceiling || ensembles || fixed_rate || scaling) {
        measured.loads = throughput::run(&load_plan(arguments), contenders, runtime)?;
        print_loads(&measured.loads);
    }
    Ok(())
}

fn print_loads(outcomes: &[throughput::Outcome]) {
    let (cost, latency) = (throughput::table(outcomes), throughput::latency_table(outcomes));
    println!("\nRatios above 1 are in favour of Zebu.\n\n{cost}\n{latency}");
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
    println!(
        "\n{leaves} nodes of {} bytes\n\n{}",
        forest::DATA_BYTES,
        start::filling_table(&measured.filling)
    );
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
        first_warm_up: Duration::from_secs(if arguments.quick { 2 } else { 10 }),
        warm_up: Duration::from_secs(1),
        duration: Duration::from_secs(arguments.seconds.unwrap_or(if arguments.quick { 1 } else { 3 })),
        scenarios: throughput::scenarios(&arguments.only, largest),
    }
}
