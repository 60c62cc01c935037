//! A purge on a disk with little room, after a start that could not use the newest snapshot.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "no test here writes a log")]
mod server_files;

use server_files::{directories, recover};
use zebu_proto::txn::{CreateTxn, Txn, TxnEntry, TxnHeader};
use zebu_proto::{SessionId, Zxid};
use zebu_runtime::{LoadOptions, SnapshotHead, SnapshotSections, SnapshotStore};
use zebu_storage::crash_disk::CrashDisk;
use zebu_storage::format::log::{HEADER, append_entry};
use zebu_storage::snapshot_file::validate;
use zebu_storage::{Compression, Missing, Retention, purge_to};
use zebu_tree::{Tree, TreeOptions};

fn create(zxid: i64) -> TxnEntry {
    let header = TxnHeader { session: SessionId(0), cxid: 0, zxid: Zxid(zxid), time_ms: 1 };
    let (path, acl) = (format!("/n{zxid}").into(), Some(zebu_proto::Acl::open().into()));
    let create = CreateTxn { path, data: None, acl, ephemeral: false, parent_cversion: -1 };
    TxnEntry { header, txn: Txn::Create(create), digest: None }
}

/// Writes a snapshot with a node whose parent is missing: its checksums are right, and no tree accepts it.
fn write_unusable(store: &SnapshotStore<CrashDisk>, tree: &Tree) {
    let mut writer = store.begin(SnapshotHead::of(tree)).unwrap();
    let mut stat = None;
    tree.walker().next_slice(tree, 1, &mut |_, _, acl, node| stat = Some((acl, *node)));
    let (acl, stat) = stat.unwrap();
    writer.node("/missing/child", None, acl, &stat).unwrap();
    writer.finish(store.sections(tree.last_zxid(), 0, tree.last_zxid())).unwrap();
}

#[test]
fn a_snapshot_that_the_start_could_not_use_is_not_the_one_that_stays() {
    let disk = CrashDisk::new();
    drop(directories().open(&disk, Missing::Create, "test").unwrap());
    let sections = SnapshotSections::None;
    let store = SnapshotStore::new(disk.clone(), &directories(), Compression::Plain, sections);
    let mut tree = Tree::new(TreeOptions::default());
    let mut log = HEADER.to_vec();
    for zxid in 1..=3 {
        let entry = create(zxid);
        append_entry(&entry, &mut log);
        tree.apply(&entry.header, &entry.txn, &mut |_| ());
        match zxid {
            1 => store.write_first(&tree).unwrap(),
            2 => write_unusable(&store, &tree),
            _ => {}
        }
    }
    disk.put(&directories().logs().join("log.1"), &log);
    let (recovered, _) = recover(&disk, LoadOptions::standalone());
    let rejected: Vec<_> = recovered.rejected.into_iter().map(|rejected| rejected.path).collect();
    assert_eq!(rejected, [store.path_of(Zxid(2))]);
    assert!(validate(&disk, &rejected[0]).unwrap().is_ok(), "a purge would count it");

    let report = purge_to(&disk, &directories(), Retention::newest(3).least().without(&rejected)).unwrap();
    assert_eq!(report.kept, [store.path_of(Zxid(1))]);
    let (recovered, tree) = recover(&disk, LoadOptions::standalone());
    assert_eq!((recovered.last_zxid, tree.node("/n3").is_some()), (Zxid(3), true));
}
