//! The room on the disk of a server. Three marks on the free bytes of the directories decide its state. The
//! owner of the log looks before each group of appends and once per second.

use std::path::PathBuf;

use zebu_proto::quorum::DiskRoom;
use zebu_storage::{Directories, Disk, DiskSpace, IoFailure, ReserveFile};

/// The bytes that the reserve grows by at a look, so that no append waits long.
const GROWTH_STEP: u64 = 4 << 20;

/// The free bytes below which the reserve is released. A step of the log's preallocation needs less.
const MARGIN_MAX: u64 = 4 << 20;

/// Marks of a disk, in bytes. Without a setting a mark follows from the size of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoomSettings {
    /// Below it the disk has little room (`disk.low`); zero for never.
    pub low: Option<u64>,
    /// Below it the tree must not grow (`disk.stop`); zero for never.
    pub stop: Option<u64>,
    /// The length of the reserve (`disk.reserve`); zero for none.
    pub reserve: Option<u64>,
}

/// The marks of one file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomMarks {
    /// Below it the disk has little room.
    pub low: u64,
    /// Below it the tree must not grow.
    pub stop: u64,
    /// The length of the reserve.
    pub reserve: u64,
}

impl RoomSettings {
    /// The marks of a file system of this size. The defaults are 5 %, or 1 GiB if that is more, then 256 MiB
    /// and 64 MiB. On a small disk they are a quarter, a tenth and a fortieth of it.
    pub fn marks(self, total: u64) -> RoomMarks {
        const MIB: u64 = 1 << 20;
        RoomMarks {
            low: self.low.unwrap_or_else(|| (total / 20).max(1024 * MIB).min(total / 4)),
            stop: self.stop.unwrap_or((256 * MIB).min(total / 10)),
            reserve: self.reserve.unwrap_or((64 * MIB).min(total / 40)),
        }
    }
}

impl RoomMarks {
    /// The free bytes below which the reserve is released.
    fn margin(self) -> u64 {
        MARGIN_MAX.min(self.reserve / 4)
    }

    /// The state at this many free bytes beside a complete reserve. A mark is left with an eighth more than
    /// it, so that the state does not alternate.
    fn room(self, free: u64, before: DiskRoom) -> DiskRoom {
        let raised = |mark: u64, is_below: bool| if is_below { mark.saturating_add(mark / 8) } else { mark };
        if free < raised(self.stop, before == DiskRoom::Full) {
            DiskRoom::Full
        } else if free < raised(self.low.max(self.stop), before != DiskRoom::Enough) {
            DiskRoom::Low
        } else {
            DiskRoom::Enough
        }
    }
}

/// The result of a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoomReport {
    /// The state.
    pub room: DiskRoom,
    /// The free bytes of the directory of the logs; `None` if it has no limit.
    pub log_free: Option<u64>,
    /// The free bytes of the directory of the snapshots; `None` if it has no limit.
    pub snapshot_free: Option<u64>,
    /// The length of the reserve.
    pub reserve: u64,
    /// The bytes that the reserve lacks, if the snapshots are on its file system.
    pub reserve_missing: u64,
    /// The mark of the file system of the snapshots below which the tree must not grow.
    pub snapshot_stop: u64,
    /// Whether the reserve was released now.
    pub released: bool,
}

/// Looks at the free bytes, and keeps the reserve.
#[derive(Debug)]
pub struct RoomKeeper<D: Disk> {
    disk: D,
    settings: RoomSettings,
    logs: PathBuf,
    snapshots: PathBuf,
    reserve: ReserveFile<D>,
    /// The state of each file system: a mark is left with an eighth more than the mark of that one.
    logs_room: DiskRoom,
    snapshots_room: DiskRoom,
    /// The bytes of the append at the last look.
    needed: u64,
}

impl<D: Disk> RoomKeeper<D> {
    /// Begins with the reserve that an earlier process has left.
    pub fn open(
        disk: D,
        directories: &Directories,
        settings: RoomSettings,
    ) -> Result<RoomKeeper<D>, IoFailure> {
        let (logs, snapshots) = (directories.logs(), directories.snapshots());
        let reserve = ReserveFile::open(disk.clone(), logs.clone())?;
        let (logs_room, snapshots_room) = (DiskRoom::Enough, DiskRoom::Enough);
        Ok(RoomKeeper { disk, settings, logs, snapshots, reserve, logs_room, snapshots_room, needed: 0 })
    }

    /// The length of the reserve in bytes.
    pub fn reserve_length(&self) -> u64 {
        self.reserve.length()
    }

