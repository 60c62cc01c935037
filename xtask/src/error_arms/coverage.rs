//! Builds that count what they execute: the simulator and the tests of both crates, run, and the counts read
//! back with the tools of LLVM.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use super::Arguments;
use super::place::{Region, Source};
use crate::step::{cargo, project_root, run as step};

/// Where the error paths are looked at.
const SOURCES: [&str; 2] = ["crates/storage/src/", "crates/zab/src/"];
/// The disk in memory is there to fail; it is no part of a server. Nor are tests.
const NOT_SHIPPED: [&str; 2] = ["crates/storage/src/model", "crates/zab/src/election/tests"];

/// Error paths by file and region, and whether they were taken.
pub(super) type Arms = BTreeMap<(String, Region), bool>;

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

/// Runs the simulator; returns its program.
pub(super) fn simulate(target: &Path, arguments: &Arguments) -> anyhow::Result<PathBuf> {
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
pub(super) fn test(target: &Path) -> anyhow::Result<Vec<PathBuf>> {
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
pub(super) fn arms(target: &Path, profile: &str, programs: &[PathBuf]) -> anyhow::Result<Arms> {
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
    let mut sources = BTreeMap::new();
    let functions = report["data"][0]["functions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for function in functions {
        let file = function["filenames"][0].as_str().unwrap_or_default();
        let Some(file) = file.find("crates/").map(|at| file[at..].to_owned()) else { continue };
        let is_shipped = !NOT_SHIPPED.iter().any(|it| file.starts_with(it));
        if !is_shipped || !SOURCES.iter().any(|it| file.starts_with(it)) {
            continue;
        }
        let source = sources.entry(file.clone()).or_insert_with(|| read_source(&file));
        for region in function["regions"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let number = |index: usize| region[index].as_u64().unwrap_or_default() as usize;
            let place = (number(0), number(1), number(2), number(3));
            if number(7) == 0 && source.is_error_arm(place) {
                *found.entry((file.clone(), place)).or_default() |= number(4) > 0;
            }
        }
    }
    Ok(found)
}

/// A source file of the project.
pub(super) fn read_source(file: &str) -> Source {
    Source::new(file, &std::fs::read_to_string(project_root().join(file)).unwrap_or_default())
}
