//! Counters per connection, and for the server since its start or the last reset.
//!
//! A server may have ten thousand idle connections, so the counters of a connection use narrow types.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use zebu_metrics::{Counter, LatencyDelta, NamespaceId, RequestLatencies};
use zebu_proto::OpCode;

use crate::metrics::NodeMetrics;

/// Counters of one connection.
#[derive(Clone, Debug)]
pub struct ConnectionStats {
    /// Wall clock milliseconds at which the connection was accepted.
    pub established_ms: i64,
    /// Frames received, the connect request and four-letter words included.
    pub packets_received: u64,
    /// Frames sent, events included.
    pub packets_sent: u64,
    /// The last operation that was answered; `None` before the first and after a reset.
    pub last_op: Option<OpCode>,
    /// The xid of the last operation, if it was not negative.
    pub last_cxid: i32,
    /// The zxid in the last reply.
    pub last_zxid: i64,
    /// Monotonic milliseconds of the last reply.
    pub last_response_ms: i64,
    /// The latency of the last operation, at most 49 days.
    pub last_latency_ms: u32,
    /// Latencies of all operations.
    pub latency: LatencyStats,
}

impl ConnectionStats {
    /// Counters of a new connection.
    pub fn new(established_ms: i64) -> ConnectionStats {
        ConnectionStats {
            established_ms,
            packets_received: 0,
            packets_sent: 0,
            last_op: None,
            last_cxid: -1,
            last_zxid: -1,
            last_response_ms: 0,
            last_latency_ms: 0,
            latency: LatencyStats::default(),
        }
    }

    /// Resets the counters, for the `crst` command.
    pub fn reset(&mut self) {
        *self = ConnectionStats::new(self.established_ms);
    }
}

/// Minimum, mean and maximum of latencies in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyStats {
    /// Number of samples.
    pub count: u64,
    /// Sum of the samples.
    pub total_ms: i64,
    /// Minimum; zero without samples.
    pub min_ms: u32,
    /// Maximum; zero without samples.
    pub max_ms: u32,
}

impl LatencyStats {
    /// Adds a sample.
    #[inline]
    pub fn add(&mut self, latency_ms: u32) {
        self.min_ms = if self.count == 0 { latency_ms } else { self.min_ms.min(latency_ms) };
        self.max_ms = self.max_ms.max(latency_ms);
        self.total_ms += i64::from(latency_ms);
        self.count += 1;
    }

    /// The mean, rounded down, as ZooKeeper shows it per connection.
    pub fn mean_ms(&self) -> i64 {
        if self.count == 0 { 0 } else { self.total_ms / self.count as i64 }
    }
}

/// Counters of a connection since its last report. The limits of a connection keep them small.
#[derive(Clone, Debug, Default)]
pub struct StatsDelta {
    /// Frames received.
    pub packets_received: u32,
    /// Frames sent.
    pub packets_sent: u32,
    /// Latencies of all requests.
    pub latency: LatencyStats,
    /// Refused authentications.
    pub auth_failures: u32,
    /// Bytes of the last reply; `None` without one. No reply is empty.
    pub last_response_bytes: Option<NonZeroU32>,
    /// Bytes of the largest reply.
    pub max_response_bytes: u32,
    /// Bytes of the smallest reply.
    pub min_response_bytes: u32,
    /// Bytes of all replies.
    pub response_bytes: u32,
    /// Bytes of all watch events.
    pub watch_bytes: u32,
    /// Latencies of reads and updates.
    pub latencies: LatencyDelta,
    /// Reads of the last namespace.
    pub reads: NamespaceReads,
}

/// Reads of one namespace since the last report.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamespaceReads {
    /// `None` before the first read.
    pub namespace: Option<NamespaceId>,
    /// Reads.
    pub count: u32,
    /// Bytes of their paths and data.
    pub bytes: u32,
}

impl StatsDelta {
    /// Records the length of a reply.
    #[inline]
    pub fn record_response(&mut self, bytes: u32) {
        self.min_response_bytes =
            if self.last_response_bytes.is_none() { bytes } else { self.min_response_bytes.min(bytes) };
        self.max_response_bytes = self.max_response_bytes.max(bytes);
        self.response_bytes = self.response_bytes.saturating_add(bytes);
        self.last_response_bytes = NonZeroU32::new(bytes);
    }
}

/// Counters of the server. A connection adds its counters once per batch, not per request.
#[derive(Debug)]
pub struct ServerStats {
    packets_received: AtomicU64,
    packets_sent: AtomicU64,
    auth_failures: AtomicU64,
    latency_count: AtomicU64,
    latency_total_ms: AtomicI64,
    latency_min_ms: AtomicU32,
    latency_max_ms: AtomicU32,
    response_last: AtomicI64,
    response_min: AtomicI64,
    response_max: AtomicI64,
    /// Bytes of replies.
    pub response_bytes: Counter,
    /// Bytes of watch events.
    pub watch_bytes: Counter,
    /// Latencies of reads and updates.
    pub latencies: RequestLatencies,
    /// The values of the node, which keeps the reads by namespace.
    node: Option<Arc<NodeMetrics>>,
}

