//! A disk on which one read fails: the caller gets an error, and no file counts as damaged that a later read
//! can read.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::path::Path;

use support::chain::{KnownState, ModelServer, Step, directories, entry, options, write_snapshot};
use support::member::{history, last, load, receive, sections};
use zebu_proto::Zxid;
use zebu_storage::crash_disk::{Crash, CrashDisk};
use zebu_storage::format::log::{HEADER, append_entry};
use zebu_storage::recovery::RecoveryChanges;
use zebu_storage::small_file::{InitializeMark, take_initialize_mark};
use zebu_storage::snapshot_file::validate;
use zebu_storage::{
    Compression, Epochs, InstallError, IoFailure, LogError, LogWriter, Missing, RecoveryError,
    RecoveryOptions, TruncateError, purge, quarantine, read_after, recover, truncate,
};

/// Runs `work` with every one of its reads failing once; `refused` sees what becomes of each.
fn every_read<T, E>(
    disk: &CrashDisk,
    work: impl Fn(&CrashDisk) -> Result<T, E>,
    refused: impl Fn(&E, &CrashDisk),
) {
    let mut reads = 0;
    loop {
        let trial = disk.after(Crash::KeepAll);
        trial.fail_read_after(reads);
        let result = work(&trial);
        if trial.has_unreadable() {
            break;
        }
        let Err(error) = result else { panic!("read {reads} failed and nobody said so") };
        refused(&error, &trial);
        reads += 1;
    }
    assert!(reads > 3, "only {reads} reads");
}

#[test]
fn recovery_takes_no_file_for_damaged() {
    let (disk, ledger) = history();
    every_read(&disk, load, |error, trial| {
        assert!(matches!(error, RecoveryError::Io(_)), "{error}");
        assert_eq!(load(trial).unwrap().0.last, last(&ledger), "it can be read the next time");
    });
}

#[test]
fn a_change_that_was_under_way_is_finished_the_next_time() {
    let (disk, _) = history();
    let new = support::chain::Chain { hash: 5, last: Zxid::new(9, 4) };
    let received = receive(&disk, new, Compression::Plain).finish(sections(new)).unwrap();
    disk.record();
    received.commit().unwrap();
    for state in disk.take_record() {
        let left = state.after(Crash::KeepAll);
        let expected = load(&left.after(Crash::KeepAll)).unwrap().0;
        every_read(&left, load, |error, trial| {
            assert!(matches!(error, RecoveryError::Io(_)), "{error}");
            assert_eq!(load(trial).unwrap().0, expected);
        });
    }
}

#[test]
fn nothing_is_cut_that_was_not_seen() {
    let (disk, ledger) = history();
    for to in ledger.chain.keys() {
        every_read(
            &disk,
            |disk| truncate(disk, &directories(), *to),
            |error, trial| {
                assert!(matches!(error, TruncateError::Io(_)), "{to}: {error}");
                let left = load(trial).unwrap().0;
                assert!(left.last >= *to, "{to}: {} is left", left.last);
                assert_eq!(left.hash, ledger.chain[&left.last], "{to}: what is left is the beginning of it");
            },
        );
    }
}

#[test]
fn every_other_work_says_so() {
    let (disk, ledger) = history();
    let new = support::chain::Chain { hash: 5, last: Zxid::new(9, 4) };
    every_read(
        &disk,
        |disk| {
            let mut receiving = zebu_storage::SnapshotInstall::begin(
                disk.clone(),
                &directories(),
                new.last,
                Compression::Gzip,
            )?;
            receiving.node("", Some(&new.hash.to_be_bytes()), 1, &Default::default())?;
            receiving.finish(sections(new))?.commit()
        },
        |error, trial| {
            assert!(matches!(error, InstallError::Io(_)), "{error}");
            let found = load(trial).unwrap().0.last;
            assert!(found == last(&ledger) || found == new.last, "{found}");
        },
    );
    every_read(
        &disk,
        |disk| quarantine(disk, &directories()),
        |_, trial| {
            let (chain, recovered) = load(trial).unwrap();
            assert!(chain.last == last(&ledger) || recovered.trust == zebu_storage::Trust::Untrusted);
        },
    );
    every_read(
        &disk,
        |disk| purge(disk, &directories(), 3),
        |_, trial| {
            assert_eq!(load(trial).unwrap().0.last, last(&ledger));
        },
    );
    let epochs = directories().snapshots();
    every_read(
        &disk,
        |disk| Epochs::load(disk, epochs.clone(), last(&ledger)),
        |error, _| assert!(error.is_io()),
    );
    every_read(&disk, |disk| Epochs::salvage(disk, epochs.clone(), last(&ledger)), |_, _| ());
    let (from, to) = (Zxid(5), last(&ledger));
    every_read(&disk, |disk| read_after(disk, &directories(), from, to, 10_000), |_, _| ());
}

/// Logs that are longer than what is read ahead: they are read in several pieces, and each of them may fail.
#[test]
fn long_logs_are_read_piece_by_piece() {
    let disk = CrashDisk::new();
    let mut ledger = KnownState::default();
    let mut life = ModelServer::start(&disk).unwrap();
    for step in [
        Step::Append(vec![10, 300_000, 10], b'l'),
        Step::Sync,
        Step::Roll,
        Step::Append(vec![10], b'm'),
        Step::Sync,
    ] {
        life.step(&step, &mut ledger).unwrap();
    }
    let disk = disk.after(Crash::LoseAll);
    let end = last(&ledger);
    every_read(&disk, load, |error, trial| {
        assert!(matches!(error, RecoveryError::Io(_)), "{error}");
        assert_eq!(load(trial).unwrap().0.last, end);
    });
    every_read(
        &disk,
        |disk| truncate(disk, &directories(), Zxid(2)),
        |error, trial| {
            assert!(matches!(error, TruncateError::Io(_)), "{error}");
            assert!(load(trial).unwrap().0.last >= Zxid(2));
        },
    );
    let read = |disk: &CrashDisk| {
        let read = read_after(disk, &directories(), Zxid(1), end, usize::MAX)?;
        Ok::<_, IoFailure>(read.unwrap().len())
    };
    every_read(&disk, read, |_, trial| assert_eq!(read(trial).unwrap(), 3));
}