    /// Looks before an append of `needed` bytes, and releases the reserve if they would not fit.
    pub fn look(&mut self, needed: u64) -> Result<RoomReport, IoFailure> {
        self.needed = needed;
        let Some(mut logs) = self.space(&self.logs)? else { return Ok(RoomReport::default()) };
        let marks = self.settings.marks(logs.total);
        let is_short = logs.free < needed.saturating_add(marks.margin());
        let released = is_short && self.reserve.length() > 0;
        if released {
            self.reserve.release()?;
            logs = self.space(&self.logs)?.unwrap_or(logs);
        }
        // Nearly always both are one directory, and this runs before each group of appends.
        let snapshots =
            if self.snapshots == self.logs { logs } else { self.space(&self.snapshots)?.unwrap_or(logs) };
        let room = self.update_rooms(marks, logs, snapshots);
        let reserve = self.reserve.length();
        let missing = marks.reserve.saturating_sub(reserve);
        Ok(RoomReport {
            room,
            log_free: Some(logs.free),
            snapshot_free: Some(snapshots.free),
            reserve,
            // Other processes change the free bytes between two looks, but not the size.
            reserve_missing: if logs.total == snapshots.total { missing } else { 0 },
            snapshot_stop: self.settings.marks(snapshots.total).stop,
            released,
        })
    }

    /// Extends an incomplete reserve by a step, if there is room, and removes one that is no longer
    /// configured. Returns whether it is complete now.
    pub fn extend_reserve(&mut self) -> Result<bool, IoFailure> {
        let Some(logs) = self.space(&self.logs)? else { return Ok(true) };
        let marks = self.settings.marks(logs.total);
        self.reserve.refresh()?;
        if marks.reserve == 0 {
            self.reserve.release()?;
            return Ok(true);
        }
        let missing = marks.reserve.saturating_sub(self.reserve.length());
        let step = missing.min(GROWTH_STEP);
        // A second margin stays free. Otherwise one of the next appends would release the reserve again.
        let taken = marks.margin().saturating_mul(2).saturating_add(step).saturating_add(self.needed);
        if missing > 0 && self.logs_room != DiskRoom::Full && logs.free >= taken {
            self.reserve.grow(self.reserve.length() + step)?;
        }
        Ok(self.reserve.length() >= marks.reserve)
    }

    /// The worse state of both directories. What the reserve lacks is not free for the log.
    fn update_rooms(&mut self, marks: RoomMarks, logs: DiskSpace, snapshots: DiskSpace) -> DiskRoom {
        let beside_reserve = (logs.free + self.reserve.length()).saturating_sub(marks.reserve);
        self.logs_room = marks.room(beside_reserve, self.logs_room);
        let marks = self.settings.marks(snapshots.total);
        self.snapshots_room = marks.room(snapshots.free, self.snapshots_room);
        self.logs_room.max(self.snapshots_room)
    }

    fn space(&self, directory: &std::path::Path) -> Result<Option<DiskSpace>, IoFailure> {
        self.disk.space(directory).map_err(|source| IoFailure {
            action: "find the free bytes of",
            path: directory.to_owned(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const MIB: u64 = 1 << 20;

    #[test]
    fn marks_follow_the_size_of_the_disk() {
        let of = |total| RoomSettings::default().marks(total);
        assert_eq!(of(100 * GIB), RoomMarks { low: 5 * GIB, stop: 256 * MIB, reserve: 64 * MIB });
        assert_eq!(of(8 * GIB), RoomMarks { low: GIB, stop: 256 * MIB, reserve: 64 * MIB });
        assert_eq!(of(400 * MIB), RoomMarks { low: 100 * MIB, stop: 40 * MIB, reserve: 10 * MIB });
        let set = RoomSettings { low: Some(5), stop: Some(0), reserve: None };
        assert_eq!(set.marks(400 * MIB), RoomMarks { low: 5, stop: 0, reserve: 10 * MIB });
    }

    #[test]
    fn a_mark_is_left_with_an_eighth_more() {
        let marks = RoomMarks { low: 800, stop: 80, reserve: 0 };
        let steps = [
            (900, DiskRoom::Enough),
            (800, DiskRoom::Enough),
            (799, DiskRoom::Low),
            (899, DiskRoom::Low),
            (80, DiskRoom::Low),
            (79, DiskRoom::Full),
            (89, DiskRoom::Full),
            (90, DiskRoom::Low),
            (900, DiskRoom::Enough),
            (0, DiskRoom::Full),
            (900, DiskRoom::Enough),
        ];
        let mut room = DiskRoom::Enough;
        for (free, expected) in steps {
            room = marks.room(free, room);
            assert_eq!(room, expected, "at {free}");
        }
    }

    #[test]
    fn a_mark_of_zero_is_never_reached() {
        let marks = RoomMarks { low: 0, stop: 0, reserve: 0 };
        assert_eq!(marks.room(0, DiskRoom::Enough), DiskRoom::Enough);
        assert_eq!(marks.room(0, DiskRoom::Full), DiskRoom::Enough);
    }
}
