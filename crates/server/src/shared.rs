//! What every part of the edge can see.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::Relaxed};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use zebu_node::{Replica, ServerStats};

use crate::clock::Clock;
use crate::config::ServerConfig;
use crate::inbox::Inbox;
use crate::lanes::LaneRegistry;
use crate::large_requests::LargeRequests;
use crate::metrics::Metrics;
use crate::words::TRACE_MASK_DEFAULT;

/// The server, seen from a connection.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    pub(crate) clock: Clock,
    pub(crate) inbox: Inbox,
    pub(crate) lanes: LaneRegistry,
    pub(crate) stats: ServerStats,
    pub(crate) metrics: Metrics,
    pub(crate) large_requests: LargeRequests,
    /// Connections that are being served.
    pub(crate) connections: AtomicUsize,
    /// Set when the server stops: no new connection is served.
    pub(crate) stopping: AtomicBool,
    /// Set when the server ends as if it were killed: what waits for the disk never gets there.
    pub(crate) abandoned: AtomicBool,
    client_port: OnceLock<u16>,
    trace_mask: AtomicI64,
    replica: RwLock<Replica>,
}

impl Shared {
    pub(crate) fn new(config: ServerConfig, clock: Clock, replica: Replica) -> Shared {
        let throttled = config.request_throttle.max_requests.unwrap_or(u32::MAX);
        let room = config.limits.global_outstanding_limit.min(throttled).max(1);
        Shared {
            inbox: Inbox::new(room as usize),
            large_requests: LargeRequests::new(&config.limits),
            config,
            clock,
            lanes: LaneRegistry::default(),
            stats: ServerStats::default(),
            metrics: Metrics::default(),
            connections: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            client_port: OnceLock::new(),
            trace_mask: AtomicI64::new(TRACE_MASK_DEFAULT),
            replica: RwLock::new(replica),
        }
    }

    /// The port that clients connect to, once it is bound.
    pub(crate) fn client_port(&self) -> Option<u16> {
        self.client_port.get().copied()
    }

    /// Notes the port that was bound; only the first time counts.
    pub(crate) fn set_client_port(&self, port: u16) {
        let _ = self.client_port.set(port);
    }

    pub(crate) fn trace_mask(&self) -> i64 {
        self.trace_mask.load(Relaxed)
    }

    pub(crate) fn set_trace_mask(&self, mask: i64) {
        self.trace_mask.store(mask, Relaxed);
    }

    /// The replica for reading. Never poisoned: only the core writes, and its panic ends the process.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Replica> {
        self.replica.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The replica for the core.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Replica> {
        self.replica.write().unwrap_or_else(PoisonError::into_inner)
    }
}
