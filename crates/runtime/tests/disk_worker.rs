//! The disk worker on the model of a disk: what a restart finds after each command.

#![allow(clippy::unwrap_used)]

mod server_files;

use server_files::{directories, recover, settings};
use zebu_node::{AfterAppend, LogBatch};
use zebu_proto::txn::{Txn, TxnEntry, TxnHeader};
use zebu_proto::{SessionId, Zxid};
use zebu_runtime::{
    DiskEvent, DiskOutcome, DiskWorker, LoadOptions, SnapshotSections, SnapshotStore, open_log, open_member,
};
use zebu_storage::crash_disk::{Crash, CrashDisk};
use zebu_storage::format::log::append_entry;
use zebu_storage::{Compression, Disk, Trust, trust};
use zebu_tree::{Tree, TreeOptions};
use zebu_zab::{DiskCommand, EncodedTxn, IoId, LinkId, PeerEvent};

/// Starts a member. Returns its worker and the state that it has found.
fn start(disk: &CrashDisk) -> (DiskWorker<CrashDisk>, Tree) {
    let directories = directories();
    let (recovered, tree) = recover(disk, LoadOptions::member());
    let member = open_member(disk, &directories, &recovered, |_| ()).unwrap();
    let store = SnapshotStore::new(disk.clone(), &directories, Compression::Plain, SnapshotSections::Digest);
    let log = open_log(settings().log, &store, &tree, &recovered, Some(&member)).unwrap();
    let worker = DiskWorker::new(directories, settings(), store, log, Some(member.epochs));
    (worker, tree)
}

fn zxid(counter: u32) -> Zxid {
    Zxid::new(1, counter)
}

fn transaction(counter: u32) -> TxnEntry {
    let header =
        TxnHeader { session: SessionId(i64::from(counter)), cxid: 0, zxid: zxid(counter), time_ms: 1 };
    TxnEntry { header, txn: Txn::CreateSession { timeout_ms: 4000 }, digest: None }
}

fn batch(counters: std::ops::RangeInclusive<u32>, after: AfterAppend) -> LogBatch {
    let (first, last) = (zxid(*counters.start()), zxid(*counters.end()));
    let (mut bytes, mut transactions) = (Vec::new(), 0);
    for counter in counters {
        append_entry(&transaction(counter), &mut bytes);
        transactions += 1;
    }
    LogBatch { bytes, first, last, transactions, after }
}

fn append(worker: &mut DiskWorker<CrashDisk>, counters: std::ops::RangeInclusive<u32>) {
    worker.append(Some(IoId(1)), batch(counters, AfterAppend::Continue)).unwrap();
    worker.sync().unwrap();
}

/// The last transaction that a start finds after a loss of power.
fn last_after_crash(disk: &CrashDisk) -> Zxid {
    start(&disk.after(Crash::LoseAll)).1.last_zxid()
}

#[test]
fn one_sync_covers_all_appends_before_it() {
    let disk = CrashDisk::new();
    let (mut worker, _) = start(&disk);
    worker.append(Some(IoId(7)), batch(1..=2, AfterAppend::RollAndSnapshot)).unwrap();
    worker.append(Some(IoId(8)), batch(3..=3, AfterAppend::Continue)).unwrap();
    let synced = worker.sync().unwrap();
    assert_eq!((synced.io, synced.last, synced.transactions), (Some(IoId(8)), zxid(3), 3));
    assert!(matches!(DiskEvent::from(synced), DiskEvent::Peer(PeerEvent::Persisted { io: IoId(8) })));
    assert_eq!(last_after_crash(&disk), zxid(3));
}

#[test]
fn a_log_goes_on_after_a_truncation() {
    let disk = CrashDisk::new();
    let (mut worker, _) = start(&disk);
    append(&mut worker, 1..=4);
    let command = DiskCommand::Truncate { io: IoId(2), to: zxid(2) };
    let outcome = worker.execute(command, None, || zxid(4)).unwrap();
    let DiskOutcome::Truncated { to, before, tree: Some(tree), .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((to, before, tree.last_zxid()), (zxid(2), zxid(4), zxid(2)), "the state in memory held more");
    append(&mut worker, 3..=3);
    assert_eq!(last_after_crash(&disk), zxid(3));
}

#[test]
fn a_refused_truncation_changes_nothing() {
    let disk = CrashDisk::new();
    let (mut worker, _) = start(&disk);
    append(&mut worker, 1..=3);
    let command = DiskCommand::Truncate { io: IoId(2), to: Zxid::new(1, 9) };
    let outcome = worker.execute(command, None, || zxid(3)).unwrap();
    assert!(matches!(outcome, DiskOutcome::TruncateRefused { io: IoId(2) }), "{outcome:?}");
    assert!(worker.append(None, batch(3..=3, AfterAppend::Continue)).and_then(|()| worker.sync()).is_err());
    let (mut worker, _) = start(&disk);
    append(&mut worker, 4..=4);
    assert_eq!(last_after_crash(&disk), zxid(4));
}

/// Apache would trust an empty directory that has a snapshot.
#[test]
fn a_quarantined_server_has_no_snapshot_before_its_first_append() {
    let disk = CrashDisk::new();
    let (mut worker, _) = start(&disk);
    append(&mut worker, 1..=3);
    let outcome = worker.execute(DiskCommand::Quarantine { io: IoId(2) }, None, || zxid(3)).unwrap();
    assert!(matches!(outcome, DiskOutcome::Quarantined { .. }), "{outcome:?}");
    let snapshots = || {
        let names = disk.list(&directories().snapshots()).unwrap();
        names.into_iter().filter(|name| name.starts_with("snapshot.")).count()
    };
    assert_eq!(snapshots(), 0);
    assert_eq!(trust::read(&disk, &directories().snapshots()).unwrap(), Trust::Untrusted);
    // A restart changes nothing about it.
    let (mut worker, tree) = start(&disk);
    assert_eq!((snapshots(), tree.last_zxid()), (0, Zxid::ZERO));
    append(&mut worker, 1..=2);
    assert_eq!(snapshots(), 1);
    assert_eq!(last_after_crash(&disk), zxid(2));
}

#[test]
fn an_installed_snapshot_holds_the_transactions_after_it() {
    let disk = CrashDisk::new();
    let (mut worker, _) = start(&disk);
    append(&mut worker, 1..=1);
    let entry = |counter| {
        let mut bytes = Vec::new();
        transaction(counter).encode(&mut bytes);
        EncodedTxn { zxid: zxid(counter), bytes: bytes.into() }
    };
    let tail = vec![entry(8), entry(9)];
    let command = DiskCommand::InstallSnapshot { io: IoId(2), link: LinkId(1), tail, zxid: zxid(9) };
    let received = Tree::new(TreeOptions::default());
    let outcome = worker.execute(command, Some(received), || zxid(1)).unwrap();
    assert!(matches!(outcome, DiskOutcome::Installed { .. }), "{outcome:?}");
    append(&mut worker, 10..=10);
    let (_, tree) = start(&disk.after(Crash::LoseAll));
    let sessions: Vec<i64> = tree.sessions().keys().map(|id| id.0).collect();
    assert_eq!(sessions, [8, 9, 10]);
}
