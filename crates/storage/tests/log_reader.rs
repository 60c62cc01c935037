//! Transactions read back for a learner that is behind: all of them, in order, or nothing.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use support::chain::{ModelServer, Step, directories};
use support::member::{history, last};
use zebu_proto::Zxid;
use zebu_proto::txn::TxnEntry;
use zebu_storage::crash_disk::CrashDisk;
use zebu_storage::format::log::payload_zxid;
use zebu_storage::{DiffLimits, Disk, LogEntry, LogReader, purge, read_after};

fn read(disk: &CrashDisk, after: Zxid, up_to: Zxid, bytes_max: usize) -> Option<Vec<LogEntry>> {
    read_after(disk, &directories(), after, up_to, bytes_max).unwrap()
}

fn zxids(entries: &[LogEntry]) -> Vec<Zxid> {
    for entry in entries {
        assert_eq!(payload_zxid(&entry.bytes), Some(entry.zxid));
        assert_eq!(TxnEntry::decode(&entry.bytes).unwrap().header.zxid, entry.zxid);
    }
    entries.iter().map(|entry| entry.zxid).collect()
}

#[test]
fn every_stretch_of_the_history_is_read() {
    let (disk, ledger) = history();
    let all: Vec<Zxid> = ledger.chain.keys().copied().collect();
    for (from, &after) in all.iter().enumerate() {
        for (to, &up_to) in all.iter().enumerate() {
            let found = read(&disk, after, up_to, usize::MAX);
            if to < from {
                assert_eq!(found, None);
            } else {
                assert_eq!(zxids(&found.unwrap()), &all[from + 1..=to]);
            }
        }
        // In pieces of any size, at least one entry each.
        for bytes_max in [0, 1, 60, 200, 700, 2000] {
            let mut reader = LogReader::new(disk.clone(), &directories(), after);
            let mut got = Vec::new();
            while reader.last() < last(&ledger) {
                let piece = reader.next(last(&ledger), bytes_max).unwrap().unwrap();
                assert!(!piece.is_empty());
                let bytes: usize = piece.iter().map(|entry| entry.bytes.len()).sum();
                assert!(bytes <= bytes_max || piece.len() == 1);
                got.extend(zxids(&piece));
            }
            assert_eq!(got, &all[from + 1..]);
            assert_eq!(reader.next(last(&ledger), bytes_max).unwrap(), Some(Vec::new()));
        }
    }
}

/// The whole stretch is measured, over files and epochs, before the first piece is handed out.
#[test]
fn a_stretch_that_is_too_long_is_not_begun() {
    let (disk, ledger) = history();
    let all: Vec<Zxid> = ledger.chain.keys().copied().collect();
    let (after, up_to) = (all[1], last(&ledger));
    let stretch = read(&disk, after, up_to, usize::MAX).unwrap();
    let bytes: u64 = stretch.iter().map(|entry| entry.bytes.len() as u64).sum();
    let limits = DiffLimits { entries: stretch.len() as u64, bytes };
    for bytes_max in [1, 60, 700, usize::MAX] {
        let begin = |limits| {
            let mut reader = LogReader::new(disk.clone(), &directories(), after);
            let first = reader.begin(up_to, bytes_max, limits).unwrap();
            (first, reader)
        };
        let (first, mut reader) = begin(limits);
        let mut got = first.unwrap();
        assert_eq!(reader.last(), got.last().unwrap().zxid, "the next piece begins behind the first");
        while reader.last() < up_to {
            got.extend(reader.next(up_to, bytes_max).unwrap().unwrap());
        }
        assert_eq!(got, stretch);
        assert_eq!(begin(DiffLimits { entries: limits.entries - 1, ..limits }).0, None);
        assert_eq!(begin(DiffLimits { bytes: bytes - 1, ..limits }).0, None);
    }
    let mut reader = LogReader::new(disk, &directories(), after);
    let more = DiffLimits { entries: u64::MAX, bytes: u64::MAX };
    assert_eq!(reader.begin(up_to.next().unwrap(), 1, more).unwrap(), None, "the end is not there");
}

#[test]
fn what_is_not_in_the_history_is_not_continued() {
    let (disk, ledger) = history();
    let end = last(&ledger);
    // Before an epoch's first transaction only the one that really came before counts.
    for after in [Zxid(10), Zxid::new(1, 0), Zxid::new(1, 6), Zxid::new(2, 1), Zxid(-1), Zxid::new(9, 1)] {
        assert_eq!(read(&disk, after, end, usize::MAX), None, "{after}");
    }
    assert_eq!(read(&disk, Zxid(3), Zxid(12), usize::MAX), None);
    assert_eq!(read(&disk, Zxid(3), end.next().unwrap(), usize::MAX), None);
}

