//! One seed from beginning to end, and the search for the shortest plan of faults that still fails.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::context::{RunCounts, Trace};
use crate::history::Violation;
use crate::plan::{self, PlannedFault};
use crate::run_parameters::RunParameters;
use crate::world::World;

/// The seed and the plan of a run.
#[derive(Clone, Debug)]
pub struct Run {
    seed: u64,
    plan: Vec<PlannedFault>,
}

/// The result of a run.
#[derive(Debug)]
pub struct RunReport {
    /// The seed.
    pub seed: u64,
    /// The guarantee that was violated, if one was.
    pub violation: Option<Violation>,
    /// The fingerprint of everything that happened: the same seed has the same one.
    pub hash: u64,
    /// The kind of the ensemble.
    pub kind: EnsembleKind,
    /// Virtual time, in microseconds.
    pub simulated: u64,
    /// The injected faults, by name.
    pub faults: Vec<&'static str>,
    /// The other counters.
    pub counts: RunCounts,
    /// Transactions that were committed.
    pub transactions: u64,
    /// Calls that were answered.
    pub answered: u64,
    /// Watch events that reached clients.
    pub watch_events: u64,
    /// The lines of the trace, if requested.
    pub trace: Vec<String>,
}

/// The kind of an ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnsembleKind {
    /// The config never changes, and quorums are majorities.
    Fixed,
    /// The config never changes; voters have groups and weights.
    Grouped,
    /// The config changes during the run.
    Changing,
}

impl EnsembleKind {
    fn of(shape: &RunParameters) -> EnsembleKind {
        match () {
            () if shape.members.is_some() => EnsembleKind::Changing,
            () if !shape.groups.is_empty() => EnsembleKind::Grouped,
            () => EnsembleKind::Fixed,
        }
    }
}

/// Whether the lines of the trace are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceLines {
    /// Kept in memory.
    Kept,
    /// Never formatted.
    Dropped,
}

impl Run {
    /// The run of a seed, with all its faults.
    pub fn new(seed: u64) -> Run {
        Run { seed, plan: plan::draw(&RunParameters::draw(seed)) }
    }

    /// The parameters and the faults, for people.
    pub fn describe(&self) -> Vec<String> {
        let shape = RunParameters::draw(self.seed);
        let mut lines = vec![format!(
            "seed {}: {} voters, {} observers, {} spares, {} clients, groups {:?}, tick {} ms, {} faults{}, {:?}",
            self.seed,
            shape.voters,
            shape.observers,
            shape.spares,
            shape.clients,
            shape.groups,
            shape.tick_ms,
            self.plan.len(),
            if shape.endurance.is_some() { ", a long run" } else { "" },
            shape.kinds
        )];
        lines.extend(self.plan.iter().map(|planned| planned.to_string()));
        lines
    }

    /// Runs it.
    pub fn run(&self, lines: TraceLines) -> RunReport {
        let trace = match lines {
            TraceLines::Kept => Trace::kept(),
            TraceLines::Dropped => Trace::default(),
        };
        let shape = RunParameters::draw(self.seed);
        let kind = EnsembleKind::of(&shape);
        let world = World::new(shape, self.plan.clone(), trace);
        let outcome = world.run();
        RunReport {
            seed: self.seed,
            violation: outcome.violation,
            hash: outcome.hash,
            kind,
            simulated: outcome.simulated,
            faults: outcome.injected.iter().map(|kind| kind.name()).collect(),
            counts: outcome.counts,
            transactions: outcome.transactions,
            answered: outcome.answered,
            watch_events: outcome.watch_events,
            trace: outcome.trace,
        }
    }

    /// Runs it; a panic of the code under test is reported as a violation.
    pub fn run_caught(&self, lines: TraceLines) -> RunReport {
        catch_unwind(AssertUnwindSafe(|| self.run(lines))).unwrap_or_else(|panic| {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_default();
            RunReport {
                seed: self.seed,
                violation: Some(Violation::new("panic", text)),
                hash: 0,
                kind: EnsembleKind::of(&RunParameters::draw(self.seed)),
                simulated: 0,
                faults: Vec::new(),
                counts: RunCounts::default(),
                transactions: 0,
                answered: 0,
                watch_events: 0,
                trace: Vec::new(),
            }
        })
    }
}

/// Runs a seed while bytes between servers and from clients are corrupted in transit. The only guarantee then
/// is that no server panics. Returns how many events it had.
pub fn run_garbled(seed: u64) -> u64 {
    let shape = RunParameters::draw(seed);
    let mut world = World::new(shape, Vec::new(), Trace::default());
    world.garble();
    world.run().counts.events
}

/// Runs a seed with all its faults.
pub fn run_seed(seed: u64) -> RunReport {
    Run::new(seed).run_caught(TraceLines::Dropped)
}

/// Leaves out faults as long as the same checker fails, in at most `tries` runs.
pub fn shrink(seed: u64, checker: &str, tries: usize) -> Run {
    let mut best = Run::new(seed);
    let mut left = tries;
    let mut size = best.plan.len().div_ceil(2);
    while size > 0 && left > 0 {
        let mut at = 0;
        let mut shrunk = false;
        while at < best.plan.len() && left > 0 {
            let mut plan = best.plan.clone();
            plan.drain(at..(at + size).min(plan.len()));
            let candidate = Run { seed, plan };
            left -= 1;
            let fails =
                candidate.run_caught(TraceLines::Dropped).violation.is_some_and(|it| it.checker == checker);
            if fails {
                best = candidate;
                shrunk = true;
            } else {
                at += size;
            }
        }
        if !shrunk || size > 1 {
            size /= 2;
        }
    }
    best
}
