//! Apache's own tools over the files of a server that has ended: they must read them, and find as much as
//! there is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use zebu_storage::FileDisk;
use zebu_storage::snapshot_file;

use crate::apache::Edition;

/// Files of each kind that are looked at, the newest first: each takes a Java machine of its own.
const FILES: usize = 3;

/// The numbers of read files and entries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Read {
    pub(super) logs: usize,
    pub(super) transactions: i64,
    pub(super) snapshots: usize,
    pub(super) nodes: u64,
}

/// Reads the newest files of both directories. `last_zxid` is the last zxid of the server; `None` if the
/// server was killed.
pub(super) fn read(edition: &Edition, snapshots: &Path, logs: &Path, last_zxid: Option<i64>) -> Result<Read> {
    let mut read = Read::default();
    let logs = numbered(logs, "log")?;
    for (index, (first, path)) in logs.iter().enumerate().rev().take(FILES) {
        let command = edition.tool("org.apache.zookeeper.server.persistence.TxnLogToolkit")?;
        let text = output(command, &[Path::new("--dump"), path])?;
        let found = number_between(&text, "EOF reached after ", " txns")
            .with_context(|| format!("{}: no count in {}", path.display(), last_lines(&text)))?;
        // Logs follow each other without a gap.
        let expected = match logs.get(index + 1) {
            Some((next, _)) => Some(next - first),
            None => last_zxid.map(|last| last - first + 1),
        };
        ensure!(
            expected.is_none_or(|expected| expected == found),
            "{} has {found} transactions for Apache, not {expected:?}",
            path.display()
        );
        read.logs += 1;
        read.transactions += found;
    }
    for (_, path) in numbered(snapshots, "snapshot")?.iter().rev() {
        if read.snapshots == FILES {
            break;
        }
        // Apache, killed while it writes a snapshot, leaves half of one under the final name.
        let Ok(summary) = snapshot_file::validate(&FileDisk, path)? else { continue };
        let command = edition.tool("org.apache.zookeeper.server.SnapshotFormatter")?;
        let text = output(command, &[path])?;
        let found = number_between(&text, "ZNode Details (count=", ")")
            .with_context(|| format!("{}: no count in {}", path.display(), last_lines(&text)))?;
        // Apache counts the root twice, once for each of its names.
        ensure!(
            found == summary.nodes as i64 + 1,
            "{} has {found} nodes for Apache, {} for Zebu",
            path.display(),
            summary.nodes
        );
        read.snapshots += 1;
        read.nodes += summary.nodes;
    }
    Ok(read)
}

/// Files `prefix.<hexadecimal>…`, oldest first.
fn numbered(directory: &Path, prefix: &str) -> Result<Vec<(i64, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| format!("list {}", directory.display()))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let mut parts = name.split('.');
        if parts.next() == Some(prefix)
            && let Some(zxid) = parts.next().and_then(|text| i64::from_str_radix(text, 16).ok())
        {
            files.push((zxid, path.clone()));
        }
    }
    files.sort();
    Ok(files)
}

fn output(mut command: Command, arguments: &[&Path]) -> Result<String> {
    let output = command.args(arguments).output().with_context(|| format!("start {command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{:?} over {arguments:?}: {}\n{}{}",
        command.get_program(),
        output.status,
        last_lines(&text),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(text)
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

fn number_between(text: &str, before: &str, after: &str) -> Option<i64> {
    let rest = &text[text.find(before)? + before.len()..];
    rest[..rest.find(after)?].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_in_the_output_of_the_tools() {
        assert_eq!(
            number_between("x\nEOF reached after 26 txns.\n", "EOF reached after ", " txns"),
            Some(26)
        );
        assert_eq!(number_between("ZNode Details (count=20):\n", "ZNode Details (count=", ")"), Some(20));
        assert_eq!(number_between("nothing", "EOF reached after ", " txns"), None);
    }
}
