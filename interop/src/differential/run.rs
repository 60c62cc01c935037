//! Plays seeds, one after the other, each on two fresh servers, and reports the first difference of each.

use std::collections::VecDeque;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use zebu_testing::{Launch, ServerProcess};

use super::coverage::Coverage;
use super::deviation::{self, Counts, TABLE};
use super::dialect::Dialect;
use super::generator::{Generator, Pairing};
use super::observed::Observed;
use super::peer::{Peer, Side, Sight};
use super::step::{Action, SESSIONS, Step};
use super::vocabulary::SUPER_DIGEST;

/// Steps shown before a difference.
const HISTORY: usize = 20;

/// Whether servers write their log to the disk before they answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sync {
    Forced,
    Relaxed,
}

/// Whether every row of the table of deviations must be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deviations {
    MustOccur,
    MayOccur,
}

/// What to run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) left: Launch,
    pub(crate) right: Launch,
    pub(crate) pairing: Pairing,
    pub(crate) dialect: Dialect,
    pub(crate) deviations: Deviations,
    pub(crate) first_seed: u64,
    pub(crate) seeds: u64,
    pub(crate) requests: usize,
    pub(crate) restart_every: Option<usize>,
    pub(crate) sync: Sync,
}

/// How a whole run went.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) requests: usize,
    pub(crate) differences: usize,
    deviations: Counts,
    pub(crate) coverage: Coverage,
}

/// Plays all seeds.
pub(crate) fn run(plan: &Plan) -> Result<Summary> {
    let mut summary = Summary::default();
    let started = Instant::now();
    println!("seeds {} to {}", plan.first_seed, plan.first_seed + plan.seeds - 1);
    for run in 1..=plan.seeds {
        let seed = plan.first_seed + run - 1;
        let before = (summary.requests, Instant::now());
        let difference = run_seed(plan, seed, &mut summary).with_context(|| format!("seed {seed}"))?;
        let took = before.1.elapsed();
        println!("seed {seed}: {} requests in {took:.1?}", summary.requests - before.0);
        match difference {
            // The name is the same with every seed: results of different runs are compared by it.
            None => println!("ok run {run}"),
            Some(difference) => {
                summary.differences += 1;
                println!("{difference}");
                println!(
                    "not ok run {run}: seed {seed}: the servers differ; the steps are in the lines before"
                );
            }
        }
    }
    let rate = summary.requests as f64 / started.elapsed().as_secs_f64();
    println!(
        "{} seeds, {} requests to each server, {} differences, {rate:.0} requests per second",
        plan.seeds, summary.requests, summary.differences
    );
    for row in TABLE.iter().filter(|row| row.is_for(plan.dialect)) {
        let count = summary.deviations.get(row.id).copied().unwrap_or(0);
        println!("  known deviation {}: {count} times ({})", row.id, row.reason);
        let can_occur = plan.pairing == Pairing::ApacheAndZebu;
        if count == 0 && can_occur && plan.deviations == Deviations::MustOccur {
            summary.differences += 1;
            println!("not ok deviation {}: allowed, but it did not occur", row.id);
        }
    }
    Ok(summary)
}

fn run_seed(plan: &Plan, seed: u64, summary: &mut Summary) -> Result<Option<String>> {
    // Configurations alternate with the seed, so that reconfig meets both of its refusals.
    let (left, right) = thread::scope(|scope| {
        let right = scope.spawn(|| start(&plan.right, seed, plan.sync));
        let left = start(&plan.left, seed, plan.sync);
        (left, right.join().expect("starting a server does not panic"))
    });
    let mut pair = Pair { left: Peer::new(Side::Left, left?)?, right: Peer::new(Side::Right, right?)? };
    let mut generator = Generator::new(seed, plan.pairing, plan.dialect, plan.restart_every);
    let mut history = VecDeque::new();
    let mut requests = 0;
    let mut number = 0;
    while requests < plan.requests {
        let step = generator.next();
        number += 1;
        requests += step.requests();
        summary.requests += step.requests();
        let played = pair.play(&step);
        let describe = |what: String| report(seed, number, &step, &what, &history);
        let (left, right) = match played {
            Ok(sights) => sights,
            Err(error) => return Ok(Some(describe(format!("{error:#}\n{}", pair.outputs())))),
        };
        if let Some(difference) = compare(plan.dialect, &step, &left, &right, &mut summary.deviations) {
            return Ok(Some(describe(format!("{difference}{}", pair.outputs()))));
        }
        learn(&mut generator, &step, &left);
        summary.coverage.add(&left);
        if history.len() == HISTORY {
            history.pop_front();
        }
        history.push_back((number, step, left));
    }
    Ok(None)
}

