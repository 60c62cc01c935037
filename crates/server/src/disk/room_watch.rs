//! The disk thread's looks at the free bytes of its directories. A change of the state goes to the core, to
//! the log of the operator, and to the thread that removes old files.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{info, warn};
use zebu_proto::quorum::DiskRoom;
use zebu_runtime::{DiskEvent, RoomKeeper, RoomReport};
use zebu_storage::Disk;
use zebu_zab::PeerEvent;

use crate::core::context::ServerContext;
use crate::core::inbox::ControlEvent;

/// The pause between two looks of an idle server, and between two steps of the reserve.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Free bytes that an append needs beside its own: a step of the log's preallocation.
const APPEND_BYTES: u64 = 512 << 10;

/// Looks at the free bytes.
pub(super) struct RoomWatch<D: Disk> {
    shared: Arc<ServerContext>,
    keeper: RoomKeeper<D>,
    room: DiskRoom,
    reserve_at: Instant,
    /// Whether the last look, and the last step of the reserve, failed. One line per series of failures is
    /// logged.
    is_look_failing: bool,
    is_reserve_failing: bool,
}

impl<D: Disk> RoomWatch<D> {
    pub(super) fn new(shared: Arc<ServerContext>, keeper: RoomKeeper<D>) -> RoomWatch<D> {
        let reserve_at = Instant::now() + LOOK_INTERVAL;
        RoomWatch {
            shared,
            keeper,
            room: DiskRoom::Enough,
            reserve_at,
            is_look_failing: false,
            is_reserve_failing: false,
        }
    }

    /// Looks before everything in the queue is appended.
    pub(super) fn look(&mut self) {
        let needed = self.shared.disk_backlog.bytes() as u64 + APPEND_BYTES;
        match self.keeper.look(needed) {
            Ok(report) => {
                self.is_look_failing = false;
                self.record(report);
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_look_failing, true) {
                    warn!(%error, "the free bytes of the disk are not known");
                }
            }
        }
    }

    /// Extends an incomplete reserve, if it is time.
    pub(super) fn keep_reserve(&mut self) {
        if Instant::now() < self.reserve_at {
            return;
        }
        self.reserve_at = Instant::now() + LOOK_INTERVAL;
        // Without a reserve the server goes on: its log has room.
        match self.keeper.extend_reserve() {
            Ok(_) => self.is_reserve_failing = false,
            Err(error) => {
                if !std::mem::replace(&mut self.is_reserve_failing, true) {
                    warn!(%error, "the reserve of the disk is incomplete");
                }
            }
        }
    }

    fn record(&mut self, report: RoomReport) {
        let RoomReport { room, released, .. } = report;
        let before = std::mem::replace(&mut self.room, room);
        self.shared.disk_room.record(report);
        if room == before && !released {
            return;
        }
        let free_bytes = self.shared.disk_room.free_bytes().unwrap_or_default();
        if released {
            warn!(free_bytes, "the reserve of the disk was released; make room on the disk");
        }
        if room == before {
            return;
        }
        match room {
            DiskRoom::Enough => info!(room = room.word(), free_bytes, "the room on the disk has changed"),
            DiskRoom::Low | DiskRoom::Full => {
                warn!(room = room.word(), free_bytes, "the room on the disk has changed");
            }
        }
        if room > before {
            self.shared.disk_room.request_purge();
        }
        self.shared.inbox.push_control(ControlEvent::Disk(DiskEvent::Peer(PeerEvent::DiskRoom { room })));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]
mod tests {
    use std::io::ErrorKind;

    use zebu_runtime::RoomSettings;
    use zebu_storage::crash_disk::CrashDisk;
    use zebu_storage::{Directories, Missing};

    use super::*;
    use crate::clock::Clock;
    use crate::config::ServerConfig;

    fn shared() -> Arc<ServerContext> {
        let config = ServerConfig::built_in();
        let tree = zebu_tree::Tree::new(zebu_tree::TreeOptions::default());
        let policy = crate::settings::policy(&config);
        let replica = zebu_node::Replica::new(tree, policy, zebu_node::AuthEnforcement::Off, 0);
        Arc::new(ServerContext::new(config, Clock::start(), replica, 0))
    }

    #[test]
    fn a_look_that_succeeds_ends_no_failures_of_the_reserve() {
        let disk = CrashDisk::new();
        let directories = Directories::new("/data", "/logs");
        drop(directories.open(&disk, Missing::Create, "test").unwrap());
        disk.set_capacity(&directories.logs(), 1 << 30);
        let keeper = RoomKeeper::open(disk.clone(), &directories, RoomSettings::default()).unwrap();
        let mut watch = RoomWatch::new(shared(), keeper);
        let step = |watch: &mut RoomWatch<CrashDisk>| {
            watch.look();
            watch.reserve_at = Instant::now();
            watch.keep_reserve();
        };
        disk.fail_after(1, ErrorKind::QuotaExceeded);
        step(&mut watch);
        assert!(watch.is_reserve_failing);
        watch.look();
        assert!(watch.is_reserve_failing && !watch.is_look_failing, "the next failure is the same series");
        step(&mut watch);
        assert!(!watch.is_reserve_failing);
    }
}
