//! One command of a chore: says what runs, runs it from the top of the project, turns a failure into an
//! error.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};

/// The top directory of the project. Asked at run time: a shared target directory may hold the binary of
/// another copy of the project.
pub(crate) fn project_root() -> PathBuf {
    let manifest =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&manifest).parent().expect("xtask lies in the project").to_path_buf()
}

/// Where cargo builds.
pub(crate) fn target_directory() -> PathBuf {
    let chosen = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    project_root().join(chosen)
}

/// `cargo` as it was found by the cargo that runs this chore.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(project_root());
    command
}

/// Runs one step with its output on this terminal.
pub(crate) fn run(name: &str, command: &mut Command) -> anyhow::Result<()> {
    println!("== {name}");
    let started = Instant::now();
    let status = command.status().with_context(|| format!("{name}: cannot start {command:?}"))?;
    if !status.success() {
        bail!("{name} failed ({status}): {command:?}");
    }
    println!("== {name}: ok, {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}