impl Default for ServerStats {
    fn default() -> ServerStats {
        ServerStats {
            packets_received: AtomicU64::new(0),
            packets_sent: AtomicU64::new(0),
            auth_failures: AtomicU64::new(0),
            latency_count: AtomicU64::new(0),
            latency_total_ms: AtomicI64::new(0),
            latency_min_ms: AtomicU32::new(u32::MAX),
            latency_max_ms: AtomicU32::new(0),
            response_last: AtomicI64::new(-1),
            response_min: AtomicI64::new(-1),
            response_max: AtomicI64::new(-1),
            response_bytes: Counter::default(),
            watch_bytes: Counter::default(),
            latencies: RequestLatencies::default(),
            node: None,
        }
    }
}

impl ServerStats {
    /// Counters of a server with this node.
    pub fn new(node: Arc<NodeMetrics>) -> ServerStats {
        ServerStats { node: Some(node), ..ServerStats::default() }
    }

    /// Adds the counters of a connection.
    pub fn add(&self, unreported: &StatsDelta) {
        self.packets_received.fetch_add(u64::from(unreported.packets_received), Relaxed);
        self.packets_sent.fetch_add(u64::from(unreported.packets_sent), Relaxed);
        if unreported.auth_failures > 0 {
            self.auth_failures.fetch_add(u64::from(unreported.auth_failures), Relaxed);
        }
        if let (Some(node), NamespaceReads { namespace: Some(namespace), count, bytes }) =
            (&self.node, unreported.reads)
        {
            node.namespaces.record_reads(namespace, count, u64::from(bytes));
        }
        if unreported.watch_bytes > 0 {
            self.watch_bytes.add(u64::from(unreported.watch_bytes));
        }
        let latency = &unreported.latency;
        if latency.count > 0 {
            self.latency_count.fetch_add(latency.count, Relaxed);
            if latency.total_ms > 0 {
                self.latency_total_ms.fetch_add(latency.total_ms, Relaxed);
            }
            // A read costs less than an atomic change, and the extremes rarely change.
            if latency.min_ms < self.latency_min_ms.load(Relaxed) {
                self.latency_min_ms.fetch_min(latency.min_ms, Relaxed);
            }
            if latency.max_ms > self.latency_max_ms.load(Relaxed) {
                self.latency_max_ms.fetch_max(latency.max_ms, Relaxed);
            }
            self.latencies.add(&unreported.latencies);
        }
        if let Some(last) = unreported.last_response_bytes {
            self.response_last.store(i64::from(last.get()), Relaxed);
            self.response_bytes.add(u64::from(unreported.response_bytes));
            let max = i64::from(unreported.max_response_bytes);
            if max > self.response_max.load(Relaxed) {
                self.response_max.fetch_max(max, Relaxed);
            }
            // -1 means no reply yet; as an unsigned number it is the greatest.
            let min = u64::from(unreported.min_response_bytes);
            if min < self.response_min.load(Relaxed) as u64 {
                let smaller = |now: i64| Some((now as u64).min(min) as i64);
                let _ = self.response_min.fetch_update(Relaxed, Relaxed, smaller);
            }
        }
    }

    /// Resets the counters, for the `srst` command.
    pub fn reset(&self) {
        let fresh = ServerStats::default();
        self.packets_received.store(0, Relaxed);
        self.packets_sent.store(0, Relaxed);
        self.latency_count.store(0, Relaxed);
        self.latency_total_ms.store(0, Relaxed);
        self.latency_min_ms.store(fresh.latency_min_ms.into_inner(), Relaxed);
        self.latency_max_ms.store(0, Relaxed);
        self.response_last.store(-1, Relaxed);
        self.response_min.store(-1, Relaxed);
        self.response_max.store(-1, Relaxed);
        self.response_bytes.reset();
        self.watch_bytes.reset();
        self.latencies.reads.reset();
        self.latencies.updates.reset();
    }

    /// Frames received and sent.
    pub fn packets(&self) -> (u64, u64) {
        (self.packets_received.load(Relaxed), self.packets_sent.load(Relaxed))
    }

    /// Refused authentications.
    pub fn auth_failures(&self) -> u64 {
        self.auth_failures.load(Relaxed)
    }

    /// Latencies of all requests.
    pub fn latency(&self) -> LatencyStats {
        let count = self.latency_count.load(Relaxed);
        let min_ms = self.latency_min_ms.load(Relaxed);
        LatencyStats {
            count,
            total_ms: self.latency_total_ms.load(Relaxed),
            min_ms: if min_ms == u32::MAX { 0 } else { min_ms },
            max_ms: self.latency_max_ms.load(Relaxed),
        }
    }

    /// Bytes of the last, smallest and largest reply; -1 before the first.
    pub fn response_bytes(&self) -> (i64, i64, i64) {
        (self.response_last.load(Relaxed), self.response_min.load(Relaxed), self.response_max.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_add_up_and_reset() {
        let stats = ServerStats::default();
        assert_eq!(stats.response_bytes(), (-1, -1, -1));
        let mut unreported = StatsDelta { packets_received: 3, packets_sent: 2, ..Default::default() };
        unreported.latency.add(7);
        unreported.latency.add(3);
        unreported.record_response(20);
        unreported.record_response(100);
        stats.add(&unreported);
        stats.add(&StatsDelta { packets_sent: 1, ..Default::default() });
        assert_eq!(stats.packets(), (3, 3));
        assert_eq!(stats.latency(), LatencyStats { count: 2, total_ms: 10, min_ms: 3, max_ms: 7 });
        assert_eq!(stats.latency().mean_ms(), 5);
        assert_eq!(stats.response_bytes(), (100, 20, 100));
        stats.reset();
        assert_eq!(stats.packets(), (0, 0));
        assert_eq!(stats.latency(), LatencyStats::default());
    }
}
