//! Collects committed transactions into segments: ZooKeeper's log files, closed by size or age.

use std::io;

use zebu_proto::Zxid;
use zebu_storage::format::log::{HEADER, append_payload};

use super::seal::{Sealer, Sealing};

/// About what encryption adds to a segment, in bytes.
const SEAL_OVERHEAD: usize = 16 << 10;

/// When a segment is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentLimits {
    /// The length in bytes from which a segment is closed.
    pub bytes: u64,
    /// The age of the first transaction from which a segment is closed, milliseconds.
    pub age_ms: i64,
}

impl Default for SegmentLimits {
    fn default() -> SegmentLimits {
        SegmentLimits { bytes: 16 << 20, age_ms: 10_000 }
    }
}

/// A complete segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedSegment {
    /// The transaction directly before it.
    pub after: Zxid,
    /// Its first transaction.
    pub first: Zxid,
    /// Its last transaction.
    pub last: Zxid,
    /// The time of the first transaction, milliseconds since 1970.
    pub first_ms: i64,
    /// The time of the last transaction, milliseconds since 1970.
    pub last_ms: i64,
    /// The number of transactions.
    pub transactions: u64,
    /// When the first transaction came, milliseconds of the local clock.
    pub since_ms: i64,
    /// The log file.
    pub bytes: Vec<u8>,
    /// Whether it is encrypted.
    pub sealing: Sealing,
}

impl ClosedSegment {
    /// Encrypts the log. It must happen once: each time has another result, and the manifest names one.
    pub fn seal(&mut self, sealer: &dyn Sealer) -> io::Result<()> {
        let mut sealed = Vec::with_capacity(self.bytes.len() + SEAL_OVERHEAD);
        sealer.seal(&mut self.bytes.as_slice(), &mut sealed)?;
        (self.bytes, self.sealing) = (sealed, Sealing::Age);
        Ok(())
    }
}

/// The segment that is being filled.
#[derive(Debug)]
pub struct Segmenter {
    limits: SegmentLimits,
    last: Zxid,
    time_ms: i64,
    open: Option<ClosedSegment>,
}

impl Segmenter {
    /// Continues after a transaction and its time.
    pub fn new(limits: SegmentLimits, last: Zxid, time_ms: i64) -> Segmenter {
        Segmenter { limits, last, time_ms, open: None }
    }

    /// The last transaction that was appended.
    pub fn last(&self) -> Zxid {
        self.last
    }

    /// The time of the last transaction, milliseconds since 1970. It never decreases, although clocks do.
    pub fn time_ms(&self) -> i64 {
        self.time_ms
    }

    /// Bytes of the open segment.
    pub fn open_bytes(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.bytes.len() as u64)
    }

    /// Appends a committed transaction. `now_ms` is the local clock. Returns a segment that is full.
    pub fn append(&mut self, zxid: Zxid, time_ms: i64, payload: &[u8], now_ms: i64) -> Option<ClosedSegment> {
        self.time_ms = self.time_ms.max(time_ms);
        let open = self.open.get_or_insert_with(|| ClosedSegment {
            after: self.last,
            first: zxid,
            last: zxid,
            first_ms: self.time_ms,
            last_ms: self.time_ms,
            transactions: 0,
            since_ms: now_ms,
            bytes: HEADER.to_vec(),
            sealing: Sealing::Plain,
        });
        append_payload(payload, &mut open.bytes);
        open.last = zxid;
        open.last_ms = self.time_ms;
        open.transactions += 1;
        self.last = zxid;
        let is_full = open.bytes.len() as u64 >= self.limits.bytes;
        if is_full { self.close() } else { None }
    }

    /// When the first transaction of the open segment came, milliseconds of the local clock.
    pub fn since_ms(&self) -> Option<i64> {
        self.open.as_ref().map(|open| open.since_ms)
    }

    /// When the open segment is due, in milliseconds of the local clock.
    pub fn deadline(&self) -> Option<i64> {
        self.open.as_ref().map(|open| open.since_ms.saturating_add(self.limits.age_ms))
    }

    /// Closes the open segment if it is old enough.
    pub fn close_if_due(&mut self, now_ms: i64) -> Option<ClosedSegment> {
        if self.deadline().is_some_and(|deadline| deadline <= now_ms) { self.close() } else { None }
    }

    /// Closes the open segment.
    pub fn close(&mut self) -> Option<ClosedSegment> {
        self.open.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: SegmentLimits = SegmentLimits { bytes: 100, age_ms: 10 };

    #[test]
    fn segments_close_by_size_and_by_age() {
        let mut segmenter = Segmenter::new(LIMITS, Zxid(5), 1000);
        assert_eq!(segmenter.append(Zxid(6), 1001, &[1; 32], 0), None);
        assert_eq!(segmenter.deadline(), Some(10));
        assert_eq!(segmenter.close_if_due(9), None);
        let full = segmenter.append(Zxid(7), 1002, &[2; 32], 3).expect("2 entries of 45 bytes and a header");
        assert_eq!((full.after, full.first, full.last), (Zxid(5), Zxid(6), Zxid(7)));
        assert_eq!((full.first_ms, full.last_ms, full.transactions), (1001, 1002, 2));
        assert!(full.bytes.starts_with(b"ZKLG"));
        assert_eq!(segmenter.append(Zxid(8), 1003, &[3; 32], 20), None);
        assert_eq!(segmenter.close_if_due(29), None);
        let old = segmenter.close_if_due(30).unwrap();
        assert_eq!((old.after, old.first, old.last), (Zxid(7), Zxid(8), Zxid(8)));
        assert_eq!((segmenter.close(), segmenter.deadline()), (None, None));
    }

    #[test]
    fn times_never_go_back() {
        let mut segmenter = Segmenter::new(LIMITS, Zxid(5), 1000);
        segmenter.append(Zxid(6), 900, &[1; 8], 0);
        segmenter.append(Zxid(7), 1200, &[1; 8], 0);
        segmenter.append(Zxid(8), 1100, &[1; 8], 0);
        let closed = segmenter.close().unwrap();
        assert_eq!((closed.first_ms, closed.last_ms), (1000, 1200));
    }
}
