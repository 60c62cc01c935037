//! The last look at the disk, for reports and for the threads that write and remove files.

use std::sync::mpsc::SyncSender;
use std::sync::{PoisonError, Weak};

use zebu_proto::quorum::DiskRoom;
use zebu_runtime::RoomReport;

use crate::sync::{Mutex, MutexGuard};

/// Free bytes that a snapshot must leave in any case: the log goes on meanwhile. They exceed the free bytes
/// at which the reserve is released.
const SNAPSHOT_MARGIN: u64 = 8 << 20;

/// The room on the disk of this server.
#[derive(Debug, Default)]
pub(crate) struct RoomStatus {
    report: Mutex<RoomReport>,
    /// The purge thread; it ends with the owner of the sender.
    purge: Mutex<Weak<SyncSender<()>>>,
}

impl RoomStatus {
    pub(crate) fn record(&self, report: RoomReport) {
        *lock(&self.report) = report;
    }

    pub(crate) fn report(&self) -> RoomReport {
        *lock(&self.report)
    }

    pub(crate) fn room(&self) -> DiskRoom {
        lock(&self.report).room
    }

    /// The free bytes of the fuller directory; `None` if they are not known.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let RoomReport { log_free, snapshot_free, .. } = self.report();
        log_free.into_iter().chain(snapshot_free).min()
    }

    /// Whether a snapshot of this size leaves the bytes that must stay free.
    pub(crate) fn has_room_for_snapshot(&self, bytes: u64) -> bool {
        let RoomReport { snapshot_free, room, .. } = self.report();
        snapshot_free.is_none_or(|free| free >= bytes.saturating_add(self.bytes_beside_snapshot(room)))
    }

    /// The bytes that a snapshot must leave free, if the room was `began` when it began.
    ///
    /// With enough room a snapshot can wait, so it must not make the tree stop growing. With little room it
    /// lets the purge remove logs. On a full disk it is the only way out: the log gets few records then, so
    /// half of a released reserve is enough for it.
    pub(crate) fn bytes_beside_snapshot(&self, began: DiskRoom) -> u64 {
        let RoomReport { reserve_missing, snapshot_stop, .. } = self.report();
        match began {
            DiskRoom::Enough => snapshot_stop.max(SNAPSHOT_MARGIN).saturating_add(reserve_missing),
            DiskRoom::Low => SNAPSHOT_MARGIN.saturating_add(reserve_missing),
            DiskRoom::Full => SNAPSHOT_MARGIN.saturating_add(reserve_missing / 2),
        }
    }

    pub(crate) fn set_purge(&self, requests: Weak<SyncSender<()>>) {
        *lock(&self.purge) = requests;
    }

    /// Lets the purge thread remove all files that no start needs. One request waits at most.
    pub(crate) fn request_purge(&self) {
        if let Some(requests) = lock(&self.purge).upgrade() {
            let _ = requests.try_send(());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn status(room: DiskRoom, free: u64, reserve_missing: u64) -> RoomStatus {
        let status = RoomStatus::default();
        let snapshot_free = Some(free);
        let (reserve, snapshot_stop) = (64 * MIB - reserve_missing, 256 * MIB);
        let report = RoomReport {
            room,
            snapshot_free,
            reserve,
            reserve_missing,
            snapshot_stop,
            ..RoomReport::default()
        };
        status.record(report);
        status
    }

    /// The bytes of the largest snapshot that may begin.
    fn largest(status: &RoomStatus, free: u64) -> u64 {
        let bytes = free - status.bytes_beside_snapshot(status.room());
        assert!(status.has_room_for_snapshot(bytes) && !status.has_room_for_snapshot(bytes + 1));
        bytes
    }

    #[test]
    fn nothing_known_refuses_nothing() {
        assert!(RoomStatus::default().has_room_for_snapshot(u64::MAX));
    }

    #[test]
    fn enough_room_is_not_enough_for_every_snapshot() {
        let free = 1200 * MIB;
        let status = status(DiskRoom::Enough, free, 0);
        assert!(!status.has_room_for_snapshot(2048 * MIB), "the log would find the disk full");
        assert_eq!(largest(&status, free), free - 256 * MIB);
    }

    #[test]
    fn a_snapshot_with_little_room_leaves_room_for_the_log() {
        let free = 300 * MIB;
        assert_eq!(largest(&status(DiskRoom::Low, free, 0), free), free - SNAPSHOT_MARGIN);
        assert_eq!(largest(&status(DiskRoom::Low, free, 64 * MIB), free), free - SNAPSHOT_MARGIN - 64 * MIB);
    }

    #[test]
    fn a_snapshot_leaves_half_of_a_released_reserve() {
        let free = 66 * MIB;
        assert_eq!(largest(&status(DiskRoom::Full, free, 0), free), free - SNAPSHOT_MARGIN);
        assert_eq!(largest(&status(DiskRoom::Full, free, 64 * MIB), free), free - SNAPSHOT_MARGIN - 32 * MIB);
    }
}
