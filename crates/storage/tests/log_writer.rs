//! The log's writer: what it leaves on disk, when it rolls, and that no error is ever survived.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::io::ErrorKind;
use std::path::PathBuf;

use support::chain::{Chain, KnownState, ModelServer, Step, directories, entry, options, write_snapshot};
use support::handover::assert_apache_can_open;
use zebu_proto::Zxid;
use zebu_storage::crash_disk::{Crash, CrashDisk};
use zebu_storage::disk::read_file;
use zebu_storage::format::durable::NAME;
use zebu_storage::format::log::{HEADER, append_entry};
use zebu_storage::sync_watermark::read_note;
use zebu_storage::{
    Compression, Disk, ForceSync, LogError, LogOptions, LogWriter, Missing, RecoveryOptions, recover,
};

fn prepared() -> CrashDisk {
    let disk = CrashDisk::new();
    directories().open(&disk, Missing::Create, "test").unwrap();
    write_snapshot(&disk, Chain::default(), Compression::Plain).unwrap();
    disk
}

fn frames(zxids: impl IntoIterator<Item = i64>) -> Vec<u8> {
    let mut out = Vec::new();
    for zxid in zxids {
        append_entry(&entry(Zxid(zxid), 50, b'q'), &mut out);
    }
    out
}

fn log(name: &str) -> PathBuf {
    directories().logs().join(name)
}

fn recovered(disk: &CrashDisk) -> Zxid {
    let mut chain = Chain::default();
    recover(disk, &directories(), RecoveryOptions::default(), &mut chain, &mut |_| {}).unwrap().last_zxid
}

#[test]
fn a_log_is_header_entries_and_zeros() {
    let disk = prepared();
    let mut writer = LogWriter::open(disk.clone(), options(), Zxid::ZERO).unwrap();
    let (first, second) = (frames([1, 2]), frames([3]));
    writer.append(Zxid(1), Zxid(2), &first).unwrap();
    assert_eq!(writer.durable(), Zxid::ZERO);
    assert_eq!(writer.sync().unwrap(), Zxid(2));
    writer.append(Zxid(3), Zxid(3), &second).unwrap();
    assert_eq!((writer.written(), writer.durable()), (Zxid(3), Zxid(2)));
    assert_eq!(writer.close().unwrap(), Zxid(3));
    let bytes = read_file(&disk, &log("log.1")).unwrap();
    let expected = [&HEADER[..], &first, &second].concat();
    assert_eq!(bytes[..expected.len()], expected);
    assert!(bytes.len() > expected.len() && bytes[expected.len()..].iter().all(|&byte| byte == 0));
    assert_eq!(recovered(&disk.after(Crash::LoseAll)), Zxid(3));
}

#[test]
fn without_preallocation_the_file_ends_behind_the_last_entry() {
    let disk = prepared();
    let options = LogOptions { preallocate: 0, ..options() };
    let mut writer = LogWriter::open(disk.clone(), options, Zxid::ZERO).unwrap();
    writer.append(Zxid(1), Zxid(1), &frames([1])).unwrap();
    writer.sync().unwrap();
    let expected = [&HEADER[..], &frames([1])].concat();
    assert_eq!(read_file(&disk, &log("log.1")).unwrap(), expected);
}

#[test]
fn logs_are_rolled_by_size_and_on_request() {
    let disk = prepared();
    let options = LogOptions { size_max: Some(300), preallocate: 4096, ..options() };
    let mut writer = LogWriter::open(disk.clone(), options, Zxid::ZERO).unwrap();
    for zxid in 1..=6 {
        writer.append(Zxid(zxid), Zxid(zxid), &frames([zxid])).unwrap();
        writer.sync().unwrap();
    }
    writer.roll().unwrap();
    // Rolling twice, or with nothing written, makes no file.
    writer.roll().unwrap();
    writer.append(Zxid(7), Zxid(7), &frames([7])).unwrap();
    writer.sync().unwrap();
    let logs: Vec<_> =
        disk.list(&directories().logs()).unwrap().into_iter().filter(|it| it.starts_with("log.")).collect();
    // Used bytes count, not the preallocated ones: three entries of 112 bytes cross the limit.
    assert_eq!(logs, ["log.1", "log.4", "log.7"]);
    assert_eq!(recovered(&disk), Zxid(7));
    assert_apache_can_open(&disk, &directories().snapshots(), &directories().logs(), Zxid(7));
}

#[test]
fn without_force_sync_nothing_is_synced_and_nothing_is_claimed() {
    let disk = prepared();
    let options = LogOptions { force_sync: ForceSync::No, ..options() };
    let mut writer = LogWriter::open(disk.clone(), options, Zxid::ZERO).unwrap();
    writer.append(Zxid(1), Zxid(1), &frames([1])).unwrap();
    assert_eq!(writer.sync().unwrap(), Zxid(1));
    assert!(!disk.exists(&log(NAME)).unwrap());
    assert_eq!(recovered(&disk.after(Crash::KeepAll)), Zxid(1));
    assert_eq!(recovered(&disk.after(Crash::LoseAll)), Zxid::ZERO);
}

