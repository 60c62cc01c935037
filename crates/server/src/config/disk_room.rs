//! Keys of a full and of a slow disk: the marks of free space, the reserve, and the limit of a leader.

use std::time::Duration;

use zebu_runtime::RoomSettings;

use super::SettingOrigin;
use super::server_config::ByteCount;
use super::setting_reader::{NumberUnit, SettingReader};

/// Megabytes in a setting, at most: a pebibyte.
const MEGABYTES_MAX: i64 = 1 << 30;

/// The 99th percentile of appends above which a leader may hand over.
const SLOW_DISK_DEFAULT: Duration = Duration::from_millis(500);

/// Settings of a full and of a slow disk. Without a value a mark follows from the size of the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskRoomConfig {
    /// `disk.low`: free space below which an operator has to act; zero for never.
    pub low: Option<ByteCount>,
    /// `disk.stop`: free space below which the tree must not grow; zero for never.
    pub stop: Option<ByteCount>,
    /// `disk.reserve`: the length of `zebu.reserve`; zero for none.
    pub reserve: Option<ByteCount>,
    /// `slow.disk`: a leader with slower appends hands over to a much faster follower; `None` for never.
    pub slow: Option<Duration>,
}

impl Default for DiskRoomConfig {
    fn default() -> DiskRoomConfig {
        DiskRoomConfig { low: None, stop: None, reserve: None, slow: Some(SLOW_DISK_DEFAULT) }
    }
}

impl DiskRoomConfig {
    /// The marks for the runtime.
    pub(crate) fn settings(&self) -> RoomSettings {
        let bytes = |mark: Option<ByteCount>| mark.map(|ByteCount(bytes)| bytes);
        RoomSettings { low: bytes(self.low), stop: bytes(self.stop), reserve: bytes(self.reserve) }
    }

    /// The marks `disk.low` and `disk.stop` of a file system of this size, in bytes.
    pub fn marks(&self, total: u64) -> (ByteCount, ByteCount) {
        let marks = self.settings().marks(total);
        (ByteCount(marks.low), ByteCount(marks.stop))
    }
}

pub(super) fn read_disk_room(reader: &mut SettingReader<'_>) -> DiskRoomConfig {
    let low = megabytes(reader, "disk.low");
    let stop = megabytes(reader, "disk.stop");
    if let (Some(low), Some(stop)) = (low, stop)
        && low > ByteCount(0)
        && low < stop
    {
        let origin: SettingOrigin = reader.origin("disk.low");
        let text = "disk.low is below disk.stop: there is no warning before the tree must not grow";
        reader.diagnostics.warn(&origin, text);
    }
    DiskRoomConfig {
        low,
        stop,
        reserve: megabytes(reader, "disk.reserve"),
        slow: Some(reader.millis("slow.disk", 0, SLOW_DISK_DEFAULT)).filter(|limit| !limit.is_zero()),
    }
}

fn megabytes(reader: &mut SettingReader<'_>, key: &str) -> Option<ByteCount> {
    let number = reader.number(key, 0..=MEGABYTES_MAX, NumberUnit::Megabytes)?;
    u64::try_from(number).ok().map(|megabytes| ByteCount(megabytes << 20))
}
