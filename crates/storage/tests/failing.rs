//! A disk on which each change fails in turn: the caller gets an error, the old files stay whole, and the
//! next attempt succeeds. Log writes, truncates and installs have their own tests.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::path::Path;

use support::chain::{Chain, directories, entry, options, write_snapshot};
use support::member::{history, last, load, receive, sections};
use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_storage::crash_disk::{Crash, CrashDisk};
use zebu_storage::disk::FileSink;
use zebu_storage::format::log::append_entry;
use zebu_storage::small_file::{InitializeMark, take_initialize_mark};
use zebu_storage::snapshot_file::validate;
use zebu_storage::{
    Compression, Disk, Epochs, LogError, LogWriter, Missing, SnapshotInstall, SnapshotTarget, SnapshotWriter,
    Trust, truncate, trust,
};

const ALL: [Compression; 3] = [Compression::Plain, Compression::Gzip, Compression::Snappy];

/// Runs `work` with every one of its changes failing once; `refused` sees what each leaves.
fn every_change<T, E: Display>(
    disk: &CrashDisk,
    mut work: impl FnMut(&CrashDisk) -> Result<T, E>,
    mut refused: impl FnMut(&E, &CrashDisk),
) {
    let whole = disk.after(Crash::KeepAll);
    let before = whole.operations();
    assert!(work(&whole).is_ok());
    let changes = whole.operations() - before;
    assert!(changes > 0);
    for point in 0..changes {
        let trial = disk.after(Crash::KeepAll);
        trial.fail_after(point, ErrorKind::StorageFull);
        let Err(error) = work(&trial) else { panic!("change {point} failed and nobody said so") };
        trial.power_on();
        refused(&error, &trial);
    }
}

fn empty() -> CrashDisk {
    let disk = CrashDisk::new();
    directories().open(&disk, Missing::Create, "test").unwrap();
    disk
}

fn names(disk: &CrashDisk) -> Vec<String> {
    disk.list(&directories().snapshots()).unwrap()
}

/// More than is gathered before it is written: sessions, ACLs and data.
fn write_large(disk: &CrashDisk, compression: Compression) -> Result<(), zebu_storage::SnapshotError> {
    let acl = Acl::open();
    let mut writer = SnapshotWriter::begin(
        disk.clone(),
        SnapshotTarget::new(directories().snapshots(), Zxid(5), compression),
        (0..5500).map(|id: i32| (SessionId(id.into()), 4000)),
        (0..2000).map(|id: i32| (id.into(), &acl[..])),
    )?;
    let stat = StatPersisted::default();
    writer.node("", Some(&[7; 70_000]), 1, &stat)?;
    writer.finish(sections(Chain { hash: 1, last: Zxid(5) })).map(|_| ())
}

#[test]
fn large_snapshots_fail_as_a_whole() {
    for compression in ALL {
        every_change(
            &empty(),
            |disk| write_large(disk, compression),
            |error, trial| {
                assert!(error.to_string().contains("the log is kept, so nothing is lost"), "{error}");
                for name in &names(trial) {
                    // The last change is the sync of the directory: then it has its name.
                    assert!(name.starts_with("snapshot."), "{name} is left, and would be with every try");
                    assert!(validate(trial, &directories().snapshots().join(name)).unwrap().is_ok());
                }
                write_large(trial, compression).unwrap();
            },
        );
    }
}

/// A long stream is synced on the way, and that may fail like everything else.
#[test]
fn a_long_stream_is_synced_in_steps() {
    const STEP: usize = 8 << 20;
    let disk = empty();
    let piece = vec![7; STEP / 2];
    let write = |failing| {
        let file = disk.create(&directories().snapshots().join("stream")).unwrap();
        disk.sync_directory(&directories().snapshots()).unwrap();
        disk.fail_after(failing, ErrorKind::Other);
        let mut sink = FileSink::new(file);
        let written = sink.write_all(&piece).and_then(|()| sink.write_all(&piece));
        disk.power_on();
        (written, disk.unsynced_pieces())
    };
    // Two writes, then the sync.
    for failing in 0..3 {
        assert!(write(failing).0.is_err(), "{failing}");
    }
    let (written, unsynced) = write(3);
    assert!(written.is_ok());
    assert_eq!(unsynced, 0, "nothing waits for a later sync");
}

