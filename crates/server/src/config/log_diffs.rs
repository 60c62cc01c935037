//! How much of the transaction log a learner gets before a snapshot is cheaper: `snapshotSizeFactor`.

use super::reader::Reader;

/// The limit, in bytes, of what is sent from the log in a DIFF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogDiffs {
    /// A negative factor: what is not in memory is never sent; the learner gets a SNAP.
    Never,
    /// 0: any size.
    Unlimited,
    /// A share of the size of a snapshot, in thousandths.
    Share {
        /// 330 is a third.
        thousandths: u32,
    },
}

/// A DIFF from the log may always have so many bytes: a SNAP of a small tree is no gain.
const BYTES_MIN: u64 = 4 << 20;

impl LogDiffs {
    /// As in ZooKeeper.
    pub const DEFAULT: LogDiffs = LogDiffs::Share { thousandths: 330 };

    /// Bytes that may be sent to a learner if a snapshot has this size.
    pub(crate) fn bytes_max(self, snapshot_bytes: u64) -> u64 {
        match self {
            LogDiffs::Never => 0,
            LogDiffs::Unlimited => u64::MAX,
            LogDiffs::Share { thousandths } => {
                (snapshot_bytes / 1000).saturating_mul(u64::from(thousandths)).max(BYTES_MIN)
            }
        }
    }
}

/// Reads it.
pub(super) fn read_log_diffs(reader: &mut Reader<'_>) -> LogDiffs {
    const KEY: &str = "snapshotSizeFactor";
    let Some(setting) = reader.get(KEY) else { return LogDiffs::DEFAULT };
    match setting.value.parse::<f64>().ok().filter(|factor| factor.is_finite()) {
        Some(factor) if factor < 0.0 => LogDiffs::Never,
        Some(0.0) => LogDiffs::Unlimited,
        Some(factor) => LogDiffs::Share { thousandths: (factor * 1000.0).clamp(1.0, 1e6) as u32 },
        None => {
            reader.wrong(KEY, setting, "a decimal number");
            LogDiffs::DEFAULT
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_tree_gets_a_minimum_and_a_large_one_its_share() {
        assert_eq!(LogDiffs::DEFAULT.bytes_max(1700), BYTES_MIN);
        assert_eq!(LogDiffs::DEFAULT.bytes_max(1_000_000_000), 330_000_000);
        assert_eq!(LogDiffs::Never.bytes_max(u64::MAX), 0);
        assert_eq!(LogDiffs::Unlimited.bytes_max(0), u64::MAX);
    }
}
