//! The same load on both servers in turn, several rounds of it, and the middle of the rounds side by side.

use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use zebu_bench::{Load, Mix, Nodes, Pace, Report};

use super::contender::{Contender, Name};
use super::machine::load_average;
use super::side::Side;
use super::table::{Table, figure, percent, ratio};
use super::target::Target;

/// One measurement.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    /// Before the very first measurement: Java compiles while it runs.
    pub(crate) first_warm_up: Duration,
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
    pub(crate) scenarios: Vec<Scenario>,
}

/// One load.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scenario {
    pub(crate) mix: Mix,
    pub(crate) sessions: usize,
    pub(crate) in_flight: usize,
    pub(crate) data_bytes: usize,
    pub(crate) nodes: Nodes,
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

impl Scenario {
    /// A thousand nodes of 100 bytes.
    pub(crate) fn small(mix: &str, sessions: usize, in_flight: usize) -> Scenario {
        Scenario::new(mix, sessions, in_flight, 100, 1000)
    }

    fn new(mix: &str, sessions: usize, in_flight: usize, data_bytes: usize, leaves: usize) -> Scenario {
        let mix = mix.parse().expect("the mixes of the table are right");
        let nodes = Nodes::flat(format!("/zebu-bench/{leaves}x{data_bytes}"), leaves);
        Scenario { mix, sessions, in_flight, data_bytes, nodes }
    }

    /// The load on these servers.
    pub(crate) fn load(&self, target: &Target, warm_up: Duration, duration: Duration) -> Load {
        Load {
            servers: target.servers.iter().map(Into::into).collect(),
            sessions: self.sessions,
            pace: Pace::InFlight(self.in_flight),
            mix: self.mix.clone(),
            data_bytes: self.data_bytes,
            nodes: self.nodes.clone(),
            warm_up,
            duration,
            processes: target.processes.clone(),
        }
    }
}

/// Every load whose mix is asked for; all if none is.
pub(crate) fn scenarios(only: &[String], largest: usize) -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    for (mix, leaves, sizes) in MIXES {
        let wanted = only.is_empty() || only.iter().any(|name| mix.split('=').next() == Some(name.as_str()));
        if !wanted {
            continue;
        }
        for (sessions, in_flight) in SHAPES {
            // What larger data costs shows where nothing else does.
            let largest = if in_flight == 1 { largest.min(100) } else { largest };
            for &data_bytes in sizes.iter().filter(|bytes| **bytes <= largest) {
                scenarios.push(Scenario::new(mix, sessions, in_flight, data_bytes, leaves));
            }
        }
    }
    scenarios
}

/// What a scenario has shown.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) mix: String,
    pub(crate) sessions: usize,
    pub(crate) in_flight: usize,
    pub(crate) data_bytes: usize,
    pub(crate) load_average: String,
    pub(crate) apache: Side,
    pub(crate) zebu: Side,
}

impl Outcome {
    /// The mix as people say it: one operation alone has no weight.
    pub(crate) fn name(&self) -> &str {
        self.mix.strip_suffix("=1").filter(|mix| !mix.contains('=')).unwrap_or(&self.mix)
    }

    /// Sessions and requests in flight.
    pub(crate) fn shape(&self) -> String {
        format!("{} x {}", self.sessions, self.in_flight)
    }
}

/// Runs all scenarios on two servers that live as long as the plan.
pub(crate) fn run(plan: &Plan, contenders: &[Contender; 2], runtime: &Runtime) -> Result<Vec<Outcome>> {
    let servers = [contenders[0].start(&[])?, contenders[1].start(&[])?];
    let targets = [Target::standalone(&servers[0])?, Target::standalone(&servers[1])?];
    compare(plan, &targets, runtime)
}

/// Runs all scenarios on Apache and on Zebu in turn.
pub(crate) fn compare(plan: &Plan, targets: &[Target; 2], runtime: &Runtime) -> Result<Vec<Outcome>> {
    println!("warming up");
    for target in targets {
        let scenario = Scenario::small("get=9,set=1", 4, 100);
        measure(&scenario.load(target, plan.first_warm_up, Duration::from_secs(1)), runtime)?;
    }
    let mut outcomes = Vec::new();
    for scenario in &plan.scenarios {
        let mut rounds = [Vec::new(), Vec::new()];
        for _ in 0..plan.rounds.max(1) {
            for (target, reports) in targets.iter().zip(&mut rounds) {
                let load = scenario.load(target, plan.warm_up, plan.duration);
                reports.push(measure(&load, runtime)?);
                target.purge()?;
            }
        }
        let [apache, zebu] = rounds.map(Side::of);
        let outcome = Outcome {
            mix: scenario.mix.to_string(),
            sessions: scenario.sessions,
            in_flight: scenario.in_flight,
            data_bytes: scenario.data_bytes,
            load_average: load_average(),
            apache,
            zebu,
        };
        say(&outcome);
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Makes the nodes and runs the load.
pub(crate) fn measure(load: &Load, runtime: &Runtime) -> Result<Report> {
    runtime.block_on(async {
        zebu_bench::prepare(&load.servers[0], &load.nodes, load.data_bytes, |_| ()).await?;
        Ok(zebu_bench::run(load, |_| ()).await?)
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

/// What it costs. Ratios are so that more is better for Zebu.
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
        "MiB Apache",
        "Zebu",
        "ratio",
        "errors",
    ]);
    for outcome in outcomes {
        let Outcome { data_bytes, apache, zebu, .. } = outcome;
        table.row([
            outcome.name().to_owned(),
            outcome.shape(),
            data_bytes.to_string(),
            figure(apache.cpu_us_per_operation),
            figure(zebu.cpu_us_per_operation),
            ratio(apache.cpu_us_per_operation, zebu.cpu_us_per_operation),
            format!("{:.0}", apache.operations_per_second),
            format!("{:.0}", zebu.operations_per_second),
            ratio(zebu.operations_per_second, apache.operations_per_second),
            figure(apache.resident_mib),
            figure(zebu.resident_mib),
            ratio(apache.resident_mib, zebu.resident_mib),
            (apache.errors + zebu.errors).to_string(),
        ]);
    }
    table
}

/// How long it takes, how even it is, and what the generator took of the processors.
pub(crate) fn latency_table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new([
        "load",
        "sessions",
        "bytes",
        "p50 ms Apache",
        "Zebu",
        "ratio",
        "p99 ms Apache",
        "Zebu",
        "ratio",
        "worst second p99 ms Apache",
        "Zebu",
        "worst second, of average Apache",
        "Zebu",
        "generator's share Apache",
        "Zebu",
    ]);
    for outcome in outcomes {
        let Outcome { data_bytes, apache, zebu, .. } = outcome;
        let ms = |us: f64| figure(us / 1000.0);
        table.row([
            outcome.name().to_owned(),
            outcome.shape(),
            data_bytes.to_string(),
            ms(apache.p50_us),
            ms(zebu.p50_us),
            ratio(apache.p50_us, zebu.p50_us),
            ms(apache.p99_us),
            ms(zebu.p99_us),
            ratio(apache.p99_us, zebu.p99_us),
            ms(apache.worst_second_p99_us),
            ms(zebu.worst_second_p99_us),
            percent(apache.worst_second_share),
            percent(zebu.worst_second_share),
            percent(apache.generator_share),
            percent(zebu.generator_share),
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
