//! Keys of long lists and long replies. ZooKeeper has none of them.

use super::setting_reader::{NumberUnit, SettingReader};

/// Bytes of a page of a scan.
const SCAN_BYTES_DEFAULT: u32 = 512 << 10;

/// Limits of lists and replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingConfig {
    /// `reply.maxbuffer`: a read with a longer reply fails; `None` = off.
    pub reply_bytes_max: Option<u32>,
    /// `scan.maxBytes`: most bytes of a page of a scan.
    pub scan_bytes_max: u32,
}

impl Default for ListingConfig {
    fn default() -> ListingConfig {
        ListingConfig { reply_bytes_max: None, scan_bytes_max: SCAN_BYTES_DEFAULT }
    }
}

pub(super) fn read_listings(reader: &mut SettingReader<'_>) -> ListingConfig {
    ListingConfig {
        reply_bytes_max: reader.limit("reply.maxbuffer", NumberUnit::Bytes, None),
        scan_bytes_max: reader.count("scan.maxBytes", 1024, NumberUnit::Bytes, SCAN_BYTES_DEFAULT),
    }
}
