//! Read views of a running server, for the admin server. They read the shared state as the
//! four-letter words do: no view runs on the core's thread, and no lock is held while a caller sends.
//!
//! The views hold plain values. They format nothing but numbers and addresses of Java.

mod access;
mod child_pages;
mod history;
mod name_list;
mod reconfig;
mod restore;
mod session_pages;
mod sessions;
mod snapshots;
mod subtrees;
mod top;
mod tree_reads;
mod tree_walk;
mod values;

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use tokio::io::DuplexStream;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use zebu_node::ServingMode;
use zebu_proto::{ServerId, Zxid};
use zebu_zab::Configuration;

use crate::config::ServerConfig;
use crate::core::context::ServerContext;
use crate::core::inbox::ControlEvent;
use crate::metrics::AdminCounters;
use crate::net::{local_connection, shed};

pub use crate::core::restore::{RestoreRefusal, RestoredSummary};
pub use crate::net::local_connection::{LocalCaller, LocalConnectionRefusal};
pub use crate::peers::learner_links::LearnerConnectionView;
pub use access::{CallerIdentity, RootAccess};
pub use child_pages::{ChildPage, ChildPageRequest, ChildView};
pub use history::{HistoryPart, LogPlace, NodeVersion, NodeVersionKind};
pub use name_list::{NameList, NameProgress, NameScan};
pub use reconfig::{ConfigChangeView, ConfigPreviewError};
pub use restore::StateUpload;
pub use session_pages::{ConnectedSessions, SessionDetailView, SessionPage, SessionRow};
pub use sessions::{SessionPaths, ViewTooLong, WatchedPaths};
pub use snapshots::{LastSnapshot, OperatorSnapshot, SnapshotRefusal};
pub use subtrees::{SubtreeProgress, SubtreeScan};
pub use top::{LargestNodes, TOP_ENTRIES_MAX, TopView};
pub use tree_reads::{AclView, DigestView, NodeView, StatView};
pub use tree_walk::{TreeWalk, WalkPlace, WalkProgress, WalkStep, WalkedNode};
pub use values::{
    ConnectionView, CoreView, EnvironmentView, LearnerView, ServerStatsView, SessionView, WatchSummaryView,
};
pub use zebu_zab::HandOverRefusal;

/// The views of one server. Clones share it.
#[derive(Clone, Debug)]
pub struct ServerViews {
    shared: Arc<ServerContext>,
    /// The network threads, which run the tasks of connections.
    runtime: Handle,
}

impl ServerViews {
    pub(crate) fn new(shared: Arc<ServerContext>, runtime: Handle) -> ServerViews {
        ServerViews { shared, runtime }
    }

    /// Opens a client connection from within the process. The caller speaks the client protocol on it,
    /// beginning with the connect request.
    ///
    /// # Errors
    /// The server stops, or a limit of connections is reached.
    pub fn open_connection(&self, caller: LocalCaller) -> Result<DuplexStream, LocalConnectionRefusal> {
        local_connection::open(&self.shared, &self.runtime, caller)
    }

    /// Counters that the admin server fills.
    pub fn admin_counters(&self) -> &AdminCounters {
        &self.shared.metrics.admin
    }

    /// The configuration.
    pub fn config(&self) -> &ServerConfig {
        &self.shared.config
    }

    /// The mode of this server; `None` if it serves no clients.
    pub fn serving_mode(&self) -> Option<ServingMode> {
        if self.is_stopping() { None } else { self.shared.serving_mode() }
    }

    /// Whether the server has received a request to stop.
    pub fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Acquire)
    }

    /// Asks the server to send its clients to the others, and to stop afterwards.
    pub fn request_drain(&self) {
        self.shared.drain_requested.notify_one();
    }

    /// Asks this leader to let another server lead. It goes on as a follower.
    ///
    /// # Errors
    /// See [`HandOverRefusal`].
    pub async fn hand_over(&self) -> Result<(), HandOverRefusal> {
        let (reply, begun) = oneshot::channel();
        self.shared.inbox.push_control(ControlEvent::HandOver(reply));
        begun.await.unwrap_or(Err(HandOverRefusal::NotReady))
    }

    /// The epoch of the leader, while this server serves in an ensemble.
    pub fn serving_epoch(&self) -> Option<u32> {
        self.shared.serving_epoch()
    }

    /// The active config; `None` for a standalone server.
    pub fn ensemble_config(&self) -> Option<Configuration> {
        self.shared.ensemble_config()
    }

    /// The id of this server, if it has one.
    pub fn server_id(&self) -> Option<ServerId> {
        self.shared.config.server_id()
    }

    /// The bound client port; `None` without one.
    pub fn client_port(&self) -> Option<u16> {
        self.shared.client_port()
    }

    /// The last applied transaction.
    pub fn last_zxid(&self) -> Zxid {
        self.shared.read_replica().last_zxid()
    }

    /// Zxid and digest of the tree, oldest first.
    pub fn digests(&self) -> Vec<(Zxid, i64)> {
        self.shared.read_replica().digest_history().collect()
    }

    /// ZooKeeper's trace mask. It has no effect.
    pub fn trace_mask(&self) -> i64 {
        self.shared.trace_mask()
    }

    /// Sets the trace mask.
    pub fn set_trace_mask(&self, mask: i64) {
        self.shared.set_trace_mask(mask);
    }

    /// Resets the counters of `srst`.
    pub fn reset_server_stats(&self) {
        self.shared.stats.reset();
        self.shared.metrics.reset();
        self.shared.traffic.reset();
    }

    /// Resets the counters of all connections.
    pub fn reset_connection_stats(&self) {
        self.shared.connections.all().iter().for_each(|entry| entry.lock().stats.reset());
    }

    /// Resets the counters of the connections of learners.
    pub fn reset_learner_connection_stats(&self) {
        self.shared.learner_links.reset();
    }

    /// Closes this percentage of the connections with a session; returns the number.
    pub fn shed_connections(&self, percentage: usize) -> usize {
        shed::close_share(&self.shared, percentage.min(100)).closed
    }
}
