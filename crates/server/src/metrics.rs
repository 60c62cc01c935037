//! Counters of the edge that are not a connection's: shown by `mntr`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

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

/// Sizes of what a leader has proposed.
#[derive(Debug)]
pub(crate) struct ProposalSizes(Mutex<Proposals>);

/// How many proposals there were, and how large they were in bytes; -1 without any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proposals {
    pub(crate) count: u64,
    pub(crate) last: i64,
    pub(crate) min: i64,
    pub(crate) max: i64,
    zxid: i64,
}

const NO_PROPOSALS: Proposals = Proposals { count: 0, last: -1, min: -1, max: -1, zxid: i64::MIN };

impl Default for ProposalSizes {
    fn default() -> ProposalSizes {
        ProposalSizes(Mutex::new(NO_PROPOSALS))
    }
}

impl ProposalSizes {
    /// Counts a proposal the first time that it is sent to anyone; old ones are sent again to who lacks them.
    pub(crate) fn count(&self, zxid: i64, bytes: usize) {
        let mut proposals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if zxid <= proposals.zxid {
            return;
        }
        let size = bytes as i64;
        let Proposals { count, min, max, .. } = *proposals;
        let min = if count == 0 { size } else { min.min(size) };
        *proposals = Proposals { count: count + 1, last: size, min, max: max.max(size), zxid };
    }

    pub(crate) fn get(&self) -> Proposals {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reset(&self) {
        let mut proposals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *proposals = Proposals { zxid: proposals.zxid, ..NO_PROPOSALS };
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
    /// Purges that failed.
    pub(crate) purge_errors: Counter,
    /// Digests in the files that were not those of the tree.
    pub(crate) digest_mismatches: Counter,
    /// Members that got the transactions that they lacked.
    pub(crate) diffs_sent: Counter,
    /// Members that had to cut their log.
    pub(crate) truncations_sent: Counter,
    /// Members that got the whole state.
    pub(crate) snapshots_sent: Counter,
    /// What was proposed to members.
    pub(crate) proposals: ProposalSizes,
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
