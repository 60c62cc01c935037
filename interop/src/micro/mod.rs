//! Single steps of a server without the server: how long one takes and, where a figure must be the same again
//! tomorrow, how many instructions it is. It owns the command; what a step does is in `steps` and
//! `disk_steps`.

mod disk_steps;
mod instructions;
mod steps;
mod world;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;

use crate::bench::{Machine, Table, figure};
use world::World;

/// Each step is timed so often; the quickest counts, because other programs only make it slower.
const ROUNDS: usize = 7;

/// Which steps, and how often.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Only steps whose name begins so
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// Nodes of the tree
    #[arg(long, default_value_t = 100_000)]
    nodes: usize,
    /// How often each step runs in a round
    #[arg(long, default_value_t = 50_000)]
    count: usize,
    /// Count instructions (perf or valgrind) too, with a tree of a tenth of the nodes
    #[arg(long)]
    instructions: bool,
    /// Run each step `count` times, once, and print nothing: what is counted from outside
    #[arg(long, hide = true)]
    bare: bool,
    /// Write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A step: its name, its description and its preparation. The preparation returns a function that runs the
/// step a number of times.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) ready: fn(&World) -> Result<Run>,
}

/// Runs a step a number of times.
pub(crate) type Run = Box<dyn FnMut(usize) -> Result<()>>;

/// One figure.
#[derive(Serialize)]
struct Outcome {
    step: &'static str,
    nanoseconds: f64,
    instructions: Option<f64>,
}

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let all = steps::all().into_iter().chain(disk_steps::all());
    let wanted = |step: &Step| {
        arguments.only.is_empty() || arguments.only.iter().any(|name| step.name.starts_with(name.as_str()))
    };
    let steps: Vec<Step> = all.filter(wanted).collect();
    ensure!(!steps.is_empty(), "no step has such a name");
    let world = World::new(arguments.nodes);
    if arguments.bare {
        return steps.iter().try_for_each(|step| (step.ready)(&world)?(arguments.count));
    }
    println!("{}; tree of {} nodes", Machine::look(), arguments.nodes);
    let mut table = Table::new(["step", "what", "ns", "instructions"]);
    let mut outcomes = Vec::new();
    for step in &steps {
        let nanoseconds = quickest(step, &world, arguments.count)?;
        let instructions = match arguments.instructions {
            true => Some(instructions::of(step.name, arguments.nodes / 10)?),
            false => None,
        };
        table.row([
            step.name.to_owned(),
            step.what.to_owned(),
            figure(nanoseconds),
            instructions.map_or("-".to_owned(), figure),
        ]);
        outcomes.push(Outcome { step: step.name, nanoseconds, instructions });
    }
    println!("\n{table}");
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&outcomes)?;
        std::fs::write(path, text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Nanoseconds of one run of a step.
fn quickest(step: &Step, world: &World, count: usize) -> Result<f64> {
    let mut run = (step.ready)(world)?;
    let mut quickest = f64::MAX;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        run(count)?;
        quickest = quickest.min(started.elapsed().as_nanos() as f64 / count.max(1) as f64);
    }
    Ok(quickest)
}
