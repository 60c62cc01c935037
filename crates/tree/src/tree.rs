//! The replicated state and its reads. Changes are in [`crate::mutate`] and [`crate::apply`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};

use crate::acl_table::AclTable;
use crate::arena::Arena;
use crate::data_store::NewData;
use crate::digest;
use crate::mutate::NodeRecord;
use crate::name_index::NameIndex;
use crate::node::{NodeId, ZNode};
use crate::node_ref::NodeRef;
use crate::options::{DigestMode, TreeOptions};
use crate::owner::Lifetime;
use crate::path;
use crate::quota::QuotaRoots;
use crate::sibling_orders::{ChildBound, SiblingOrders, SortLimits, sort_children};
use crate::trait_table::NodeTraits;

/// Nodes, ACLs, sessions: everything that is equal on all servers after the same transactions.
pub struct Tree {
    pub(crate) options: TreeOptions,
    pub(crate) nodes: Arena,
    pub(crate) names: NameIndex,
    /// The parent of the last created node, with its path: the next one often has the same parent.
    pub(crate) last_parent: (NodeId, String),
    pub(crate) acls: AclTable,
    pub(crate) ephemerals: BTreeMap<SessionId, BTreeSet<NodeId>>,
    pub(crate) ephemeral_count: usize,
    pub(crate) containers: BTreeSet<NodeId>,
    pub(crate) ttl_nodes: BTreeSet<NodeId>,
    pub(crate) quotas: QuotaRoots,
    pub(crate) sessions: BTreeMap<SessionId, i32>,
    pub(crate) digest: i64,
    pub(crate) last_zxid: Zxid,
    /// Bytes of all paths and data.
    pub(crate) data_size: usize,
    /// Closed sessions with ephemeral nodes that were applied without a list of their paths.
    pub(crate) unlisted_ends: u64,
    /// Readers build orders under a shared lock of the tree; changes own them.
    pub(crate) orders: Mutex<SiblingOrders>,
}

impl Tree {
    /// The initial tree: the nodes that exist without a transaction.
    pub fn new(options: TreeOptions) -> Tree {
        let mut tree = Tree::bare(options);
        tree.add_system_nodes();
        tree
    }

    /// A tree with only the root.
    pub(crate) fn bare(options: TreeOptions) -> Tree {
        let mut tree = Tree {
            options,
            nodes: Arena::new(),
            names: NameIndex::new(options.hash_seed),
            last_parent: (NodeId::ROOT, String::new()),
            acls: AclTable::new(options.hash_seed),
            ephemerals: BTreeMap::new(),
            ephemeral_count: 0,
            containers: BTreeSet::new(),
            ttl_nodes: BTreeSet::new(),
            quotas: QuotaRoots::default(),
            sessions: BTreeMap::new(),
            digest: 0,
            last_zxid: Zxid::ZERO,
            data_size: path::shown("").len(),
            unlisted_ends: 0,
            orders: Mutex::default(),
        };
        let content = digest::content_checksum("", None);
        let stat = StatPersisted::default();
        let traits = NodeTraits { owner: 0, acl: AclTable::OPEN, is_counted: true };
        let root = ZNode::new("", content, &stat);
        tree.nodes.insert(root, NewData::Borrowed(Some(&[])), traits, &stat);
        tree.digest = tree.digest_of(NodeId::ROOT);
        tree
    }

    /// Adds the missing system nodes.
    pub(crate) fn add_system_nodes(&mut self) {
        let mut add = |parent: &str, name: &str, acl: Option<Vec<Acl>>, stat: StatPersisted| {
            let parent_id = self.find(parent)?;
            if let Ok(place) = self.names.place(&self.nodes, parent_id, name.as_bytes()) {
                let acl = self.acls.intern(acl.as_deref());
                self.attach(
                    place,
                    &format!("{parent}/{name}"),
                    NodeRecord { name, data: NewData::Borrowed(Some(&[])), acl, stat: &stat },
                );
            }
            Some(())
        };
        let stat = StatPersisted::default();
        let _ = add("", "zookeeper", None, stat);
        let _ = add(path::ZOOKEEPER, "quota", None, stat);
        let _ =
            add(path::ZOOKEEPER, "config", Some(Acl::read_only()), StatPersisted { aversion: -1, ..stat });
    }

    /// The options of the tree.
    pub fn options(&self) -> &TreeOptions {
        &self.options
    }

    /// The last transaction that was applied completely.
    pub fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    /// The tree digest; zero if it is disabled.
    pub fn digest(&self) -> i64 {
        match self.options.digest {
            DigestMode::On => self.digest,
            DigestMode::Off => 0,
        }
    }

    /// Every session with its timeout in milliseconds.
    pub fn sessions(&self) -> &BTreeMap<SessionId, i32> {
        &self.sessions
    }

    /// How many nodes there are. ZooKeeper counts the root under two names and reports one more.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// How many ephemeral nodes there are.
    pub fn ephemerals_count(&self) -> usize {
        self.ephemeral_count
    }

    /// Bytes of all paths and all data.
    pub fn approximate_data_size(&self) -> usize {
        self.data_size
    }

    /// The ephemeral nodes of a session, sorted.
    pub fn ephemerals_of(&self, session: SessionId) -> Vec<Box<str>> {
        let nodes = self.ephemerals.get(&session);
        let mut paths: Vec<Box<str>> =
            nodes.into_iter().flatten().map(|&id| self.path_of(id).into_boxed_str()).collect();
        paths.sort_unstable();
        paths
    }

