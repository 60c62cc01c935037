//! The text of a quota: the same four numbers for limits and, two of them, for usage. ZooKeeper's servers and
//! tools read and write it; `-1` is no limit.

/// Limits, or usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) count: i64,
    pub(crate) bytes: i64,
    pub(crate) count_hard: i64,
    pub(crate) bytes_hard: i64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { count: -1, bytes: -1, count_hard: -1, bytes_hard: -1 }
    }
}

/// Where quotas are kept.
pub(crate) const ROOT: &str = "/zookeeper/quota";
/// The node of the limits.
pub(crate) const LIMITS: &str = "zookeeper_limits";
/// The node of the usage.
pub(crate) const USAGE: &str = "zookeeper_stats";

impl Limits {
    /// Reads the text; what is missing or no number is no limit.
    pub(crate) fn parse(data: &[u8]) -> Limits {
        let text = String::from_utf8_lossy(data);
        let value = |key: &str| {
            let mut parts = text.split([',', ';']).filter_map(|part| part.split_once('='));
            let found = parts.find(|(name, _)| *name == key);
            // Old parsers need the "=" that follows the bytes.
            found.and_then(|(_, value)| value.trim_end_matches('=').parse().ok()).unwrap_or(-1)
        };
        Limits {
            count: value("count"),
            bytes: value("bytes"),
            count_hard: value("countHardLimit"),
            bytes_hard: value("byteHardLimit"),
        }
    }

    /// The text of limits.
    pub(crate) fn limits_text(&self) -> String {
        format!(
            "count={},bytes={}=;byteHardLimit={};countHardLimit={}",
            self.count, self.bytes, self.bytes_hard, self.count_hard
        )
    }

    /// The text of usage.
    pub(crate) fn usage_text(&self) -> String {
        format!("count={},bytes={}", self.count, self.bytes)
    }

    /// Sets the limit that an option names.
    pub(crate) fn set(&mut self, option: &str, limit: i64) {
        match option {
            "n" => self.count = limit,
            "b" => self.bytes = limit,
            "N" => self.count_hard = limit,
            _ => self.bytes_hard = limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_goes_both_ways() {
        let limits = Limits { count: 3, bytes: 20, count_hard: -1, bytes_hard: 7 };
        assert_eq!(limits.limits_text(), "count=3,bytes=20=;byteHardLimit=7;countHardLimit=-1");
        assert_eq!(Limits::parse(limits.limits_text().as_bytes()), limits);
        assert_eq!(Limits::parse(b"count=4,bytes=15").usage_text(), "count=4,bytes=15");
        assert_eq!(Limits::parse(b"nonsense"), Limits::default());
    }
}
