//! The text format of limits and usage: `count=5,bytes=-1` and, if there is more, `=;key=value`.

use std::collections::BTreeMap;
use std::fmt;

const COUNT: &str = "count";
const BYTES: &str = "bytes";
const COUNT_HARD_LIMIT: &str = "countHardLimit";
const BYTE_HARD_LIMIT: &str = "byteHardLimit";
/// A number that is not set.
const UNSET: i64 = -1;

/// Numbers by name.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct QuotaText {
    numbers: BTreeMap<Box<str>, i64>,
}

impl QuotaText {
    /// The usage of a subtree.
    pub(super) fn usage(count: i64, bytes: i64) -> QuotaText {
        QuotaText { numbers: [(COUNT.into(), count), (BYTES.into(), bytes)].into() }
    }

    /// Parses a text; `None` if it is invalid. Empty data is a text without numbers.
    pub(super) fn parse(data: &[u8]) -> Option<QuotaText> {
        let text = std::str::from_utf8(data).ok()?;
        let mut numbers = BTreeMap::new();
        for pair in text.split([',', ';']).filter(|pair| !pair.is_empty()) {
            // Text after a second `=` is ignored: the writer puts a stray one after the bytes.
            let mut parts = pair.split('=');
            let (key, value) = (parts.next()?, parts.next()?);
            let value = if value.is_empty() { UNSET } else { value.parse().ok()? };
            numbers.insert(key.into(), value);
        }
        Some(QuotaText { numbers })
    }

    pub(super) fn count(&self) -> i64 {
        self.number(COUNT)
    }

    pub(super) fn bytes(&self) -> i64 {
        self.number(BYTES)
    }

    pub(super) fn count_hard_limit(&self) -> i64 {
        self.number(COUNT_HARD_LIMIT)
    }

    pub(super) fn byte_hard_limit(&self) -> i64 {
        self.number(BYTE_HARD_LIMIT)
    }

    /// Adds to count and bytes.
    pub(super) fn adjust(&mut self, count: i64, bytes: i64) {
        let (count, bytes) = (self.count().wrapping_add(count), self.bytes().wrapping_add(bytes));
        self.numbers.insert(COUNT.into(), count);
        self.numbers.insert(BYTES.into(), bytes);
    }

    fn number(&self, key: &str) -> i64 {
        self.numbers.get(key).copied().unwrap_or(UNSET)
    }
}

impl fmt::Display for QuotaText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{COUNT}={},{BYTES}={}", self.count(), self.bytes())?;
        let others = self.numbers.iter().filter(|(key, _)| !matches!(&***key, COUNT | BYTES));
        for (index, (key, value)) in others.enumerate() {
            // Old readers split the text at `=` and must not see the further keys.
            write!(f, "{};{key}={value}", if index == 0 { "=" } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_round_trip() {
        for text in ["count=5,bytes=-1", "count=5,bytes=-1=;byteHardLimit=1000;countHardLimit=10"] {
            assert_eq!(QuotaText::parse(text.as_bytes()).unwrap().to_string(), text);
        }
    }

    #[test]
    fn odd_texts() {
        let text = QuotaText::parse(b"bytes=,;;countHardLimit=7=x").unwrap();
        assert_eq!((text.count(), text.bytes(), text.count_hard_limit()), (-1, -1, 7));
        assert_eq!(QuotaText::parse(b"").unwrap().to_string(), "count=-1,bytes=-1");
        for bad in [&b"count"[..], b"count=x", b"\xff", b"count=99999999999999999999"] {
            assert_eq!(QuotaText::parse(bad), None);
        }
    }
}