    /// How many ephemeral nodes a session has.
    pub fn ephemerals_count_of(&self, session: SessionId) -> usize {
        self.ephemerals.get(&session).map_or(0, BTreeSet::len)
    }

    /// The ephemeral nodes of a session, in no particular order. A caller may take the first ones only.
    pub fn ephemeral_paths_of(&self, session: SessionId) -> impl Iterator<Item = String> {
        self.ephemerals.get(&session).into_iter().flatten().map(|&id| self.path_of(id))
    }

    /// Every session that has ephemeral nodes, in the order of their ids.
    pub fn sessions_with_ephemerals(&self) -> impl Iterator<Item = SessionId> {
        self.ephemerals.keys().copied()
    }

    /// The node at a path. "" and "/" are the root.
    pub fn node(&self, path: &str) -> Option<NodeRef<'_>> {
        self.find(path).map(|id| NodeRef::new(self, id))
    }

    /// How many nodes there are below a path, at any depth.
    pub fn all_children_number(&self, path: &str) -> Option<usize> {
        let top = self.find(path)?;
        if top == NodeId::ROOT {
            // For the empty path, ZooKeeper counts the root as one of its descendants.
            let counted_itself = usize::from(path.is_empty());
            return Some(self.nodes.len() - 1 + counted_itself);
        }
        Some(self.descendants(top).count())
    }

    /// Every ACL that is in use, with its id in snapshots.
    pub fn acl_table(&self) -> impl Iterator<Item = (i64, &Arc<[Acl]>)> {
        self.acls.iter()
    }

    pub(crate) fn find(&self, path: &str) -> Option<NodeId> {
        if path::canonical(path).is_empty() {
            return Some(NodeId::ROOT);
        }
        // As bytes: this dominates the cost of a read, and a slash is no part of another UTF-8 character.
        let mut names = path.strip_prefix('/')?.as_bytes().split(|&byte| byte == b'/');
        names.try_fold(NodeId::ROOT, |parent, name| self.names.find(&self.nodes, parent, name))
    }

    /// The node at a path, for a change: the next change is often a sibling.
    pub(crate) fn find_to_change(&mut self, path: &str) -> Option<NodeId> {
        match path::split_stored(path) {
            Some((parent_path, name)) => {
                let parent = self.find_parent(parent_path)?;
                self.child(parent, name)
            }
            None => self.find(path),
        }
    }

    /// The parent of a node that is to be changed, by the node's path.
    pub(crate) fn find_parent(&mut self, path: &str) -> Option<NodeId> {
        if self.last_parent.1 != path {
            self.last_parent.0 = self.find(path)?;
            path.clone_into(&mut self.last_parent.1);
        }
        Some(self.last_parent.0)
    }

    pub(crate) fn child(&self, parent: NodeId, name: &str) -> Option<NodeId> {
        self.names.find(&self.nodes, parent, name.as_bytes())
    }

    /// The path of an existing node; "" for the root.
    pub(crate) fn path_of(&self, id: NodeId) -> String {
        let mut names = Vec::new();
        let mut node = self.nodes.get(id);
        while node.parent != NodeId::NONE {
            names.push(node.name.as_str());
            node = self.nodes.get(node.parent);
        }
        let mut path = String::with_capacity(names.iter().map(|name| name.len() + 1).sum());
        for name in names.into_iter().rev() {
            path.push('/');
            path.push_str(name);
        }
        path
    }

    /// Every node below one, parents first. Follows links, so that depth costs no stack.
    pub(crate) fn descendants(&self, top: NodeId) -> impl Iterator<Item = NodeId> {
        let after = move |id: NodeId| {
            if let Some(child) = self.nodes.branch(self.nodes.get(id)).first_child.some() {
                return Some(child);
            }
            let mut at = id;
            while at != top {
                let node = self.nodes.get(at);
                if let Some(next) = node.next.some() {
                    return Some(next);
                }
                at = node.parent;
            }
            None
        };
        std::iter::successors(after(top), move |&id| after(id))
    }

    /// Up to `max` children of a node behind a bound, in its order. `None` if a later call has to continue
    /// the work; the caller releases the tree in between.
    pub fn children_after<'a>(
        &'a self,
        parent: &NodeRef<'a>,
        bound: ChildBound<'_>,
        max: usize,
        limits: SortLimits,
    ) -> Option<Vec<NodeRef<'a>>> {
        let parent_id = parent.id();
        let children = if parent.num_children() <= limits.at_once {
            sort_children(&self.nodes, parent_id, bound, max)
        } else {
            // An order is rebuilt if a panic has left it incomplete: its cursor tells.
            let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
            orders.children_after(&self.nodes, parent_id, bound, max, limits.per_slice)?
        };
        Some(children.into_iter().map(|id| NodeRef::new(self, id)).collect())
    }

    pub(crate) fn lifetime(&self, owner: i64) -> Lifetime {
        Lifetime::of_owner(owner, self.options.ttl_nodes)
    }

    /// A node's part of the tree digest.
    pub(crate) fn digest_of(&self, id: NodeId) -> i64 {
        let node = self.nodes.get(id);
        let state = self.nodes.state(node);
        state.digest.unwrap_or_else(|| self.digest_with(node, &state.stat))
    }

    /// The same for a node with this stat.
    pub(crate) fn digest_with(&self, node: &ZNode, stat: &StatPersisted) -> i64 {
        if self.options.digest == DigestMode::Off || !self.nodes.traits(node).is_counted {
            return 0;
        }
        digest::node_digest(node.content, stat)
    }
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree")
            .field("last_zxid", &self.last_zxid)
            .field("nodes", &self.nodes.len())
            .field("sessions", &self.sessions.len())
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}
