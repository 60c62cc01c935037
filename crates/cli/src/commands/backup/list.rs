//! `zebu backup list`: what a backup has, and which points can be restored.

use clap::Args;
use serde_json::json;
use zebu_backup::core::manifest::{Base, Segment};
use zebu_backup::core::seal::Sealing;

use super::access::AccessArguments;
use super::location::{Location, OpenedBackup};
use crate::offline::{Failure, Output, Verdict, count, time};

/// Show the bases of a backup and the points that can be restored
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu backup list /backup
  zebu backup list --json /backup | jq .chains

Each line is a base. A chain is a history without a hole: every transaction between its first base and its end can be \
restored. A second chain means that history between both is missing.
Exit status: 0 shown, 2 the backup cannot be read.")]
pub(super) struct List {
    /// The place of the backup: a directory, or s3://bucket/prefix
    location: Location,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    access: AccessArguments,
}

impl List {
    pub(super) fn run(self) -> Result<Verdict, Failure> {
        let backup = self.location.open(&self.access)?;
        let mut out = Output::new();
        if self.json {
            out.json(&as_json(&backup))?;
        } else {
            text(&backup, &mut out)?;
        }
        out.flush()?;
        Ok(Verdict::Good)
    }
}

/// The log of a chain behind a base, up to the next base.
struct LogBehind {
    transactions: u64,
    bytes: u64,
    segments: u64,
}

fn log_behind(base: &Base, next: Option<&Base>, segments: &[Segment]) -> LogBehind {
    let next = next.filter(|next| next.chain == base.chain);
    let belongs = |segment: &&Segment| {
        segment.chain == base.chain
            && segment.last > base.zxid
            && next.is_none_or(|next| segment.last <= next.zxid)
    };
    let mut log = LogBehind { transactions: 0, bytes: 0, segments: 0 };
    for segment in segments.iter().filter(belongs) {
        log.transactions += segment.transactions;
        log.bytes += segment.bytes;
        log.segments += 1;
    }
    log
}

/// The last transaction of a chain and its time.
fn end_of(chain: u32, backup: &OpenedBackup) -> (String, i64) {
    let base = backup.manifest.bases.iter().rfind(|base| base.chain == chain);
    let of_base = base.map_or((zebu_proto::Zxid::ZERO, 0), |base| (base.zxid, base.time_ms));
    let last = backup.segments.iter().rfind(|segment| segment.chain == chain);
    let end = last.map_or(of_base, |last| of_base.max((last.last, last.last_ms)));
    (end.0.to_string(), end.1)
}

fn is_encrypted(base: &Base) -> bool {
    Sealing::of_name(&base.name) == Sealing::Age
}

fn text(backup: &OpenedBackup, out: &mut Output) -> Result<(), Failure> {
    let manifest = &backup.manifest;
    let mut chain = 0;
    for (index, base) in manifest.bases.iter().enumerate() {
        if base.chain != chain {
            chain = base.chain;
            let (end, end_ms) = end_of(chain, backup);
            out.line(format!(
                "chain {chain}: from {} ({}) to {end} ({})",
                base.zxid,
                time(base.time_ms),
                time(end_ms)
            ))?;
        }
        let log = log_behind(base, manifest.bases.get(index + 1), &backup.segments);
        out.line(format!(
            "  base {} {} {}, {}{}; log: {} in {}, {}",
            base.zxid,
            time(base.time_ms),
            count(base.nodes, "node", "nodes"),
            count(base.bytes, "byte", "bytes"),
            if is_encrypted(base) { ", encrypted" } else { "" },
            count(log.transactions, "transaction", "transactions"),
            count(log.segments, "segment", "segments"),
            count(log.bytes, "byte", "bytes"),
        ))?;
    }
    if manifest.bases.is_empty() {
        out.line("no base yet: nothing can be restored")?;
    }
    Ok(())
}

fn as_json(backup: &OpenedBackup) -> serde_json::Value {
    let manifest = &backup.manifest;
    let mut numbers: Vec<u32> = manifest.bases.iter().map(|base| base.chain).collect();
    numbers.dedup();
    let chain = |number: &u32| {
        let (end, end_ms) = end_of(*number, backup);
        let bases = manifest.bases.iter().enumerate().filter(|(_, base)| base.chain == *number);
        let rows: Vec<_> = bases
            .map(|(index, base)| {
                let log = log_behind(base, manifest.bases.get(index + 1), &backup.segments);
                json!({
                    "zxid": base.zxid.to_string(), "time_ms": base.time_ms, "nodes": base.nodes, "bytes": base.bytes,
                    "name": base.name, "encrypted": is_encrypted(base),
                    "log_transactions": log.transactions, "log_segments": log.segments,
                    "log_bytes": log.bytes,
                })
            })
            .collect();
        json!({ "chain": number, "end_zxid": end, "end_time_ms": end_ms, "bases": rows })
    };
    json!({
        "generation": manifest.generation, "writer": manifest.writer, "highest_epoch": manifest.highest_epoch,
        "chains": numbers.iter().map(chain).collect::<Vec<_>>(),
    })
}
