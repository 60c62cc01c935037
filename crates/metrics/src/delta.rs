//! Latencies of one connection, gathered without atomics until they are added to the summaries of the server.

use crate::buckets::{bucket_of, largest_in};
use crate::histogram::Histogram;
use crate::summary::Summary;

/// Different latencies that a delta keeps apart. Further ones join the nearest.
const SLOTS: usize = 4;

/// The bit of a slot's key that marks updates.
const UPDATE_BIT: u16 = 1 << 15;

/// Whether a request became a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestClass {
    /// Answered from the tree.
    Read,
    /// A transaction.
    Update,
}

/// The summaries and histograms of both classes.
#[derive(Debug)]
pub struct RequestLatencies {
    /// Milliseconds per read.
    pub reads: Summary,
    /// Milliseconds per update.
    pub updates: Summary,
    /// Microseconds per read, in steps of a millisecond.
    pub read_durations: Histogram,
    /// Microseconds per update, in steps of a millisecond.
    pub update_durations: Histogram,
}

impl Default for RequestLatencies {
    fn default() -> RequestLatencies {
        RequestLatencies {
            reads: Summary::default(),
            updates: Summary::default(),
            read_durations: Histogram::durations(),
            update_durations: Histogram::durations(),
        }
    }
}

impl RequestLatencies {
    /// Adds the latencies of a connection.
    pub fn add(&self, delta: &LatencyDelta) {
        if delta.zero_reads > 0 {
            self.reads.record_n(0, u64::from(delta.zero_reads));
            self.read_durations.record_n(0, u64::from(delta.zero_reads));
        }
        for slot in 0..SLOTS {
            let count = u64::from(delta.counts[slot]);
            if count == 0 {
                break;
            }
            let key = delta.keys[slot];
            let is_update = key & UPDATE_BIT != 0;
            let value = largest_in(usize::from(key & !UPDATE_BIT));
            let (summary, durations) = if is_update {
                (&self.updates, &self.update_durations)
            } else {
                (&self.reads, &self.read_durations)
            };
            summary.record_n(value, count);
            durations.record_n(value * 1000, count);
        }
    }
}

/// Latencies in milliseconds since the last report. Small, because each connection has one. Latencies above
/// 32 ms are rounded up by at most 6 %.
#[derive(Clone, Debug, Default)]
pub struct LatencyDelta {
    /// Reads that were answered within a millisecond, nearly all.
    zero_reads: u32,
    counts: [u32; SLOTS],
    /// Bucket and class.
    keys: [u16; SLOTS],
}

impl LatencyDelta {
    /// Adds a request.
    #[inline]
    pub fn add(&mut self, class: RequestClass, latency_ms: u32) {
        match class {
            RequestClass::Read if latency_ms == 0 => self.zero_reads += 1,
            RequestClass::Read => self.add_key(bucket_of(u64::from(latency_ms))),
            RequestClass::Update => self.add_key(bucket_of(u64::from(latency_ms)) | UPDATE_BIT),
        }
    }

    #[inline]
    fn add_key(&mut self, key: u16) {
        if self.keys[0] == key && self.counts[0] > 0 {
            self.counts[0] += 1;
        } else {
            self.add_other_key(key);
        }
    }

    fn add_other_key(&mut self, key: u16) {
        let has = |slot: &usize| self.counts[*slot] == 0 || self.keys[*slot] == key;
        let slot = (0..SLOTS).find(has).unwrap_or_else(|| self.nearest(key));
        if self.counts[slot] == 0 {
            self.keys[slot] = key;
        }
        self.counts[slot] += 1;
    }

    /// The slot of the same class with the nearest latency, or any slot.
    fn nearest(&self, key: u16) -> usize {
        (0..SLOTS).min_by_key(|slot| self.keys[*slot].abs_diff(key)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_gets_its_latencies() {
        let mut delta = LatencyDelta::default();
        for (class, latency_ms) in [
            (RequestClass::Read, 0),
            (RequestClass::Update, 0),
            (RequestClass::Read, 0),
            (RequestClass::Read, 3),
            (RequestClass::Update, 3),
            (RequestClass::Update, 1000),
        ] {
            delta.add(class, latency_ms);
        }
        let latencies = RequestLatencies::default();
        latencies.add(&delta);
        latencies.add(&LatencyDelta::default());
        assert_eq!(latencies.reads.since_reset(), (3, 3, 0, 3));
        assert_eq!(latencies.updates.since_reset(), (3, 1026, 0, 1023));
        assert_eq!(latencies.update_durations.snapshot().count(), 3);
    }

    #[test]
    fn latencies_without_a_slot_join_the_nearest_of_their_class() {
        let mut delta = LatencyDelta::default();
        delta.add(RequestClass::Read, 30);
        for latency_ms in [1, 10, 20, 21, 2] {
            delta.add(RequestClass::Update, latency_ms);
        }
        let latencies = RequestLatencies::default();
        latencies.add(&delta);
        assert_eq!(latencies.reads.since_reset(), (1, 30, 30, 30));
        assert_eq!(latencies.updates.since_reset(), (5, 1 + 10 + 20 + 20 + 1, 1, 20));
    }
}
