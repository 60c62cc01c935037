//! Directories, locks, epoch files, `myid` and `initialize`.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::os::fd::AsRawFd;
use std::path::Path;

use support::copy_tree;
use zebu_proto::Zxid;
use zebu_storage::crash_disk::{Crash, CrashDisk};
use zebu_storage::disk::{Access, LockRefused, read_file};
use zebu_storage::small_file::{InitializeMark, SmallFileError, read_my_id, take_initialize_mark};
use zebu_storage::{
    Directories, DirectoryError, Disk, EpochError, Epochs, FileDisk, Missing, RecoveryOptions, recover,
};

#[test]
fn directories_are_created_or_refused() {
    let root = tempfile::tempdir().unwrap();
    let directories = Directories::new(root.path().join("data"), root.path().join("logs"));
    let refused = directories.open(&FileDisk, Missing::Refuse, "me").unwrap_err();
    assert!(matches!(refused, DirectoryError::Missing(_)), "{refused}");
    assert!(!root.path().join("data").exists());
    directories.open(&FileDisk, Missing::Create, "me").unwrap();
    assert!(directories.snapshots().is_dir() && directories.logs().is_dir());
    directories.open(&FileDisk, Missing::Refuse, "me").unwrap();
}

#[test]
fn a_second_server_is_kept_out() {
    let root = tempfile::tempdir().unwrap();
    let (data, logs) = (root.path().join("data"), root.path().join("logs"));
    let first = Directories::new(&data, &logs);
    let locks = first.open(&FileDisk, Missing::Create, "process 4711 on port 2181").unwrap();
    // Sharing one of the two is enough.
    for second in [first.clone(), Directories::new(root.path().join("other"), &logs)] {
        let refused = second.open(&FileDisk, Missing::Create, "late").unwrap_err();
        assert!(matches!(refused, DirectoryError::InUse { .. }), "{refused}");
        assert!(refused.to_string().contains("process 4711 on port 2181"), "{refused}");
    }
    drop(locks);
    first.open(&FileDisk, Missing::Create, "late").unwrap();
}

#[test]
fn a_lock_that_cannot_be_opened_is_named() {
    let root = tempfile::tempdir().unwrap();
    let directories = Directories::new(root.path().join("data"), root.path().join("logs"));
    std::fs::create_dir_all(root.path().join("logs/zebu.lock")).unwrap();
    let refused = directories.open(&FileDisk, Missing::Create, "me").unwrap_err();
    let DirectoryError::Io(failure) = &refused else { panic!("{refused}") };
    assert_eq!((failure.action, &failure.path), ("lock", &root.path().join("logs/zebu.lock")));
    // The other lock was given back.
    std::fs::remove_dir(root.path().join("logs/zebu.lock")).unwrap();
    directories.open(&FileDisk, Missing::Create, "me").unwrap();
}

/// The disk of this machine passes on what the system says.
#[test]
fn errors_of_the_system_are_passed_on() {
    let root = tempfile::tempdir().unwrap();
    let missing = root.path().join("missing");
    let kinds = [
        FileDisk.list(&missing).unwrap_err().kind(),
        FileDisk.sync_directory(&missing).unwrap_err().kind(),
        FileDisk.open(&missing, Access::Read).unwrap_err().kind(),
    ];
    assert_eq!(kinds, [std::io::ErrorKind::NotFound; 3]);
    // A pipe cannot store the process id of the owner.
    let (reader, _writer) = std::io::pipe().unwrap();
    let pipe = format!("/proc/self/fd/{}", reader.as_raw_fd());
    assert!(matches!(FileDisk.lock(Path::new(&pipe), "me"), Err(LockRefused::Io(_))));
    // A name is written over a longer one as a whole.
    let path = root.path().join("lock");
    drop(FileDisk.lock(&path, "a long name of a holder").unwrap());
    let _lock = FileDisk.lock(&path, "me").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"me");
}

