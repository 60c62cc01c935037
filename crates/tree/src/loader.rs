//! Builds a tree from the content of a snapshot. Refuses an invalid tree; repairs the cases that ZooKeeper
//! repairs.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};

use crate::acl_table::{AclSlot, AclTable};
use crate::data_store::NewData;
use crate::mutate::NodeRecord;
use crate::node::NodeId;
use crate::options::TreeOptions;
use crate::path;
use crate::tree::Tree;

/// Why a snapshot is not a tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// A node comes before its parent, or its parent is missing.
    #[error("node {path:?} has no parent in the snapshot; the file is damaged, an older snapshot is needed")]
    MissingParent {
        /// The node.
        path: Box<str>,
    },
    /// The same node twice.
    #[error("node {path:?} is twice in the snapshot; the file is damaged, an older snapshot is needed")]
    Duplicate {
        /// The node.
        path: Box<str>,
    },
    /// An ACL id that leaves too few higher ones: each new ACL gets the next one.
    #[error("{id} is too high for the id of an ACL; the file is damaged, an older snapshot is needed")]
    BadAclId {
        /// The id.
        id: i64,
    },
    /// Not a path of a node.
    #[error("{path:?} is not the path of a node; the file is damaged, an older snapshot is needed")]
    BadPath {
        /// The text of the path.
        path: Box<str>,
    },
}

/// A tree that is being loaded. It is dropped after a failed load.
pub struct TreeLoader {
    tree: Tree,
    acls: BTreeMap<i64, AclSlot>,
    has_root: bool,
    /// The first ACL that was refused.
    acl_error: Option<LoadError>,
}

impl TreeLoader {
    /// An empty loader.
    pub fn new(options: TreeOptions) -> TreeLoader {
        TreeLoader { tree: Tree::bare(options), acls: BTreeMap::new(), has_root: false, acl_error: None }
    }

    /// A session of the table.
    pub fn session(&mut self, id: SessionId, timeout_ms: i32) {
        self.tree.sessions.insert(id, timeout_ms);
    }

    /// An ACL of the ACL table. It comes before the nodes that use it.
    pub fn acl(&mut self, id: i64, list: Vec<Acl>) {
        if let Err(error) = self.load_acl(id, || list) {
            // The next node reports it. Each snapshot has the root behind its ACLs.
            self.acl_error.get_or_insert(error);
        }
    }

    /// Loads an ACL, unless its id is known.
    fn load_acl(&mut self, id: i64, list: impl FnOnce() -> Vec<Acl>) -> Result<AclSlot, LoadError> {
        let tree = &mut self.tree;
        match self.acls.entry(id) {
            Entry::Occupied(entry) => Ok(*entry.get()),
            Entry::Vacant(entry) => {
                let slot = tree.acls.load(id, list()).ok_or(LoadError::BadAclId { id })?;
                Ok(*entry.insert(slot))
            }
        }
    }

    /// A node, after its parent; "" is the root. A node whose owner has an unknown type stays until a client
    /// deletes it. A transaction can create such a node, and every tree must be loadable.
    pub fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl_id: i64,
        stat: &StatPersisted,
    ) -> Result<(), LoadError> {
        if let Some(error) = &self.acl_error {
            return Err(error.clone());
        }
        let acl = self.acl_slot(acl_id)?;
        if path.is_empty() {
            return self.root(data, acl, stat);
        }
        let (parent_path, name) =
            path::split_stored(path).ok_or_else(|| LoadError::BadPath { path: path.into() })?;
        let parent = self.tree.find_parent(parent_path);
        let parent = parent.ok_or_else(|| LoadError::MissingParent { path: path.into() })?;
        let place = self.tree.names.place(&self.tree.nodes, parent, name.as_bytes());
        let place = place.map_err(|_| LoadError::Duplicate { path: path.into() })?;
        self.tree.attach(place, path, NodeRecord { name, data: NewData::Borrowed(data), acl, stat });
        Ok(())
    }

    /// The tree as it was at `zxid`, or later in parts: the history from there on is replayed over it.
    pub fn finish(mut self, zxid: Zxid) -> Tree {
        self.tree.last_zxid = zxid;
        self.tree.acls.drop_unused();
        self.tree.add_system_nodes();
        self.tree.rebuild_quotas();
        self.tree
    }

    fn root(&mut self, data: Option<&[u8]>, acl: AclSlot, stat: &StatPersisted) -> Result<(), LoadError> {
        if self.has_root {
            return Err(LoadError::Duplicate { path: "".into() });
        }
        self.has_root = true;
        self.tree.replace_data(NodeId::ROOT, "", NewData::Borrowed(data), |root| *root = *stat);
        self.tree.replace_acl(NodeId::ROOT, acl);
        Ok(())
    }

    /// The ACL with an id, with its use count incremented. The snapshot may lack an ACL that was added while
    /// it was written; the replay restores it. Until then the node grants no permission.
    fn acl_slot(&mut self, id: i64) -> Result<AclSlot, LoadError> {
        if id == self.tree.acls.id(AclTable::OPEN) {
            return Ok(AclTable::OPEN);
        }
        let slot = self.load_acl(id, || vec![Acl::new(0, "world", "anyone")])?;
        self.tree.acls.retain(slot);
        Ok(slot)
    }
}