fn start(launch: &Launch, seed: u64, sync: Sync) -> Result<ServerProcess> {
    let mut builder = ServerProcess::launch(launch.clone())
        .property("zookeeper.extendedTypesEnabled", "true")
        .property("zookeeper.4lw.commands.whitelist", "*")
        .property("zookeeper.DigestAuthenticationProvider.superDigest", SUPER_DIGEST)
        // Containers and TTL nodes are removed by a timer: no two servers do it at the same request.
        .property("znode.container.checkIntervalMs", "86400000");
    if sync == Sync::Relaxed {
        builder = builder.property("zookeeper.forceSync", "no");
    }
    if seed % 2 == 1 {
        builder = builder.line("reconfigEnabled=true");
    }
    Ok(builder.start()?)
}

struct Pair {
    left: Peer,
    right: Peer,
}

impl Pair {
    fn play(&mut self, step: &Step) -> Result<(Sight, Sight)> {
        let mut sights = (Sight::default(), Sight::default());
        self.left.send(step).context("left")?;
        self.right.send(step).context("right")?;
        self.left.receive(step, &mut sights.0).context("left")?;
        self.right.receive(step, &mut sights.1).context("right")?;
        if step.may_fire() {
            self.left.send_barrier(step.session).context("left")?;
            self.right.send_barrier(step.session).context("right")?;
            self.left.receive_barrier(step.session, &mut sights.0).context("left")?;
            self.right.receive_barrier(step.session, &mut sights.1).context("right")?;
        }
        Ok(sights)
    }

    /// What the servers wrote, if one of them has ended.
    fn outputs(&mut self) -> String {
        let mut text = String::new();
        for (name, peer) in [("left", &mut self.left), ("right", &mut self.right)] {
            if !peer.is_running() {
                text.push_str(&format!("the {name} server has ended; it wrote:\n{}\n", peer.output()));
            }
        }
        text
    }
}

/// The first difference, in words.
fn compare(
    dialect: Dialect,
    step: &Step,
    left: &Sight,
    right: &Sight,
    deviations: &mut Counts,
) -> Option<String> {
    if let Action::SendDifferent { deviation, .. } = &step.action {
        *deviations.entry(deviation).or_default() += 1;
    }
    for session in 0..SESSIONS {
        let (mut one, mut two) = (left[session].clone(), right[session].clone());
        if step.fires_in_any_order() {
            sort_events(&mut one);
            sort_events(&mut two);
        }
        for index in 0..one.len().max(two.len()) {
            let (one, two) = (one.get(index), two.get(index));
            if one == two {
                continue;
            }
            if let (Some(one), Some(two)) = (one, two)
                && let Some(id) = deviation::allowing(dialect, one, two)
            {
                *deviations.entry(id).or_default() += 1;
                continue;
            }
            let show =
                |seen: Option<&Observed>| seen.map_or("nothing".to_owned(), |seen| format!("{seen:?}"));
            return Some(format!(
                "session {session}, frame {index}:\n  left:  {}\n  right: {}\n",
                show(one),
                show(two)
            ));
        }
    }
    None
}

/// Sorts each row of events of one transaction.
fn sort_events(seen: &mut [Observed]) {
    let zxid = |observed: &Observed| match observed {
        Observed::Event { zxid, .. } => Some(*zxid),
        _ => None,
    };
    for row in seen.chunk_by_mut(|one, two| zxid(one).is_some() && zxid(one) == zxid(two)) {
        row.sort_by_key(|observed| format!("{observed:?}"));
    }
}

fn learn(generator: &mut Generator, step: &Step, left: &Sight) {
    for observed in &left[step.session] {
        if let Observed::Reply(reply) = observed {
            generator.learn_zxid(reply.zxid);
        }
        for path in observed.created_paths() {
            generator.learn_path(path);
        }
    }
}

fn report(
    seed: u64,
    number: usize,
    step: &Step,
    what: &str,
    history: &VecDeque<(usize, Step, Sight)>,
) -> String {
    let mut text = format!("DIFFERENCE with seed {seed} at step {number}\nlast steps:\n");
    for (number, step, sight) in history {
        text.push_str(&format!("  {number}: {}\n", step.describe()));
        for (session, seen) in sight.iter().enumerate().filter(|(_, seen)| !seen.is_empty()) {
            for observed in seen {
                text.push_str(&format!("        session {session} saw {observed:?}\n"));
            }
        }
    }
    text.push_str(&format!("step {number}: {}\n{what}", step.describe()));
    text
}
