//! A restore on the model of a disk: whatever fails, a restart finds the old state or the new one.

#![allow(clippy::unwrap_used)]

mod server_files;

use std::collections::BTreeSet;
use std::io::{self, Read};

use server_files::{directories, recover, settings};
use zebu_node::{AfterAppend, LogBatch};
use zebu_proto::txn::{CreateTxn, Txn, TxnEntry, TxnHeader};
use zebu_proto::{SessionId, Zxid};
use zebu_runtime::{
    DiskWorker, InstalledState, LoadOptions, RestoreFlaw, RestoreOutcome, RestoredState, SnapshotSections,
    SnapshotStore, open_log,
};
use zebu_storage::crash_disk::{Crash, CrashDisk};
use zebu_storage::format::log::append_entry;
use zebu_storage::{Compression, Directories, Disk, Missing};
use zebu_tree::{Tree, TreeOptions};

const LIMIT: u64 = 1 << 20;

/// Starts a standalone server. Returns its worker and the state that it has found.
fn start(disk: &CrashDisk) -> (DiskWorker<CrashDisk>, Tree) {
    let directories = directories();
    let (recovered, tree) = recover(disk, LoadOptions::standalone());
    let store = store(disk, &directories);
    let log = open_log(settings().log, &store, &tree, &recovered, None).unwrap();
    (DiskWorker::new(directories, settings(), store, log, None), tree)
}

fn store(disk: &CrashDisk, directories: &Directories) -> SnapshotStore<CrashDisk> {
    SnapshotStore::new(disk.clone(), directories, Compression::Plain, SnapshotSections::DigestAndLastZxid)
}

fn create(path: &str, zxid: i64, session: i64, ephemeral: bool) -> TxnEntry {
    let header = TxnHeader { session: SessionId(session), cxid: 0, zxid: Zxid(zxid), time_ms: 1 };
    let create = CreateTxn {
        path: path.into(),
        data: Some(path.as_bytes().into()),
        acl: Some(zebu_proto::Acl::open().into()),
        ephemeral,
        parent_cversion: -1,
    };
    TxnEntry { header, txn: Txn::Create(create), digest: None }
}

/// Appends nodes `/old1` and so on.
fn append_old(worker: &mut DiskWorker<CrashDisk>, zxids: std::ops::RangeInclusive<i64>) {
    let (first, last) = (Zxid(*zxids.start()), Zxid(*zxids.end()));
    let (mut bytes, mut transactions) = (Vec::new(), 0);
    for zxid in zxids {
        append_entry(&create(&format!("/old{zxid}"), zxid, 0, false), &mut bytes);
        transactions += 1;
    }
    let after = AfterAppend::Continue;
    worker.append(None, LogBatch { bytes, first, last, transactions, after }).unwrap();
    worker.sync().unwrap();
}

/// The snapshot of another server: `/new`, an ephemeral node, and sessions with and without nodes.
fn snapshot_of(build: impl FnOnce(&mut Tree)) -> Vec<u8> {
    let disk = CrashDisk::new();
    let directories = directories();
    drop(directories.open(&disk, Missing::Create, "test").unwrap());
    let mut tree = Tree::new(TreeOptions::default());
    build(&mut tree);
    let store = store(&disk, &directories);
    let mut writer = store.begin(zebu_runtime::SnapshotHead::of(&tree)).unwrap();
    let mut walker = tree.walker();
    while walker
        .next_slice(&tree, 100, &mut |path, data, acl, stat| writer.node(path, data, acl, stat).unwrap())
        == zebu_tree::WalkProgress::More
    {}
    writer.finish(store.sections(tree.last_zxid(), tree.digest(), tree.last_zxid())).unwrap();
    disk.image()[&store.path_of(tree.last_zxid())].clone()
}

fn build_new(tree: &mut Tree) {
    let session = |id, zxid| TxnHeader { session: SessionId(id), cxid: 0, zxid: Zxid(zxid), time_ms: 1 };
    tree.apply(&session(7, 100), &Txn::CreateSession { timeout_ms: 4000 }, &mut |_| ());
    tree.apply(&session(8, 101), &Txn::CreateSession { timeout_ms: 4000 }, &mut |_| ());
    for entry in [create("/new", 102, 7, false), create("/new/lock", 103, 7, true)] {
        tree.apply(&entry.header, &entry.txn, &mut |_| ());
    }
}

