//! `zebu snapshot`: snapshots, read without a server and without holding their tree.

mod branch;
mod change;
mod diff;
mod dump;
mod fingerprint;
mod source;
mod subtree;
mod summary;
mod verify;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::offline::exit;

/// Show, check and compare snapshots, without a server
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu snapshot dump data/version-2/snapshot.0
  zebu snapshot verify data/version-2/snapshot.*
  zebu snapshot summary data/version-2/snapshot.0 /app --depth 3
  zebu snapshot diff snapshot.100 snapshot.200

The files of ZooKeeper and of Zebu are the same. A name that ends with .gz or .snappy is unpacked. Every \
tool reads its file as a stream; nothing is ever changed.")]
pub(crate) struct Snapshot {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Debug, Subcommand)]
enum Tool {
    Dump(dump::Dump),
    Verify(verify::Verify),
    Summary(summary::Summary),
    Diff(diff::Diff),
}

impl Snapshot {
    /// Runs the tool.
    pub(crate) fn run(self) -> ExitCode {
        exit(match self.tool {
            Tool::Dump(dump) => dump.run(),
            Tool::Verify(verify) => verify.run(),
            Tool::Summary(summary) => summary.run(),
            Tool::Diff(diff) => diff.run(),
        })
    }
}

/// The root's path as people write it; in the file it is empty.
fn shown(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}
