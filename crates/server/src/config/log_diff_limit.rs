//! How much of the transaction log a learner gets before a SNAP is cheaper: `snapshotSizeFactor`.

use super::setting_reader::SettingReader;

/// The limit, in bytes, of a DIFF from the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogDiffLimit {
    /// A negative factor: only transactions in memory are sent; otherwise the learner gets a SNAP.
    Never,
    /// 0: no limit.
    Unlimited,
    /// A fraction of the snapshot size.
    SnapshotFraction {
        /// 330 is about a third.
        thousandths: u32,
    },
}

/// Least limit in bytes: a SNAP of a small tree saves nothing.
const BYTES_MIN: u64 = 4 << 20;

impl LogDiffLimit {
    /// ZooKeeper's default.
    pub const DEFAULT: LogDiffLimit = LogDiffLimit::SnapshotFraction { thousandths: 330 };

    /// Most bytes of a DIFF for a snapshot of this size.
    pub(crate) fn bytes_max(self, snapshot_bytes: u64) -> u64 {
        match self {
            LogDiffLimit::Never => 0,
            LogDiffLimit::Unlimited => u64::MAX,
            LogDiffLimit::SnapshotFraction { thousandths } => {
                (snapshot_bytes / 1000).saturating_mul(u64::from(thousandths)).max(BYTES_MIN)
            }
        }
    }
}

/// Reads `snapshotSizeFactor`.
pub(super) fn read_log_diff_limit(reader: &mut SettingReader<'_>) -> LogDiffLimit {
    const KEY: &str = "snapshotSizeFactor";
    let Some(setting) = reader.get(KEY) else { return LogDiffLimit::DEFAULT };
    match setting.value.parse::<f64>().ok().filter(|factor| factor.is_finite()) {
        Some(factor) if factor < 0.0 => LogDiffLimit::Never,
        Some(0.0) => LogDiffLimit::Unlimited,
        Some(factor) => {
            LogDiffLimit::SnapshotFraction { thousandths: (factor * 1000.0).clamp(1.0, 1e6) as u32 }
        }
        None => {
            reader.report_invalid(KEY, setting, "a decimal number");
            LogDiffLimit::DEFAULT
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_tree_gets_a_minimum_and_a_large_one_its_share() {
        assert_eq!(LogDiffLimit::DEFAULT.bytes_max(1700), BYTES_MIN);
        assert_eq!(LogDiffLimit::DEFAULT.bytes_max(1_000_000_000), 330_000_000);
        assert_eq!(LogDiffLimit::Never.bytes_max(u64::MAX), 0);
        assert_eq!(LogDiffLimit::Unlimited.bytes_max(0), u64::MAX);
    }
}
