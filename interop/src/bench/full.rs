//! All measurements in one run, part after part. A failed part is reported and the others continue, because
//! another run takes an hour.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::runtime::Runtime;

use super::contender::Contender;
use super::forest::Forest;
use super::measured::Measured;
use super::throughput::{Plan, Scenario};
use super::{ceiling, ensembles, fixed_rate, flat_out, occasions, scaling, snapshots, start, throughput};

/// How much of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// To be believed.
    Whole,
    /// To see that everything works.
    Quick,
}

impl Extent {
    fn pick<T>(self, whole: T, quick: T) -> T {
        match self {
            Extent::Whole => whole,
            Extent::Quick => quick,
        }
    }

    fn seconds(self, whole: u64, quick: u64) -> Duration {
        Duration::from_secs(self.pick(whole, quick))
    }

    fn loads(self, scenarios: Vec<Scenario>) -> Plan {
        Plan {
            rounds: self.pick(3, 1),
            first_warm_up: self.seconds(10, 2),
            warm_up: self.seconds(1, 1),
            duration: self.seconds(4, 1),
            scenarios,
        }
    }

    /// Sizes of trees and numbers of sessions.
    pub(crate) fn scaling(self) -> scaling::Plan {
        scaling::Plan {
            nodes: self.pick(vec![1_000, 100_000, 5_000_000], vec![1_000, 50_000]),
            apache_nodes_max: self.pick(100_000, 10_000),
            sessions: self.pick(vec![1, 100, 10_000], vec![1, 100, 1_000]),
            rounds: self.pick(2, 1),
            warm_up: self.seconds(2, 1),
            duration: self.seconds(4, 1),
        }
    }
}

/// Loads on one server that are worth an hour: every mix with a pipeline, the usual ones in other shapes.
fn standalone() -> Vec<Scenario> {
    let usual =
        |scenario: &Scenario| ["get=1", "set=1", "create=1"].contains(&scenario.mix.to_string().as_str());
    let mut scenarios = throughput::scenarios(&[], usize::MAX);
    scenarios.retain(|scenario| {
        let is_plain = scenario.in_flight > 1 && scenario.data_bytes == 100;
        is_plain || usual(scenario)
    });
    scenarios
}

/// Measures the parts that are named, or everything; `keep` is written after every part.
pub(crate) fn run(
    extent: Extent,
    wanted: &[String],
    contenders: &[Contender; 2],
    runtime: &Runtime,
    measured: &mut Measured,
    keep: Option<&Path>,
) -> Result<()> {
    let parts: [(&str, Part); 7] = [
        ("one server", one_server),
        ("three servers", three_servers),
        ("an equal rate", equal_rate),
        ("the ceiling", the_ceiling),
        ("occasions", all_occasions),
        ("large trees", large_trees),
        ("size", size),
    ];
    if let Some(unknown) = wanted.iter().find(|wanted| parts.iter().all(|(name, _)| name != wanted)) {
        let names: Vec<&str> = parts.iter().map(|(name, _)| *name).collect();
        bail!("there is no part {unknown:?}; the parts are {names:?}");
    }
    for (name, part) in parts {
        if !wanted.is_empty() && wanted.iter().all(|wanted| wanted != name) {
            continue;
        }
        measured.failures.retain(|failure| !failure.starts_with(&format!("{name}: ")));
        println!("\n-- {name}");
        let started = Instant::now();
        if let Err(error) = part(extent, contenders, runtime, measured) {
            println!("{name} failed: {error:#}");
            measured.failures.push(format!("{name}: {}", first_line(&format!("{error:#}"))));
        }
        println!("-- {name}: {:.0} s", started.elapsed().as_secs_f64());
        if let Some(path) = keep {
            measured.write(path)?;
        }
    }
    Ok(())
}

type Part = fn(Extent, &[Contender; 2], &Runtime, &mut Measured) -> Result<()>;

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn one_server(
    extent: Extent,
    both: &[Contender; 2],
    runtime: &Runtime,
    measured: &mut Measured,
) -> Result<()> {
    measured.loads = throughput::run(&extent.loads(standalone()), both, runtime)?;
    Ok(())
}

fn three_servers(
    extent: Extent,
    both: &[Contender; 2],
    runtime: &Runtime,
    measured: &mut Measured,
) -> Result<()> {
    measured.ensembles = ensembles::run(&extent.loads(ensembles::scenarios()), both, runtime)?;
    Ok(())
}

fn equal_rate(
    extent: Extent,
    both: &[Contender; 2],
    runtime: &Runtime,
    measured: &mut Measured,
) -> Result<()> {
    let plan = Plan { duration: extent.seconds(10, 2), ..extent.loads(Vec::new()) };
    measured.fixed_rates = fixed_rate::run(&plan, both, runtime)?;
    Ok(())
}

fn the_ceiling(
    extent: Extent,
    both: &[Contender; 2],
    runtime: &Runtime,
    measured: &mut Measured,
) -> Result<()> {
    measured.ceiling = ceiling::run(&both[1], extent.pick(3, 1), extent.seconds(4, 1), runtime)?;
    Ok(())
}

fn all_occasions(
    extent: Extent,
    both: &[Contender; 2],
    runtime: &Runtime,
    measured: &mut Measured,
) -> Result<()> {
    let share = extent.pick(1, 10);
    let plan = occasions::Plan {
        rounds: extent.pick(3, 1),
        storm_sessions: 2000 / share,
        watchers: 1000 / share,
        idle_sessions: 1000 / share,
        idle: extent.seconds(30, 5),
    };
    measured.occasions = Some(occasions::run(&plan, both, runtime)?);
    Ok(())
}

fn large_trees(
    extent: Extent,
    both: &[Contender; 2],
    runtime: &Runtime,
    measured: &mut Measured,
) -> Result<()> {
    let leaves = extent.pick(1_000_000, 20_000);
    let forests = [Forest::grow(&both[0], leaves, runtime)?, Forest::grow(&both[1], leaves, runtime)?];
    measured.filling = forests.iter().map(|forest| forest.filling).collect();
    measured.starts = start::run(both, &forests, extent.pick(3, 1))?;
    let plan = snapshots::Plan {
        writes_per_second: 2000,
        reads_per_second: 2000,
        rounds: 1,
        warm_up: extent.seconds(5, 1),
        duration: extent.seconds(30, 3),
    };
    measured.snapshots = snapshots::run(&plan, both, &forests, runtime)?;
    let plan = flat_out::Plan {
        rounds: extent.pick(2, 1),
        warm_up: extent.seconds(3, 1),
        duration: extent.seconds(20, 4),
    };
    measured.flat_out = flat_out::run(&plan, both, &forests, runtime)?;
    Ok(())
}

fn size(extent: Extent, both: &[Contender; 2], runtime: &Runtime, measured: &mut Measured) -> Result<()> {
    measured.scaling = Some(scaling::run(&extent.scaling(), both, runtime)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loads_of_the_targets_are_among_those_of_one_server() {
        let scenarios = standalone();
        for (mix, sessions) in [("get=1", 32), ("set=1", 32), ("create=1", 32), ("get=1", 1), ("set=1", 1)] {
            let is_it = |scenario: &&Scenario| {
                (scenario.mix.to_string().as_str(), scenario.sessions, scenario.in_flight)
                    == (mix, sessions, sessions)
            };
            assert!(scenarios.iter().any(|scenario| is_it(&scenario)), "{mix} with {sessions} sessions");
        }
        assert!(scenarios.len() <= 20, "{} loads take too long", scenarios.len());
    }
}