/// A snapshot writer that continues after an error must not publish another writer's file.
#[test]
fn a_snapshot_that_has_failed_stays_so() {
    let disk = empty();
    let begin = || {
        let (sessions, acls) = (std::iter::empty(), std::iter::empty());
        let directory = directories().snapshots();
        SnapshotWriter::begin(
            disk.clone(),
            SnapshotTarget::new(directory, Zxid(5), Compression::Plain),
            sessions,
            acls,
        )
        .unwrap()
    };
    let stat = StatPersisted::default();
    let failed = || {
        let mut writer = begin();
        disk.fail_after(0, ErrorKind::StorageFull);
        assert!(writer.node("", Some(&[7; 100_000]), 1, &stat).is_err());
        writer
    };
    let (mut first, second) = (failed(), failed());
    let mut other = begin();
    other.node("", Some(&[8; 8]), 1, &stat).unwrap();
    let refused = first.node("/a", None, 1, &stat).unwrap_err();
    assert!(refused.to_string().contains("an earlier write failed"), "{refused}");
    assert!(first.finish(sections(Chain { hash: 1, last: Zxid(5) })).is_err());
    second.abandon().unwrap();
    assert_eq!(names(&disk), ["zebu.snapshot.5"], "the other one is untouched");
    other.finish(sections(Chain { hash: 1, last: Zxid(5) })).unwrap();
    assert_eq!(names(&disk), ["snapshot.5"]);
}

#[test]
fn a_snapshot_that_is_there_already_stays() {
    let disk = empty();
    let path = write_snapshot(&disk, Chain { hash: 1, last: Zxid(5) }, Compression::Plain).unwrap();
    let before = disk.image()[&path].clone();
    every_change(
        &disk,
        |disk| write_snapshot(disk, Chain { hash: 2, last: Zxid(5) }, Compression::Plain),
        |_, trial| assert_eq!(trial.image()[&path], before),
    );
}

#[test]
fn giving_up_may_fail_too() {
    let none = || (std::iter::empty(), std::iter::empty());
    every_change(
        &empty(),
        |disk| {
            let (sessions, acls) = none();
            let directory = directories().snapshots();
            let compression = Compression::Plain;
            SnapshotWriter::begin(
                disk.clone(),
                SnapshotTarget::new(directory, Zxid(5), compression),
                sessions,
                acls,
            )?
            .abandon()
        },
        |_, trial| assert!(names(trial).iter().all(|name| !name.starts_with("snapshot."))),
    );
    let (disk, ledger) = history();
    let new = Chain { hash: 5, last: Zxid::new(9, 4) };
    // What stays of them is removed by the next recovery.
    let removed = |trial: &CrashDisk| {
        assert_eq!(load(trial).unwrap().0.last, last(&ledger));
        assert!(!names(trial).iter().any(|name| name.starts_with("zebu.install")), "{:?}", names(trial));
    };
    every_change(
        &disk,
        |disk| SnapshotInstall::begin(disk.clone(), &directories(), new.last, Compression::Plain)?.abandon(),
        |_, trial| removed(trial),
    );
    let received = receive(&disk, new, Compression::Plain).finish(sections(new)).unwrap();
    disk.fail_after(0, ErrorKind::Other);
    assert!(received.abandon().is_err());
    assert!(names(&disk).contains(&"zebu.install.1".to_owned()));
    removed(&disk);
}

