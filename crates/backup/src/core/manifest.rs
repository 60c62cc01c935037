//! The manifest: which bases and log segments make up a backup. It is written last, so it never names an
//! object that is not there.
//!
//! A chain is a history without a hole. It begins with a base; a lost part of the history begins another.

use serde::{Deserialize, Serialize};
use zebu_proto::Zxid;

/// The layout that this release writes.
pub const FORMAT: u32 = 1;

/// Segments that a page of the index takes out of the manifest.
pub const PAGE_SEGMENTS: usize = 512;

/// The longest manifest and the longest page that are read, in bytes.
pub const INDEX_BYTES_MAX: u64 = 64 << 20;

/// A whole state of the ensemble.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// The name of the snapshot.
    pub name: String,
    /// The number of its chain.
    pub chain: u32,
    /// The last transaction of the state.
    #[serde(with = "hex_zxid")]
    pub zxid: Zxid,
    /// The time of that transaction, milliseconds since 1970; never less than that of an earlier one.
    pub time_ms: i64,
    /// The length of the object in bytes.
    pub bytes: u64,
    /// The SHA-256 of the object.
    pub sha256: String,
    /// The number of nodes.
    pub nodes: u64,
    /// The digest of the tree.
    pub digest: i64,
    /// Whether the time is that of the backup's clock, because no transaction had told the leader's. The
    /// first transaction behind the base corrects it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub local_time: bool,
}

/// A part of the history, as one of ZooKeeper's log files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// The name of the log.
    pub name: String,
    /// The number of its chain.
    pub chain: u32,
    /// The transaction directly before it.
    #[serde(with = "hex_zxid")]
    pub after: Zxid,
    /// Its first transaction.
    #[serde(with = "hex_zxid")]
    pub first: Zxid,
    /// Its last transaction.
    #[serde(with = "hex_zxid")]
    pub last: Zxid,
    /// The time of the first transaction, milliseconds since 1970; never less than that of an earlier one.
    pub first_ms: i64,
    /// The time of the last transaction, likewise.
    pub last_ms: i64,
    /// The number of its transactions.
    pub transactions: u64,
    /// The length of the object in bytes.
    pub bytes: u64,
    /// The SHA-256 of the object.
    pub sha256: String,
}

/// An object with older segments, so that the manifest stays short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// The name of the page.
    pub name: String,
    /// The chain of its first segment.
    pub first_chain: u32,
    /// The chain of its last segment.
    pub last_chain: u32,
    /// The last transaction of its last segment.
    #[serde(with = "hex_zxid")]
    pub last: Zxid,
    /// The number of its segments.
    pub segments: u64,
    /// The bytes of all its segments.
    pub segment_bytes: u64,
    /// The length of the object in bytes.
    pub bytes: u64,
    /// The SHA-256 of the object.
    pub sha256: String,
}

/// The content of a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageContent {
    /// The segments, oldest first.
    pub segments: Vec<Segment>,
}

/// The manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// The number of this manifest. Each one has a number that is larger by one.
    pub generation: u64,
    /// The run of the process that wrote it.
    pub writer: String,
    /// The highest epoch of the ensemble that any writer has seen.
    pub highest_epoch: u32,
    /// The bases, oldest first.
    pub bases: Vec<Base>,
    /// The pages of the index, oldest first.
    pub pages: Vec<Page>,
    /// The segments behind those of the pages, oldest first.
    pub segments: Vec<Segment>,
}

/// Why a manifest cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The bytes are no manifest.
    #[error("manifest.json is damaged: {0}")]
    Damaged(#[from] serde_json::Error),
    /// A later release wrote it.
    #[error("manifest.json has format {0}, and this release reads format {FORMAT}; use a later release")]
    Format(u32),
}

/// The end of the newest chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainEnd {
    /// The number of the chain.
    pub chain: u32,
    /// Its last transaction.
    pub zxid: Zxid,
    /// The time of that transaction, milliseconds since 1970.
    pub time_ms: i64,
}

impl Manifest {
    /// The manifest of a backup that has nothing yet.
    pub fn empty() -> Manifest {
        Manifest {
            format: FORMAT,
            generation: 0,
            writer: String::new(),
            highest_epoch: 0,
            bases: Vec::new(),
            pages: Vec::new(),
            segments: Vec::new(),
        }
    }

    /// Decodes a manifest.
    pub fn decode(bytes: &[u8]) -> Result<Manifest, ManifestError> {
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let head: Head = serde_json::from_slice(bytes)?;
        if head.format != FORMAT {
            return Err(ManifestError::Format(head.format));
        }
        Ok(serde_json::from_slice(bytes)?)
    }

