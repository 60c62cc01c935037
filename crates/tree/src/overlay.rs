//! Changes that are prepared but not applied: the next request is checked against them.
//!
//! The overlay is keyed by path ("" is the root), stores the latest record per path, and drops a record when
//! its transaction is applied.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use foldhash::quality::FixedState;
use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;
use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};

/// Nodes that one request visits, and those that requests visit without a change before a transaction is
/// applied: these requests are prepared together.
pub(crate) const VISITS_MAX: usize = 200_000;

/// A node as it will be after the pending transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingNode {
    pub(crate) stat: StatPersisted,
    pub(crate) child_count: u32,
    pub(crate) acl: Arc<[Acl]>,
    pub(crate) data_length: usize,
    /// Checksum of path and data.
    pub(crate) content: u32,
    /// Its part of the tree digest.
    pub(crate) digest: i64,
    /// The session of an ordinary ephemeral.
    pub(crate) session: Option<SessionId>,
}

/// The latest pending change of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OverlayRecord {
    pub(crate) zxid: Zxid,
    /// `None`: it will be deleted.
    pub(crate) node: Option<PendingNode>,
}

/// Pending changes ahead of the tree.
#[derive(Debug)]
pub struct Overlay {
    records: HashMap<Arc<str>, OverlayRecord, FixedState>,
    /// The paths that each transaction changed, oldest first.
    order: VecDeque<(Zxid, Arc<str>)>,
    /// Pending ephemeral nodes by session.
    ephemerals: BTreeMap<SessionId, BTreeSet<Arc<str>>>,
    /// The tree digest after all pending changes; only meaningful while there are any.
    pub(crate) digest: i64,
    /// Nodes that requests have visited without a change, since a transaction was applied: no transaction
    /// bounds this work.
    wasted_visits: usize,
    /// The undo log of the request that is being prepared; empty between requests.
    pub(crate) undo: Vec<(Arc<str>, Option<OverlayRecord>)>,
}

impl Overlay {
    /// An empty overlay. The seed is that of the tree's options.
    pub fn new(hash_seed: u64) -> Overlay {
        Overlay {
            records: HashMap::with_hasher(FixedState::with_seed(hash_seed)),
            order: VecDeque::new(),
            ephemerals: BTreeMap::new(),
            digest: 0,
            wasted_visits: 0,
            undo: Vec::new(),
        }
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// How many changes are pending.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// The transactions up to `zxid` have been applied to the tree.
    pub fn applied(&mut self, zxid: Zxid) {
        self.wasted_visits = 0;
        while self.order.front().is_some_and(|(pending, _)| *pending <= zxid) {
            let Some((_, path)) = self.order.pop_front() else {
                return;
            };
            if self.records.get(&path).is_some_and(|record| record.zxid <= zxid) {
                self.restore(&path, None);
            }
        }
    }

    /// Drops everything: the transactions will never be applied.
    pub fn clear(&mut self) {
        self.records.clear();
        self.order.clear();
        self.ephemerals.clear();
        self.wasted_visits = 0;
    }

    /// The number of nodes that the next request may visit without a change.
    pub(crate) fn visits_left(&self) -> usize {
        VISITS_MAX.saturating_sub(self.wasted_visits)
    }

    /// Counts nodes that a request has visited without a change.
    pub(crate) fn waste_visits(&mut self, count: usize) {
        self.wasted_visits = self.wasted_visits.saturating_add(count);
    }

    pub(crate) fn get(&self, path: &str) -> Option<&OverlayRecord> {
        if self.records.is_empty() { None } else { self.records.get(path) }
    }

    /// Sets the record of a path. Returns the path, which is shared with an earlier pending change, and the
    /// previous record.
    pub(crate) fn put(&mut self, path: &str, record: OverlayRecord) -> (Arc<str>, Option<OverlayRecord>) {
        let session = session_of(Some(&record));
        let (path, before) = match self.records.entry_ref(path) {
            EntryRef::Occupied(mut entry) => (entry.key().clone(), Some(entry.insert(record))),
            EntryRef::Vacant(entry) => (entry.insert_entry_with_key(path.into(), record).key().clone(), None),
        };
        if let Some(session) = session {
            self.ephemerals.entry(session).or_default().insert(path.clone());
        }
        self.forget_ephemeral(&path, session_of(before.as_ref()).filter(|before| session != Some(*before)));
        (path, before)
    }

    /// Restores the previous record, or removes the record.
    pub(crate) fn restore(&mut self, path: &str, record: Option<OverlayRecord>) {
        match record {
            Some(record) => drop(self.put(path, record)),
            None => {
                let before = self.records.remove(path);
                self.forget_ephemeral(path, session_of(before.as_ref()));
            }
        }
    }

    fn forget_ephemeral(&mut self, path: &str, session: Option<SessionId>) {
        if let Some(session) = session
            && let Some(paths) = self.ephemerals.get_mut(&session)
        {
            paths.remove(path);
            if paths.is_empty() {
                self.ephemerals.remove(&session);
            }
        }
    }

    /// The transaction is prepared: its records are dropped when it is applied.
    pub(crate) fn commit(&mut self, zxid: Zxid, paths: impl Iterator<Item = Arc<str>>) {
        self.order.extend(paths.map(|path| (zxid, path)));
    }

    /// Paths of nodes that pending requests create or change, in no order.
    pub(crate) fn existing_paths(&self) -> impl Iterator<Item = &str> {
        self.records.iter().filter(|(_, record)| record.node.is_some()).map(|(path, _)| &**path)
    }

    /// Paths of nodes that will be ephemerals of a session.
    pub(crate) fn ephemerals_of(&self, session: SessionId) -> impl Iterator<Item = &Arc<str>> {
        self.ephemerals.get(&session).into_iter().flatten()
    }
}

fn session_of(record: Option<&OverlayRecord>) -> Option<SessionId> {
    record?.node.as_ref()?.session
}
