//! The disk thread's looks at the free bytes of its directories. A change of the state goes to the core, to
//! the log of the operator, and to the thread that removes old files.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{info, warn};
use zebu_proto::quorum::DiskRoom;
use zebu_runtime::{DiskEvent, RoomKeeper, RoomReport};
use zebu_storage::{Disk, IoFailure};
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
    /// Whether the last look failed. One line per series of failures is logged.
    has_failed: bool,
}

impl<D: Disk> RoomWatch<D> {
    pub(super) fn new(shared: Arc<ServerContext>, keeper: RoomKeeper<D>) -> RoomWatch<D> {
        let reserve_at = Instant::now() + LOOK_INTERVAL;
        RoomWatch { shared, keeper, room: DiskRoom::Enough, reserve_at, has_failed: false }
    }

    /// Looks before everything in the queue is appended.
    pub(super) fn look(&mut self) {
        let needed = self.shared.disk_backlog.bytes() as u64 + APPEND_BYTES;
        match self.keeper.look(needed) {
            Ok(report) => {
                self.has_failed = false;
                self.record(report);
            }
            Err(error) => self.record_failure(&error),
        }
    }

    /// Extends an incomplete reserve, if it is time.
    pub(super) fn keep_reserve(&mut self) {
        if Instant::now() < self.reserve_at {
            return;
        }
        self.reserve_at = Instant::now() + LOOK_INTERVAL;
        // Without a reserve the server goes on: its log has room.
        if let Err(error) = self.keeper.extend_reserve() {
            self.record_failure(&error);
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

    fn record_failure(&mut self, error: &IoFailure) {
        if !std::mem::replace(&mut self.has_failed, true) {
            warn!(%error, "the free bytes of the disk are not known, or its reserve is incomplete");
        }
    }
}
