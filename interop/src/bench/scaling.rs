//! The same loads on trees of a thousand, a hundred thousand and five million nodes, and with one, a hundred
//! and ten thousand sessions: cost must grow slowly, and no request may wait while the tree grows.

use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use zebu_bench::{GrowthStep, Nodes};

use super::contender::{Contender, Name};
use super::machine::open_files_limit;
use super::side::Side;
use super::table::{Table, figure};
use super::target::Target;
use super::throughput::{Scenario, measure};

/// The measured kinds of requests.
const MIXES: [&str; 3] = ["get", "set", "create"];

/// Leaves below one parent.
const LEAVES_PER_PARENT: usize = 1000;

/// Snapshots would be written all the time with five million nodes: they have a table of their own.
const NO_SNAPSHOTS: [(&str, &str); 1] = [("zookeeper.snapCount", "2000000000")];

/// The growth is told in steps that end here.
const STEP_ENDS: [u64; 6] = [1_000, 10_000, 100_000, 1_000_000, 2_000_000, 4_000_000];

/// Files that a load needs beside its connections.
const FILES_BESIDE: usize = 200;

/// How large and how long.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) nodes: Vec<usize>,
    /// Apache's start script gives it a heap of 1000 MB, which holds about two million nodes.
    pub(crate) apache_nodes_max: usize,
    pub(crate) sessions: Vec<usize>,
    pub(crate) rounds: usize,
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
}

/// One server under one load at one size.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) server: Name,
    pub(crate) mix: String,
    /// Nodes or sessions.
    pub(crate) count: usize,
    pub(crate) side: Side,
}

/// How one server's tree grew to its largest size.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Growth {
    pub(crate) server: Name,
    pub(crate) steps: Vec<GrowthStep>,
}

/// Everything about size.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Scaling {
    pub(crate) by_nodes: Vec<Outcome>,
    pub(crate) growth: Vec<Growth>,
    pub(crate) by_sessions: Vec<Outcome>,
    /// The parts that were left out, with the reason.
    pub(crate) left_out: Vec<String>,
}

/// Measures both servers.
pub(crate) fn run(plan: &Plan, contenders: &[Contender; 2], runtime: &Runtime) -> Result<Scaling> {
    let mut scaling = Scaling::default();
    for contender in contenders {
        by_nodes(plan, contender, runtime, &mut scaling)?;
        by_sessions(plan, contender, runtime, &mut scaling)?;
    }
    Ok(scaling)
}

/// One server, whose tree becomes larger and larger.
fn by_nodes(plan: &Plan, contender: &Contender, runtime: &Runtime, scaling: &mut Scaling) -> Result<()> {
    let server = contender.start(&NO_SNAPSHOTS)?;
    let target = Target::standalone(&server)?;
    let mut steps = Vec::new();
    for &leaves in &plan.nodes {
        if contender.name == Name::Apache && leaves > plan.apache_nodes_max {
            let why = "the heap of its start script is too small";
            scaling.left_out.push(format!("{} with {leaves} nodes: {why}", contender.name));
            continue;
        }
        let parents = leaves.div_ceil(LEAVES_PER_PARENT);
        let nodes = Nodes { parents, ..Nodes::flat(format!("/zebu-bench-{leaves}"), leaves) };
        steps = runtime.block_on(zebu_bench::grow(&target.servers[0], &nodes, 100, &STEP_ENDS))?;
        for mix in MIXES {
            let scenario = Scenario { nodes: nodes.clone(), ..Scenario::small(mix, 32, 32) };
            let outcome = rounds(plan, contender.name, leaves, &scenario, &target, runtime)?;
            scaling.by_nodes.push(outcome);
        }
    }
    scaling.growth.push(Growth { server: contender.name, steps });
    Ok(())
}

