//! What goes to the log in one piece: every transaction that was prepared since the last time, framed as
//! the log wants it. One batch is one write and one sync.

use zebu_proto::Zxid;
use zebu_proto::txn::TxnEntry;
use zebu_storage::format::log::{append_entry, append_payload};

use crate::random::Random;
use crate::settings::NodeSettings;

/// What the log does after a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterAppend {
    /// Goes on in the same file.
    Continue,
    /// Starts a new file; a snapshot is due.
    RollAndSnapshot,
}

/// Transactions to be made durable together.
#[derive(Debug, PartialEq, Eq)]
pub struct LogBatch {
    /// Framed log entries.
    pub bytes: Vec<u8>,
    /// The first transaction in it.
    pub first: Zxid,
    /// The last transaction in it. When it is durable, all are.
    pub last: Zxid,
    /// How many transactions it holds.
    pub transactions: u64,
    /// What follows.
    pub after: AfterAppend,
}

/// Whether a snapshot may be asked for: the state of a member that does not serve may hold what was never decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Snapshots {
    Allowed,
    Forbidden,
}

/// Collects entries, and counts towards the next snapshot.
#[derive(Debug)]
pub(crate) struct BatchBuilder {
    bytes: Vec<u8>,
    span: Option<(Zxid, Zxid)>,
    /// How many are in `bytes`.
    transactions: u64,
    snap_count: u64,
    snap_bytes: Option<u64>,
    entries: u64,
    logged_bytes: u64,
    entries_max: u64,
    logged_bytes_max: u64,
}

impl BatchBuilder {
    pub(crate) fn new(settings: &NodeSettings, random: &mut Random) -> BatchBuilder {
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
        };
        builder.draw_limits(random);
        builder
    }

    pub(crate) fn append(&mut self, entry: &TxnEntry) {
        let before = self.bytes.len();
        append_entry(entry, &mut self.bytes);
        self.count(entry.header.zxid, before);
    }

    /// Appends a transaction that is encoded already.
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

    pub(crate) fn take(&mut self, random: &mut Random, snapshots: Snapshots) -> Option<LogBatch> {
        let (first, last) = self.span.take()?;
        let is_due = self.entries > self.entries_max || self.logged_bytes > self.logged_bytes_max;
        let after = if is_due && snapshots == Snapshots::Allowed {
            self.draw_limits(random);
            AfterAppend::RollAndSnapshot
        } else {
            AfterAppend::Continue
        };
        let transactions = std::mem::take(&mut self.transactions);
        // The next batch is probably about as large: it need not grow step by step.
        let room = Vec::with_capacity(self.bytes.len());
        let bytes = std::mem::replace(&mut self.bytes, room);
        Some(LogBatch { bytes, first, last, transactions, after })
    }

    /// Half fixed, half random, so that the members of an ensemble do not take their snapshots together.
    fn draw_limits(&mut self, random: &mut Random) {
        let half_of = |limit: u64, random: &mut Random| limit / 2 + random.below(limit / 2);
        self.entries = 0;
        self.logged_bytes = 0;
        self.entries_max = half_of(self.snap_count, random);
        self.logged_bytes_max = self.snap_bytes.map_or(u64::MAX, |limit| half_of(limit, random));
    }
}
