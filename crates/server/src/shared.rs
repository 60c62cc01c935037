//! What every part of the edge can see.

use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::watch;
use zebu_node::{Replica, ServerStats};
use zebu_tree::Tree;
use zebu_zab::Configuration;

use crate::clock::Clock;
use crate::config::ServerConfig;
use crate::config::membership::HostPort;
use crate::core::Core;
use crate::core_seat::CoreSeat;
use crate::disk_backlog::DiskBacklog;
use crate::dynamic_config;
use crate::inbox::Inbox;
use crate::lanes::LaneRegistry;
use crate::large_requests::LargeRequests;
use crate::metrics::Metrics;
use crate::net::PerAddress;
use crate::settings;
use crate::words::TRACE_MASK_DEFAULT;

/// What a server does for clients, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has no peers.
    Standalone,
    /// Its ensemble has no leader, or it has not caught up.
    NotServing,
    /// It is cut off from its ensemble, and serves reads.
    ReadOnly,
    /// It takes part.
    Serving(zebu_zab::Serving),
}

/// The server, seen from a connection.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    pub(crate) clock: Clock,
    pub(crate) inbox: Inbox,
    pub(crate) disk_backlog: DiskBacklog,
    pub(crate) core: CoreSeat<Core>,
    pub(crate) lanes: LaneRegistry,
    pub(crate) stats: Arc<ServerStats>,
    pub(crate) metrics: Metrics,
    pub(crate) large_requests: LargeRequests,
    pub(crate) per_address: PerAddress,
    /// Connections that are being served.
    pub(crate) connections: AtomicUsize,
    /// Set when the server stops: no new connection is served.
    pub(crate) stopping: AtomicBool,
    /// Set when the server ends as if it were killed: what waits for the disk never gets there.
    pub(crate) abandoned: AtomicBool,
    /// Seed of the hash tables.
    pub(crate) hash_seed: u64,
    client_port: Mutex<Option<u16>>,
    /// Where clients are to connect, if the members say that since the start.
    client_place: watch::Sender<Option<HostPort>>,
    /// The members, if there are others.
    members: Mutex<Option<Configuration>>,
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
        let room = settings::requests_max(&config);
        Shared {
            inbox: Inbox::new(room),
            disk_backlog: DiskBacklog::default(),
            core: CoreSeat::default(),
            large_requests: LargeRequests::new(&config.limits),
            config,
            clock,
            lanes: LaneRegistry::default(),
            stats: Arc::default(),
            metrics: Metrics::default(),
            per_address: PerAddress::default(),
            connections: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            hash_seed,
            client_port: Mutex::default(),
            client_place: watch::Sender::new(None),
            members: Mutex::default(),
            generation: AtomicU64::new(0),
            standing: Mutex::new((standing, 0)),
            trace_mask: AtomicI64::new(TRACE_MASK_DEFAULT),
            replica: RwLock::new(replica),
        }
    }

    /// The port that clients connect to, once it is bound.
    pub(crate) fn client_port(&self) -> Option<u16> {
        *locked(&self.client_port)
    }

    /// Notes the port that was bound.
    pub(crate) fn set_client_port(&self, port: u16) {
        *locked(&self.client_port) = Some(port);
    }

    /// Tells where clients are to connect, whenever that changes.
    pub(crate) fn client_place(&self) -> watch::Receiver<Option<HostPort>> {
        self.client_place.subscribe()
    }

    /// The members now, if there are others.
    pub(crate) fn members(&self) -> Option<Configuration> {
        locked(&self.members).clone()
    }

    /// These are the members at the start.
    pub(crate) fn keep_members(&self, configuration: Configuration) {
        *locked(&self.members) = Some(configuration);
    }

    /// These are the members from now on. Says so to clients, unless the history does.
    pub(crate) fn set_members(&self, configuration: Configuration, wall_ms: i64) {
        let own = self.config.membership.my_id.and_then(|me| configuration.members.get(&me));
        if let Some(place) = own.and_then(|own| own.client.clone()) {
            self.client_place.send_if_modified(|known| {
                let changes = known.as_ref() != Some(&place);
                *known = Some(place);
                changes
            });
        }
        if configuration.zxid().counter() == 0 {
            // No transaction brings it.
            let mut replica = self.write();
            if let Some(text) = dynamic_config::to_show(replica.tree(), &configuration, &self.config) {
                replica.show_members(text, configuration.zxid(), wall_ms);
            }
        }
        *locked(&self.members) = Some(configuration);
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
    pub(crate) fn replace_tree(&self, mut tree: Tree) {
        if let Some(members) = &*locked(&self.members)
            && let Some(text) = dynamic_config::to_show(&tree, members, &self.config)
        {
            tree.write_config(text, members.zxid(), self.clock.now().wall_ms);
        }
        let mut replica = self.write();
        replica.replace_tree(tree);
        self.generation.fetch_add(1, Release);
    }

    /// What this server is in its ensemble.
    pub(crate) fn standing(&self) -> Standing {
        locked(&self.standing).0
    }

    /// For how long it has been that.
    pub(crate) fn standing_ms(&self) -> i64 {
        let (_, since_ms) = *locked(&self.standing);
        self.clock.monotonic_ms() - since_ms
    }

    pub(crate) fn set_standing(&self, standing: Standing) {
        let since_ms = self.clock.monotonic_ms();
        *locked(&self.standing) = (standing, since_ms);
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

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
