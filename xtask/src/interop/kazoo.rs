//! The kazoo suite: a virtual environment below target/ with the unmodified client, and the program that uses it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::step::project_root;

/// The release that the suite was checked with against Apache ZooKeeper.
const KAZOO: &str = "kazoo==2.11.0";

/// The command that lacks only the server's address. Installs kazoo when it is missing.
pub(crate) fn command(build_directory: &Path) -> anyhow::Result<Command> {
    let environment = build_directory.join("python");
    let python = environment.join("bin/python");
    if !has_kazoo(&python) {
        let mut create = Command::new("python3");
        succeed(create.args(["-m", "venv", "--clear"]).arg(&environment))
            .context("a Python environment is needed: Debian's python3-venv makes one")?;
        let mut install = Command::new(&python);
        succeed(install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", KAZOO]))?;
    }
    let mut command = Command::new(python);
    command.arg(project_root().join("interop/clients/kazoo_smoke.py"));
    Ok(command)
}

fn has_kazoo(python: &Path) -> bool {
    python.exists()
        && Command::new(python).args(["-c", "import kazoo"]).status().is_ok_and(|status| status.success())
}

fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed: {status}");
    }
    Ok(())
}
