//! `zebu backup restore`: writes the state at a point as the data directory of a server.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use zebu_backup::restore::{Sessions, check_empty, in_new_epoch, write_directory};
use zebu_backup::run::wall_ms;

use super::access::AccessArguments;
use super::location::{Location, failure};
use super::point::{PointArguments, state_at};
use crate::offline::{Failure, Output, Verdict, count, time};

/// Write the state at a point as a data directory, for servers of Zebu or Apache
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu backup restore /backup --to-time 2026-11-18T12:00:00Z --out data
  zebu backup restore /backup --to-zxid 0x100000010 --out data --myid 1
  zebu backup restore /backup --out data                 the end of the backup

Restore once for each member, or copy the directory to all of them, and then start them. All members need the same \
state. It gets an epoch above all that the ensemble has had, so that no old member can win an election against it. \
Sessions and their ephemeral nodes are dropped: their clients have gone on without them.
Exit status: 0 written, 2 nothing usable was written.")]
pub(super) struct Restore {
    /// The place of the backup: a directory, or s3://bucket/prefix
    location: Location,

    #[command(flatten)]
    point: PointArguments,

    /// The dataDir to write; it must have no data yet
    #[arg(long, value_name = "DIRECTORY")]
    out: PathBuf,

    /// Keep sessions and ephemeral nodes, so that clients can resume them
    #[arg(long)]
    keep_sessions: bool,

    /// Write a myid file with this number too
    #[arg(long, value_name = "NUMBER")]
    myid: Option<i64>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    access: AccessArguments,
}

impl Restore {
    pub(super) fn run(self) -> Result<Verdict, Failure> {
        check_empty(&self.out).map_err(failure)?;
        let backup = self.location.open(&self.access)?;
        let state = state_at(&backup, self.point.point())?;
        let (last, last_ms, replayed) = (state.tree.last_zxid(), state.time_ms, state.transactions);
        let sessions = if self.keep_sessions { Sessions::Keep } else { Sessions::Drop };
        let state = in_new_epoch(state.tree, backup.manifest.highest_epoch, sessions, wall_ms());
        let state = state.map_err(failure)?;
        let written = write_directory(&state, &self.out, self.myid, |_| ()).map_err(failure)?;
        let mut out = Output::new();
        if self.json {
            out.json(&json!({
                "zxid": last.to_string(), "time_ms": last_ms, "transactions": replayed, "nodes": written.nodes,
                "ended_sessions": written.ended_sessions, "new_zxid": written.zxid.to_string(),
                "snapshot": written.snapshot.display().to_string(),
            }))?;
        } else {
            out.line(format!(
                "state after {last} of {}: {}",
                time(last_ms),
                count(written.nodes, "node", "nodes")
            ))?;
            out.line(format!(
                "{} ended; the new history begins behind {}",
                count(written.ended_sessions, "session", "sessions"),
                written.zxid
            ))?;
            out.line(format!("written to {}", written.snapshot.display()))?;
        }
        out.flush()?;
        Ok(Verdict::Good)
    }
}
