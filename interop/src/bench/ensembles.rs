//! Three servers of each kind under the same load, in turn. Sessions are spread over all three, the leader
//! too; the CPU time is the sum of the three processes.

use anyhow::Result;
use tokio::runtime::Runtime;

use super::contender::Contender;
use super::target::Target;
use super::throughput::{self, Outcome, Plan, Scenario};
use crate::trio::Trio;

/// Mixes with the number of sessions and of requests in flight.
const CELLS: [(&str, usize, usize); 7] = [
    ("get", 32, 32),
    ("set", 32, 32),
    ("create", 32, 32),
    ("ephemeral", 32, 32),
    ("get=9,set=1", 32, 32),
    ("get", 1, 1),
    ("set", 1, 1),
];

pub(crate) fn scenarios() -> Vec<Scenario> {
    CELLS.iter().map(|&(mix, sessions, in_flight)| Scenario::small(mix, sessions, in_flight)).collect()
}

/// Runs all loads on two ensembles that live as long as the plan.
pub(crate) fn run(plan: &Plan, contenders: &[Contender; 2], runtime: &Runtime) -> Result<Vec<Outcome>> {
    let trios = [start(&contenders[0])?, start(&contenders[1])?];
    let targets = [Target::ensemble(&trios[0])?, Target::ensemble(&trios[1])?];
    throughput::compare(plan, &targets, runtime)
}

fn start(contender: &Contender) -> Result<Trio> {
    println!("starting three servers of {}", contender.name);
    let launch = || contender.launch.clone();
    let mut trio = Trio::new([launch(), launch(), launch()], "")?;
    trio.start_all()?;
    Ok(trio)
}
