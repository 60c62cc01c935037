//! `crash-states`: every way in which a power failure can leave the files, in the number that the ordinary
//! tests have no time for. The states are made and judged by the tests of zebu-storage.

use crate::step::{cargo, run};

/// How many states to look at.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Distinct states
    #[arg(long, default_value_t = 25_000)]
    states: u32,
}

pub(crate) fn look(arguments: &Arguments) -> anyhow::Result<()> {
    let mut command = cargo(&["test", "--release", "--package", "zebu-storage"]);
    for test in ["crash", "truncate", "install"] {
        command.args(["--test", test]);
    }
    command.args(["--", "--nocapture"]);
    command.env("ZEBU_CRASH_STATES", arguments.states.to_string());
    run("crash states", &mut command)
}
