//! Snapshots as files, and what purging keeps of them and of the logs.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use support::chain::{Chain, directories, entry, write_snapshot};
use support::target::Recorded;
use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_storage::crash_disk::{Crash, CrashDisk};
use zebu_storage::format::log::{HEADER, append_entry};
use zebu_storage::snapshot_file::{load, validate};
use zebu_storage::{
    Compression, Disk, FileDisk, Missing, RecoveryOptions, Sections, SnapshotTarget, SnapshotWriter,
    WrittenSnapshot, purge, recover,
};

const ALL: [Compression; 3] = [Compression::Plain, Compression::Gzip, Compression::Snappy];

fn empty() -> CrashDisk {
    let disk = CrashDisk::new();
    directories().open(&disk, Missing::Create, "test").unwrap();
    disk
}

fn snapshot_path(name: &str) -> PathBuf {
    directories().snapshots().join(name)
}

fn names(disk: &CrashDisk) -> Vec<String> {
    let mut names = disk.list(&directories().snapshots()).unwrap();
    names.extend(disk.list(&directories().logs()).unwrap());
    names
}

fn snapshot(disk: &CrashDisk, zxid: i64, compression: Compression) -> PathBuf {
    write_snapshot(disk, Chain { hash: zxid as u64, last: Zxid(zxid) }, compression).unwrap()
}

fn log(disk: &CrashDisk, zxids: std::ops::RangeInclusive<i64>) {
    let mut bytes = HEADER.to_vec();
    let name = format!("log.{:x}", zxids.start());
    for zxid in zxids {
        append_entry(&entry(Zxid(zxid), 3, b'p'), &mut bytes);
    }
    disk.put(&directories().logs().join(name), &bytes);
}

#[test]
fn large_snapshots_round_trip_in_every_compression() {
    let directory = tempfile::tempdir().unwrap();
    let acls = [(1, Acl::open()), (2, Acl::read_only())];
    let stat = StatPersisted { czxid: 9, version: -1, ephemeral_owner: i64::MIN, ..Default::default() };
    for compression in ALL {
        let mut writer = SnapshotWriter::begin(
            FileDisk,
            SnapshotTarget::new(directory.path(), Zxid(0xab), compression),
            (0..500i32).map(|id| (SessionId(id.into()), 1000 + id)),
            acls.iter().map(|(id, acl)| (*id, &acl[..])),
        )
        .unwrap();
        writer.node("", None, -1, &stat).unwrap();
        for index in 0..200usize {
            // Data around every buffer size on the way, null and empty.
            let data = vec![index as u8; index * 9_973 % 70_001];
            let data = (index % 50 != 0).then_some(&data[..]);
            writer.node(&format!("/n{index}"), data, 2, &stat).unwrap();
        }
        let sections = Sections::DigestAndLastZxid { zxid: Zxid(0xac), digest: -5, last_zxid: Zxid(0xad) };
        let written = writer.finish(sections).unwrap();
        let name = format!("snapshot.ab{}", compression.extension());
        assert_eq!(written, WrittenSnapshot::New(directory.path().join(name)));
        let mut content = Recorded::default();
        let summary = load(&FileDisk, written.path(), &mut content).unwrap().unwrap();
        assert_eq!((summary.sessions, summary.acls, summary.nodes), (500, 2, 201));
        let digest = summary.digest.unwrap();
        assert_eq!((digest.zxid, digest.digest), (Zxid(0xac), -5));
        assert_eq!((summary.last_zxid, summary.seals.len()), (Some(Zxid(0xad)), 3));
        assert_eq!(content.sessions[7], (SessionId(7), 1007));
        assert_eq!(content.acls, acls);
        assert_eq!((&content.nodes[0].data, content.nodes[0].stat), (&None, stat));
        for (index, node) in content.nodes[1..].iter().enumerate() {
            let length = (index % 50 != 0).then_some(index * 9_973 % 70_001);
            assert_eq!(node.data.as_ref().map(Vec::len), length);
            assert!(node.data.iter().flatten().all(|&byte| byte == index as u8));
        }
    }
    let mut left: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["snapshot.ab", "snapshot.ab.gz", "snapshot.ab.snappy"]);
}