/// One server with more and more sessions, each of which waits for its answer.
fn by_sessions(plan: &Plan, contender: &Contender, runtime: &Runtime, scaling: &mut Scaling) -> Result<()> {
    let server = contender.start(&NO_SNAPSHOTS)?;
    let target = Target::standalone(&server)?;
    measure(&Scenario::small("get=9,set=1", 4, 100).load(&target, plan.warm_up * 2, plan.duration), runtime)?;
    for &sessions in &plan.sessions {
        if sessions + FILES_BESIDE > open_files_limit() {
            let why = "a process may not open so many files here (ulimit -n)";
            scaling.left_out.push(format!("{} with {sessions} sessions: {why}", contender.name));
            continue;
        }
        for mix in MIXES {
            let scenario = Scenario::small(mix, sessions, 1);
            runtime.block_on(zebu_bench::prepare(
                &target.servers[0],
                &scenario.nodes,
                scenario.data_bytes,
                |_| (),
            ))?;
            let outcome = rounds(plan, contender.name, sessions, &scenario, &target, runtime)?;
            scaling.by_sessions.push(outcome);
        }
    }
    Ok(())
}

/// The nodes are there already.
fn rounds(
    plan: &Plan,
    server: Name,
    count: usize,
    scenario: &Scenario,
    target: &Target,
    runtime: &Runtime,
) -> Result<Outcome> {
    let mut reports = Vec::new();
    for _ in 0..plan.rounds.max(1) {
        let load = scenario.load(target, plan.warm_up, plan.duration);
        reports.push(runtime.block_on(zebu_bench::run(&load, |_| ()))?);
    }
    let side = Side::of(reports);
    let cpu = figure(side.cpu_us_per_operation);
    println!("{server}, {count}: {} CPU us/op {cpu}", scenario.mix);
    Ok(Outcome { server, mix: scenario.mix.to_string(), count, side })
}

/// CPU, operations and the worst second for each count.
pub(crate) fn table(what: &str, outcomes: &[Outcome]) -> Table {
    let mut table = Table::new([
        "load",
        what,
        "CPU us/op Apache",
        "Zebu",
        "operations/s Apache",
        "Zebu",
        "p99 ms Apache",
        "Zebu",
        "MiB Apache",
        "Zebu",
    ]);
    for zebu in outcomes.iter().filter(|outcome| outcome.server == Name::Zebu) {
        let apache = outcomes.iter().find(|other| {
            other.server == Name::Apache && (&other.mix, other.count) == (&zebu.mix, zebu.count)
        });
        let of = |side: Option<&Side>, show: &dyn Fn(&Side) -> f64| {
            side.map_or("-".to_owned(), |side| figure(show(side)))
        };
        let both =
            |show: &dyn Fn(&Side) -> f64| [of(apache.map(|it| &it.side), show), of(Some(&zebu.side), show)];
        let [cpu_apache, cpu_zebu] = both(&|side| side.cpu_us_per_operation);
        let [rate_apache, rate_zebu] = both(&|side| side.operations_per_second);
        let [p99_apache, p99_zebu] = both(&|side| side.p99_us / 1000.0);
        let [memory_apache, memory_zebu] = both(&|side| side.resident_mib);
        table.row([
            zebu.mix.trim_end_matches("=1").to_owned(),
            zebu.count.to_string(),
            cpu_apache,
            cpu_zebu,
            rate_apache,
            rate_zebu,
            p99_apache,
            p99_zebu,
            memory_apache,
            memory_zebu,
        ]);
    }
    table
}

/// What clients felt while the tree grew.
pub(crate) fn growth_table(growth: &[Growth]) -> Table {
    let mut table = Table::new([
        "server",
        "nodes",
        "creates/s",
        "create p99 ms",
        "slowest create ms",
        "read p99 ms",
        "slowest read ms",
    ]);
    for Growth { server, steps } in growth {
        for step in steps {
            let ms = |us: u64| figure(us as f64 / 1000.0);
            table.row([
                server.to_string(),
                format!("to {}", step.nodes),
                format!("{:.0}", step.creates_per_second),
                ms(step.create_us.p99),
                ms(step.create_us.max),
                ms(step.read_us.p99),
                ms(step.read_us.max),
            ]);
        }
    }
    table
}
