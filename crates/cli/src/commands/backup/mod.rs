//! `zebu backup`: log shipping of an ensemble of Zebu or Apache ZooKeeper, and restore to a point in time.

mod access;
mod apply;
mod diff;
mod history;
mod key;
mod leader;
mod list;
mod location;
mod metrics_port;
mod point;
mod progress;
mod quorum;
mod restore;
mod run;
mod spool_directory;
mod units;
mod verify;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::offline::exit;

/// Back up an ensemble continuously, and restore any moment of it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu backup run --servers zk1:2181,zk2:2181,zk3:2181 --to /backup
  zebu backup run --servers zk1:2181 --to s3://bucket/zk --s3-region eu-central-1
  zebu backup run --servers zk1:2181 --to /backup --encrypt-to $(zebu backup key --out backup.key)
  zebu backup list /backup
  zebu backup verify /backup
  zebu backup restore /backup --to-time 2026-11-18T12:00:00Z --out data
  zebu backup apply /backup --path /app --to-time 2026-11-18T12:00:00Z --into zk1:2181 --dry-run
  zebu backup history /backup /app/config
  zebu backup diff /backup 0x100000010 latest

The process joins the leader as an observer. It works with ensembles of Zebu and of Apache ZooKeeper since 3.5, and \
changes nothing there.")]
pub(crate) struct Backup {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Debug, Subcommand)]
enum Tool {
    Run(run::Run),
    List(list::List),
    Verify(verify::Verify),
    Restore(restore::Restore),
    Apply(apply::Apply),
    History(history::History),
    Key(key::Key),
    Diff(diff::Diff),
}

impl Backup {
    /// Runs the tool.
    pub(crate) fn run(self) -> ExitCode {
        exit(match self.tool {
            Tool::Run(run) => run.run(),
            Tool::List(list) => list.run(),
            Tool::Verify(verify) => verify.run(),
            Tool::Restore(restore) => restore.run(),
            Tool::Apply(apply) => apply.run(),
            Tool::History(history) => history.run(),
            Tool::Key(key) => key.run(),
            Tool::Diff(diff) => diff.run(),
        })
    }
}
