//! `zebu backup verify`: proves that every point of a backup can be restored.

use clap::Args;
use serde_json::json;
use zebu_backup::core::verify::{ProvenPart, VerifyError, verify};

use super::access::AccessArguments;
use super::location::{Location, failure, hash_seed};
use super::progress::BytesRead;
use crate::offline::{Failure, Output, Screen, Verdict, count};

/// Prove a backup: load every base, replay all logs, compare every digest
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu backup verify /backup
  zebu backup verify --json /backup

Each base is loaded and its log replayed up to the next base. Compared are the checksum of each object, the order of \
all transactions, the digest that the leader wrote with each transaction (Apache since 3.6, Zebu), and the digest of \
the next base. It needs memory for one tree.
Exit status: 0 proven, 1 a flaw was found, 2 the backup cannot be read.")]
pub(super) struct Verify {
    /// The place of the backup: a directory, or s3://bucket/prefix
    location: Location,

    /// Print one JSON object per base
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    access: AccessArguments,
}

impl Verify {
    pub(super) fn run(self) -> Result<Verdict, Failure> {
        let backup = self.location.open(&self.access)?;
        let bytes = backup.manifest.bases.iter().map(|base| base.bytes).sum::<u64>()
            + backup.segments.iter().map(|segment| segment.bytes).sum::<u64>();
        let mut bar = BytesRead::new(bytes, Screen::Busy);
        let mut out = Output::new();
        let mut written = Ok(());
        let result = verify(&backup.target, &backup.manifest, hash_seed()?, &mut bar, |part| {
            if written.is_ok() {
                written = show(part, self.json, &mut out);
            }
        });
        drop(bar);
        written?;
        let verdict = match result {
            Ok(()) => Verdict::Good,
            // Another attempt may succeed, so that this is no flaw.
            Err(VerifyError::Replay(zebu_backup::core::replay::ReplayError::Target(
                error @ (zebu_backup::core::target::TargetError::Io { .. }
                | zebu_backup::core::target::TargetError::Unusable(_)),
            ))) => return Err(failure(error)),
            Err(error) => {
                let text = error.to_string();
                if self.json {
                    out.json(&json!({ "flaw": text }))?
                } else {
                    out.line(format!("FLAW {text}"))?
                };
                Verdict::Bad
            }
        };
        out.flush()?;
        Ok(verdict)
    }
}

fn show(part: &ProvenPart, json: bool, out: &mut Output) -> Result<(), Failure> {
    let reached = part.reached.as_ref().map(|base| base.zxid.to_string());
    if json {
        return out.json(&json!({
            "base": part.base.name, "zxid": part.base.zxid.to_string(), "transactions": part.transactions,
            "digests": part.digests, "reached": reached,
        }));
    }
    out.line(format!(
        "base {} proven: {}, {}{}",
        part.base.zxid,
        count(part.transactions, "transaction", "transactions"),
        count(part.digests, "digest", "digests"),
        reached.map_or(String::new(), |zxid| format!(", reaches base {zxid}")),
    ))
}