#[test]
fn exchanged_directories_are_refused() {
    for (file, root) in [("snapshot.1", "logs"), ("log.5", "data"), ("log.whatever", "data")] {
        let disk = CrashDisk::new();
        disk.create_directory(Path::new("/data/version-2")).unwrap();
        disk.create_directory(Path::new("/logs/version-2")).unwrap();
        disk.put(&Path::new("/").join(root).join("version-2").join(file), b"");
        let refused = Directories::new("/data", "/logs").open(&disk, Missing::Create, "me").unwrap_err();
        assert!(matches!(refused, DirectoryError::Misplaced { .. }), "{refused}");
        // In one directory both are at home.
        let root = Path::new("/").join(root);
        Directories::new(&root, &root).open(&disk, Missing::Create, "me").unwrap();
    }
}

fn epochs(files: &[(&str, &str)], last: Zxid) -> (Result<(i64, i64), EpochError>, CrashDisk) {
    let disk = CrashDisk::new();
    disk.put(Path::new("/v/unrelated"), b"");
    for (name, content) in files {
        disk.put(&Path::new("/v").join(name), content.as_bytes());
    }
    let loaded = Epochs::load(&disk, "/v", last).map(|it| (it.current(), it.accepted()));
    (loaded, disk)
}

#[test]
fn epochs_as_every_crash_leaves_them() {
    let at = |epoch| Zxid::new(epoch, 7);
    type Files = &'static [(&'static str, &'static str)];
    let served: [(Files, Zxid, (i64, i64)); 11] = [
        // The first start was interrupted between the two.
        (&[("acceptedEpoch", "2")], at(2), (2, 2)),
        (&[], at(3), (3, 3)),
        (&[], Zxid::ZERO, (0, 0)),
        (&[], Zxid(-1), (-1, -1)),
        (&[("currentEpoch", "2"), ("acceptedEpoch", "2")], at(2), (2, 2)),
        (&[("currentEpoch", "2"), ("acceptedEpoch", "5")], at(2), (2, 5)),
        (&[("currentEpoch", "2\n"), ("acceptedEpoch", "3\n")], at(1), (2, 3)),
        // The rename of currentEpoch was interrupted.
        (&[("currentEpoch", "1"), ("currentEpoch.tmp", "2"), ("acceptedEpoch", "2")], at(2), (2, 2)),
        // Data of the new epoch came to the disk before currentEpoch.
        (&[("currentEpoch", "1"), ("acceptedEpoch", "2")], at(2), (2, 2)),
        (&[("currentEpoch", "1"), ("currentEpoch.tmp", ""), ("acceptedEpoch", "2")], at(2), (2, 2)),
        (&[("currentEpoch", "4"), ("acceptedEpoch", "4"), ("acceptedEpoch.tmp", "5")], at(4), (4, 4)),
    ];
    for (files, last, expected) in served {
        let (loaded, disk) = epochs(files, last);
        assert_eq!(loaded.unwrap(), expected, "{files:?}");
        // ZooKeeper can start with these files: both exist, in decimal, and none is partial.
        let disk = disk.after(Crash::LoseAll);
        for (name, value) in [("currentEpoch", expected.0), ("acceptedEpoch", expected.1)] {
            let text = String::from_utf8(read_file(&disk, &Path::new("/v").join(name)).unwrap()).unwrap();
            assert_eq!(text.trim_end().parse::<i64>().unwrap(), value, "{files:?}");
        }
        assert_eq!(disk.list(Path::new("/v")).unwrap(), ["acceptedEpoch", "currentEpoch", "unrelated"]);
    }
    let refused: [(Files, Zxid); 11] = [
        // A file is gone, and with it perhaps a promise.
        (&[("currentEpoch", "2")], at(2)),
        (&[("currentEpoch", "2")], at(1)),
        (&[("acceptedEpoch", "3")], at(2)),
        (&[("currentEpoch", "1"), ("acceptedEpoch", "1")], at(2)),
        (&[("currentEpoch", "3"), ("acceptedEpoch", "2")], at(2)),
        (&[("currentEpoch", " 3"), ("acceptedEpoch", "3")], at(2)),
        (&[("currentEpoch", ""), ("acceptedEpoch", "3")], at(2)),
        (&[("currentEpoch", "3"), ("acceptedEpoch", "0x3")], at(2)),
        // No leader has ever proposed these.
        (&[("currentEpoch", "2"), ("acceptedEpoch", "2147483647")], at(2)),
        (&[("currentEpoch", "2"), ("acceptedEpoch", "4294967296")], at(2)),
        (&[("currentEpoch", "9223372036854775807"), ("acceptedEpoch", "9223372036854775807")], at(2)),
    ];
    for (files, last) in refused {
        let (loaded, disk) = epochs(files, last);
        let error = loaded.expect_err(&format!("{files:?}"));
        assert!(error.to_string().contains("/v"), "{error}");
        assert_eq!(disk.image().len(), files.len() + 1);
    }
}

