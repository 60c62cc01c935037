//! Server-wide counters for `mntr`; the counters of single connections are elsewhere.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// A counter that only grows until it is reset.
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

/// Count, sum and extremes of a measured value.
#[derive(Debug)]
pub(crate) struct AvgMinMaxCounter {
    count: AtomicU64,
    sum: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
}

impl Default for AvgMinMaxCounter {
    fn default() -> AvgMinMaxCounter {
        AvgMinMaxCounter {
            count: AtomicU64::new(0),
            sum: AtomicU64::new(0),
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
        }
    }
}

impl AvgMinMaxCounter {
    pub(crate) fn add(&self, value: u64) {
        self.count.fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
        self.min.fetch_min(value, Relaxed);
        self.max.fetch_max(value, Relaxed);
    }

    /// Count, sum, minimum and maximum; zeros without samples.
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

/// Sizes of a leader's proposals.
#[derive(Debug)]
pub(crate) struct ProposalStats(Mutex<ProposalCounts>);

/// The count of proposals, and their sizes in bytes; -1 without any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProposalCounts {
    pub(crate) count: u64,
    pub(crate) last: i64,
    pub(crate) min: i64,
    pub(crate) max: i64,
    last_zxid: i64,
}

const NO_PROPOSALS: ProposalCounts =
    ProposalCounts { count: 0, last: -1, min: -1, max: -1, last_zxid: i64::MIN };

impl Default for ProposalStats {
    fn default() -> ProposalStats {
        ProposalStats(Mutex::new(NO_PROPOSALS))
    }
}

impl ProposalStats {
    /// Counts a proposal when it is first sent. Later sends of the same zxid synchronize learners.
    pub(crate) fn record(&self, zxid: i64, bytes: usize) {
        let mut proposals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if zxid <= proposals.last_zxid {
            return;
        }
        let size = bytes as i64;
        let ProposalCounts { count, min, max, .. } = *proposals;
        let min = if count == 0 { size } else { min.min(size) };
        *proposals =
            ProposalCounts { count: count + 1, last: size, min, max: max.max(size), last_zxid: zxid };
    }

    pub(crate) fn get(&self) -> ProposalCounts {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reset(&self) {
        let mut proposals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *proposals = ProposalCounts { last_zxid: proposals.last_zxid, ..NO_PROPOSALS };
    }
}

/// All server-wide metrics.
#[derive(Debug, Default)]
pub(crate) struct ServerMetrics {
    /// Accepted connections.
    pub(crate) connection_requests: Counter,
    /// Connections refused by a limit.
    pub(crate) connections_rejected: Counter,
    /// Closed connections.
    pub(crate) connections_dropped: Counter,
    /// Connections closed because they had no session in time.
    pub(crate) sessionless_expired: Counter,
    /// Bytes read from clients.
    pub(crate) bytes_received: Counter,
    /// Refused large requests.
    pub(crate) large_requests_rejected: Counter,
    /// Frames that were no valid request.
    pub(crate) bad_frames: Counter,
    /// Committed transactions.
    pub(crate) commits: Counter,
    /// Milliseconds per fsync of the log.
    pub(crate) fsync_ms: AvgMinMaxCounter,
    /// Transactions per fsync of the log.
    pub(crate) sync_batch: AvgMinMaxCounter,
    /// Milliseconds per snapshot.
    pub(crate) snapshot_ms: AvgMinMaxCounter,
    /// Snapshots that could not be written.
    pub(crate) snapshot_errors: Counter,
    /// Failed purges.
    pub(crate) purge_errors: Counter,
    /// Digests in the files that differed from the tree's.
    pub(crate) digest_mismatches: Counter,
    /// Learners synchronized with DIFF.
    pub(crate) diffs_sent: Counter,
    /// Learners synchronized with TRUNC.
    pub(crate) truncations_sent: Counter,
    /// Learners synchronized with SNAP.
    pub(crate) snapshots_sent: Counter,
    /// Proposals sent to learners.
    pub(crate) proposals: ProposalStats,
}

impl ServerMetrics {
    /// Resets all metrics, for `srst`.
    pub(crate) fn reset(&self) {
        let ServerMetrics {
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
            purge_errors,
            digest_mismatches,
            diffs_sent,
            truncations_sent,
            snapshots_sent,
            proposals,
        } = self;
        proposals.reset();
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
            purge_errors,
            digest_mismatches,
            diffs_sent,
            truncations_sent,
            snapshots_sent,
        ] {
            counter.reset();
        }
        [fsync_ms, sync_batch, snapshot_ms].iter().for_each(|summary| summary.reset());
    }
}
