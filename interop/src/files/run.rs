//! Rounds: each a fresh directory that travels the whole route.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result};
use zebu_testing::Launch;

use super::arrangement::{Arrangement, Sweeping};
use super::hop::{Host, Journey, Leaving, Totals};
use crate::apache::Edition;
use crate::differential::Random;
use crate::outcome::{self, Ending};

/// What to run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Without it, only the Apaches are on the route: a check of this program.
    pub(crate) zebu: Option<Launch>,
    /// In order of their turn.
    pub(crate) apaches: Vec<Edition>,
    pub(crate) rounds: u64,
    pub(crate) seed: u64,
    /// Writes per stay, those of the killed load not counted.
    pub(crate) writes: usize,
}

/// Runs all rounds, a line for each thing that was checked; the first fault ends it.
pub(crate) fn run(plan: &Plan) -> Result<Ending> {
    let route = route(plan)?;
    let names: Vec<String> = route.iter().map(Host::to_string).collect();
    println!("route: {}", names.join(" -> "));
    let mut totals = Totals::default();
    let mut counts = BTreeMap::new();
    for round in 0..plan.rounds {
        let seed = plan.seed + round;
        let started = Instant::now();
        let ending = run_round(plan, &route, seed, &mut totals, &mut counts)
            .with_context(|| format!("seed {seed}"))?;
        if ending == Ending::Bad {
            return Ok(ending);
        }
        println!("round {} (seed {seed}): {:.1?}", round + 1, started.elapsed());
    }
    print_totals(plan, &totals, &counts);
    Ok(Ending::Good)
}

/// Zebu, the first Apache, Zebu, the second, and so on back to Zebu. Without Zebu every Apache comes twice
/// in a row and none after a newer one: 3.8.0 loses parts of multis that 3.9 has logged.
fn route(plan: &Plan) -> Result<Vec<Host>> {
    let mut route = Vec::new();
    for edition in &plan.apaches {
        let apache = Host::Apache(edition.clone(), edition.launch()?);
        route.push(plan.zebu.clone().map_or(apache.clone(), Host::Zebu));
        route.push(apache);
    }
    route.extend(plan.zebu.clone().map(Host::Zebu));
    Ok(route)
}

fn run_round(
    plan: &Plan,
    route: &[Host],
    seed: u64,
    totals: &mut Totals,
    counts: &mut BTreeMap<String, (usize, usize)>,
) -> Result<Ending> {
    let mut random = Random::new(seed);
    let arrangement = Arrangement::of_round(seed, &mut random);
    println!("seed {seed}: {arrangement}");
    let mut journey = Journey::begin(arrangement, &route[0])?;
    // One stay after the first, in turn: every server gets to sweep.
    let sweeping_at = 1 + seed as usize % (route.len() - 1);
    for (index, host) in route.iter().enumerate() {
        let leaving = if random.percent(50) { Leaving::KilledUnderLoad } else { Leaving::Asked };
        let sweeping = if index == sweeping_at { Sweeping::On } else { Sweeping::Off };
        let name = format!("seed {seed}, stay {} with {host}, {leaving}", index + 1);
        if let Err(fault) = journey.stay(host, leaving, sweeping, plan.writes, &mut random, totals) {
            println!("the servers wrote:\n{}", journey.output_tail());
            return Ok(outcome::not_ok(&name, &fault));
        }
        outcome::ok(&name);
        if let Host::Zebu(_) = host
            && let Some(edition) = plan.apaches.get(index % plan.apaches.len())
        {
            let name = format!("seed {seed}, files after stay {} read by tools of {edition}", index + 1);
            if let Err(fault) = journey.read_with_tools(edition, leaving, totals) {
                return Ok(outcome::not_ok(&name, &fault));
            }
            outcome::ok(&name);
        }
    }
    for (name, (good, bad)) in &journey.workload().counts {
        let count = counts.entry(name.clone()).or_insert((0, 0));
        count.0 += good;
        count.1 += bad;
    }
    let host = &route[route.len() - 1];
    let name = format!("seed {seed}, last start with {host}");
    Ok(match journey.finish(host, totals) {
        Ok(()) => outcome::ok(&name),
        Err(fault) => outcome::not_ok(&name, &fault),
    })
}

fn print_totals(plan: &Plan, totals: &Totals, counts: &BTreeMap<String, (usize, usize)>) {
    println!("requests (succeeded, failed):");
    for (name, (good, bad)) in counts {
        println!("  {name:<28} {good:>6} {bad:>6}");
    }
    let tools = &totals.tools;
    println!(
        "{} rounds, {} stays ({} ended by SIGKILL under load, {} with a sweep), {} single writes, {} nodes \
         compared, {} sessions and {} ephemeral nodes checked, {} sessions expired",
        plan.rounds,
        totals.hops,
        totals.kills,
        totals.sweeps,
        totals.writes,
        totals.nodes,
        totals.sessions,
        totals.ephemerals,
        totals.expired
    );
    println!(
        "under load: {} acknowledged writes checked, {} more found that were not acknowledged",
        totals.acknowledged_under_load, totals.found_unacknowledged
    );
    println!(
        "Apache's tools read {} logs with {} transactions and {} snapshots with {} nodes",
        tools.logs, tools.transactions, tools.snapshots, tools.nodes
    );
}
