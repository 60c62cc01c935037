//! The keeper of the room on the disk: the reserve, and two file systems.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "no test here writes a log")]
mod server_files;

use std::path::PathBuf;

use server_files::directories;
use zebu_proto::quorum::DiskRoom;
use zebu_runtime::{RoomKeeper, RoomSettings};
use zebu_storage::crash_disk::CrashDisk;
use zebu_storage::{Disk, Missing, RESERVE_NAME, ReserveFile};

const MIB: u64 = 1 << 20;

fn disk(capacity: u64) -> CrashDisk {
    let disk = CrashDisk::new();
    drop(directories().open(&disk, Missing::Create, "test").unwrap());
    disk.set_capacity(&directories().logs(), capacity);
    disk.set_capacity(&directories().snapshots(), 1 << 40);
    disk
}

fn keeper(disk: &CrashDisk, settings: RoomSettings) -> RoomKeeper<CrashDisk> {
    RoomKeeper::open(disk.clone(), &directories(), settings).unwrap()
}

fn reserve_path() -> PathBuf {
    directories().logs().join(RESERVE_NAME)
}

#[test]
fn a_reserve_that_an_operator_removes_is_made_again() {
    let disk = disk(1 << 30);
    let mut keeper = keeper(&disk, RoomSettings { reserve: Some(3 * MIB), ..RoomSettings::default() });
    keeper.look(0).unwrap();
    assert!(keeper.extend_reserve().unwrap());
    disk.remove(&reserve_path()).unwrap();
    keeper.look(0).unwrap();
    assert!(keeper.extend_reserve().unwrap());
    assert!(disk.exists(&reserve_path()).unwrap());
    assert_eq!(keeper.look(0).unwrap().reserve, 3 * MIB);
}

#[test]
fn each_file_system_leaves_its_own_mark() {
    let disk = disk(1000 * MIB);
    disk.set_capacity(&directories().snapshots(), 1000 * MIB);
    let settings = RoomSettings { low: Some(200 * MIB), stop: Some(80 * MIB), reserve: Some(0) };
    let mut keeper = keeper(&disk, settings);
    disk.set_capacity(&directories().logs(), 70 * MIB);
    assert_eq!(keeper.look(0).unwrap().room, DiskRoom::Full);
    // The logs have room again. The snapshots never reached their mark: an eighth more than it is no matter.
    disk.set_capacity(&directories().logs(), 1000 * MIB);
    disk.set_capacity(&directories().snapshots(), 85 * MIB);
    assert_eq!(keeper.look(0).unwrap().room, DiskRoom::Low);
}

#[test]
fn a_report_tells_what_a_snapshot_beside_the_logs_must_leave() {
    let settings = RoomSettings { low: Some(0), stop: Some(5 * MIB), reserve: Some(3 * MIB) };
    for (snapshots, missing) in [(100 * MIB, 3 * MIB), (1 << 40, 0)] {
        let disk = disk(100 * MIB);
        disk.set_capacity(&directories().snapshots(), snapshots);
        let report = keeper(&disk, settings).look(0).unwrap();
        assert_eq!((report.reserve_missing, report.snapshot_stop), (missing, 5 * MIB));
    }
}

#[test]
fn a_reserve_takes_no_bytes_that_the_next_append_would_take_back() {
    const NEEDED: u64 = MIB / 2;
    let settings = RoomSettings { low: Some(0), stop: Some(0), reserve: Some(8 * MIB) };
    let mut releases = 0;
    for free in 0..20 {
        let disk = disk(free * MIB);
        let mut keeper = keeper(&disk, settings);
        for _ in 0..4 {
            releases += u32::from(keeper.look(NEEDED).unwrap().released);
            keeper.extend_reserve().unwrap();
        }
        assert_eq!(keeper.reserve_length() == 8 * MIB, free >= 13, "{free}");
    }
    assert_eq!(releases, 0);
}

#[test]
fn a_reserve_that_is_no_longer_configured_is_removed() {
    let disk = disk(1 << 30);
    ReserveFile::open(disk.clone(), directories().logs()).unwrap().grow(MIB).unwrap();
    let mut keeper = keeper(&disk, RoomSettings { reserve: Some(0), ..RoomSettings::default() });
    keeper.look(0).unwrap();
    assert!(keeper.extend_reserve().unwrap());
    assert!(!disk.exists(&reserve_path()).unwrap());
}
