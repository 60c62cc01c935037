//! The replicated state with the watches that clients hold on it. Reads take it shared, on any thread;
//! transactions take it exclusively, on the core.
//!
//! A read registers its watch while it still holds the shared lock, and events enter their connections'
//! outboxes before the exclusive one is released: no trigger is lost and no read overtakes its event.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use zebu_proto::txn::TxnEntry;
use zebu_proto::{Buffer, Permissions, Zxid};
use zebu_tree::watch::{WatchTable, WatcherId};
use zebu_tree::{Outcome, Policy, Tree, access};

use crate::lane::{Lane, LaneId, Lanes};
use crate::settings::Enforcement;

/// Tree and watches.
#[derive(Debug)]
pub struct Replica {
    pub(crate) tree: Tree,
    pub(crate) policy: Policy,
    pub(crate) enforcement: Enforcement,
    digests: DigestHistory,
    watches: Mutex<WatchTable>,
}

/// What the tree hashed to at every 128th transaction, for comparison with other members.
#[derive(Debug, Default)]
struct DigestHistory {
    entries: VecDeque<(Zxid, i64)>,
}

impl DigestHistory {
    const EVERY: i64 = 128;
    const ENTRIES_MAX: usize = 1024;

    fn note(&mut self, tree: &Tree) {
        if tree.last_zxid().0 % DigestHistory::EVERY == 0 {
            if self.entries.len() == DigestHistory::ENTRIES_MAX {
                self.entries.pop_front();
            }
            self.entries.push_back((tree.last_zxid(), tree.digest()));
        }
    }
}

impl Replica {
    /// A replica around a loaded tree.
    pub fn new(tree: Tree, policy: Policy, enforcement: Enforcement, hash_seed: u64) -> Replica {
        let watches = Mutex::new(WatchTable::new(hash_seed));
        Replica { tree, policy, enforcement, digests: DigestHistory::default(), watches }
    }

    /// The tree, to read.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The last transaction that was applied.
    pub fn last_zxid(&self) -> Zxid {
        self.tree.last_zxid()
    }

    /// Digests of the past, oldest first.
    pub fn digest_history(&self) -> impl Iterator<Item = (Zxid, i64)> {
        self.digests.entries.iter().copied()
    }

    /// Shows the members of the ensemble to clients, outside the history: no transaction brings them.
    pub fn show_members(&mut self, text: Buffer, version: Zxid, wall_ms: i64) {
        self.tree.write_config(text, version, wall_ms);
    }

    /// Puts another state in place of the present one: one that came from a leader, or was loaded again after the
    /// log was cut. No client is connected meanwhile.
    pub fn replace_tree(&mut self, tree: Tree) {
        self.tree = tree;
        self.digests = DigestHistory::default();
    }

    /// The rules of access.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The watches. Held for a moment, never while anything is waited for.
    pub fn watches(&self) -> MutexGuard<'_, WatchTable> {
        // A panic while the table was held ends the connection that caused it; every operation on the table
        // leaves it consistent, so the others go on.
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a connection that is gone: its watches, and what waits in it.
    pub fn forget_lane(&self, lane: &mut Lane) {
        lane.close(crate::lane::CloseReason::Peer);
        self.watches().remove_watcher(watcher(lane.id));
    }

    /// Applies a committed transaction and tells the watchers.
    pub(crate) fn apply(&mut self, entry: &TxnEntry, lanes: &mut impl Lanes) -> Outcome {
        let Replica { tree, policy, watches, digests, .. } = self;
        let watches = watches.get_mut().unwrap_or_else(PoisonError::into_inner);
        let outcome = tree.apply(&entry.header, &entry.txn, &mut |event| {
            watches.fire(event.kind, event.path, &mut |watcher| {
                lanes.with(LaneId(watcher.0), |lane| {
                    // A client is told of a node only if it might read it.
                    if access::allowed(event.acl, Permissions::READ, &lane.credentials, policy) {
                        lane.push_event(event.zxid.0, event.kind, event.path);
                    }
                });
            });
        });
        digests.note(tree);
        outcome
    }
}

/// The watcher of a connection: they share their number.
pub(crate) fn watcher(lane: LaneId) -> WatcherId {
    WatcherId(lane.0)
}
