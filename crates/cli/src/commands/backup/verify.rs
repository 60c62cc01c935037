//! `zebu backup verify`: proves that every point of a backup can be restored.

use clap::Args;
use serde_json::json;
use zebu_backup::core::verify::{Finding, ProvenPart, prove};

use super::access::AccessArguments;
use super::location::{Location, hash_seed};
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
the next base. All flaws are shown. A running backup may write and clean up meanwhile. It needs memory for one tree.
Exit status: 0 proven, 1 a flaw was found, 2 the backup cannot be read: nothing is known about it.")]
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
        let target = self.location.open_for_reader(&self.access)?;
        let mut bar = BytesRead::new(0, Screen::Busy);
        let mut out = Output::new();
        let mut written = Ok(());
        let result = prove(&target, hash_seed()?, &mut bar, |finding| {
            if written.is_ok() {
                written = match finding {
                    Finding::Proven(part) => show(&part, self.json, &mut out),
                    Finding::Flaw(error) => show_flaw(&error.to_string(), self.json, &mut out),
                };
            }
        });
        drop(bar);
        written?;
        out.flush()?;
        match result {
            Ok(0) => Ok(Verdict::Good),
            Ok(_) => Ok(Verdict::Bad),
            // Another attempt may succeed, so that this is no flaw.
            Err(error) => Err(Failure::Text(format!("{}: {error}", self.location))),
        }
    }
}

fn show_flaw(text: &str, json: bool, out: &mut Output) -> Result<(), Failure> {
    if json { out.json(&json!({ "flaw": text })) } else { out.line(format!("FLAW {text}")) }
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
