//! `zebu log`: transaction logs, read without a server. The given file is never changed.

mod dump;
mod entry;
mod recover;
mod verify;
mod walk;

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use zebu_proto::Zxid;

use crate::offline::{Failure, FileKind, exit, kind_of};

/// Show, check and repair transaction logs, without a server
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu log dump data/version-2/log.1
  zebu log verify data/version-2/log.*
  zebu log recover data/version-2/log.1

The files of ZooKeeper and of Zebu are the same. Nothing is ever changed in place.")]
pub(crate) struct Log {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Debug, Subcommand)]
enum Tool {
    Dump(dump::Dump),
    Verify(verify::Verify),
    Recover(recover::Recover),
}

impl Log {
    /// Runs the tool.
    pub(crate) fn run(self) -> ExitCode {
        exit(match self.tool {
            Tool::Dump(dump) => dump.run(),
            Tool::Verify(verify) => verify.run(),
            Tool::Recover(recover) => recover.run(),
        })
    }
}

/// An error for a file that is a snapshot, with the command for it.
fn refuse_snapshot(path: &Path, tool: &str) -> Result<(), Failure> {
    match kind_of(path) {
        Some(FileKind::Snapshot) => {
            let path = path.display();
            Err(Failure::Text(format!("{path} is a snapshot, not a log: zebu snapshot {tool} {path}")))
        }
        Some(FileKind::Log) | None => Ok(()),
    }
}

fn unreadable(path: &Path) -> impl Fn(std::io::Error) -> Failure + '_ {
    move |error| Failure::of_file("read", path, &error)
}

/// Whether a transaction can come directly behind another: the next one, or the first of a later epoch.
/// Counter zero is a leader's first moment; some releases log an error under it.
fn follows(last: Zxid, zxid: Zxid) -> bool {
    last.next() == Some(zxid) || (zxid.epoch() > last.epoch() && zxid.counter() <= 1)
}
