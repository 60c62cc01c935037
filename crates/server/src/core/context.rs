//! The state that all parts of the server share: config, core, connections, replica and metrics.
//!
//! Locks are taken in this order, never the other way round:
//! - the core slot (`executor.rs`); `run_or_wake` only tries it, and its caller holds no lock;
//! - the connection map (`net/connections.rs`), shared during a batch, never twice on one thread;
//! - the replica: shared for reads and preparation, exclusive for commits;
//! - one connection (`net/connections.rs`), never two;
//! - the watches and the feeds, inside the replica.
//!
//! The exclusive replica lock owns the watches: a commit locks connections below it.
//! The inbox lock is a leaf: no other lock is taken under it. The links lock and then an outbox
//! lock (`peers/links.rs`) are taken under the core slot, or alone.
//! `replace_tree` takes the config lock before the replica; only the core calls it.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use tokio::sync::watch;
use zebu_node::feed::FeedTable;
use zebu_node::{Replica, ServerStats, ServingMode};
use zebu_tree::Tree;
use zebu_zab::Configuration;

use crate::audit::AuditLog;
use crate::clock::Clock;
use crate::config::ServerConfig;
use crate::config::membership::HostPort;
use crate::core::executor::CoreExecutor;
use crate::core::inbox::CoreInbox;
use crate::core::server_core::ServerCore;
use crate::disk::backlog::DiskBacklog;
use crate::disk::room_status::RoomStatus;
use crate::disk::snapshotter::{OperatorReply, SnapshotHandle};
use crate::dynamic_config;
use crate::feeds::FeedSignals;
use crate::four_letter::collect::TRACE_MASK_DEFAULT;
use crate::metrics::ServerMetrics;
use crate::net::client_sasl::ClientSasl;
use crate::net::connections::ConnectionRegistry;
use crate::net::large_requests::LargeRequestBudget;
use crate::net::unread_answers::{UNREAD_TOTAL_MAX, UnreadAnswers};
use crate::net::{AddressLimits, TlsUse};
use crate::peers::learner_links::LearnerLinks;
use crate::refusal_log::RefusalLog;
use crate::settings;
use crate::sync::{
    AtomicBool, AtomicI64, AtomicUsize, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use crate::tls::counters::ProtectionCounters;
use crate::traffic::TrafficMonitor;

/// How this server serves clients, for reports.
#[derive(Clone, Copy, Debug)]
struct ServingStatus {
    /// `None` while the ensemble has no leader, or this server is not synchronized.
    mode: Option<ServingMode>,
    /// The epoch of the leader; `None` without one.
    epoch: Option<u32>,
    /// Time in monotonic milliseconds at which the mode began.
    since_ms: i64,
    /// Whether the server served before it lost its leader.
    has_served: bool,
}

/// The shared state of one server.
#[derive(Debug)]
pub(crate) struct ServerContext {
    pub(crate) config: ServerConfig,
    pub(crate) clock: Clock,
    pub(crate) inbox: CoreInbox,
    pub(crate) disk_backlog: DiskBacklog,
    pub(crate) disk_room: RoomStatus,
    pub(crate) core: CoreExecutor<ServerCore>,
    pub(crate) connections: ConnectionRegistry,
    /// The feeds of the replica.
    pub(crate) feeds: Arc<FeedTable>,
    pub(crate) feed_signals: FeedSignals,
    pub(crate) stats: Arc<ServerStats>,
    pub(crate) metrics: ServerMetrics,
    pub(crate) traffic: TrafficMonitor,
    pub(crate) learner_links: LearnerLinks,
    /// `None` without `audit.enable=true`.
    pub(crate) audit: Option<Arc<AuditLog>>,
    pub(crate) large_requests: LargeRequestBudget,
    /// Connections of ClickHouse servers that ask for another protocol.
    pub(crate) clickhouse_refusals: RefusalLog,
    pub(crate) unread_answers: UnreadAnswers,
    pub(crate) per_address: AddressLimits,
    pub(crate) tls_use: TlsUse,
    pub(crate) sasl: ClientSasl,
    pub(crate) protection: ProtectionCounters,
    /// Open client connections.
    pub(crate) connection_count: AtomicUsize,
    /// Set when the server stops: new connections are refused.
    pub(crate) stopping: AtomicBool,
    /// An operator asks for a drain and a stop, by the admin server.
    pub(crate) drain_requested: tokio::sync::Notify,
    /// Set when the server ends as if killed: pending disk writes are discarded.
    pub(crate) aborted: AtomicBool,
    /// Seed of the hash tables.
    pub(crate) hash_seed: u64,
    client_port: Mutex<Option<u16>>,
    secure_client_port: Mutex<Option<u16>>,
    /// The client address that a config announced since the start.
    client_address: watch::Sender<Option<HostPort>>,
    /// The active config; `None` for a standalone server.
    ensemble_config: Mutex<Option<Configuration>>,
    /// The state, and the monotonic time in ms at which it began.
    serving_status: Mutex<ServingStatus>,
    trace_mask: AtomicI64,
    /// For snapshots that an operator requests; `None` before the thread starts and after a stop.
    operator_snapshots: Mutex<Option<SnapshotHandle>>,
    replica: RwLock<Replica>,
}

impl ServerContext {
    pub(crate) fn new(config: ServerConfig, clock: Clock, replica: Replica, hash_seed: u64) -> ServerContext {
        let mode = (!config.membership.is_ensemble()).then_some(ServingMode::Standalone);
        let room = settings::outstanding_requests_max(&config);
        let room_bytes = settings::request_bytes_max(&config);
        ServerContext {
            inbox: CoreInbox::new(room, room_bytes),
            disk_backlog: DiskBacklog::default(),
            disk_room: RoomStatus::default(),
            core: CoreExecutor::default(),
            large_requests: LargeRequestBudget::new(&config.limits),
            clickhouse_refusals: RefusalLog::default(),
            unread_answers: UnreadAnswers::new(UNREAD_TOTAL_MAX),
            audit: AuditLog::from_config(&config.security.audit),
            sasl: ClientSasl::new(config.security.client_sasl.login.as_ref()),
            learner_links: LearnerLinks::default(),
            traffic: TrafficMonitor::new(&config.traffic, hash_seed),
            config,
            clock,
            connections: ConnectionRegistry::default(),
            feeds: replica.feeds().clone(),
            feed_signals: FeedSignals::default(),
            stats: Arc::new(ServerStats::new(replica.metrics().clone())),
            metrics: ServerMetrics::default(),
            per_address: AddressLimits::default(),
            tls_use: TlsUse::default(),
            protection: ProtectionCounters::default(),
            connection_count: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            drain_requested: tokio::sync::Notify::new(),
            aborted: AtomicBool::new(false),
            hash_seed,
            client_port: Mutex::default(),
            secure_client_port: Mutex::default(),
            client_address: watch::Sender::new(None),
            ensemble_config: Mutex::default(),
            serving_status: Mutex::new(ServingStatus { mode, epoch: None, since_ms: 0, has_served: false }),
            trace_mask: AtomicI64::new(TRACE_MASK_DEFAULT),
            operator_snapshots: Mutex::default(),
            replica: RwLock::new(replica),
        }
    }

    /// The bound client port; `None` before the listener is bound.
    pub(crate) fn client_port(&self) -> Option<u16> {
        *lock(&self.client_port)
    }

    /// Records the bound client port.
    pub(crate) fn set_client_port(&self, port: u16) {
        *lock(&self.client_port) = Some(port);
    }

    /// The bound port for TLS; `None` without one.
    pub(crate) fn secure_client_port(&self) -> Option<u16> {
        *lock(&self.secure_client_port)
    }

    /// Records the bound port for TLS.
    pub(crate) fn set_secure_client_port(&self, port: u16) {
        *lock(&self.secure_client_port) = Some(port);
    }

    /// Announces each change of the client address.
    pub(crate) fn client_address(&self) -> watch::Receiver<Option<HostPort>> {
        self.client_address.subscribe()
    }

    /// The active config; `None` for a standalone server.
    pub(crate) fn ensemble_config(&self) -> Option<Configuration> {
        lock(&self.ensemble_config).clone()
    }

    /// Sets the config at the start.
    pub(crate) fn init_ensemble_config(&self, configuration: Configuration) {
        *lock(&self.ensemble_config) = Some(configuration);
    }

    /// Activates a config. Writes it to the config node too, unless a transaction does that.
    pub(crate) fn activate_config(&self, configuration: Configuration, wall_ms: i64) {
        let own = self.config.membership.my_id.and_then(|me| configuration.members.get(&me));
        if let Some(client_address) = own.and_then(|own| own.client.clone()) {
            self.client_address.send_if_modified(|known| {
                let changes = known.as_ref() != Some(&client_address);
                *known = Some(client_address);
                changes
            });
        }
        if configuration.zxid().counter() == 0 {
            // No transaction writes this config to the tree.
            let mut replica = self.write_replica();
            if let Some(text) = dynamic_config::config_node_data(replica.tree(), &configuration, &self.config)
            {
                replica.set_config(text, configuration.zxid(), wall_ms);
            }
        }
        *lock(&self.ensemble_config) = Some(configuration);
    }

    pub(crate) fn trace_mask(&self) -> i64 {
        self.trace_mask.load(Relaxed)
    }

    pub(crate) fn set_trace_mask(&self, mask: i64) {
        self.trace_mask.store(mask, Relaxed);
    }

    /// Lets operators request snapshots, or no longer. The snapshot thread ends when no handle is left.
    pub(crate) fn set_operator_snapshots(&self, handle: Option<SnapshotHandle>) {
        *lock(&self.operator_snapshots) = handle;
    }

    /// Requests an exact snapshot. Returns whether the snapshot thread takes the request.
    pub(crate) fn request_operator_snapshot(&self, reply: OperatorReply) -> bool {
        lock(&self.operator_snapshots).as_ref().is_some_and(|handle| handle.request_exact(reply))
    }

    /// Replaces the tree, and writes the active config into it.
    pub(crate) fn replace_tree(&self, mut tree: Tree) {
        if let Some(members) = &*lock(&self.ensemble_config)
            && let Some(text) = dynamic_config::config_node_data(&tree, members, &self.config)
        {
            tree.write_config(text, members.zxid(), self.clock.now().wall_ms);
        }
        self.write_replica().replace_tree(tree);
    }

    /// The mode of this server; `None` if it serves no clients.
    pub(crate) fn serving_mode(&self) -> Option<ServingMode> {
        lock(&self.serving_status).mode
    }

    /// Whether a connect request is answered or waits for the next leader.
    pub(crate) fn takes_connects(&self) -> bool {
        let ServingStatus { mode, since_ms, has_served, .. } = *lock(&self.serving_status);
        let grace_ms = self.config.sessions.election_grace.as_millis();
        let elapsed_ms = u128::try_from(self.clock.monotonic_ms() - since_ms).unwrap_or(0);
        mode.is_some() || (has_served && elapsed_ms < grace_ms)
    }

    /// The epoch of the leader, while this server serves in an ensemble.
    pub(crate) fn serving_epoch(&self) -> Option<u32> {
        lock(&self.serving_status).epoch
    }

    /// Time in ms since the serving mode changed.
    pub(crate) fn serving_mode_age_ms(&self) -> i64 {
        self.clock.monotonic_ms() - lock(&self.serving_status).since_ms
    }

    pub(crate) fn set_serving_mode(&self, mode: Option<ServingMode>, epoch: Option<u32>) {
        let since_ms = self.clock.monotonic_ms();
        let mut status = lock(&self.serving_status);
        let has_served = status.mode.is_some();
        *status = ServingStatus { mode, epoch, since_ms, has_served };
    }

    /// The replica, shared. Only the core takes it exclusively, and its panic ends the process.
    pub(crate) fn read_replica(&self) -> RwLockReadGuard<'_, Replica> {
        self.replica.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The replica, exclusive. For the core only.
    pub(crate) fn write_replica(&self) -> RwLockWriteGuard<'_, Replica> {
        self.replica.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
