//! Suites of the zebu-interop crate, which compare Zebu with Apache ZooKeeper, request by request and file by
//! file, or kill it. This file only calls its program; a suite that the program does not offer is not offered here either.

use std::process::Command;

use anyhow::{Context, bail};

use super::server::Target;
use super::table::Outcome;
use crate::step::{cargo, project_root, target_directory};

const SUITES: [&str; 4] = ["vectors", "differential", "files", "kill"];

/// The suites that the crate offers now.
pub(crate) fn suites() -> anyhow::Result<Vec<&'static str>> {
    if !project_root().join("interop/Cargo.toml").exists() {
        return Ok(Vec::new());
    }
    let output = program(&["--help"]).output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("zebu-interop --help failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let help = String::from_utf8_lossy(&output.stdout);
    let offers = |suite: &&str| help.lines().any(|line| line.split_whitespace().next() == Some(*suite));
    Ok(SUITES.into_iter().filter(offers).collect())
}

/// Runs one of them: one check, which passes when the program ends well.
pub(crate) fn run(suite: &'static str, target: &Target) -> anyhow::Result<Outcome> {
    let mut command = program(&[suite]);
    match target {
        Target::Zebu => {
            command.arg("--zebu").arg(target_directory().join("release/zebu"));
        }
        Target::Apache => {}
        Target::Given(_) => bail!("the suite {suite} starts its own servers; leave --server out"),
    }
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    Ok(if status.success() {
        Outcome { passed: 1, ..Outcome::default() }
    } else {
        Outcome { failures: vec![format!("{suite}: {status}; its report is above")], ..Outcome::default() }
    })
}

fn program(arguments: &[&str]) -> Command {
    let mut command = cargo(&["run", "--quiet", "--package", "zebu-interop", "--"]);
    command.args(arguments);
    command
}
