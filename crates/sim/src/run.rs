//! One seed from beginning to end, and the search for the shortest plan of faults that still fails.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::core::{Counts, Trace};
use crate::history::Violation;
use crate::plan::{self, Planned};
use crate::shape::Shape;
use crate::world::World;

/// What to run.
#[derive(Clone, Debug)]
pub struct Run {
    seed: u64,
    plan: Vec<Planned>,
}

/// What came of a run.
#[derive(Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The promise that was broken, if one was.
    pub violation: Option<Violation>,
    /// The fingerprint of everything that happened: the same seed has the same one.
    pub hash: u64,
    /// How the ensemble was made up.
    pub kind: EnsembleKind,
    /// Virtual time, in microseconds.
    pub simulated: u64,
    /// Faults that came, by name.
    pub faults: Vec<&'static str>,
    /// What else was counted.
    pub counts: Counts,
    /// Transactions that were committed.
    pub transactions: u64,
    /// Calls that were answered.
    pub answered: u64,
    /// Watch events that reached clients.
    pub watch_events: u64,
    /// What happened, line by line, if it was asked for.
    pub trace: Vec<String>,
}

/// How an ensemble is made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnsembleKind {
    /// Its members are always the same, and each voter counts once.
    Fixed,
    /// Its members are always the same; voters are in groups and have weights.
    Grouped,
    /// Its members change while it runs.
    Changing,
}

impl EnsembleKind {
    fn of(shape: &Shape) -> EnsembleKind {
        match () {
            () if shape.members.is_some() => EnsembleKind::Changing,
            () if !shape.groups.is_empty() => EnsembleKind::Grouped,
            () => EnsembleKind::Fixed,
        }
    }
}

/// Whether the lines of a run are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// They are.
    Kept,
    /// They cost nothing.
    Dropped,
}

impl Run {
    /// The run of a seed, with all its faults.
    pub fn new(seed: u64) -> Run {
        Run { seed, plan: plan::draw(&Shape::draw(seed)) }
    }

    /// The shape and the faults, for people.
    pub fn describe(&self) -> Vec<String> {
        let shape = Shape::draw(self.seed);
        let mut lines = vec![format!(
            "seed {}: {} voters, {} observers, {} spares, {} clients, groups {:?}, tick {} ms, {} faults{}",
            self.seed,
            shape.voters,
            shape.observers,
            shape.spares,
            shape.clients,
            shape.groups,
            shape.tick_ms,
            self.plan.len(),
            if shape.endurance.is_some() { ", a long run" } else { "" }
        )];
        lines.extend(self.plan.iter().map(|planned| planned.to_string()));
        lines
    }

    /// Runs it.
    pub fn run(&self, lines: Lines) -> Report {
        let trace = match lines {
            Lines::Kept => Trace::kept(),
            Lines::Dropped => Trace::default(),
        };
        let shape = Shape::draw(self.seed);
        let kind = EnsembleKind::of(&shape);
        let world = World::new(shape, self.plan.clone(), trace);
        let outcome = world.run();
        Report {
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

    /// Runs it; a panic of the code under test is a violation like any other.
    pub fn run_caught(&self, lines: Lines) -> Report {
        catch_unwind(AssertUnwindSafe(|| self.run(lines))).unwrap_or_else(|panic| {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_default();
            Report {
                seed: self.seed,
                violation: Some(Violation::new("panic", text)),
                hash: 0,
                kind: EnsembleKind::of(&Shape::draw(self.seed)),
                simulated: 0,
                faults: Vec::new(),
                counts: Counts::default(),
                transactions: 0,
                answered: 0,
                watch_events: 0,
                trace: Vec::new(),
            }
        })
    }
}

/// Runs a seed while bytes change on their way between members and from clients. Nothing is promised then, except
/// that no server panics. Returns how many events it had.
pub fn run_garbled(seed: u64) -> u64 {
    let shape = Shape::draw(seed);
    let mut world = World::new(shape, Vec::new(), Trace::default());
    world.garble();
    world.run().counts.events
}

/// Runs a seed with all its faults.
pub fn run_seed(seed: u64) -> Report {
    Run::new(seed).run_caught(Lines::Dropped)
}

/// Leaves out faults as long as the same checker fails. At most so many runs are tried.
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
                candidate.run_caught(Lines::Dropped).violation.is_some_and(|it| it.checker == checker);
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
