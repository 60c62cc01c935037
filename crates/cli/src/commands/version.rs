//! `zebu version`: Zebu's version, and the line that scripts expect from zkServer.sh.

use std::process::ExitCode;

use clap::Args;
use zebu_server::four_letter::version::{COMPATIBLE_RELEASE, ZEBU_VERSION, build_commit, build_date};

use crate::console::print_line;

/// Print the version
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  zebu version")]
pub(crate) struct Version {}

impl Version {
    /// Prints it.
    pub(crate) fn run(self) -> ExitCode {
        let commit = build_commit().map_or(String::new(), |commit| format!(" (commit {commit})"));
        print_line(format!("Zebu {ZEBU_VERSION}{commit}, in the place of"));
        print_line(format!(
            "Apache ZooKeeper, version {COMPATIBLE_RELEASE}-zebu-{ZEBU_VERSION} {}",
            build_date()
        ));
        ExitCode::SUCCESS
    }
}

/// The release that Zebu stands for, and its own version, as zkCli would write it.
pub(crate) fn compatible_version() -> String {
    format!("{COMPATIBLE_RELEASE}-zebu-{ZEBU_VERSION}, built on {}", build_date())
}