#[test]
fn a_valid_snapshot_is_kept_a_damaged_one_replaced() {
    let disk = empty();
    let path = snapshot(&disk, 5, Compression::Plain);
    let before = disk.image()[&path].clone();
    let other = Chain { hash: 999, last: Zxid(5) };
    write_snapshot(&disk, other, Compression::Plain).unwrap();
    assert_eq!(disk.image()[&path], before);
    let mut damaged = before.clone();
    damaged[50] ^= 1;
    disk.put(&path, &damaged);
    write_snapshot(&disk, other, Compression::Plain).unwrap();
    assert!(validate(&disk, &path).unwrap().is_ok());
    assert_ne!(disk.image()[&path], before);
    assert_eq!(disk.list(&directories().snapshots()).unwrap(), ["snapshot.5"]);
}

#[test]
fn a_snapshot_that_fails_leaves_nothing_to_load() {
    for compression in ALL {
        for point in 0.. {
            let disk = empty();
            disk.fail_after(point, ErrorKind::StorageFull);
            let written = write_snapshot(&disk, Chain { hash: 1, last: Zxid(1) }, compression);
            if written.is_ok() {
                assert!(point > 3);
                break;
            }
            for crash in [Crash::LoseAll, Crash::KeepAll] {
                let left = disk.after(crash);
                for name in left.list(&directories().snapshots()).unwrap() {
                    let complete = name.starts_with("snapshot.");
                    assert!(!complete || validate(&left, &snapshot_path(&name)).unwrap().is_ok());
                }
                // The space is there again: the next one succeeds.
                write_snapshot(&left, Chain { hash: 1, last: Zxid(1) }, compression).unwrap();
            }
        }
    }
}

#[test]
fn an_abandoned_snapshot_is_gone() {
    let disk = empty();
    let nothing: [(i64, &[Acl]); 0] = [];
    let directory = directories().snapshots();
    let writer = SnapshotWriter::begin(
        disk.clone(),
        SnapshotTarget::new(directory, Zxid(1), Compression::Plain),
        [].into_iter(),
        nothing.into_iter(),
    );
    writer.unwrap().abandon().unwrap();
    assert_eq!(names(&disk), [] as [&str; 0]);
}

#[test]
fn gzip_as_apache_tolerates_it() {
    let disk = empty();
    let path = snapshot(&disk, 6, Compression::Gzip);
    let whole = disk.image()[&path].clone();
    // A cut trailer: the content is proven by its own checksums.
    disk.put(&path, &whole[..whole.len() - 5]);
    assert!(validate(&disk, &path).unwrap().is_ok());
    // Several members in a row.
    let plain = snapshot(&disk, 6, Compression::Plain);
    let plain = disk.image()[&plain].clone();
    let mut members = Vec::new();
    for part in [&plain[..300], &plain[300..]] {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(part).unwrap();
        members.extend(encoder.finish().unwrap());
    }
    disk.put(&path, &members);
    assert!(validate(&disk, &path).unwrap().is_ok());
}

#[test]
fn every_cut_snapshot_is_rejected() {
    let disk = empty();
    for compression in ALL {
        let path = snapshot(&disk, 6, compression);
        let whole = disk.image()[&path].clone();
        let mut accepted = 0;
        for length in 0..whole.len() {
            disk.put(&path, &whole[..length]);
            accepted += usize::from(validate(&disk, &path).unwrap().is_ok());
        }
        // Complete without the last section, or without both; for gzip without its trailer.
        assert!(
            accepted <= if compression == Compression::Gzip { 16 } else { 2 },
            "{compression:?} {accepted}"
        );
    }
}

