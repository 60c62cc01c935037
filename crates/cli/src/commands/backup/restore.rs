//! `zebu backup restore`: writes the state at a point as the data directory of a server.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use zebu_backup::restore::{Sessions, check_empty, in_new_epoch, write_directory};
use zebu_backup::run::wall_ms;

use super::access::AccessArguments;
use super::location::{Location, failure};
use super::point::{PointArguments, state_by_rule};
use super::progress::{Counted, DigestRule};
use crate::offline::{Failure, Output, Verdict, count, time};

/// Write the state at a point as a data directory, for servers of Zebu or Apache
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu backup restore /backup --to-time 2026-11-18T12:00:00Z --out data
  zebu backup restore /backup --to-zxid 0x100000010 --out data --myid 1
  zebu backup restore /backup --out data                 the end of the backup

Restore once for each member, or copy the directory to all of them, and then start them. All members need the same \
state. It gets an epoch above all that the backup has seen, so that no old member of these epochs can win an election \
against it. If the ensemble went on after the backup had ended, name a later epoch with --min-epoch. Sessions and their ephemeral nodes are dropped: their clients have gone on without them.
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

    /// Let the new epoch be at least this one, for an ensemble that was in later epochs than the backup has
    /// seen: one above the highest currentEpoch and acceptedEpoch of all old members
    #[arg(long, value_name = "EPOCH", default_value_t = 0)]
    min_epoch: u32,

    /// Restore although digests of the ensemble are those of another tree, and tell how many
    #[arg(long)]
    ignore_digests: bool,

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
        let digests = if self.ignore_digests { DigestRule::Ignore } else { DigestRule::Compare };
        let (state, wrong_digests) = state_by_rule(&backup, self.point.point(), digests)?;
        let (last, last_ms, replayed) = (state.tree.last_zxid(), state.time_ms, state.transactions);
        let highest_epoch = backup.manifest.highest_epoch.max(self.min_epoch.saturating_sub(1));
        let sessions = if self.keep_sessions { Sessions::Keep } else { Sessions::Drop };
        let state = in_new_epoch(state.tree, highest_epoch, sessions, wall_ms());
        let state = state.map_err(failure)?;
        let bar = Counted::new(state.tree.node_count() as u64);
        let written = write_directory(&state, &self.out, self.myid, |nodes| bar.set(nodes));
        drop(bar);
        let written = written.map_err(failure)?;
        let mut out = Output::new();
        if self.json {
            out.json(&json!({
                "zxid": last.to_string(), "time_ms": last_ms, "transactions": replayed, "nodes": written.nodes,
                "ended_sessions": written.ended_sessions, "new_zxid": written.zxid.to_string(),
                "snapshot": written.snapshot.display().to_string(),
                "wrong_digests": wrong_digests,
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
            if wrong_digests > 0 {
                let digests = count(wrong_digests, "digest", "digests");
                out.line(format!("{digests} of the ensemble are those of another tree"))?;
            }
            out.line(format!("written to {}", written.snapshot.display()))?;
        }
        out.flush()?;
        Ok(Verdict::Good)
    }
}
