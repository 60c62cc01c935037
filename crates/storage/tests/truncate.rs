//! Cutting the log: at every transaction, with a failure at every step, and when it must be refused.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use support::chain::{Chain, ModelServer, Step, directories, entry, options, write_snapshot};
use support::handover::assert_apache_can_open;
use support::member::{ApacheView, Done, apache_view, every_failure, history, last, load};
use zebu_proto::Zxid;
use zebu_storage::crash_disk::{Crash, CrashDisk};
use zebu_storage::format::log::{HEADER, append_entry};
use zebu_storage::sync_watermark::read_note;
use zebu_storage::{
    Compression, Disk, LogWriter, Sections, SnapshotTarget, SnapshotWriter, TruncateError, TruncateRefusal,
    truncate,
};

#[test]
fn every_failure_leaves_a_whole_history_between_the_old_end_and_the_new_one() {
    let (disk, ledger) = history();
    let was = last(&ledger);
    let mut states = 0;
    for &to in ledger.chain.keys() {
        every_failure(
            &disk,
            |disk| truncate(disk, &directories(), to),
            |left, done, what| {
                states += 1;
                let what = format!("to {to}: {what}");
                let ApacheView::State(seen) = apache_view(left) else { panic!("{what}: Apache refuses") };
                assert_eq!(seen.hash, ledger.chain[&seen.last], "{what}");
                assert!(seen.last >= to && seen.last <= was, "{what}");
                let (chain, recovered) = load(left).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(recovered.last_zxid, chain.last, "{what}");
                assert!(chain.last >= to && chain.last <= was, "{what}: {}", chain.last);
                assert!(done == Done::Perhaps || chain.last == to, "{what}: {}", chain.last);
                assert_eq!(chain.hash, ledger.chain[&chain.last], "{what}");
            },
        );
    }
    println!("{states} states");
}

#[test]
fn life_goes_on_behind_the_cut() {
    let (disk, ledger) = history();
    for (&to, &hash) in &ledger.chain {
        let disk = disk.after(Crash::KeepAll);
        let done = truncate(&disk, &directories(), to).unwrap();
        assert_eq!(done.was, last(&ledger));
        assert!(read_note(&disk, &directories().logs()).unwrap().unwrap().zxid <= to);
        let disk = disk.after(Crash::LoseAll);
        assert_apache_can_open(&disk, &directories().snapshots(), &directories().logs(), to);
        let again = truncate(&disk, &directories(), to).unwrap();
        assert_eq!((again.was, again.removed.len(), again.cut.len()), (to, 0, 0));
        // Another history takes the place of the old one, from the same numbers on.
        let mut ledger = ledger.clone();
        ledger.chain.retain(|zxid, _| *zxid <= to);
        let mut chain = Chain { hash, last: to };
        let mut writer = LogWriter::open(disk.clone(), options(), to).unwrap();
        for next in [to.next().unwrap(), to.next().unwrap().next().unwrap(), Zxid::new(4, 1)] {
            let (mut batch, entry) = (Vec::new(), entry(next, 30, b'n'));
            append_entry(&entry, &mut batch);
            chain.push(&entry);
            writer.append(next, next, &batch).unwrap();
            writer.sync().unwrap();
        }
        let (left, recovered) = load(&disk.after(Crash::LoseAll)).unwrap();
        assert_eq!((left, recovered.repeated), (chain, 0));
    }
}

fn refusal(disk: &CrashDisk, to: Zxid) -> TruncateRefusal {
    let before = disk.image();
    let operations = disk.operations();
    let Err(TruncateError::Refused { reason, .. }) = truncate(disk, &directories(), to) else {
        panic!("cut at {to}")
    };
    assert_eq!((disk.image(), disk.operations()), (before, operations));
    reason
}

#[test]
fn what_is_not_in_the_history_is_refused() {
    let (disk, ledger) = history();
    for to in [Zxid(10), Zxid::new(1, 6), Zxid::new(2, 1), Zxid::new(1, 0), Zxid::new(3, 4), Zxid::new(7, 1)]
    {
        assert!(!ledger.chain.contains_key(&to));
        assert_eq!(refusal(&disk, to), TruncateRefusal::Unknown, "{to}");
    }
    let disk = disk.after(Crash::KeepAll);
    disk.remove(&directories().snapshots().join("snapshot.0")).unwrap();
    assert_eq!(refusal(&disk, Zxid(4)), TruncateRefusal::NoSnapshot);
    assert_eq!(truncate(&disk, &directories(), Zxid::ZERO).unwrap().base, None);
    assert_eq!(load(&disk).unwrap().0, Chain::default());
}

#[test]
fn a_broken_log_is_refused() {
    let (disk, _) = history();
    let log = directories().logs().join("log.6");
    let bytes = disk.image()[&log].clone();
    for damaged in [60, 16 + 300] {
        let disk = disk.after(Crash::KeepAll);
        let mut bytes = bytes.clone();
        bytes[damaged] ^= 4;
        disk.put(&log, &bytes);
        assert!(matches!(refusal(&disk, Zxid(7)), TruncateRefusal::Broken { .. }));
    }
    disk.remove(&directories().logs().join("log.1")).unwrap();
    assert!(matches!(refusal(&disk, Zxid(3)), TruncateRefusal::Broken { .. }));
}

