//! The replicated state and the watches of clients. Reads take it shared, on any thread; transactions take it
//! exclusively, on the core.
//!
//! A read registers its watch under the shared lock. Watch events enter the outboxes under the exclusive
//! lock. So no event is lost, and no read reply precedes its event.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zebu_metrics::WriteRun;
use zebu_proto::txn::TxnEntry;
use zebu_proto::{Buffer, Permissions, Zxid};
use zebu_tree::access::EnsembleMatch;
use zebu_tree::watch::{WatchTable, WatcherId};
use zebu_tree::{Policy, Tree, TxnOutcome, access};

use crate::connection::{ClientConnection, ConnectionId, Connections};
use crate::feed::{FeedSettings, FeedTable, FeedTxn};
use crate::freshness::ReplicaFreshness;
use crate::keeper::KeeperSettings;
use crate::listing::ListingSettings;
use crate::listing_cache::ListingCache;
use crate::metrics::NodeMetrics;
use crate::sasl::SaslSettings;
use crate::settings::AuthEnforcement;
use crate::traffic::TrafficSettings;

/// The tree and the watches.
#[derive(Debug)]
pub struct Replica {
    pub(crate) tree: Tree,
    pub(crate) policy: Policy,
    pub(crate) enforcement: AuthEnforcement,
    /// SASL for clients, if it is configured.
    pub(crate) sasl: Option<SaslSettings>,
    pub(crate) traffic: TrafficSettings,
    ensemble_auth: EnsembleAuthStats,
    digests: DigestHistory,
    pub(crate) listings: ListingCache,
    pub(crate) listing_settings: ListingSettings,
    pub(crate) freshness: ReplicaFreshness,
    /// Applied writes that are not counted by namespace yet.
    uncounted_writes: WriteRun,
    pub(crate) keeper: KeeperSettings,
    pub(crate) feeds: Arc<FeedTable>,
    pub(crate) feed_settings: FeedSettings,
    /// The number of times that the tree was replaced.
    generation: u64,
    watches: Mutex<WatchTable>,
    pub(crate) metrics: Arc<NodeMetrics>,
}

/// Answers to auth packets of the scheme `ensemble`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnsembleAuthCounts {
    /// Clients that named this ensemble.
    pub success: u64,
    /// Clients that named another ensemble.
    pub fail: u64,
    /// Packets without a name, or all packets if no name is configured.
    pub skip: u64,
}

#[derive(Debug, Default)]
struct EnsembleAuthStats {
    success: AtomicU64,
    fail: AtomicU64,
    skip: AtomicU64,
}

/// The tree digest at every 128th transaction, for comparison with other servers.
#[derive(Debug, Default)]
struct DigestHistory {
    entries: VecDeque<(Zxid, i64)>,
}

impl DigestHistory {
    const EVERY: i64 = 128;
    const ENTRIES_MAX: usize = 1024;

    fn record(&mut self, tree: &Tree) {
        if tree.last_zxid().0 % DigestHistory::EVERY == 0 {
            if self.entries.len() == DigestHistory::ENTRIES_MAX {
                self.entries.pop_front();
            }
            self.entries.push_back((tree.last_zxid(), tree.digest()));
        }
    }
}

impl Replica {
    /// Creates a replica of a loaded tree.
    pub fn new(tree: Tree, policy: Policy, enforcement: AuthEnforcement, hash_seed: u64) -> Replica {
        let watches = Mutex::new(WatchTable::new(hash_seed));
        let (digests, listings) = (DigestHistory::default(), ListingCache::default());
        let ensemble_auth = EnsembleAuthStats::default();
        Replica {
            tree,
            policy,
            enforcement,
            sasl: None,
            traffic: TrafficSettings::default(),
            ensemble_auth,
            digests,
            listings,
            listing_settings: ListingSettings::default(),
            freshness: ReplicaFreshness::new(),
            uncounted_writes: WriteRun::default(),
            keeper: KeeperSettings::default(),
            feeds: Arc::default(),
            feed_settings: FeedSettings::default(),
            generation: 0,
            watches,
            metrics: Arc::new(NodeMetrics::new(hash_seed)),
        }
    }