#[test]
fn a_snapshot_comes_before_the_first_log() {
    let disk = CrashDisk::new();
    directories().open(&disk, Missing::Create, "test").unwrap();
    let refused = LogWriter::open(disk, options(), Zxid::ZERO).unwrap_err();
    assert!(matches!(refused, LogError::NoSnapshot(_)), "{refused}");
}

#[test]
fn transactions_only_go_forward() {
    let disk = prepared();
    let mut writer = LogWriter::open(disk, options(), Zxid(5)).unwrap();
    let refused = writer.append(Zxid(5), Zxid(6), &frames([5, 6])).unwrap_err();
    assert!(matches!(refused, LogError::OutOfOrder { .. }), "{refused}");
    let refused = writer.append(Zxid(6), Zxid(6), &frames([6])).unwrap_err();
    assert!(matches!(refused, LogError::Poisoned(_)), "{refused}");
}

#[test]
fn a_log_with_entries_is_never_overwritten() {
    let disk = prepared();
    disk.put(&log("log.1"), &[&HEADER[..], &frames([1])].concat());
    let mut writer = LogWriter::open(disk.clone(), options(), Zxid::ZERO).unwrap();
    let refused = writer.append(Zxid(1), Zxid(1), &frames([1])).unwrap_err();
    assert!(matches!(refused, LogError::Occupied(_)), "{refused}");
    // Neither a file that is no log nor entries behind damage may be overwritten.
    let mut damaged = [&HEADER[..], &frames([1, 2])].concat();
    damaged[HEADER.len() + 20] ^= 1;
    for somebody in [&[b'x'; 100][..], &damaged] {
        disk.put(&log("log.1"), somebody);
        let mut writer = LogWriter::open(disk.clone(), options(), Zxid::ZERO).unwrap();
        let refused = writer.append(Zxid(1), Zxid(1), &frames([1])).unwrap_err();
        assert!(matches!(refused, LogError::Occupied(_)), "{refused}");
        assert_eq!(disk.image()[&log("log.1")], somebody);
    }
    // One without entries holds nothing that could be lost.
    let disk = prepared();
    disk.put(&log("log.1"), &HEADER);
    let mut writer = LogWriter::open(disk.clone(), options(), Zxid::ZERO).unwrap();
    writer.append(Zxid(1), Zxid(1), &frames([1])).unwrap();
    writer.sync().unwrap();
    assert_eq!(recovered(&disk), Zxid(1));
}

/// Every change of the disk fails once: the writer says so, never tries again, and a fresh start finds all
/// that was acknowledged.
#[test]
fn no_error_is_survived() {
    let steps = [
        Step::Append(vec![10, 600], b'a'),
        Step::Sync,
        Step::Append(vec![2000], b'b'),
        Step::Sync,
        Step::Roll,
        Step::Append(vec![5], b'c'),
        Step::Sync,
    ];
    let mut failures = 0;
    for kind in [ErrorKind::StorageFull, ErrorKind::Other] {
        for point in 0.. {
            let disk = CrashDisk::new();
            let mut ledger = KnownState::default();
            let mut life = ModelServer::start(&disk).unwrap();
            disk.fail_after(point, kind);
            let failed = steps.iter().find_map(|step| life.step(step, &mut ledger).err());
            let Some(error) = failed else { break };
            failures += 1;
            assert!(error.to_string().contains("cannot be written"), "{error}");
            let zxid = life.writer.written();
            for _ in 0..2 {
                // The disk works again, the writer must not.
                let again = life.writer.append(zxid.next().unwrap(), zxid.next().unwrap(), &frames([1]));
                assert!(matches!(again, Err(LogError::Poisoned(_))));
                assert!(matches!(life.writer.sync(), Err(LogError::Poisoned(_))));
                assert!(matches!(life.writer.roll(), Err(LogError::Poisoned(_))));
            }
            for crash in [Crash::LoseAll, Crash::KeepAll] {
                let next = ModelServer::start(&disk.after(crash)).unwrap();
                assert!(next.chain.last >= ledger.acknowledged);
                assert_eq!(next.chain.hash, ledger.chain.get(&next.chain.last).copied().unwrap_or(0));
            }
        }
    }
    assert!(failures > 30, "{failures}");
}

#[test]
fn the_note_follows_every_sync() {
    let disk = prepared();
    let mut writer = LogWriter::open(disk.clone(), options(), Zxid::ZERO).unwrap();
    for zxid in 1..=5 {
        writer.append(Zxid(zxid), Zxid(zxid), &frames([zxid])).unwrap();
        let before = read_note(&disk, &directories().logs()).unwrap().unwrap();
        assert_eq!(before.zxid, Zxid(zxid - 1));
        writer.sync().unwrap();
        let note = read_note(&disk, &directories().logs()).unwrap().unwrap();
        assert_eq!((note.log, note.zxid, note.offset), (Zxid(1), Zxid(zxid), writer.size()));
    }
    // It costs no sync of its own: a power failure may leave an older one, never a newer one.
    let old = read_note(&disk.after(Crash::LoseAll), &directories().logs()).unwrap().unwrap();
    assert_eq!(old.zxid, Zxid::ZERO);
    writer.close().unwrap();
    let note = read_note(&disk.after(Crash::LoseAll), &directories().logs()).unwrap().unwrap();
    assert_eq!(note.zxid, Zxid(5));
}