/// A power failure may leave a log without its header. The newest one holds nothing; in front of others it
/// has lost something.
#[test]
fn a_log_without_a_header_goes_or_is_refused() {
    let (disk, ledger) = history();
    for unfinished in [&HEADER[..7], &[], &[0; 600]] {
        let newest = directories().logs().join("log.300000004");
        let with_newest = disk.after(Crash::KeepAll);
        with_newest.put(&newest, unfinished);
        let done = truncate(&with_newest, &directories(), last(&ledger)).unwrap();
        assert_eq!((done.removed, done.cut.len()), (vec![newest], 0));
        assert_eq!(load(&with_newest).unwrap().0.last, last(&ledger));

        let older = directories().logs().join("log.6");
        let with_older = disk.after(Crash::KeepAll);
        with_older.put(&older, unfinished);
        assert_eq!(refusal(&with_older, Zxid(7)), TruncateRefusal::Broken { path: older, at: 0 });
    }
}

#[test]
fn copies_of_others_are_refused_rather_than_deleted() {
    let (disk, _) = history();
    for (directory, from, copy) in [
        (directories().snapshots(), "snapshot.300000001", "snapshot.300000001.bak"),
        (directories().logs(), "log.300000001", "log.300000001.old"),
        (directories().logs(), "log.1", "log.01"),
    ] {
        let disk = disk.after(Crash::KeepAll);
        let bytes = disk.image()[&directory.join(from)].clone();
        disk.put(&directory.join(copy), &bytes);
        assert_eq!(refusal(&disk, Zxid(2)), TruncateRefusal::Foreign(directory.join(copy)));
        truncate(&disk, &directories(), Zxid::new(3, 3)).unwrap();
    }
}

/// A snapshot that was still being written when later transactions were applied holds parts of them.
#[test]
fn a_snapshot_that_is_mixed_with_what_goes_is_dropped() {
    for (end, to, kept) in [
        (Zxid(9), Zxid(7), false),
        (Zxid(8), Zxid(7), false),
        (Zxid(7), Zxid(7), true),
        (Zxid(6), Zxid(7), true),
        // The first moment of a leader, behind everything that was there.
        (Zxid::new(1, 0), Zxid(7), false),
        (Zxid::new(1, 0), Zxid(9), true),
    ] {
        let (disk, ledger) = history();
        let path = directories().snapshots().join("snapshot.5");
        disk.remove(&path).unwrap();
        let chain = Chain { hash: ledger.chain[&Zxid(5)], last: Zxid(5) };
        let sections = Sections::DigestAndLastZxid { zxid: end, digest: 0, last_zxid: end };
        let (sessions, acls) = (std::iter::empty(), std::iter::empty());
        let snapshots = directories().snapshots();
        let mut writer = SnapshotWriter::begin(
            disk.clone(),
            SnapshotTarget::new(snapshots, Zxid(5), Compression::Plain),
            sessions,
            acls,
        )
        .unwrap();
        writer.node("", Some(&chain.hash.to_be_bytes()), 1, &Default::default()).unwrap();
        writer.finish(sections).unwrap();
        let done = truncate(&disk, &directories(), to).unwrap();
        assert_eq!(disk.exists(&path).unwrap(), kept, "written until {end}, cut at {to}");
        assert_eq!(done.base, Some(if kept { Zxid(5) } else { Zxid::ZERO }));
        let (left, _) = load(&disk.after(Crash::LoseAll)).unwrap();
        assert_eq!((left.last, left.hash), (to, ledger.chain[&to]));
    }
}

#[test]
fn a_snapshot_in_the_making_does_not_come_back() {
    let (disk, ledger) = history();
    let mut life = ModelServer::start(&disk).unwrap();
    let mut ledger = ledger;
    life.step(&Step::Append(vec![1], b'x'), &mut ledger).unwrap();
    life.step(&Step::Sync, &mut ledger).unwrap();
    let chain = life.chain;
    let mut writer = SnapshotWriter::begin(
        disk.clone(),
        SnapshotTarget::new(directories().snapshots(), chain.last, Compression::Plain),
        std::iter::empty(),
        std::iter::empty(),
    )
    .unwrap();
    writer.node("", Some(&chain.hash.to_be_bytes()), 1, &Default::default()).unwrap();
    truncate(&disk, &directories(), Zxid(7)).unwrap();
    assert!(writer.finish(Sections::None).is_err());
    assert_eq!(load(&disk.after(Crash::KeepAll)).unwrap().0.last, Zxid(7));
    // A later one of the new history does.
    write_snapshot(&disk, Chain { hash: ledger.chain[&Zxid(7)], last: Zxid(7) }, Compression::Plain).unwrap();
}
