//! The same load on both servers in turn, several rounds of it, and the middle of the rounds side by side.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use tokio::runtime::Runtime;
use zebu_bench::{Load, Mix, Nodes, Pace, Report};
use zebu_testing::ServerProcess;

use super::contender::{Contender, Name, process};
use super::machine::load_average;
use super::middle::median;
use super::table::{Table, figure, ratio};

/// Longer before the very first measurement: Java compiles while it runs.
const FIRST_WARM_UP: Duration = Duration::from_secs(10);

/// What is measured.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
    pub(crate) scenarios: Vec<Scenario>,
}

/// One load.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scenario {
    mix: Mix,
    sessions: usize,
    in_flight: usize,
    data_bytes: usize,
    leaves: usize,
}

/// Sessions with a pipeline, one that waits for each answer, many that do.
const SHAPES: [(usize, usize); 3] = [(32, 32), (1, 1), (200, 1)];

/// Mixes, the nodes that they use, and the sizes of data that make a difference to them.
const MIXES: [(&str, usize, &[usize]); 9] = [
    ("get", 1000, &[100, 1024]),
    ("exists", 1000, &[100]),
    ("children", 100, &[100]),
    ("set", 1000, &[100, 1024]),
    ("create", 1000, &[100, 1024]),
    ("ephemeral", 1000, &[100]),
    ("multi-read", 1000, &[100]),
    ("multi", 1000, &[100, 1024]),
    ("get=9,set=1", 1000, &[100, 1024]),
];

/// Every load whose mix is asked for; all if none is.
pub(crate) fn scenarios(only: &[String], largest: usize) -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    for (mix, leaves, sizes) in MIXES {
        let wanted = only.is_empty() || only.iter().any(|name| mix.split('=').next() == Some(name.as_str()));
        if !wanted {
            continue;
        }
        let mix: Mix = mix.parse().expect("the mixes of the table are right");
        for (sessions, in_flight) in SHAPES {
            // What larger data costs shows where nothing else does.
            let largest = if in_flight == 1 { largest.min(100) } else { largest };
            for &data_bytes in sizes.iter().filter(|bytes| **bytes <= largest) {
                scenarios.push(Scenario { mix: mix.clone(), sessions, in_flight, data_bytes, leaves });
            }
        }
    }
    scenarios
}

/// What a scenario has shown.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    mix: String,
    sessions: usize,
    in_flight: usize,
    data_bytes: usize,
    load_average: String,
    apache: Side,
    zebu: Side,
}

/// One server's rounds and their middle.
#[derive(Debug, Default, Serialize)]
struct Side {
    cpu_us_per_operation: f64,
    operations_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    resident_mib: f64,
    errors: u64,
    rounds: Vec<Report>,
}

impl Side {
    fn of(rounds: Vec<Report>) -> Side {
        let resident =
            |report: &Report| report.servers.iter().map(|server| server.resident_bytes).sum::<u64>();
        Side {
            cpu_us_per_operation: median(rounds.iter().filter_map(|report| report.cpu_us_per_operation)),
            operations_per_second: median(rounds.iter().map(|report| report.operations_per_second)),
            p50_us: median(rounds.iter().map(|report| report.latency_us.p50 as f64)),
            p99_us: median(rounds.iter().map(|report| report.latency_us.p99 as f64)),
            resident_mib: median(rounds.iter().map(|report| resident(report) as f64 / f64::from(1 << 20))),
            errors: rounds.iter().map(|report| report.errors).sum(),
            rounds,
        }
    }
}

