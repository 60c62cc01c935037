//! Steps that write files: the log and a snapshot, without the syncs, which are the disk's time and not ours.

use std::hint::black_box;

use anyhow::Result;
use zebu_proto::txn::{SetDataTxn, Txn, TxnEntry, TxnHeader};
use zebu_proto::{SessionId, Zxid};
use zebu_storage::format::log::append_entry;
use zebu_storage::{
    Compression, Directories, FileDisk, LogOptions, LogWriter, Missing, SnapshotTarget, SnapshotWriter,
};
use zebu_tree::WalkProgress;

use super::world::World;
use super::{Run, Step};

/// Transactions that are appended together.
const BATCH: usize = 100;

/// Nodes that a snapshot takes under one lock.
const SLICE: usize = 500;

pub(crate) fn all() -> Vec<Step> {
    let step = |name, what, ready| Step { name, what, ready };
    vec![
        step("log-encode", "a set framed with its checksum", log_encode as fn(&World) -> Result<Run>),
        step("log-append", "a set framed and written, 100 together, not synced", log_append),
        step("snapshot-walk", "a node of a snapshot, read", snapshot_walk),
        step("snapshot-write", "a node of a snapshot, read and written", snapshot_write),
    ]
}

/// A set as the log has it.
fn entry(world: &World, zxid: i64) -> TxnEntry {
    TxnEntry {
        header: TxnHeader { session: SessionId(1), cxid: 1, zxid: Zxid(zxid), time_ms: 1_700_000_000_000 },
        txn: Txn::SetData(SetDataTxn {
            path: "/parent-0001/leaf-0001000".into(),
            data: Some(world.data.as_slice().into()),
            version: 1,
        }),
        digest: None,
    }
}

fn log_encode(world: &World) -> Result<Run> {
    let entry = entry(world, 1);
    let mut out = Vec::new();
    Ok(Box::new(move |count| {
        for _ in 0..count {
            out.clear();
            append_entry(&entry, &mut out);
            black_box(&out);
        }
        Ok(())
    }))
}

fn log_append(world: &World) -> Result<Run> {
    let home = tempfile::tempdir()?;
    let directories = Directories::new(home.path(), home.path());
    let _locks = directories.open(&FileDisk, Missing::Create, "micro")?;
    // A log needs a snapshot before it; an empty file has the name of one.
    std::fs::write(directories.snapshots().join("snapshot.0"), b"")?;
    let options = LogOptions::new(directories.logs(), directories.snapshots());
    let mut log = LogWriter::open(FileDisk, options, Zxid::ZERO)?;
    let (mut entry, mut out) = (entry(world, 1), Vec::new());
    Ok(Box::new(move |count| {
        // The directory lives as long as the step.
        let _home = &home;
        for _ in 0..count.div_ceil(BATCH) {
            let first = entry.header.zxid;
            out.clear();
            for _ in 0..BATCH {
                append_entry(&entry, &mut out);
                entry.header.zxid = Zxid(entry.header.zxid.0 + 1);
            }
            log.append(first, Zxid(entry.header.zxid.0 - 1), &out)?;
        }
        Ok(())
    }))
}

fn snapshot_walk(world: &World) -> Result<Run> {
    let grown = world.grow();
    Ok(Box::new(move |count| {
        let mut left = count;
        while left > 0 {
            let mut walker = grown.tree.walker();
            loop {
                let mut sink = |path: &str, data: Option<&[u8]>, _: i64, _: &_| {
                    black_box((path.len(), data.map(<[u8]>::len)));
                    left = left.saturating_sub(1);
                };
                if walker.next_slice(&grown.tree, SLICE, &mut sink) == WalkProgress::Done || left == 0 {
                    break;
                }
            }
        }
        Ok(())
    }))
}

fn snapshot_write(world: &World) -> Result<Run> {
    let grown = world.grow();
    let home = tempfile::tempdir()?;
    Ok(Box::new(move |count| {
        let mut left = count;
        while left > 0 {
            let acls: Vec<_> = grown.tree.acl_table().map(|(id, acl)| (id, acl.as_ref())).collect();
            let (sessions, acls) = (std::iter::empty(), acls.into_iter());
            let mut writer = SnapshotWriter::begin(
                FileDisk,
                SnapshotTarget::new(home.path(), Zxid(1), Compression::Plain),
                sessions,
                acls,
            )?;
            let mut walker = grown.tree.walker();
            let mut failure = None;
            loop {
                let mut sink = |path: &str, data: Option<&[u8]>, acl: i64, stat: &_| {
                    if let Err(error) = writer.node(path, data, acl, stat) {
                        failure = Some(error);
                    }
                    left = left.saturating_sub(1);
                };
                if walker.next_slice(&grown.tree, SLICE, &mut sink) == WalkProgress::Done || left == 0 {
                    break;
                }
            }
            writer.abandon()?;
            if let Some(error) = failure {
                return Err(error.into());
            }
        }
        Ok(())
    }))
}