fn new_snapshot() -> Vec<u8> {
    snapshot_of(build_new)
}

fn read(bytes: &[u8]) -> Result<RestoredState, RestoreFlaw> {
    RestoredState::read(bytes, TreeOptions::default(), LIMIT)
}

fn children(tree: &Tree) -> BTreeSet<String> {
    let root = tree.node("/").unwrap();
    root.children().map(|child| (*child).to_owned()).filter(|name| name != "zookeeper").collect()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn a_restored_state_is_the_only_one_and_goes_on() {
    for last in [3, 5000] {
        let disk = CrashDisk::new();
        let (mut worker, _) = start(&disk);
        append_old(&mut worker, 1..=last);
        let outcome = worker.restore(read(&new_snapshot()).unwrap(), Zxid(last), 9).unwrap();
        let RestoreOutcome::Installed(InstalledState { tree, zxid, ended_sessions }) = outcome else {
            panic!("{outcome:?}")
        };
        // Two sessions end, and one more transaction follows.
        assert_eq!((zxid, ended_sessions), (Zxid(last.max(103) + 3), 2), "above both states");
        assert_eq!(
            (children(&tree), tree.sessions().len(), tree.ephemerals_count()),
            (names(&["new"]), 0, 0)
        );
        let (mut worker, found) = start(&disk.after(Crash::LoseAll));
        assert_eq!(
            (children(&found), found.last_zxid(), found.digest()),
            (names(&["new"]), zxid, tree.digest())
        );
        append_old(&mut worker, zxid.0 + 1..=zxid.0 + 1);
    }
}

/// The log of the running worker goes on after the installed state.
#[test]
fn the_log_goes_on() {
    let disk = CrashDisk::new();
    let (mut worker, _) = start(&disk);
    append_old(&mut worker, 1..=3);
    let state = read(&new_snapshot()).unwrap();
    assert!(matches!(worker.restore(state, Zxid(3), 9).unwrap(), RestoreOutcome::Installed(_)));
    append_old(&mut worker, 107..=108);
    let (_, found) = start(&disk.after(Crash::LoseAll));
    assert_eq!(children(&found), names(&["new", "old107", "old108"]));
}

#[test]
fn every_loss_of_power_leaves_the_old_state_or_the_new_one() {
    let snapshot = new_snapshot();
    let begin = CrashDisk::new();
    let (mut worker, _) = start(&begin);
    append_old(&mut worker, 1..=40);
    drop(worker);
    let (old, new) = ((1..=40).map(|zxid| format!("old{zxid}")).collect::<BTreeSet<_>>(), names(&["new"]));
    let mut seen = BTreeSet::new();
    for point in 0.. {
        let disk = begin.after(Crash::KeepAll);
        let (mut worker, _) = start(&disk);
        let before = disk.operations();
        disk.power_off_after(point);
        let outcome = worker.restore(read(&snapshot).unwrap(), Zxid(40), 9);
        let is_done = matches!(outcome, Ok(RestoreOutcome::Installed(_)));
        for crash in [Crash::LoseAll, Crash::KeepAll, Crash::Random(point), Crash::Random(point + 1000)] {
            let left = disk.after(crash);
            let (mut worker, found) = start(&left);
            let state = children(&found);
            assert!(state == new || (state == old && !is_done), "{point} {crash:?}: {state:?}");
            // The next transaction is durable behind either state.
            let next = found.last_zxid().0 + 1;
            append_old(&mut worker, next..=next);
            let (_, again) = start(&left.after(Crash::LoseAll));
            assert_eq!(again.last_zxid(), Zxid(next), "{point} {crash:?}");
            let leftovers = left.list(&directories().snapshots()).unwrap();
            assert!(leftovers.iter().all(|name| !name.starts_with("zebu.install")), "{leftovers:?}");
            seen.insert(state == new);
        }
        if is_done {
            assert!(point > 10 && disk.operations() > before, "{point} points");
            break;
        }
    }
    assert_eq!(seen, BTreeSet::from([false, true]), "both states were found");
}

/// A failed write before the point of no return leaves a server that goes on with its old state; a later
/// failure stops it.
#[test]
fn every_failed_write_leaves_the_old_state_or_stops_the_server() {
    let snapshot = new_snapshot();
    let mut unchanged = 0;
    for point in 0.. {
        let disk = CrashDisk::new();
        let (mut worker, _) = start(&disk);
        append_old(&mut worker, 1..=5);
        disk.fail_after(point, io::ErrorKind::StorageFull);
        let outcome = worker.restore(read(&snapshot).unwrap(), Zxid(5), 9);
        disk.power_on();
        match outcome {
            Ok(RestoreOutcome::Unchanged(_)) => {
                unchanged += 1;
                append_old(&mut worker, 6..=6);
                let (_, found) = start(&disk.after(Crash::LoseAll));
                assert_eq!((children(&found).len(), found.last_zxid()), (6, Zxid(6)), "{point}");
            }
            Ok(RestoreOutcome::Installed(_)) => break,
            Err(_) => {
                let (_, found) = start(&disk.after(Crash::LoseAll));
                let nodes = children(&found);
                assert!(nodes == names(&["new"]) || nodes.len() == 5, "{point}: {nodes:?}");
            }
        }
    }
    assert!(unchanged > 2, "{unchanged}");
}

#[test]
fn damaged_and_foreign_bytes_are_refused() {
    let good = new_snapshot();
    assert_eq!(read(&good).unwrap().last_zxid(), Zxid(103));
    for bytes in [&b""[..], b"ZK", b"not a snapshot", &good[1..]] {
        assert!(matches!(read(bytes), Err(RestoreFlaw::Snapshot(_))), "{bytes:?}");
    }
    let mut complete = 0;
    for length in 0..good.len() {
        match read(&good[..length]) {
            Err(_) => {}
            // The nodes and their checksum are complete; only sections are missing.
            Ok(state) => {
                complete += 1;
                assert_eq!(state.node_count(), read(&good).unwrap().node_count(), "{length}");
            }
        }
    }
    assert!(complete <= 2, "{complete}");
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        // The two numbers after the magic have no meaning.
        assert!(read(&bad).is_err() || (4..16).contains(&at), "{at}");
    }
}

