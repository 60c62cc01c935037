//! `error-arms`: which error paths of storage and zab no fault has reached. The simulator and the tests of both
//! crates are built with coverage and run; every `?` and every `Err(` that was never taken needs a reason in
//! `crates/sim/error-arms.txt`. Needs rustup's component `llvm-tools`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::step::{cargo, project_root, run as step, target_directory};

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

/// Where the error paths are looked at. The disk in memory is there to fail; it is no part of a server.
const SOURCES: [&str; 2] = ["crates/storage/src/", "crates/zab/src/"];
const NOT_SHIPPED: &str = "crates/storage/src/model";

const REASONS: &str = "crates/sim/error-arms.txt";
const BEGIN: &str = "<!-- error arms: written by `cargo xtask error-arms` -->";
const END: &str = "<!-- end of error arms -->";

/// A place in a file: line and column where it begins and ends.
type Region = (usize, usize, usize, usize);

/// Error paths by file and place, and whether they were taken.
type Arms = BTreeMap<(String, Region), bool>;

/// Why an error path was not reached, by file and line of source.
type Reasons = BTreeMap<(String, String), String>;

/// Looks at every error path; fails if one was not reached and has no reason.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let target = target_directory().join("error-arms");
    let simulator = simulate(&target, arguments)?;
    let tests = test(&target)?;
    let by_faults = arms(&target, "sim", &[simulator])?;
    let by_tests = arms(&target, "tests", &tests)?;
    let reasons = reasons()?;
    let mut used = BTreeSet::new();
    let mut missing = Vec::new();
    let mut count = Count::default();
    let places: BTreeSet<_> = by_faults.keys().chain(by_tests.keys()).collect();
    for place in places {
        count.all += 1;
        if by_faults.get(place) == Some(&true) {
            count.by_faults += 1;
            continue;
        }
        if by_tests.get(place) == Some(&true) {
            count.by_tests += 1;
            continue;
        }
        let (file, region) = place;
        let key = (file.clone(), source_line(file, region.0)?);
        match reasons.get(&key) {
            Some(reason) => {
                *count.by_reason.entry(reason.clone()).or_default() += 1;
                used.insert(key);
            }
            None => missing.push(format!("{file}:{}: {}", region.0, key.1)),
        }
    }
    count.without_reason = missing.len();
    write_report(&count, arguments)?;
    for key in reasons.keys().filter(|key| !used.contains(*key)) {
        println!("no longer needed in {REASONS}: {}: {}", key.0, key.1);
    }
    missing.iter().for_each(|line| println!("never reached: {line}"));
    if !missing.is_empty() {
        bail!("{} error paths were never reached and have no reason in {REASONS}", missing.len());
    }
    Ok(())
}

#[derive(Default)]
struct Count {
    all: usize,
    by_faults: usize,
    by_tests: usize,
    by_reason: BTreeMap<String, usize>,
    without_reason: usize,
}

/// Cargo, for builds that count what they execute.
fn covered(arguments: &[&str], target: &Path, profile: &str) -> Command {
    let mut command = cargo(arguments);
    command
        .env("CARGO_TARGET_DIR", target)
        .env("RUSTFLAGS", "-C instrument-coverage")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
        .env("LLVM_PROFILE_FILE", target.join(format!("{profile}-%p.profraw")));
    command
}