#[test]
fn a_saved_epoch_survives_and_an_interrupted_one_is_old_or_new() {
    for point in 0..8 {
        let disk = CrashDisk::new();
        disk.put(Path::new("/v/currentEpoch"), b"1");
        disk.put(Path::new("/v/acceptedEpoch"), b"1");
        let mut epochs = Epochs::load(&disk, "/v", Zxid::new(1, 5)).unwrap();
        disk.power_off_after(point);
        let saved = epochs.save_accepted(&disk, 2).and_then(|()| epochs.save_current(&disk, 2));
        for crash in (0..disk.unsynced_pieces()).map(Crash::LoseOnly).chain([Crash::LoseAll, Crash::KeepAll])
        {
            let left = Epochs::load(&disk.after(crash), "/v", Zxid::new(1, 5)).unwrap();
            let promised = epochs.accepted();
            assert!(left.accepted() >= promised && left.accepted() <= 2);
            assert!(left.current() >= epochs.current() && left.current() <= left.accepted());
            assert!(saved.is_err() || left.current() == 2);
        }
    }
}

#[test]
fn unreadable_epochs_are_salvaged_without_lowering_a_promise() {
    let at = |epoch| Zxid::new(epoch, 7);
    type Files = &'static [(&'static str, &'static str)];
    let salvaged: [(Files, Zxid, (i64, i64)); 9] = [
        (&[("currentEpoch", ""), ("acceptedEpoch", "9")], at(2), (2, 9)),
        (&[("currentEpoch", "7"), ("acceptedEpoch", "x")], at(2), (7, 7)),
        (&[("currentEpoch", "7")], at(2), (7, 7)),
        (&[("acceptedEpoch", "9")], at(2), (2, 9)),
        (&[("acceptedEpoch", "\u{1}"), ("acceptedEpoch.tmp", "6"), ("currentEpoch", "5")], at(2), (5, 6)),
        (&[("currentEpoch", "5"), ("acceptedEpoch", "4")], at(2), (5, 5)),
        (&[("currentEpoch", "1"), ("acceptedEpoch", "1")], at(2), (2, 2)),
        (&[("currentEpoch", ""), ("acceptedEpoch", "")], Zxid::ZERO, (0, 0)),
        (&[("currentEpoch", "3"), ("acceptedEpoch", "2147483647")], at(2), (3, 3)),
    ];
    for (files, last, expected) in salvaged {
        for failing in 0..20 {
            let (refused, disk) = epochs(files, last);
            assert!(!refused.unwrap_err().is_io(), "{files:?}");
            disk.fail_after(failing, std::io::ErrorKind::Other);
            if Epochs::salvage(&disk, "/v", last).is_err() {
                // Half done: it is refused again, or it is untrusted.
                let left = disk.after(Crash::LoseAll);
                let settled = Epochs::load(&left, "/v", last).is_ok();
                let trusted = zebu_storage::trust::read(&left, Path::new("/v")).unwrap();
                assert!(!settled || trusted == zebu_storage::Trust::Untrusted, "{files:?} {failing}");
                Epochs::salvage(&left, "/v", last).unwrap();
                continue;
            }
            let disk = disk.after(Crash::LoseAll);
            let mut epochs = Epochs::load(&disk, "/v", last).unwrap();
            assert_eq!((epochs.current(), epochs.accepted()), expected, "{files:?}");
            assert_eq!(
                zebu_storage::trust::read(&disk, Path::new("/v")).unwrap(),
                zebu_storage::Trust::Untrusted
            );
            // No way back, and nothing is accepted that was not promised.
            assert!(epochs.save_accepted(&disk, expected.1 - 1).is_err());
            assert!(epochs.save_current(&disk, expected.1 + 1).is_err());
            epochs.save_accepted(&disk, expected.1 + 1).unwrap();
            epochs.save_current(&disk, expected.1 + 1).unwrap();
            assert!(epochs.save_current(&disk, expected.0).is_err());
            let trust = zebu_storage::trust::read(&disk.after(Crash::LoseAll), Path::new("/v")).unwrap();
            assert_eq!(trust, zebu_storage::Trust::Trusted);
            break;
        }
    }
}

