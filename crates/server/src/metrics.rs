//! Counters of the edge that are not a connection's: shown by `mntr`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn increment(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(crate) fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

/// Number, sum and extremes of a measured value.
#[derive(Debug)]
pub(crate) struct Summary {
    count: AtomicU64,
    sum: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
}

impl Default for Summary {
    fn default() -> Summary {
        Summary {
            count: AtomicU64::new(0),
            sum: AtomicU64::new(0),
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
        }
    }
}

impl Summary {
    pub(crate) fn add(&self, value: u64) {
        self.count.fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
        self.min.fetch_min(value, Relaxed);
        self.max.fetch_max(value, Relaxed);
    }

    /// Count, sum, least and greatest value; zeros without samples.
    pub(crate) fn get(&self) -> (u64, u64, u64, u64) {
        let count = self.count.load(Relaxed);
        let min = if count == 0 { 0 } else { self.min.load(Relaxed) };
        (count, self.sum.load(Relaxed), min, self.max.load(Relaxed))
    }

    pub(crate) fn reset(&self) {
        self.count.store(0, Relaxed);
        self.sum.store(0, Relaxed);
        self.min.store(u64::MAX, Relaxed);
        self.max.store(0, Relaxed);
    }
}

/// What the edge counts.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Connections that were accepted.
    pub(crate) connection_requests: Counter,
    /// Connections that were refused by a limit.
    pub(crate) connections_rejected: Counter,
    /// Connections that were closed, for whatever reason.
    pub(crate) connections_dropped: Counter,
    /// Connections without a session that took too long.
    pub(crate) sessionless_expired: Counter,
    /// Bytes read from clients.
    pub(crate) bytes_received: Counter,
    /// Large requests that were refused.
    pub(crate) large_requests_rejected: Counter,
    /// Frames that were no request.
    pub(crate) bad_frames: Counter,
    /// Transactions that were committed.
    pub(crate) commits: Counter,
    /// Milliseconds per sync of the log.
    pub(crate) fsync_ms: Summary,
    /// Transactions per sync of the log.
    pub(crate) sync_batch: Summary,
    /// Milliseconds per snapshot.
    pub(crate) snapshot_ms: Summary,
    /// Snapshots that could not be written.
    pub(crate) snapshot_errors: Counter,
    /// Digests in the files that were not those of the tree.
    pub(crate) digest_mismatches: Counter,
}

impl Metrics {
    /// What the `srst` word does.
    pub(crate) fn reset(&self) {
        let Metrics {
            connection_requests,
            connections_rejected,
            connections_dropped,
            sessionless_expired,
            bytes_received,
            large_requests_rejected,
            bad_frames,
            commits,
            fsync_ms,
            sync_batch,
            snapshot_ms,
            snapshot_errors,
            digest_mismatches,
        } = self;
        for counter in [
            connection_requests,
            connections_rejected,
            connections_dropped,
            sessionless_expired,
            bytes_received,
            large_requests_rejected,
            bad_frames,
            commits,
            snapshot_errors,
            digest_mismatches,
        ] {
            counter.reset();
        }
        [fsync_ms, sync_batch, snapshot_ms].iter().for_each(|summary| summary.reset());
    }
}
