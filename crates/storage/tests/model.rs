//! The disk that the simulator and the crash tests run on: what it forgets, what it injects, what it costs.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use zebu_storage::crash_disk::{Crash, CrashDisk};
use zebu_storage::disk::read_file;
use zebu_storage::{Disk, DiskFile};

fn disk() -> CrashDisk {
    let disk = CrashDisk::new();
    disk.create_directory(Path::new("/a/below")).unwrap();
    disk
}

/// A log that grows over many syncs: each one costs what was written since the last, not the whole file.
#[test]
fn a_sync_costs_what_was_written_since_the_last() {
    let disk = disk();
    let path = Path::new("/a/log");
    let file = disk.create(path).unwrap();
    file.write_at(0, &vec![1; 64 << 20]).unwrap();
    file.sync_data().unwrap();
    disk.sync_directory(Path::new("/a")).unwrap();
    // With a copy of 64 MiB each this would move more than a terabyte.
    for index in 0..20_000u64 {
        file.write_at(index * 100, &[2; 100]).unwrap();
        file.sync_data().unwrap();
    }
    assert_eq!(disk.operations(), 1 + 1 + 1 + 1 + 1 + 40_000);
    let left = disk.after(Crash::LoseAll);
    let bytes = read_file(&left, path).unwrap();
    assert_eq!((bytes.len(), bytes[1_999_999], bytes[2_000_000]), (64 << 20, 2, 1));
}

#[test]
fn a_sync_that_failed_has_lost_its_bytes() {
    let disk = disk();
    let path = Path::new("/a/file");
    disk.put(path, b"old old old");
    let file = disk.open(path, zebu_storage::disk::Access::ReadWrite).unwrap();
    file.write_at(0, b"new").unwrap();
    disk.fail_after(0, ErrorKind::Other);
    assert!(file.sync_data().is_err());
    assert_eq!(read_file(&disk, path).unwrap(), b"new old old");
    file.write_at(8, b"two").unwrap();
    file.sync_data().unwrap();
    for crash in [Crash::LoseAll, Crash::KeepAll] {
        assert_eq!(read_file(&disk.after(crash), path).unwrap(), b"old old two");
    }
}

#[test]
fn a_move_between_directories_happens_or_does_not() {
    for synced in [None, Some("/a"), Some("/a/below")] {
        let disk = disk();
        disk.put(Path::new("/a/file"), b"x");
        disk.rename(Path::new("/a/file"), Path::new("/a/below/file")).unwrap();
        assert_eq!(disk.list(Path::new("/a")).unwrap(), ["below"]);
        if let Some(synced) = synced {
            disk.sync_directory(Path::new(synced)).unwrap();
        }
        for crash in [Crash::LoseAll, Crash::KeepAll] {
            let files: Vec<PathBuf> = disk.after(crash).image().into_keys().collect();
            let moved = synced.is_some() || crash == Crash::KeepAll;
            assert_eq!(files, [PathBuf::from(if moved { "/a/below/file" } else { "/a/file" })]);
        }
    }
}

#[test]
fn rot_changes_one_bit_of_a_durable_file() {
    let disk = disk();
    assert_eq!(disk.flip_bit(1, |_| true), None);
    disk.put(Path::new("/a/one"), &[0; 100]);
    disk.put(Path::new("/a/two"), &[0; 1000]);
    disk.put(Path::new("/a/empty"), &[]);
    let mut places = std::collections::BTreeSet::new();
    for choice in 0..200 {
        let rotten = disk.after(Crash::KeepAll);
        let (path, at) = rotten.flip_bit(choice, |_| true).unwrap();
        let bytes = read_file(&rotten.after(Crash::LoseAll), &path).unwrap();
        assert_eq!(bytes.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
        assert_ne!(bytes[at as usize], 0);
        assert_eq!(read_file(&rotten, &path).unwrap(), bytes);
        places.insert((path, at));
    }
    assert!(places.len() > 100 && places.iter().any(|(path, _)| path.ends_with("one")), "{}", places.len());
    assert_eq!(disk.flip_bit(3, |path| path.ends_with("two")).unwrap().0, Path::new("/a/two"));
}

#[test]
fn announced_failures_come_in_their_turn() {
    let disk = disk();
    disk.fail_after(1, ErrorKind::StorageFull);
    let file = disk.create(Path::new("/a/file")).unwrap();
    assert_eq!(file.write_at(0, b"x").unwrap_err().kind(), ErrorKind::StorageFull);
    file.write_at(0, b"y").unwrap();
    disk.power_off_after(0);
    assert!(file.sync_data().is_err() && disk.sync_directory(Path::new("/a")).is_err());
    disk.power_on();
    file.sync_data().unwrap();
}
