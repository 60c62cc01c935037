//! The observed requests of clients at the edge: the sketches behind `zebu top`, and the log of slow
//! requests and large replies. Connection tasks report here, after they released the replica's lock.

pub(crate) mod largest_nodes;
mod request_log;

use std::sync::PoisonError;

use zebu_metrics::{Counter, HotMeasure, HotSketches, HotTable, RequestClient};
use zebu_node::{ConnectionSession, TrafficReport};

use crate::clock::Clock;
use crate::config::traffic::TrafficConfig;
use crate::net::connections::ConnectionEntry;
use crate::sync::Mutex;
use largest_nodes::LargestNodesCache;
use request_log::RequestLog;

/// The observed requests of a server.
#[derive(Debug)]
pub(crate) struct TrafficMonitor {
    /// `None` if no samples are taken. No other lock is taken under this one.
    sketches: Option<Mutex<HotSketches>>,
    sample_every: u32,
    log: RequestLog,
    pub(crate) largest_nodes: LargestNodesCache,
    /// Requests above `zebu.slowRequestMs`.
    pub(crate) slow_requests: Counter,
    /// Replies above `zebu.largeReplyBytes`.
    pub(crate) large_replies: Counter,
}

impl TrafficMonitor {
    pub(crate) fn new(config: &TrafficConfig, hash_seed: u64) -> TrafficMonitor {
        TrafficMonitor {
            sketches: config.sample_every.map(|_| Mutex::new(HotSketches::new(hash_seed))),
            sample_every: config.sample_every.unwrap_or(0),
            log: RequestLog::default(),
            largest_nodes: LargestNodesCache::default(),
            slow_requests: Counter::default(),
            large_replies: Counter::default(),
        }
    }

    /// Adds the observations of a connection. The caller holds no lock.
    pub(crate) fn record(
        &self,
        entry: &ConnectionEntry,
        session: Option<ConnectionSession>,
        report: &TrafficReport,
        clock: &Clock,
    ) {
        let session = session.map_or(0, |session| session.id.0);
        if let (Some(sketches), false) = (&self.sketches, report.samples.is_empty()) {
            let address = entry.remote_address.ip().to_canonical();
            let client = RequestClient { address, user: report.user.as_deref(), session };
            let mut sketches = sketches.lock().unwrap_or_else(PoisonError::into_inner);
            for sample in &report.samples {
                sketches.record(sample, client, u64::from(self.sample_every), clock.monotonic_ms());
            }
        }
        self.slow_requests.add(report.more_slow);
        self.large_replies.add(report.more_large);
        for request in &report.notable {
            if request.is_slow {
                self.slow_requests.increment();
            }
            if request.is_large {
                self.large_replies.increment();
            }
            self.log.log(entry.remote_address, session, request);
        }
    }

    /// One of this many requests is sampled; zero if none is.
    pub(crate) fn sample_every(&self) -> u32 {
        self.sample_every
    }

    /// The heaviest keys by each of these measures.
    pub(crate) fn tables(&self, measures: &[HotMeasure], limit: usize, now_ms: i64) -> Vec<HotTable> {
        let Some(sketches) = &self.sketches else { return Vec::new() };
        let mut sketches = sketches.lock().unwrap_or_else(PoisonError::into_inner);
        measures.iter().flat_map(|measure| sketches.tables(*measure, limit, now_ms)).collect()
    }

    /// Resets the counters for `mntr`.
    pub(crate) fn reset(&self) {
        self.slow_requests.reset();
        self.large_replies.reset();
    }
}
