//! `zebu backup key`: makes the keys of an encrypted backup.

use std::path::PathBuf;

use clap::Args;
use zebu_backup::encryption::write_new_key;

use super::location::failure;
use crate::offline::{Failure, Output, Verdict};

/// Make a key for encrypted backups
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu backup key --out backup.key                       it prints the public key
  zebu backup run --servers zk1:2181 --to /backup --encrypt-to age1...
  zebu backup verify /backup --identity backup.key

The file has the secret key; only its owner can read it. Without it nothing of the backup can be restored: keep a copy \
where the backup is not. It is a key of age, so that the tools of age read it too.
Exit status: 0 written, 2 not written.")]
pub(super) struct Key {
    /// The file to write; it must not exist yet
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

impl Key {
    pub(super) fn run(self) -> Result<Verdict, Failure> {
        let public = write_new_key(&self.out).map_err(failure)?;
        let mut out = Output::new();
        out.line(public)?;
        out.flush()?;
        Ok(Verdict::Good)
    }
}
