//! `error-arms`: which error paths of storage and zab no fault has reached. The simulator and the tests of
//! both crates are built with coverage and run; every `?` and every `Err(` that was never taken needs a
//! reason in `crates/sim/error-arms.txt`, and every reason an error path that was never taken. Needs rustup's
//! component `llvm-tools`.

mod coverage;
mod place;
mod reasons;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};

use crate::step::{project_root, target_directory};
use coverage::{arms, read_source, simulate, test};
use place::Region;
use reasons::Reasons;

/// How long faults are looked for.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Seeds of the simulator
    #[arg(long, default_value_t = 3000)]
    seeds: u64,
    /// Seeds that run at a time
    #[arg(long, default_value_t = 2)]
    jobs: u64,
}

const BEGIN: &str = "<!-- error arms: written by `cargo xtask error-arms` -->";
const END: &str = "<!-- end of error arms -->";

/// Looks at every error path; fails if one was not reached and has no reason, or if a reason has no such
/// path.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let reasons = Reasons::read()?;
    let target = target_directory().join("error-arms");
    let simulator = simulate(&target, arguments)?;
    let tests = test(&target)?;
    let by_faults = arms(&target, "sim", &[simulator])?;
    let by_tests = arms(&target, "tests", &tests)?;
    let mut used = BTreeSet::new();
    let mut missing = Vec::new();
    let mut count = Count::default();
    let regions: BTreeSet<&(String, Region)> = by_faults.keys().chain(by_tests.keys()).collect();
    for region in regions {
        count.all += 1;
        if by_faults.get(region) == Some(&true) {
            count.by_faults += 1;
            continue;
        }
        if by_tests.get(region) == Some(&true) {
            count.by_tests += 1;
            continue;
        }
        let (file, (line, ..)) = region;
        let place = read_source(file).place(*line);
        match reasons.of(&place) {
            Some(reason) => {
                *count.by_reason.entry(reason.to_owned()).or_default() += 1;
                used.insert(place);
            }
            None => missing.push((line, place)),
        }
    }
    count.without_reason = missing.len();
    write_report(&count, arguments)?;
    missing.iter().for_each(|(line, place)| println!("never reached, line {line}: {place}"));
    let stale = reasons.stale(&used, read_source);
    stale.iter().for_each(|line| println!("{line}"));
    if !missing.is_empty() || !stale.is_empty() {
        let (missing, stale) = (missing.len(), stale.len());
        bail!(
            "{missing} error paths that were never reached have no reason in {}, {stale} reasons no path",
            reasons::FILE
        );
    }
    Ok(())
}

/// Reasons whose error path is not in the source any more. Needs no counts.
pub(crate) fn outdated() -> anyhow::Result<Vec<String>> {
    Ok(Reasons::read()?.gone(read_source))
}

#[derive(Default)]
struct Count {
    all: usize,
    by_faults: usize,
    by_tests: usize,
    by_reason: BTreeMap<String, usize>,
    without_reason: usize,
}

/// Puts the counts into their place in docs/reliability.md.
fn write_report(count: &Count, arguments: &Arguments) -> anyhow::Result<()> {
    let path = project_root().join("docs/reliability.md");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let (before, rest) =
        text.split_once(BEGIN).with_context(|| format!("{} has no {BEGIN}", path.display()))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{} has no {END}", path.display()))?;
    let mut table = String::from("| Error arms of storage and zab | |\n| --- | ---: |\n");
    table.push_str(&format!("| All | {} |\n", count.all));
    table.push_str(&format!(
        "| Taken in {} seeds of the simulator | {} |\n",
        arguments.seeds, count.by_faults
    ));
    table.push_str(&format!("| Taken in the tests of the two crates only | {} |\n", count.by_tests));
    for (reason, places) in &count.by_reason {
        table.push_str(&format!("| Never: {reason} | {places} |\n"));
    }
    table.push_str(&format!("| Never, and without a reason yet | {} |\n", count.without_reason));
    std::fs::write(&path, format!("{before}{BEGIN}\n\n{table}\n{END}{after}"))?;
    Ok(())
}
