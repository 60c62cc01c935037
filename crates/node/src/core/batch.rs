//! A batch for the log: all transactions prepared since the last batch, framed as log entries. Appends share
//! one write and one sync.

use zebu_proto::Zxid;
use zebu_proto::txn::TxnEntry;
use zebu_storage::format::log::{append_entry, append_payload};

use crate::settings::NodeSettings;
use crate::split_mix::SplitMix64;

/// The action of the log after a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterAppend {
    /// Continue in the same file.
    Continue,
    /// Start a new file; a snapshot is due.
    RollAndSnapshot,
}

/// Transactions that become durable together.
#[derive(Debug, PartialEq, Eq)]
pub struct LogBatch {
    /// Framed log entries.
    pub bytes: Vec<u8>,
    /// The first transaction.
    pub first: Zxid,
    /// The last transaction. When it is durable, all are.
    pub last: Zxid,
    /// The number of transactions.
    pub transactions: u64,
    /// The action after the append.
    pub after: AfterAppend,
}

/// How soon a snapshot follows the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotPace {
    /// By the settings.
    Normal,
    /// With the next batch, then by the settings: the disk has begun to have little room.
    Next,
    /// After [`EARLY_BYTES`], or after a small part of the limits: the disk is full.
    Early,
}

/// The share of the limits of snapshots while the disk is full.
const EARLY_SHARE: u64 = 10;

/// The bytes of the log after which a snapshot is due while the disk is full.
const EARLY_BYTES: u64 = 16 << 20;

/// Where the first entry has its time: behind checksum, length, session, cxid and zxid.
const FIRST_TIME: std::ops::Range<usize> = 32..40;

impl LogBatch {
    /// The time of the first transaction by the leader's clock, in milliseconds since 1970.
    pub fn first_time_ms(&self) -> Option<i64> {
        Some(i64::from_be_bytes(self.bytes.get(FIRST_TIME)?.try_into().ok()?))
    }
}

/// Collects log entries, and counts towards the next snapshot.
#[derive(Debug)]
pub(crate) struct BatchBuilder {
    bytes: Vec<u8>,
    span: Option<(Zxid, Zxid)>,
    /// The number of transactions in `bytes`.
    transactions: u64,
    snap_count: u64,
    snap_bytes: Option<u64>,
    entries: u64,
    logged_bytes: u64,
    entries_max: u64,
    logged_bytes_max: u64,
    pace: SnapshotPace,
}

impl BatchBuilder {
    pub(crate) fn new(settings: &NodeSettings, random: &mut SplitMix64) -> BatchBuilder {
        let mut builder = BatchBuilder {
            bytes: Vec::new(),
            span: None,
            transactions: 0,
            snap_count: settings.snap_count,
            snap_bytes: settings.snap_bytes,
            entries: 0,
            logged_bytes: 0,
            entries_max: 0,
            logged_bytes_max: 0,
            pace: SnapshotPace::Normal,
        };
        builder.draw_limits(random);
        builder
    }

    pub(crate) fn set_pace(&mut self, pace: SnapshotPace) {
        self.pace = pace;
    }

    pub(crate) fn append(&mut self, entry: &TxnEntry) {
        let before = self.bytes.len();
        append_entry(entry, &mut self.bytes);
        self.count(entry.header.zxid, before);
    }

    /// Appends an encoded transaction.
    pub(crate) fn append_payload(&mut self, zxid: Zxid, payload: &[u8]) {
        let before = self.bytes.len();
        append_payload(payload, &mut self.bytes);
        self.count(zxid, before);
    }

    fn count(&mut self, zxid: Zxid, bytes_before: usize) {
        let first = self.span.map_or(zxid, |(first, _)| first);
        self.span = Some((first, zxid));
        self.transactions += 1;
        self.entries += 1;
        self.logged_bytes += (self.bytes.len() - bytes_before) as u64;
    }

    /// Returns the collected entries. The batch requests a snapshot if one is due and allowed.
    pub(crate) fn take(&mut self, random: &mut SplitMix64, allows_snapshot: bool) -> Option<LogBatch> {
        let (first, last) = self.span.take()?;
        let is_due = match self.pace {
            SnapshotPace::Normal => {
                self.entries > self.entries_max || self.logged_bytes > self.logged_bytes_max
            }
            SnapshotPace::Next => true,
            SnapshotPace::Early => {
                self.entries > self.entries_max / EARLY_SHARE
                    || self.logged_bytes > EARLY_BYTES.min(self.logged_bytes_max / EARLY_SHARE)
            }
        };
        let after = if is_due && allows_snapshot {
            self.draw_limits(random);
            if self.pace == SnapshotPace::Next {
                self.pace = SnapshotPace::Normal;
            }
            AfterAppend::RollAndSnapshot
        } else {
            AfterAppend::Continue
        };
        let transactions = std::mem::take(&mut self.transactions);
        // The next batch probably has a similar size, so its buffer need not grow step by step.
        let room = Vec::with_capacity(self.bytes.len());
        let bytes = std::mem::replace(&mut self.bytes, room);
        Some(LogBatch { bytes, first, last, transactions, after })
    }

    /// The limits are half fixed and half random, so that servers do not take their snapshots together.
    fn draw_limits(&mut self, random: &mut SplitMix64) {
        let half_of = |limit: u64, random: &mut SplitMix64| limit / 2 + random.below(limit / 2);
        self.entries = 0;
        self.logged_bytes = 0;
        self.entries_max = half_of(self.snap_count, random);
        self.logged_bytes_max = self.snap_bytes.map_or(u64::MAX, |limit| half_of(limit, random));
    }
}
