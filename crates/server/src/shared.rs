//! What every part of the edge can see.

use std::sync::atomic::AtomicBool;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use zebu_node::{Replica, ServerStats};

use crate::clock::Clock;
use crate::config::ServerConfig;
use crate::inbox::Inbox;
use crate::large_requests::LargeRequests;
use crate::lanes::LaneRegistry;
use crate::metrics::Metrics;

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
    /// Set when the server stops: no new connection is served.
    pub(crate) stopping: AtomicBool,
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
            stopping: AtomicBool::new(false),
            replica: RwLock::new(replica),
        }
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
