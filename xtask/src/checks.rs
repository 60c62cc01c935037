//! `verify` and `fix`: which checks a change must pass, and which of them can mend the source themselves.

use crate::deny;
use crate::publish;
use crate::step::{cargo, run};
use crate::tidy;

/// The seeds that a change must pass; CI runs more.
const SEEDS: &str = "0..200";

/// Checks everything, quickest first, and changes no file outside of target/.
pub(crate) fn verify() -> anyhow::Result<()> {
    run("format", &mut cargo(&["fmt", "--all", "--check"]))?;
    println!("== tidy");
    tidy::run()?;
    println!("== deny");
    deny::run()?;
    println!("== packages");
    publish::run(&publish::Arguments::check_only())?;
    run("clippy", &mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    run("docs", cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    run("tests", &mut cargo(&["test", "--workspace"]))?;
    run("simulator", &mut cargo(&["run", "--release", "-p", "zebu-sim", "--", "--seeds", SEEDS]))?;
    println!("verify: everything holds");
    Ok(())
}

/// Mends what can be mended without thinking.
pub(crate) fn fix() -> anyhow::Result<()> {
    let clippy = ["clippy", "--workspace", "--all-targets", "--fix", "--allow-dirty", "--allow-staged"];
    run("clippy --fix", &mut cargo(&clippy))?;
    run("format", &mut cargo(&["fmt", "--all"]))?;
    tidy::lower_ratchets()
}
