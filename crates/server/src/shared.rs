//! What every part of the edge can see.

use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use zebu_node::{Replica, ServerStats};
use zebu_tree::Tree;

use crate::clock::Clock;
use crate::config::ServerConfig;
use crate::inbox::Inbox;
use crate::lanes::LaneRegistry;
use crate::large_requests::LargeRequests;
use crate::metrics::Metrics;
use crate::words::TRACE_MASK_DEFAULT;

/// What a server does for clients, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has no peers.
    Standalone,
    /// Its ensemble has no leader, or it has not caught up.
    NotServing,
    /// It takes part.
    Serving(zebu_zab::Serving),
}

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
    /// Seed of the hash tables.
    pub(crate) hash_seed: u64,
    client_port: OnceLock<u16>,
    /// How often the whole state was replaced.
    generation: AtomicU64,
    /// With the moment at which it began.
    standing: Mutex<(Standing, i64)>,
    trace_mask: AtomicI64,
    replica: RwLock<Replica>,
}

impl Shared {
    pub(crate) fn new(config: ServerConfig, clock: Clock, replica: Replica, hash_seed: u64) -> Shared {
        let standing =
            if config.membership.is_ensemble() { Standing::NotServing } else { Standing::Standalone };
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
            hash_seed,
            client_port: OnceLock::new(),
            generation: AtomicU64::new(0),
            standing: Mutex::new((standing, 0)),
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

    /// How often the whole state was replaced; a walk over a state ends when that changes.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Acquire)
    }

    /// Puts another state in the place of the present one.
    pub(crate) fn replace_tree(&self, tree: Tree) {
        let mut replica = self.write();
        replica.replace_tree(tree);
        self.generation.fetch_add(1, Release);
    }

    /// What this server is in its ensemble.
    pub(crate) fn standing(&self) -> Standing {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// For how long it has been that.
    pub(crate) fn standing_ms(&self) -> i64 {
        let (_, since_ms) = *self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        self.clock.monotonic_ms() - since_ms
    }

    pub(crate) fn set_standing(&self, standing: Standing) {
        let since_ms = self.clock.monotonic_ms();
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner) = (standing, since_ms);
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
