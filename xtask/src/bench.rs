//! `bench`: builds the servers' release and hands over to zebu-interop, which measures. All files of the
//! measured servers are below target/, so that both use the disk of the project.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::step::{cargo, project_root, run as run_step, target_directory};

/// What to measure; the rest of the line goes to `zebu-interop bench` as it is.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// One short round of everything small
    #[arg(long)]
    quick: bool,
    /// Everything, about an hour: docs/benchmarks.md and its plots are written anew, the raw figures are in
    /// target/bench/full.json. With --quick some minutes, and the document is written below target/bench
    #[arg(long)]
    full: bool,
    /// Make tables and plots of docs/benchmarks.md again from target/bench/full.json, without measuring
    #[arg(long, conflicts_with_all = ["quick", "full"])]
    again: bool,
    /// Times and instructions of single steps: decode, prepare, apply, watches, log, snapshot
    #[arg(long, conflicts_with_all = ["full", "again"])]
    micro: bool,
    /// Options of `zebu-interop bench` or `micro`, such as --start, --snapshots, --only get,set or --json
    /// FILE
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    rest: Vec<String>,
}

/// Builds and measures.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut build = cargo(&["build", "--release", "--package", "zebu", "--package", "zebu-interop"]);
    // What cargo says about this chore is nothing to the build; some build scripts would run again because of
    // it.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            build.env_remove(name.as_ref());
        }
    }
    run_step("build", &mut build)?;
    let release = target_directory().join("release");
    let files = target_directory().join("bench");
    std::fs::create_dir_all(&files).with_context(|| format!("cannot make {}", files.display()))?;
    let mut command = Command::new(release.join("zebu-interop"));
    command.env("TMPDIR", &files);
    if arguments.micro {
        return run_step("micro", command.arg("micro").args(&arguments.rest));
    }
    command.arg("bench").arg("--zebu").arg(release.join("zebu")).arg("--commit").arg(commit());
    if arguments.quick {
        command.arg("--quick");
    }
    let (raw, document) = (files.join("full.json"), project_root().join("docs/benchmarks.md"));
    if arguments.full {
        let document = if arguments.quick { trial(&document, &files)? } else { document };
        command.arg("--full").arg("--json").arg(&raw).arg("--document").arg(document);
    } else if arguments.again {
        command.arg("--from").arg(&raw).arg("--document").arg(document);
    }
    run_step("bench", command.args(&arguments.rest))
}

/// A copy of the document: figures of a quick run are not for readers.
fn trial(document: &Path, files: &Path) -> anyhow::Result<std::path::PathBuf> {
    let copy = files.join("benchmarks.md");
    std::fs::copy(document, &copy).with_context(|| format!("cannot copy {}", document.display()))?;
    Ok(copy)
}

/// What git says; changes that are not committed are told too.
fn commit() -> String {
    let git = Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=9"])
        .current_dir(project_root())
        .output();
    match git {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Ok(_) | Err(_) => "unknown".to_owned(),
    }
}