    /// Encodes the manifest as indented JSON, for people too.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("a manifest is always valid JSON");
        bytes.push(b'\n');
        bytes
    }

    /// The end of the newest chain; `None` before the first base.
    pub fn end(&self) -> Option<ChainEnd> {
        let base = self.bases.last()?;
        let of_base = ChainEnd { chain: base.chain, zxid: base.zxid, time_ms: base.time_ms };
        let newest = self.segments.last().filter(|segment| segment.chain == base.chain);
        Some(match newest {
            Some(segment) if segment.last > base.zxid => {
                ChainEnd { chain: segment.chain, zxid: segment.last, time_ms: segment.last_ms }
            }
            Some(_) | None => of_base,
        })
    }

    /// Corrects the time of the last base by the first transaction behind it. `first_ms` is the time of that
    /// transaction, milliseconds since 1970.
    pub(super) fn correct_base_time(&mut self, first_ms: i64) {
        let before = self.bases.iter().rev().nth(1).map(|base| base.time_ms);
        let floor_ms = before.max(self.segments.last().map(|segment| segment.last_ms));
        if let Some(base) = self.bases.last_mut().filter(|base| base.local_time) {
            let time_ms = base.time_ms.min(first_ms);
            base.time_ms = floor_ms.map_or(time_ms, |floor_ms| time_ms.max(floor_ms));
            base.local_time = false;
        }
    }

    /// The number of a new chain.
    pub fn next_chain(&self) -> u32 {
        self.bases.last().map_or(1, |base| base.chain + 1)
    }
}

/// Zxids as hexadecimal text: JSON numbers of other languages lose bits.
mod hex_zxid {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use zebu_proto::Zxid;

    pub(super) fn serialize<S: Serializer>(zxid: &Zxid, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("0x{:x}", zxid.0))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Zxid, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.strip_prefix("0x").unwrap_or(&text);
        i64::from_str_radix(digits, 16).map(Zxid).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(chain: u32, zxid: i64) -> Base {
        Base {
            name: format!("base/{zxid}"),
            chain,
            zxid: Zxid(zxid),
            time_ms: zxid * 10,
            bytes: 1,
            sha256: String::new(),
            nodes: 1,
            digest: -5,
            local_time: false,
        }
    }

    fn segment(chain: u32, after: i64, last: i64) -> Segment {
        Segment {
            name: format!("log/{after}-{last}"),
            chain,
            after: Zxid(after),
            first: Zxid(after + 1),
            last: Zxid(last),
            first_ms: after * 10,
            last_ms: last * 10,
            transactions: 1,
            bytes: 1,
            sha256: String::new(),
        }
    }

    #[test]
    fn a_manifest_survives_its_encoding() {
        let mut manifest = Manifest::empty();
        manifest.bases.push(base(1, 0x1_0000_0003));
        manifest.segments.push(segment(1, 0x1_0000_0003, 0x1_0000_0009));
        let bytes = manifest.encode();
        assert!(String::from_utf8_lossy(&bytes).contains("\"0x100000009\""));
        assert_eq!(Manifest::decode(&bytes).unwrap(), manifest);
    }

    #[test]
    fn damage_and_later_formats_are_refused() {
        assert!(matches!(Manifest::decode(b"{"), Err(ManifestError::Damaged(_))));
        assert!(matches!(Manifest::decode(b"{\"format\": 2}"), Err(ManifestError::Format(2))));
        assert!(matches!(Manifest::decode(b"{\"format\": 1}"), Err(ManifestError::Damaged(_))));
    }

    #[test]
    fn the_end_belongs_to_the_newest_chain() {
        let mut manifest = Manifest::empty();
        assert_eq!((manifest.end(), manifest.next_chain()), (None, 1));
        manifest.bases.push(base(1, 5));
        assert_eq!(manifest.end().unwrap().zxid, Zxid(5));
        manifest.segments.push(segment(1, 5, 9));
        assert_eq!(manifest.end().unwrap(), ChainEnd { chain: 1, zxid: Zxid(9), time_ms: 90 });
        // A later chain, in which nothing has happened, with an earlier zxid.
        manifest.bases.push(base(2, 7));
        assert_eq!(manifest.end().unwrap(), ChainEnd { chain: 2, zxid: Zxid(7), time_ms: 70 });
        assert_eq!(manifest.next_chain(), 3);
    }
}