/// A state that cannot be written is no state, however much of it still comes.
#[test]
fn a_large_state_is_received_as_a_whole_or_not_at_all() {
    let (disk, ledger) = history();
    let new = Chain { hash: 5, last: Zxid::new(9, 4) };
    for compression in [Compression::Plain, Compression::Snappy] {
        let receive = |disk: &CrashDisk| {
            let mut receiving = SnapshotInstall::begin(disk.clone(), &directories(), new.last, compression)?;
            for id in 0..5500 {
                receiving.session(SessionId(id), 4000);
            }
            receiving.acl(1, Acl::open());
            let stat = StatPersisted::default();
            let first = receiving.node("", Some(&new.hash.to_be_bytes()), 1, &stat);
            let mut failed = first.err();
            for index in 0..2u64 {
                // Hardly to be packed: every node is a write.
                let noise = |at: u64| (at + index).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
                let data: Vec<u8> = (0..9000).flat_map(noise).collect();
                let written = receiving.node(&format!("/n{index}"), Some(&data), 1, &stat);
                assert!(failed.is_none() || written.is_err(), "an error is not forgotten");
                failed = failed.or(written.err());
            }
            match (failed, receiving.finish(sections(new))) {
                (Some(error), finished) => {
                    assert!(finished.is_err(), "nor at the end");
                    Err(error)
                }
                (None, finished) => finished,
            }
        };
        every_change(&disk, receive, |_, trial| {
            assert!(!names(trial).iter().any(|name| name.starts_with("zebu.install")), "it is removed");
            assert_eq!(load(trial).unwrap().0.last, last(&ledger));
        });
        let whole = disk.after(Crash::KeepAll);
        receive(&whole).unwrap().commit().unwrap();
        assert_eq!(load(&whole).unwrap().0, new);
    }
}

/// A truncate deletes a snapshot that is being written, or it fails.
#[test]
fn a_snapshot_that_is_being_written_goes_before_the_cut() {
    let (disk, ledger) = history();
    disk.put(&directories().snapshots().join("zebu.snapshot.9"), b"half");
    let to = Zxid::new(1, 2);
    every_change(
        &disk,
        |disk| truncate(disk, &directories(), to),
        |_, trial| {
            let left = load(trial).unwrap().0;
            assert!(left.last >= to);
            assert_eq!(left.hash, ledger.chain[&left.last]);
        },
    );
}

#[test]
fn a_writer_that_cannot_close_says_so() {
    let disk = empty();
    write_snapshot(&disk, Chain::default(), Compression::Plain).unwrap();
    let mut batch = Vec::new();
    append_entry(&entry(Zxid(1), 10, b'c'), &mut batch);
    let mut closing = 0;
    every_change(
        &disk,
        |disk| {
            let mut writer = LogWriter::open(disk.clone(), options(), Zxid::ZERO)?;
            writer.append(Zxid(1), Zxid(1), &batch)?;
            let closed = writer.close();
            closing += u32::from(closed.is_err());
            closed
        },
        |error, trial| {
            assert!(matches!(error, LogError::Io(_)), "{error}");
            assert!(load(trial).unwrap().0.last <= Zxid(1));
        },
    );
    // The sync of the log, the note of it, and the sync of the note.
    assert_eq!(closing, 3);
}

#[test]
fn a_mark_that_cannot_be_removed_is_no_mark() {
    let disk = CrashDisk::new();
    for root in ["/data", "/logs"] {
        disk.put(&Path::new(root).join("initialize"), b"");
    }
    every_change(
        &disk,
        |disk| take_initialize_mark(disk, &directories()),
        |error, trial| {
            assert!(["remove", "sync"].contains(&error.action), "{error}");
            // The mark was not used yet: the remaining one, if any, counts at the next start.
            let left = trial.image().len();
            let again = take_initialize_mark(trial, &directories()).unwrap();
            assert_eq!(again == InitializeMark::Present, left > 0);
        },
    );
}

#[test]
fn a_member_is_trusted_again_when_the_disk_has_it() {
    let (disk, ledger) = history();
    let directory = directories().snapshots();
    trust::mark_untrusted(&disk, &directory).unwrap();
    every_change(
        &disk,
        |disk| {
            let mut epochs = Epochs::load(disk, &directory, last(&ledger))?;
            epochs.save_accepted(disk, 9)?;
            epochs.save_current(disk, 9)
        },
        |error, trial| {
            assert!(error.is_io(), "{error}");
            // A power failure now: only what is durable counts.
            let left = trial.after(Crash::LoseAll);
            assert_eq!(trust::read(&left, &directory).unwrap(), Trust::Untrusted);
            let epochs = Epochs::load(&left, &directory, last(&ledger)).unwrap();
            assert!([3, 9].contains(&epochs.accepted()) && epochs.current() <= epochs.accepted());
        },
    );
}