/// Removes the counts of an earlier run.
fn forget_counts(target: &Path, profile: &str) -> anyhow::Result<()> {
    let Ok(entries) = std::fs::read_dir(target) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with(profile) && name.ends_with(".profraw") {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn simulate(target: &Path, arguments: &Arguments) -> anyhow::Result<PathBuf> {
    let build = ["build", "--quiet", "--release", "--package", "zebu-sim"];
    step("build the simulator", &mut covered(&build, target, "build"))?;
    forget_counts(target, "sim")?;
    let program = target.join("release/zebu-sim");
    let mut command = Command::new(&program);
    command
        .args(["--brief", "--seeds", &format!("0..{}", arguments.seeds)])
        .args(["--jobs", &arguments.jobs.to_string()])
        .env("LLVM_PROFILE_FILE", target.join("sim-%p.profraw"));
    step("simulate", &mut command)?;
    Ok(program)
}

/// Runs the tests of both crates; returns their programs.
fn test(target: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let packages = ["--release", "--package", "zebu-storage", "--package", "zebu-zab", "--tests"];
    forget_counts(target, "tests")?;
    let arguments = [&["test", "--quiet"][..], &packages].concat();
    step("test storage and zab", &mut covered(&arguments, target, "tests"))?;
    let arguments = [&["test", "--no-run", "--message-format=json"][..], &packages].concat();
    let listed = covered(&arguments, target, "build").output().context("cannot list the tests")?;
    let mut programs = Vec::new();
    for line in String::from_utf8_lossy(&listed.stdout).lines() {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        if let Some(program) = message["executable"].as_str() {
            programs.push(PathBuf::from(program));
        }
    }
    Ok(programs)
}

fn llvm(tool: &str) -> anyhow::Result<PathBuf> {
    let found = Command::new("rustc").args(["--print", "target-libdir"]).output()?;
    let libraries = PathBuf::from(String::from_utf8_lossy(&found.stdout).trim().to_owned());
    let path = libraries.parent().unwrap_or(&libraries).join("bin").join(tool);
    if !path.exists() {
        bail!("{} is not there: rustup component add llvm-tools", path.display());
    }
    Ok(path)
}

/// The error paths that the programs hold, and which of them were taken.
fn arms(target: &Path, profile: &str, programs: &[PathBuf]) -> anyhow::Result<Arms> {
    let data = target.join(format!("{profile}.profdata"));
    let mut merge = Command::new(llvm("llvm-profdata")?);
    merge.args(["merge", "-sparse", "-o"]).arg(&data);
    for entry in std::fs::read_dir(target)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with(&format!("{profile}-")) && name.ends_with(".profraw") {
            merge.arg(path);
        }
    }
    step("count", &mut merge)?;
    let mut export = Command::new(llvm("llvm-cov")?);
    export.args(["export", "--skip-expansions", "--instr-profile"]).arg(&data);
    programs.iter().for_each(|program| {
        export.arg("--object").arg(program);
    });
    let output = export.output().context("cannot start llvm-cov")?;
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("llvm-cov said something else than JSON")?;
    let mut found = Arms::new();
    let mut texts = BTreeMap::new();
    let functions = report["data"][0]["functions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for function in functions {
        let file = function["filenames"][0].as_str().unwrap_or_default();
        let Some(file) = file.find("crates/").map(|at| file[at..].to_owned()) else { continue };
        if !SOURCES.iter().any(|it| file.starts_with(it)) || file.starts_with(NOT_SHIPPED) {
            continue;
        }
        let text = texts.entry(file.clone()).or_insert_with(|| shipped_lines(&file));
        for region in function["regions"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let number = |index: usize| region[index].as_u64().unwrap_or_default() as usize;
            let place = (number(0), number(1), number(2), number(3));
            if number(7) == 0 && is_error_arm(text, place) {
                *found.entry((file.clone(), place)).or_default() |= number(4) > 0;
            }
        }
    }
    Ok(found)
}

/// The lines of a file without its tests.
fn shipped_lines(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(project_root().join(file)).unwrap_or_default();
    text.lines().take_while(|line| *line != "#[cfg(test)]").map(str::to_owned).collect()
}

/// A `?`, or a piece of code that comes to nothing but an error.
fn is_error_arm(lines: &[String], (line, column, end_line, end_column): Region) -> bool {
    const LINES_MAX: usize = 12;
    if end_line > lines.len() || end_line - line > LINES_MAX {
        return false;
    }
    let mut text = String::new();
    for number in line..=end_line {
        let source: Vec<char> = lines[number - 1].chars().collect();
        let from = if number == line { column - 1 } else { 0 };
        let to = if number == end_line { (end_column - 1).min(source.len()) } else { source.len() };
        text.extend(source.get(from..to).unwrap_or_default());
        text.push('\n');
    }
    let text = text.trim().trim_start_matches('{').trim();
    text == "?" || text.starts_with("Err(") || text.starts_with("return Err(") || text.ends_with("))?;")
}

fn source_line(file: &str, line: usize) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(project_root().join(file))?;
    Ok(text.lines().nth(line - 1).unwrap_or_default().trim().to_owned())
}

/// A paragraph per reason: its text behind `#`, then `file: line of source` for each place that it is about.
fn reasons() -> anyhow::Result<Reasons> {
    let path = project_root().join(REASONS);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut reasons = Reasons::new();
    let mut reason = String::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(text) = line.strip_prefix("# ") {
            reason = text.to_owned();
        } else if let Some((file, source)) = line.split_once(": ") {
            reasons.insert((file.to_owned(), source.to_owned()), reason.clone());
        }
    }
    Ok(reasons)
}

/// Puts the counts into their place in docs/reliability.md.
fn write_report(count: &Count, arguments: &Arguments) -> anyhow::Result<()> {
    let path = project_root().join("docs/reliability.md");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let (before, rest) =
        text.split_once(BEGIN).with_context(|| format!("{} has no {BEGIN}", path.display()))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{} has no {END}", path.display()))?;
    let mut table = String::from("| Error paths of storage and zab | |\n| --- | ---: |\n");
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
