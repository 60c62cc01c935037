//! `zebu shell`: a place held for the interactive client.

use std::process::ExitCode;

use clap::Args;

use crate::console::complain;

/// Interactive client (comes in a later version)
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  zebu shell -server localhost:2181 ls /    (not yet; use a ZooKeeper client meanwhile)")]
pub(crate) struct Shell {
    /// What zkCli.sh takes
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl Shell {
    /// Says that it does not exist yet.
    pub(crate) fn run(self) -> ExitCode {
        let Shell { arguments: _ } = self;
        complain(
            "zebu shell comes in a later version; until then any ZooKeeper client works, zkCli.sh included",
        );
        ExitCode::FAILURE
    }
}