/// What an untrusted member had accepted means nothing: it takes a whole state, perhaps of an earlier epoch.
/// A trusted one never has less than it had.
#[test]
fn only_an_untrusted_member_lowers_its_epoch() {
    let (refused, disk) = epochs(&[("currentEpoch", "50"), ("acceptedEpoch", "3")], Zxid::new(2, 7));
    assert!(!refused.unwrap_err().is_io());
    let mut epochs = Epochs::salvage(&disk, "/v", Zxid::new(2, 7)).unwrap();
    assert_eq!((epochs.current(), epochs.accepted()), (50, 50));
    epochs.save_current(&disk, 3).unwrap();
    let mut epochs = Epochs::load(&disk.after(Crash::LoseAll), "/v", Zxid::new(2, 7)).unwrap();
    assert_eq!((epochs.current(), epochs.accepted()), (3, 50));
    assert!(epochs.save_current(&disk, 2).is_err());
}

#[test]
fn members_of_an_ensemble_are_opened() {
    for (name, id) in [("ensemble-1", 1), ("ensemble-2", 2), ("ensemble-3", 3)] {
        let copy = tempfile::tempdir().unwrap();
        let from = support::testdata().join(name).join("data");
        copy_tree(&from, copy.path());
        let directories = Directories::new(copy.path(), copy.path());
        let _locks = directories.open(&FileDisk, Missing::Refuse, "test").unwrap();
        assert_eq!(read_my_id(&FileDisk, &directories).unwrap(), Some(id));
        let mut target = support::target::Recorded::default();
        let options = RecoveryOptions::default();
        let recovered = recover(&FileDisk, &directories, options, &mut target, &mut |_| {}).unwrap();
        let epochs = Epochs::load(&FileDisk, directories.snapshots(), recovered.last_zxid).unwrap();
        assert_eq!((epochs.current(), epochs.accepted()), (2, 2), "{name}");
    }
}

#[test]
fn my_id_is_one_number() {
    let directories = Directories::new("/data", "/logs");
    for (content, expected) in
        [("1", Some(1)), ("254\n", Some(254)), ("3\nrest", Some(3)), (" 1", None), ("", None)]
    {
        let disk = CrashDisk::new();
        disk.put(Path::new("/data/myid"), content.as_bytes());
        match read_my_id(&disk, &directories) {
            Ok(found) => assert_eq!(found, expected),
            Err(error) => assert!(matches!(error, SmallFileError::NotANumber { .. }) && expected.is_none()),
        }
    }
    assert_eq!(read_my_id(&CrashDisk::new(), &directories).unwrap(), None);
}

#[test]
fn the_initialize_mark_counts_in_both_roots_and_only_once() {
    let directories = Directories::new("/data", "/logs");
    for places in [&["/data"][..], &["/logs"], &["/data", "/logs"], &[]] {
        let disk = CrashDisk::new();
        directories.open(&disk, Missing::Create, "test").unwrap();
        for place in places {
            disk.put(&Path::new(place).join("initialize"), b"");
        }
        let expected = if places.is_empty() { InitializeMark::Absent } else { InitializeMark::Present };
        assert_eq!(take_initialize_mark(&disk, &directories).unwrap(), expected);
        let disk = disk.after(Crash::LoseAll);
        assert_eq!(take_initialize_mark(&disk, &directories).unwrap(), InitializeMark::Absent);
    }
}