#[test]
fn only_a_snapshot_bridges_epochs_when_the_log_does_not_reach_back() {
    let (disk, ledger) = history();
    disk.remove(&directories().logs().join("log.6")).unwrap();
    disk.remove(&directories().logs().join("log.1")).unwrap();
    let end = last(&ledger);
    // Nothing shows any more what came before the first transaction of epoch 1.
    assert_eq!(read(&disk, Zxid(9), end, usize::MAX), None);
    disk.put(&directories().snapshots().join("snapshot.9.bak"), b"anyone's");
    assert_eq!(read(&disk, Zxid(9), end, usize::MAX), None);
    disk.put(&directories().snapshots().join("snapshot.9"), b"a server's");
    assert_eq!(read(&disk, Zxid(9), end, usize::MAX).unwrap()[0].zxid, Zxid::new(1, 1));
    // The next number of the same epoch needs no other proof.
    disk.remove(&directories().snapshots().join("snapshot.9")).unwrap();
    disk.remove(&directories().snapshots().join("snapshot.5")).unwrap();
    disk.remove(&directories().logs().join("log.100000001")).unwrap();
    assert_eq!(read(&disk, Zxid::new(3, 1), end, usize::MAX).unwrap()[0].zxid, Zxid::new(3, 2));
    assert_eq!(read(&disk, Zxid::new(1, 5), end, usize::MAX), None);
}

#[test]
fn damage_and_holes_are_not_sent_to_anyone() {
    let (disk, ledger) = history();
    let end = last(&ledger);
    let log = directories().logs().join("log.6");
    let mut bytes = disk.image()[&log].clone();
    bytes[100] ^= 1;
    disk.put(&log, &bytes);
    assert_eq!(read(&disk, Zxid(4), end, usize::MAX), None);
    assert_eq!(zxids(&read(&disk, Zxid(4), Zxid(5), usize::MAX).unwrap()), [Zxid(5)]);
    assert!(read(&disk, Zxid::new(1, 1), end, usize::MAX).is_some());
    disk.remove(&log).unwrap();
    disk.remove(&directories().logs().join("log.1")).unwrap();
    assert_eq!(read(&disk, Zxid(4), Zxid(9), usize::MAX), None);
}

#[test]
fn the_log_is_read_while_it_is_written_and_purged() {
    let disk = CrashDisk::new();
    let mut ledger = Default::default();
    let mut life = ModelServer::start(&disk).unwrap();
    let mut reader = LogReader::new(disk.clone(), &directories(), Zxid::ZERO);
    for round in 0..30i64 {
        life.step(&Step::Append(vec![10, 20], b'w'), &mut ledger).unwrap();
        life.step(&Step::Sync, &mut ledger).unwrap();
        let durable = life.writer.durable();
        // Entries that are appended but not durable are not touched.
        life.step(&Step::Append(vec![30], b'u'), &mut ledger).unwrap();
        let got = zxids(&reader.next(durable, usize::MAX).unwrap().unwrap());
        assert_eq!(got.last(), Some(&durable));
        assert_eq!(reader.last(), Zxid(round * 3 + 2));
        if round % 5 == 4 {
            life.step(&Step::Sync, &mut ledger).unwrap();
            life.step(&Step::Snapshot(zebu_storage::Compression::Plain), &mut ledger).unwrap();
            life.step(&Step::Roll, &mut ledger).unwrap();
        }
    }
    life.step(&Step::Sync, &mut ledger).unwrap();
    assert!(!purge(&disk, &directories(), 3).unwrap().removed.is_empty());
    assert!(reader.next(life.writer.durable(), usize::MAX).unwrap().is_some());
    assert_eq!(read(&disk, Zxid::ZERO, life.writer.durable(), usize::MAX), None);
}

/// Removing logs before the snapshots that they follow would make a snapshot bridge a gap between epochs.
#[test]
fn a_purge_removes_snapshots_before_their_logs() {
    let (disk, ledger) = history();
    let mut life = ModelServer::start(&disk).unwrap();
    let mut ledger = ledger;
    for _ in 0..2 {
        life.step(&Step::Append(vec![1], b'x'), &mut ledger).unwrap();
        life.step(&Step::Sync, &mut ledger).unwrap();
        life.step(&Step::Snapshot(zebu_storage::Compression::Plain), &mut ledger).unwrap();
        life.step(&Step::Roll, &mut ledger).unwrap();
    }
    let end = life.chain.last;
    let mut steps = 0;
    disk.record();
    purge(&disk, &directories(), 3).unwrap();
    for state in disk.take_record() {
        // Either the whole rest or nothing, at every moment.
        for (index, (&after, _)) in ledger.chain.iter().enumerate() {
            if let Some(found) = read(&state, after, end, usize::MAX) {
                assert_eq!(found.len(), ledger.chain.len() - index - 1, "{after}");
            } else {
                steps += 1;
            }
        }
    }
    assert!(steps > 0);
}
