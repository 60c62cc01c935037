//! The C suite: the smoke program, compiled against the installed libzookeeper_mt.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::step::project_root;

/// Compiles the program; the command lacks only the server's address.
pub(crate) fn command(build_directory: &Path) -> anyhow::Result<Command> {
    let program = build_directory.join("c_client_smoke");
    let mut compiler = Command::new("cc");
    compiler.args(["-DTHREADED", "-Wall", "-Wextra", "-Werror", "-O1", "-o"]).arg(&program);
    compiler.arg(project_root().join("interop/clients/c_client_smoke.c"));
    compiler.args(["-lzookeeper_mt", "-lpthread"]);
    let output = compiler.output().with_context(|| format!("cannot start {compiler:?}"))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!("the C program does not compile (Debian: install libzookeeper-mt-dev): {message}");
    }
    Ok(Command::new(program))
}