/// The tail that is to be cut off stays until the disk can be read again, and so does what is before it.
#[test]
fn a_torn_tail_waits_for_the_disk() {
    let (disk, ledger) = history();
    let log = directories().logs().join("log.300000001");
    let mut bytes = disk.image()[&log].clone();
    let used = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    bytes.truncate(used);
    bytes.extend(b"the beginning of an entry");
    disk.put(&log, &bytes);
    every_read(&disk, load, |error, trial| {
        assert!(matches!(error, RecoveryError::Io(_)), "{error}");
        let left = trial.image()[&log].len();
        assert!(left == bytes.len() || left == used, "{left}");
        let (chain, recovered) = load(trial).unwrap();
        assert_eq!((chain.last, recovered.dropped.len()), (last(&ledger), usize::from(left > used)));
    });
}

#[test]
fn who_only_plans_says_so_too() {
    let (disk, _) = history();
    let new = support::chain::Chain { hash: 5, last: Zxid::new(9, 4) };
    let received = receive(&disk, new, Compression::Plain).finish(sections(new)).unwrap();
    disk.record();
    received.commit().unwrap();
    let options = RecoveryOptions { changes: RecoveryChanges::Plan, ..RecoveryOptions::member() };
    let plan = |disk: &CrashDisk| {
        let mut chain = support::chain::Chain::default();
        recover(disk, &directories(), options, &mut chain, &mut |_| {}).map(|_| chain)
    };
    for state in disk.take_record() {
        let left = state.after(Crash::KeepAll);
        let (expected, image) = (plan(&left).unwrap(), left.image());
        every_read(&left, plan, |error, trial| {
            assert!(matches!(error, RecoveryError::Io(_)), "{error}");
            assert_eq!((plan(trial).unwrap(), trial.image()), (expected, image.clone()));
        });
    }
}

/// An epoch whose rename was interrupted is not taken for one that was never written.
#[test]
fn an_interrupted_change_of_epoch_waits_for_the_disk() {
    let disk = CrashDisk::new();
    for (name, number) in [("currentEpoch", "1"), ("currentEpoch.tmp", "3"), ("acceptedEpoch", "3")] {
        disk.put(&Path::new("/v").join(name), number.as_bytes());
    }
    let load = |disk: &CrashDisk| Epochs::load(disk, "/v", Zxid::new(2, 5));
    every_read(&disk, load, |error, trial| {
        assert!(error.is_io(), "{error}");
        let epochs = load(trial).unwrap();
        assert_eq!((epochs.current(), epochs.accepted()), (3, 3));
    });
}

/// Who cannot see whether a log of that name holds anything does not write over it.
#[test]
fn a_log_that_cannot_be_read_is_not_overwritten() {
    let (disk, ledger) = history();
    let next = last(&ledger).next().unwrap();
    let path = directories().logs().join("log.300000004");
    let mut batch = Vec::new();
    append_entry(&entry(next, 10, b'n'), &mut batch);
    let write = |disk: &CrashDisk| {
        let mut writer = LogWriter::open(disk.clone(), options(), last(&ledger))?;
        writer.append(next, next, &batch)?;
        writer.sync()
    };
    // Longer than what is read ahead, and without its end: no entry, as far as can be seen.
    let mut long = HEADER.to_vec();
    append_entry(&entry(next, 300_000, b'o'), &mut long);
    *long.last_mut().unwrap() = 0;
    disk.put(&path, &long);
    every_read(&disk, write, |error, trial| {
        assert!(matches!(error, LogError::Io(_)), "{error}");
        // The last thing that is read is the note of what is durable: then the new log has taken its place.
        let found = &trial.image()[&path];
        assert!(*found == long || found.iter().skip(HEADER.len()).all(|&byte| byte == 0));
        assert_eq!(write(trial).unwrap(), next);
    });
}

/// A snapshot of the same number is compared with the new one: who cannot read it does not replace it.
#[test]
fn a_snapshot_that_cannot_be_read_is_not_replaced() {
    let disk = CrashDisk::new();
    directories().open(&disk, Missing::Create, "test").unwrap();
    let chain = |hash| support::chain::Chain { hash, last: Zxid(5) };
    let path = write_snapshot(&disk, chain(1), Compression::Plain).unwrap();
    let before = disk.image();
    every_read(
        &disk,
        |disk| write_snapshot(disk, chain(2), Compression::Plain),
        |_, trial| {
            assert!(trial.image() == before, "nothing is left of the new one");
            assert!(validate(trial, &path).unwrap().is_ok());
        },
    );
}

/// The mark is taken away before anybody relies on it.
#[test]
fn a_mark_that_cannot_be_looked_for_is_no_mark() {
    let disk = CrashDisk::new();
    for root in ["/data", "/logs"] {
        disk.put(&Path::new(root).join("initialize"), b"");
    }
    for reads in 0..2 {
        let trial = disk.after(Crash::KeepAll);
        trial.fail_read_after(reads);
        let refused = take_initialize_mark(&trial, &directories()).unwrap_err();
        assert_eq!(refused.action, "look for");
        assert_eq!(take_initialize_mark(&trial, &directories()).unwrap(), InitializeMark::Present);
    }
}