#[test]
fn a_long_or_growing_snapshot_is_refused() {
    let good = new_snapshot();
    let limited = RestoredState::read(&good[..], TreeOptions::default(), good.len() as u64 - 1);
    assert!(matches!(limited, Err(RestoreFlaw::TooLong { .. })), "{limited:?}");
    assert!(RestoredState::read(&good[..], TreeOptions::default(), good.len() as u64).is_ok());
    // A node whose data never ends.
    let mut head = good[..16].to_vec();
    head.extend([0, 0, 0, 0, 0, 0, 0, 0]);
    head.extend([0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff]);
    let endless = head.as_slice().chain(io::repeat(0));
    let refused = RestoredState::read(endless, TreeOptions::default(), 1 << 40);
    assert!(matches!(refused, Err(RestoreFlaw::Snapshot(_))), "{refused:?}");
}

#[test]
fn a_snapshot_that_names_another_digest_is_refused() {
    let disk = CrashDisk::new();
    let directories = directories();
    drop(directories.open(&disk, Missing::Create, "test").unwrap());
    let mut tree = Tree::new(TreeOptions::default());
    build_new(&mut tree);
    let store = store(&disk, &directories);
    let mut writer = store.begin(zebu_runtime::SnapshotHead::of(&tree)).unwrap();
    let mut walker = tree.walker();
    walker.next_slice(&tree, usize::MAX, &mut |path, data, acl, stat| {
        writer.node(path, data, acl, stat).unwrap()
    });
    writer.finish(store.sections(Zxid(103), tree.digest() + 1, Zxid(103))).unwrap();
    let bytes = disk.image()[&store.path_of(tree.last_zxid())].clone();
    assert!(matches!(read(&bytes), Err(RestoreFlaw::Digest { .. })));
}

#[test]
fn zxids_that_leave_no_room_are_refused() {
    let huge = |zxid: i64| {
        snapshot_of(|tree| {
            let entry = create("/far", zxid, 0, false);
            tree.apply(&entry.header, &entry.txn, &mut |_| ());
        })
    };
    assert!(read(&huge(i64::MAX >> 2)).is_ok());
    for zxid in [i64::MAX, i64::MAX - 5] {
        let refused = read(&huge(zxid));
        assert!(matches!(refused, Err(RestoreFlaw::Zxid(_))), "{refused:?}");
    }
}
