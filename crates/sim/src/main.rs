//! The simulator as a program: one seed with its trace, or many seeds with a table.

mod batch;

use std::ops::Range;

use clap::Parser;
use zebu_sim::{Run, TraceLines};

/// A fifth of a run is allocation. Seeds per second with this allocator are a quarter more than with glibc's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs simulated ensembles. The same seed always does the same.
#[derive(Debug, Parser)]
#[command(name = "zebu-sim", version)]
struct Arguments {
    /// One seed; prints what happens.
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Only the end and the fingerprint of that seed.
    #[arg(long, requires = "seed")]
    quiet: bool,
    /// Leave out faults of that seed as long as it fails the same way.
    #[arg(long, requires = "seed")]
    shrink: bool,
    /// Many seeds, from the first up to, not including, the last: 0..1000.
    #[arg(long, value_parser = range)]
    seeds: Option<Range<u64>>,
    /// How many run at a time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Runs every hundredth seed twice and compares the fingerprints.
    #[arg(long)]
    twice: bool,
    /// Lets bytes change on their way and looks for panics alone.
    #[arg(long, requires = "seeds")]
    garbled: bool,
    /// One line about the first violation, for programs.
    #[arg(long)]
    brief: bool,
    /// Continues after a violation and counts them.
    #[arg(long)]
    keep_going: bool,
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("{text:?} is not FIRST..END, as in 0..1000");
    let (first, end) = text.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
    Ok(number(first)?..number(end)?)
}

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let passed = match arguments.seed {
        Some(seed) => one(seed, &arguments),
        None if arguments.garbled => garbled(arguments.seeds.clone().unwrap_or(0..1000)),
        None => batch::run(
            arguments.seeds.clone().unwrap_or(0..1000),
            &batch::BatchOptions {
                jobs: arguments.jobs.max(1),
                twice: arguments.twice,
                keep_going: arguments.keep_going,
                brief: arguments.brief,
            },
        ),
    };
    if passed { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
}

/// Prints a line, and ignores a closed output.
fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn garbled(seeds: Range<u64>) -> bool {
    let mut passed = true;
    for seed in seeds {
        if std::panic::catch_unwind(|| zebu_sim::run_garbled(seed)).is_err() {
            say(&format!("PANIC with seed {seed}"));
            passed = false;
        }
    }
    passed
}

fn one(seed: u64, arguments: &Arguments) -> bool {
    let mut run = Run::new(seed);
    if arguments.shrink
        && let Some(violation) = run.run_caught(TraceLines::Dropped).violation
    {
        run = zebu_sim::shrink(seed, violation.checker, 400);
    }
    let lines = if arguments.quiet { TraceLines::Dropped } else { TraceLines::Kept };
    let report = if arguments.quiet { run.run_caught(lines) } else { run.run(lines) };
    run.describe().iter().chain(&report.trace).for_each(|line| say(line));
    say(&format!(
        "seed {seed}: fingerprint {:016x}, {} events, {:.1} s, {} transactions, {} answers, {} watch events",
        report.hash,
        report.counts.events,
        report.simulated as f64 / 1e6,
        report.transactions,
        report.answered,
        report.watch_events
    ));
    match report.violation {
        None => true,
        Some(violation) => {
            say(&format!("VIOLATION {}: {}", violation.checker, violation.text));
            false
        }
    }
}
