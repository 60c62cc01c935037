//! Runs many seeds on a few threads: progress, a table of the injected faults, and a short form of the first
//! failures.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use zebu_sim::{CoveredPath, EnsembleKind, RunReport, TraceLines, run_seed};

use crate::say;

/// The options of a batch.
pub(crate) struct BatchOptions {
    pub(crate) jobs: usize,
    pub(crate) twice: bool,
    pub(crate) keep_going: bool,
    pub(crate) brief: bool,
}

/// The sums over all runs.
#[derive(Default)]
struct BatchTotal {
    seeds: u64,
    simulated: u64,
    events: u64,
    transactions: u64,
    answered: u64,
    watch_events: u64,
    starts: u64,
    leaders: u64,
    refused_starts: u64,
    /// How often each path was taken, and in how many runs.
    paths: Vec<(u64, u64)>,
    changing: u64,
    grouped: u64,
    lists: u64,
    activations: u64,
    unhealed: u64,
    faults: BTreeMap<&'static str, u64>,
    violations: Vec<(u64, &'static str, String)>,
}

impl BatchTotal {
    fn add(&mut self, report: &RunReport) {
        self.seeds += 1;
        self.simulated += report.simulated;
        self.events += report.counts.events;
        self.transactions += report.transactions;
        self.answered += report.answered;
        self.watch_events += report.watch_events;
        self.starts += report.counts.starts;
        self.leaders += report.counts.leaders;
        self.refused_starts += report.counts.refused_starts;
        match report.kind {
            EnsembleKind::Fixed => {}
            EnsembleKind::Grouped => self.grouped += 1,
            EnsembleKind::Changing => self.changing += 1,
        }
        self.lists += report.counts.configs;
        self.activations += report.counts.activations;
        self.unhealed += report.counts.unhealed;
        self.paths.resize(CoveredPath::ALL.len(), (0, 0));
        for (path, (sum, runs)) in CoveredPath::ALL.into_iter().zip(&mut self.paths) {
            let count = report.counts.paths.get(path);
            *sum += count;
            *runs += u64::from(count > 0);
        }
        for fault in &report.faults {
            *self.faults.entry(fault).or_default() += 1;
        }
        if let Some(violation) = &report.violation {
            self.violations.push((report.seed, violation.checker, violation.text.clone()));
        }
    }
}

/// Runs the seeds; false if a guarantee was violated.
pub(crate) fn run(seeds: Range<u64>, options: &BatchOptions) -> bool {
    // A panic of the code under test is caught and counted; its message is in the report.
    std::panic::set_hook(Box::new(|_| {}));
    let started = Instant::now();
    let bar = ProgressBar::new(seeds.end.saturating_sub(seeds.start));
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} seeds, {per_sec}, {eta} left {msg}")
    {
        bar.set_style(style);
    }
    let next = AtomicU64::new(seeds.start);
    let stop = AtomicBool::new(false);
    let total = Mutex::new(BatchTotal::default());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let mut report = run_seed(seed);
                    if options.twice && seed.is_multiple_of(100) {
                        compare(&mut report);
                    }
                    let failed = report.violation.is_some();
                    let mut total = total.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    total.add(&report);
                    bar.inc(1);
                    if failed {
                        bar.set_message(format!("{} violations", total.violations.len()));
                        stop.store(!options.keep_going, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    bar.finish_and_clear();
    let total = total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if options.brief {
        brief(&total);
    } else {
        table(&total, started.elapsed().as_secs_f64());
        explain(&total);
    }
    total.violations.is_empty()
}

/// `caught`, the lowest seed, the checker, how many seeds were run; or `survived` and how many.
fn brief(total: &BatchTotal) {
    match total.violations.iter().min_by_key(|(seed, ..)| *seed) {
        Some((seed, checker, _)) => say(&format!("caught {seed} {checker} {}", total.seeds)),
        None => say(&format!("survived {}", total.seeds)),
    }
}

/// Checks that the same seed gives the same run.
fn compare(report: &mut RunReport) {
    let again = run_seed(report.seed);
    if report.violation.is_none() && again.hash != report.hash {
        report.violation = Some(zebu_sim::Violation {
            checker: "determinism",
            text: format!("fingerprints {:016x} and {:016x}", report.hash, again.hash),
        });
    }
}

fn table(total: &BatchTotal, seconds: f64) {
    say(&format!(
        "{} seeds in {seconds:.1} s ({:.1} per second), {:.2} hours simulated ({:.0} times as fast as real)",
        total.seeds,
        total.seeds as f64 / seconds,
        total.simulated as f64 / 3.6e9,
        total.simulated as f64 / 1e6 / seconds
    ));
    say(&format!(
        "{} events, {} transactions, {} answers, {} watch events, {} starts ({} with refused data), {} leaders",
        total.events,
        total.transactions,
        total.answered,
        total.watch_events,
        total.starts,
        total.refused_starts,
        total.leaders
    ));
    say(&format!(
        "{} seeds with members that change ({} new lists, {} activations, {} without a second phase), {} with groups",
        total.changing, total.lists, total.activations, total.unhealed, total.grouped
    ));
    say("paths taken, how often and in how many seeds:");
    for (path, (count, runs)) in CoveredPath::ALL.iter().zip(&total.paths) {
        say(&format!("  {count:>9}  {runs:>7}  {}", path.name()));
    }
    say("faults:");
    for (fault, count) in &total.faults {
        say(&format!("  {count:>9}  {fault}"));
    }
}

/// Prints each checker that failed: how often, and its first seed with a minimal plan of faults.
fn explain(total: &BatchTotal) {
    let mut by_checker: BTreeMap<&str, Vec<&(u64, &'static str, String)>> = BTreeMap::new();
    for violation in &total.violations {
        by_checker.entry(violation.1).or_default().push(violation);
    }
    for (checker, violations) in by_checker {
        let seeds: Vec<String> = violations.iter().take(20).map(|it| it.0.to_string()).collect();
        say(&format!("VIOLATION {checker}: {} seeds: {}", violations.len(), seeds.join(" ")));
        let (seed, _, text) = violations[0];
        say(&format!("  seed {seed}: {text}"));
        let run = zebu_sim::shrink(*seed, checker, 150);
        run.describe().iter().for_each(|line| say(&format!("  {line}")));
        let report = run.run_caught(TraceLines::Kept);
        const SHOWN: usize = 40;
        let skipped = report.trace.len().saturating_sub(SHOWN);
        report.trace.iter().skip(skipped).for_each(|line| say(&format!("    {line}")));
        if let Some(violation) = report.violation {
            say(&format!("  {}: {}", violation.checker, violation.text));
        }
    }
}
