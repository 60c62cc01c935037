//! `bench`: builds the servers' release and hands over to zebu-interop, which measures. All files of the measured
//! servers are below target/, so that both use the disk of the project.

use std::process::Command;

use anyhow::Context;

use crate::step::{cargo, run as run_step, target_directory};

/// What to measure; the rest of the line goes to `zebu-interop bench` as it is.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// One short round of everything small
    #[arg(long)]
    quick: bool,
    /// Options of `zebu-interop bench`, such as --start, --snapshots, --only get,set or --json FILE
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    rest: Vec<String>,
}

/// Builds and measures.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let build = ["build", "--release", "--package", "zebu", "--package", "zebu-interop"];
    run_step("build", &mut cargo(&build))?;
    let release = target_directory().join("release");
    let files = target_directory().join("bench");
    std::fs::create_dir_all(&files).with_context(|| format!("cannot make {}", files.display()))?;
    let mut command = Command::new(release.join("zebu-interop"));
    command.arg("bench").arg("--zebu").arg(release.join("zebu")).env("TMPDIR", &files);
    if arguments.quick {
        command.arg("--quick");
    }
    run_step("bench", command.args(&arguments.rest))
}
