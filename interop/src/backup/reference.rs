//! What the members' own logs say: the tree after each transaction, replayed without any code of the backup.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use zebu_proto::Zxid;
use zebu_proto::txn::TxnEntry;
use zebu_storage::format::names::parse_log;
use zebu_storage::format::scan::{LogScanner, ScanItem};
use zebu_tree::{DigestMode, Tree, TreeOptions, TtlNodes};

/// The history of an ensemble since its begin.
pub(super) struct Reference {
    entries: Vec<TxnEntry>,
}

impl Reference {
    /// Reads the logs of the first member whose logs have no hole up to `last`. A member that got a whole
    /// state lacks what came before it.
    pub(super) fn read<'a>(members: impl Iterator<Item = &'a Path>, last: Zxid) -> Result<Reference> {
        let mut faults = Vec::new();
        for data in members {
            match read_member(data, last) {
                Ok(entries) => return Ok(Reference { entries }),
                Err(fault) => faults.push(format!("{fault:#}")),
            }
        }
        bail!("no member has the whole history: {}", faults.join("; "))
    }

    /// The zxids of all transactions.
    pub(super) fn zxids(&self) -> Vec<Zxid> {
        self.entries.iter().map(|entry| entry.header.zxid).collect()
    }

    /// Replays the history, and shows the tree after each of these transactions. They ascend.
    pub(super) fn replay(
        &self,
        points: &[Zxid],
        mut show: impl FnMut(Zxid, &Tree) -> Result<()>,
    ) -> Result<()> {
        let options = TreeOptions { ttl_nodes: TtlNodes::Enabled, digest: DigestMode::On, hash_seed: 7 };
        let mut tree = Tree::new(options);
        let mut points = points.iter();
        let mut next = points.next();
        for entry in &self.entries {
            tree.apply(&entry.header, &entry.txn, &mut |_| ());
            if next == Some(&entry.header.zxid) {
                show(entry.header.zxid, &tree)?;
                next = points.next();
            }
        }
        ensure!(next.is_none(), "the members' logs lack {next:?}");
        Ok(())
    }
}

fn read_member(data: &Path, until: Zxid) -> Result<Vec<TxnEntry>> {
    let directory = data.join("version-2");
    let mut logs = Vec::new();
    for entry in fs::read_dir(&directory)? {
        let entry = entry?;
        if let Some(name) = parse_log(&entry.file_name().to_string_lossy()) {
            logs.push((name.zxid, entry.path()));
        }
    }
    logs.sort();
    let mut entries: Vec<TxnEntry> = Vec::new();
    for (_, path) in logs {
        let bytes = fs::read(&path)?;
        let (mut scanner, _) = LogScanner::open(bytes.as_slice())?;
        // A killed server leaves a log without an end; the next log goes on behind its last entry.
        while let ScanItem::Entry(found) = scanner.next_entry()? {
            let entry = TxnEntry::decode(found.payload).with_context(|| path.display().to_string())?;
            let last = entries.last().map_or(Zxid(0), |entry| entry.header.zxid);
            let zxid = entry.header.zxid;
            if zxid <= last {
                continue;
            }
            let follows = zxid.0 == last.0 + 1 || (zxid.epoch() > last.epoch() && zxid.counter() <= 1);
            ensure!(follows, "{}: {zxid} does not follow {last}", path.display());
            entries.push(entry);
        }
    }
    let last = entries.last().map_or(Zxid(0), |entry| entry.header.zxid);
    ensure!(last >= until, "{} ends at {last}", directory.display());
    Ok(entries)
}
