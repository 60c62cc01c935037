//! Zebu's sync watermark: the bytes of `zebu.durable`.
//!
//! The watermark is a lower bound. It is written after a sync of the log has succeeded and is itself not
//! synced (except when a log begins or is closed). It may therefore be older than the truth, never newer. It
//! proves that every transaction up to `zxid` was durable, and the first `offset` bytes of the log `log`. A
//! recovery that ends below `zxid` has lost a transaction that may have been acknowledged.
//!
//! Two slots, each inside a sector of its own, are written in turn: an interrupted write of one leaves the
//! other.

use zebu_proto::Zxid;

use super::scan::SECTOR_SIZE;

/// Name of the file, beside the logs. ZooKeeper ignores it.
pub const NAME: &str = "zebu.durable";

/// Its name until it is durable for the first time.
pub const TEMPORARY_NAME: &str = "zebu.durable.tmp";

/// Bytes of the whole file.
pub const FILE_SIZE: usize = 2 * SECTOR_SIZE as usize;

/// Bytes of one slot's content.
pub const SLOT_SIZE: usize = 44;

const MAGIC: [u8; 8] = *b"ZEBUDUR1";

/// The durable part of the log when the watermark was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncWatermark {
    /// Grows with every write.
    pub sequence: u64,
    /// First transaction of the log that was written, as in its name.
    pub log: Zxid,
    /// Bytes of that log that were durable.
    pub offset: u64,
    /// Last transaction that was durable.
    pub zxid: Zxid,
}

impl SyncWatermark {
    /// The offset of the watermark's slot in the file.
    pub fn slot_offset(&self) -> u64 {
        (self.sequence % 2) * SECTOR_SIZE
    }

    /// The slot's bytes.
    pub fn encode(&self) -> [u8; SLOT_SIZE] {
        let mut out = [0; SLOT_SIZE];
        out[..8].copy_from_slice(&MAGIC);
        out[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        out[16..24].copy_from_slice(&self.log.0.to_be_bytes());
        out[24..32].copy_from_slice(&self.offset.to_be_bytes());
        out[32..40].copy_from_slice(&self.zxid.0.to_be_bytes());
        let checksum = simd_adler32::adler32(&&out[..40]);
        out[40..].copy_from_slice(&checksum.to_be_bytes());
        out
    }

    /// A complete file with this watermark alone.
    pub fn encode_file(&self) -> Vec<u8> {
        let mut file = vec![0; FILE_SIZE];
        let at = if self.sequence.is_multiple_of(2) { 0 } else { SECTOR_SIZE as usize };
        file[at..at + SLOT_SIZE].copy_from_slice(&self.encode());
        file
    }

    /// The newest watermark of a file; `None` if no slot is intact.
    pub fn decode_file(file: &[u8]) -> Option<SyncWatermark> {
        [0, SECTOR_SIZE as usize]
            .into_iter()
            .filter_map(|at| decode_slot(file.get(at..)?.first_chunk()?))
            .max_by_key(|note| note.sequence)
    }
}

fn decode_slot(slot: &[u8; SLOT_SIZE]) -> Option<SyncWatermark> {
    let (content, checksum) = slot.split_at(40);
    if !content.starts_with(&MAGIC) || simd_adler32::adler32(&content).to_be_bytes() != checksum {
        return None;
    }
    let field = |at: usize| u64::from_be_bytes(std::array::from_fn(|index| content[at + index]));
    let zxid = |at: usize| Zxid(field(at) as i64);
    Some(SyncWatermark { sequence: field(8), log: zxid(16), offset: field(24), zxid: zxid(32) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_intact_slot_counts() {
        let older = SyncWatermark { sequence: 6, log: Zxid(1), offset: 77, zxid: Zxid(3) };
        let newer = SyncWatermark { sequence: 7, log: Zxid(1), offset: 99, zxid: Zxid(4) };
        let mut file = older.encode_file();
        assert_eq!(SyncWatermark::decode_file(&file), Some(older));
        let at = newer.slot_offset() as usize;
        file[at..at + SLOT_SIZE].copy_from_slice(&newer.encode());
        assert_eq!(SyncWatermark::decode_file(&file), Some(newer));
        for bit in 0..SLOT_SIZE * 8 {
            let mut flipped = file.clone();
            flipped[at + bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SyncWatermark::decode_file(&flipped), Some(older));
        }
        assert_eq!(SyncWatermark::decode_file(&file[..20]), None);
        assert_eq!(SyncWatermark::decode_file(&[]), None);
    }
}
