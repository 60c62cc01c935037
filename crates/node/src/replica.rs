//! The replicated state and the watches of clients. Reads take it shared, on any thread; transactions take it
//! exclusively, on the core.
//!
//! A read registers its watch under the shared lock. Watch events enter the outboxes under the exclusive
//! lock. So no event is lost, and no read reply precedes its event.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use zebu_proto::txn::TxnEntry;
use zebu_proto::{Buffer, Permissions, Zxid};
use zebu_tree::watch::{WatchTable, WatcherId};
use zebu_tree::{Policy, Tree, TxnOutcome, access};

use crate::connection::{ClientConnection, ConnectionId, Connections};
use crate::listing_cache::ListingCache;
use crate::settings::AuthEnforcement;

/// The tree and the watches.
#[derive(Debug)]
pub struct Replica {
    pub(crate) tree: Tree,
    pub(crate) policy: Policy,
    pub(crate) enforcement: AuthEnforcement,
    digests: DigestHistory,
    pub(crate) listings: ListingCache,
    /// The number of times that the tree was replaced.
    generation: u64,
    watches: Mutex<WatchTable>,
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
        Replica { tree, policy, enforcement, digests, listings, generation: 0, watches }
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
        self.generation += 1;
        self.digests = DigestHistory::default();
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
    }

    /// Applies a committed transaction and sends its watch events.
    pub(crate) fn apply(&mut self, entry: &TxnEntry, connections: &mut impl Connections) -> TxnOutcome {
        let Replica { tree, policy, watches, digests, .. } = self;
        let watches = watches.get_mut().unwrap_or_else(PoisonError::into_inner);
        let outcome = tree.apply(&entry.header, &entry.txn, &mut |event| {
            watches.fire(event.kind, event.path, &mut |watcher| {
                connections.with(ConnectionId(watcher.0), |connection| {
                    // A client receives an event only for a node that it may read.
                    if access::allowed(event.acl, Permissions::READ, &connection.credentials, policy) {
                        connection.push_event(event.zxid.0, event.kind, event.path);
                    }
                });
            });
        });
        digests.record(tree);
        outcome
    }
}

/// The watcher id of a connection: both share their number.
pub(crate) fn watcher_id(connection: ConnectionId) -> WatcherId {
    WatcherId(connection.0)
}