/// Runs all scenarios on two servers that live as long as the plan.
pub(crate) fn run(plan: &Plan, contenders: &[Contender; 2], runtime: &Runtime) -> Result<Vec<Outcome>> {
    let servers = [contenders[0].start(&[])?, contenders[1].start(&[])?];
    for (contender, server) in contenders.iter().zip(&servers) {
        println!("warming up {}", contender.name);
        let mix: Mix = "get=9,set=1".parse()?;
        let scenario = Scenario { mix, sessions: 4, in_flight: 100, data_bytes: 100, leaves: 1000 };
        measure(&scenario, server, FIRST_WARM_UP, Duration::from_secs(1), runtime)?;
    }
    let mut outcomes = Vec::new();
    for scenario in &plan.scenarios {
        let mut rounds = [Vec::new(), Vec::new()];
        for _ in 0..plan.rounds.max(1) {
            for (server, reports) in servers.iter().zip(&mut rounds) {
                reports.push(measure(scenario, server, plan.warm_up, plan.duration, runtime)?);
            }
        }
        let [apache, zebu] = rounds;
        let outcome = Outcome {
            mix: scenario.mix.to_string(),
            sessions: scenario.sessions,
            in_flight: scenario.in_flight,
            data_bytes: scenario.data_bytes,
            load_average: load_average(),
            apache: Side::of(apache),
            zebu: Side::of(zebu),
        };
        say(&outcome);
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

fn measure(
    scenario: &Scenario,
    server: &ServerProcess,
    warm_up: Duration,
    duration: Duration,
    runtime: &Runtime,
) -> Result<Report> {
    let root = format!("/zebu-bench/{}x{}", scenario.leaves, scenario.data_bytes);
    let load = Load {
        servers: vec![server.address().to_string()],
        sessions: scenario.sessions,
        pace: Pace::InFlight(scenario.in_flight),
        mix: scenario.mix.clone(),
        data_bytes: scenario.data_bytes,
        nodes: Nodes::flat(root, scenario.leaves),
        warm_up,
        duration,
        processes: vec![process(server)?],
    };
    runtime.block_on(async {
        zebu_bench::prepare(&load.servers[0], &load.nodes, load.data_bytes, |_| ()).await?;
        Ok(zebu_bench::run(&load, |_| ()).await?)
    })
}

fn say(outcome: &Outcome) {
    let Outcome { mix, sessions, in_flight, data_bytes, apache, zebu, .. } = outcome;
    println!(
        "{mix}, {sessions} x {in_flight}, {data_bytes} bytes: CPU us/op {} and {}, operations/s {:.0} and {:.0}",
        figure(apache.cpu_us_per_operation),
        figure(zebu.cpu_us_per_operation),
        apache.operations_per_second,
        zebu.operations_per_second
    );
    for (name, side) in [(Name::Apache, apache), (Name::Zebu, zebu)] {
        if side.errors > 0 {
            println!("  {} replies of {name} were errors: the figures do not count", side.errors);
        }
    }
}

/// Ratios are so that more is better for Zebu.
pub(crate) fn table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new([
        "load",
        "sessions",
        "bytes",
        "CPU us/op Apache",
        "Zebu",
        "ratio",
        "operations/s Apache",
        "Zebu",
        "ratio",
        "p50 ms Apache",
        "Zebu",
        "ratio",
        "p99 ms Apache",
        "Zebu",
        "ratio",
        "MiB Apache",
        "Zebu",
        "ratio",
    ]);
    for Outcome { mix, sessions, in_flight, data_bytes, apache, zebu, .. } in outcomes {
        table.row([
            mix.strip_suffix("=1").filter(|mix| !mix.contains('=')).unwrap_or(mix).to_owned(),
            format!("{sessions} x {in_flight}"),
            data_bytes.to_string(),
            figure(apache.cpu_us_per_operation),
            figure(zebu.cpu_us_per_operation),
            ratio(apache.cpu_us_per_operation, zebu.cpu_us_per_operation),
            format!("{:.0}", apache.operations_per_second),
            format!("{:.0}", zebu.operations_per_second),
            ratio(zebu.operations_per_second, apache.operations_per_second),
            figure(apache.p50_us / 1000.0),
            figure(zebu.p50_us / 1000.0),
            ratio(apache.p50_us, zebu.p50_us),
            figure(apache.p99_us / 1000.0),
            figure(zebu.p99_us / 1000.0),
            ratio(apache.p99_us, zebu.p99_us),
            figure(apache.resident_mib),
            figure(zebu.resident_mib),
            ratio(apache.resident_mib, zebu.resident_mib),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mix_comes_in_every_shape() {
        let all = scenarios(&[], usize::MAX);
        assert_eq!(all.len(), 32);
        let sets = scenarios(&["set".to_owned()], 100);
        assert_eq!(sets.len(), 3);
        assert!(sets.iter().all(|scenario| scenario.mix.to_string() == "set=1"));
    }
}