#[test]
fn purging_keeps_valid_snapshots_and_their_logs() {
    let disk = empty();
    for (index, zxid) in [0, 10, 20, 30, 40, 50, 60].into_iter().enumerate() {
        snapshot(&disk, zxid, ALL[index % 3]);
    }
    for start in [1, 15, 25, 35, 45, 55] {
        log(&disk, start..=start + if start == 1 { 13 } else { 9 });
    }
    // The two newest snapshots are damaged: they do not count.
    for name in ["snapshot.32.snappy", "snapshot.3c"] {
        let mut bytes = disk.image()[&snapshot_path(name)].clone();
        let middle = bytes.len() / 2;
        bytes[middle..middle + 20].fill(0xff);
        disk.put(&snapshot_path(name), &bytes);
    }
    for name in ["snapshot.bak", "snapshot.1.old", "snapshot.x"] {
        disk.put(&snapshot_path(name), b"mine");
    }
    for name in ["log.old", "log.1.bak"] {
        disk.put(&directories().logs().join(name), b"mine");
    }
    let report = purge(&disk, &directories(), 1).unwrap();
    let kept: Vec<_> = report.kept.iter().map(|it| it.file_name().unwrap().to_str().unwrap()).collect();
    // At least three are kept: 40, 30 and 20; the log of 15 holds transaction 21.
    assert_eq!(kept, ["snapshot.28.gz", "snapshot.1e", "snapshot.14.snappy"]);
    assert_eq!(report.invalid.len(), 2);
    let left = names(&disk.after(Crash::LoseAll));
    let expected = [
        "snapshot.1.old",
        "snapshot.14.snappy",
        "snapshot.1e",
        "snapshot.28.gz",
        "snapshot.32.snappy",
        "snapshot.3c",
        "snapshot.bak",
        "snapshot.x",
        "log.1.bak",
        "log.19",
        "log.23",
        "log.2d",
        "log.37",
        "log.f",
        "log.old",
    ];
    assert_eq!(left, expected);
    let mut chain = Chain::default();
    let recovered = recover(&disk, &directories(), RecoveryOptions::default(), &mut chain, &mut |_| {});
    assert_eq!(recovered.unwrap().last_zxid, Zxid(64));
    // A second time there is nothing to do.
    assert_eq!(purge(&disk, &directories(), 3).unwrap().removed, [] as [PathBuf; 0]);
}

#[test]
fn purging_without_a_valid_snapshot_removes_nothing() {
    let disk = empty();
    log(&disk, 1..=9);
    log(&disk, 10..=19);
    disk.put(&snapshot_path("snapshot.c"), b"ZKSN\0\0\0\x02");
    let before = disk.image();
    let report = purge(&disk, &directories(), 3).unwrap();
    assert_eq!((report.kept.len(), report.removed.len(), report.invalid.len()), (0, 0, 1));
    assert_eq!(disk.image(), before);
}

/// A failure at any moment of a purge leaves a directory that recovers to the same state.
#[test]
fn purging_may_be_interrupted() {
    let prepare = || {
        let disk = empty();
        for zxid in [0, 10, 20, 30, 40] {
            snapshot(&disk, zxid, Compression::Plain);
        }
        for start in [1, 11, 21, 31, 41] {
            log(&disk, start..=start + 9);
        }
        disk
    };
    for point in 0..20 {
        let disk = prepare();
        disk.power_off_after(point);
        let _ = purge(&disk, &directories(), 3);
        let pieces = disk.unsynced_pieces();
        for crash in (0..pieces).map(Crash::KeepOnly).chain([Crash::LoseAll, Crash::KeepAll]) {
            let left = disk.after(crash);
            let mut chain = Chain::default();
            let recovered =
                recover(&left, &directories(), RecoveryOptions::default(), &mut chain, &mut |_| {});
            assert_eq!(recovered.unwrap().last_zxid, Zxid(50));
        }
    }
}
