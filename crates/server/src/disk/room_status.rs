//! The last look at the disk, for reports and for the threads that write and remove files.

use std::sync::mpsc::SyncSender;
use std::sync::{PoisonError, Weak};

use zebu_proto::quorum::DiskRoom;
use zebu_runtime::RoomReport;

use crate::sync::{Mutex, MutexGuard};

/// Free bytes that a snapshot must leave: the log goes on meanwhile.
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

    /// Whether a snapshot of this size leaves room for the log. The reserve may be used for it.
    pub(crate) fn has_room_for_snapshot(&self, bytes: u64) -> bool {
        let RoomReport { snapshot_free, reserve, room, .. } = self.report();
        let Some(free) = snapshot_free else { return true };
        room == DiskRoom::Enough || free + reserve >= bytes.saturating_add(SNAPSHOT_MARGIN)
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

    #[test]
    fn a_snapshot_leaves_room_for_the_log() {
        let status = RoomStatus::default();
        assert!(status.has_room_for_snapshot(u64::MAX), "nothing is known");
        let report = |room, snapshot_free| RoomReport { room, snapshot_free, ..RoomReport::default() };
        status.record(report(DiskRoom::Enough, Some(0)));
        assert!(status.has_room_for_snapshot(u64::MAX), "the marks say that there is enough");
        status.record(report(DiskRoom::Low, Some(SNAPSHOT_MARGIN + 5)));
        assert!(status.has_room_for_snapshot(5) && !status.has_room_for_snapshot(6));
    }
}