    /// Sets how ClickHouse may use this server.
    #[must_use]
    pub fn with_keeper(mut self, settings: KeeperSettings) -> Replica {
        self.keeper = settings;
        self
    }

    /// Measured values of this replica and of the node that uses it.
    pub fn metrics(&self) -> &Arc<NodeMetrics> {
        &self.metrics
    }

    /// The tree, for reading.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The last applied transaction.
    pub fn last_zxid(&self) -> Zxid {
        self.tree.last_zxid()
    }

    /// The number of times that the tree was replaced. A walk over the tree ends when it changes.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Recorded digests, oldest first.
    pub fn digest_history(&self) -> impl Iterator<Item = (Zxid, i64)> {
        self.digests.entries.iter().copied()
    }

    /// Writes the config into the config node without a transaction.
    pub fn set_config(&mut self, text: Buffer, version: Zxid, wall_ms: i64) {
        self.tree.write_config(text, version, wall_ms);
    }

    /// Replaces the tree with one that was received from a leader or reloaded after a truncation. No client
    /// is connected meanwhile.
    pub fn replace_tree(&mut self, tree: Tree) {
        self.tree = tree;
        self.listings.clear();
        self.feeds.forget_recent();
        self.generation += 1;
        self.digests = DigestHistory::default();
    }

    /// Counts the answer to an auth packet of the scheme `ensemble`.
    pub(crate) fn count_ensemble_auth(&self, answer: EnsembleMatch) {
        let counter = match answer {
            EnsembleMatch::Expected => &self.ensemble_auth.success,
            EnsembleMatch::Other => &self.ensemble_auth.fail,
            EnsembleMatch::Skipped => &self.ensemble_auth.skip,
        };
        counter.fetch_add(1, Relaxed);
    }

    /// Answers to auth packets of the scheme `ensemble` since the start.
    pub fn ensemble_auth_counts(&self) -> EnsembleAuthCounts {
        let EnsembleAuthStats { success, fail, skip } = &self.ensemble_auth;
        EnsembleAuthCounts {
            success: success.load(Relaxed),
            fail: fail.load(Relaxed),
            skip: skip.load(Relaxed),
        }
    }

    /// The access policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The watches. The lock is held briefly, never while the caller waits.
    pub fn watches(&self) -> MutexGuard<'_, WatchTable> {
        // A panic under this lock ends the connection that caused it. Every operation leaves the table
        // consistent, so other connections continue.
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a closed connection: its watches and its queued requests.
    pub fn remove_connection(&self, connection: &mut ClientConnection) {
        connection.close(crate::connection::DisconnectReason::ClientClosed);
        self.watches().remove_watcher(watcher_id(connection.id));
        self.feeds.close_connection(connection.id);
    }

    /// Applies a committed transaction and sends its watch events.
    pub(crate) fn apply(&mut self, entry: &TxnEntry, connections: &mut impl Connections) -> TxnOutcome {
        let Replica { tree, policy, watches, digests, metrics, uncounted_writes, feeds, .. } = self;
        let watches = watches.get_mut().unwrap_or_else(PoisonError::into_inner);
        metrics.count_write(uncounted_writes, entry);
        if feeds.open_feeds() > 0 {
            feeds.push(tree.last_zxid(), FeedTxn::before_apply(entry, tree));
        }
        let outcome = tree.apply(&entry.header, &entry.txn, &mut |event| {
            let mut fired = 0;
            watches.fire(event.kind, event.path, &mut |watcher| {
                fired += 1;
                connections.with(ConnectionId(watcher.0), |connection| {
                    // A client receives an event only for a node that it may read.
                    if access::allowed(event.acl, Permissions::READ, &connection.credentials, policy) {
                        connection.push_event(event.zxid.0, event.kind, event.path);
                    }
                });
            });
            metrics.count_fired(event.kind, fired);
        });
        digests.record(tree);
        outcome
    }

    /// Ends a batch of applied transactions: counts their writes.
    pub(crate) fn count_applied(&mut self) {
        self.metrics.namespaces.flush_writes(&mut self.uncounted_writes);
    }
}

/// The watcher id of a connection: both share their number.
pub(crate) fn watcher_id(connection: ConnectionId) -> WatcherId {
    WatcherId(connection.0)
}
