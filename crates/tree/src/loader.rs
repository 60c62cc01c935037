//! Builds a tree from what a snapshot holds. Refuses what cannot be a tree; repairs what ZooKeeper repairs.

use std::collections::BTreeMap;

use zebu_proto::{Acl, Buffer, SessionId, StatPersisted, Zxid};

use crate::acl_table::{AclSlot, AclTable};
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
    /// Not a path of a node.
    #[error("{path:?} is not the path of a node; the file is damaged, an older snapshot is needed")]
    BadPath {
        /// What stands there.
        path: Box<str>,
    },
}

/// A tree that is being loaded. A failed load is thrown away with it.
pub struct TreeLoader {
    tree: Tree,
    acls: BTreeMap<i64, AclSlot>,
    has_root: HasRoot,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HasRoot {
    Yes,
    No,
}

impl TreeLoader {
    /// Nothing loaded yet.
    pub fn new(options: TreeOptions) -> TreeLoader {
        TreeLoader { tree: Tree::bare(options), acls: BTreeMap::new(), has_root: HasRoot::No }
    }

    /// A session of the table.
    pub fn session(&mut self, id: SessionId, timeout_ms: i32) {
        self.tree.sessions.insert(id, timeout_ms);
    }

    /// A list of the ACL table. Comes before the nodes that use it.
    pub fn acl(&mut self, id: i64, list: Vec<Acl>) {
        let tree = &mut self.tree;
        self.acls.entry(id).or_insert_with(|| tree.acls.load(id, list));
    }

    /// A node, after its parent; "" is the root. One whose owner has a type that is not known stays until somebody
    /// deletes it: a transaction can make such a node, and what a tree can hold it must be able to load.
    pub fn node(
        &mut self,
        path: &str,
        data: Buffer,
        acl_id: i64,
        stat: &StatPersisted,
    ) -> Result<(), LoadError> {
        let acl = self.acl_slot(acl_id);
        if path.is_empty() {
            return self.root(data, acl, stat);
        }
        let (parent_path, name) =
            path::split_stored(path).ok_or_else(|| LoadError::BadPath { path: path.into() })?;
        let parent = self.tree.find_parent(parent_path);
        let parent = parent.ok_or_else(|| LoadError::MissingParent { path: path.into() })?;
        if self.tree.child(parent, name).is_some() {
            return Err(LoadError::Duplicate { path: path.into() });
        }
        self.tree.attach(parent, path, &data, acl, stat);
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

    fn root(&mut self, data: Buffer, acl: AclSlot, stat: &StatPersisted) -> Result<(), LoadError> {
        if self.has_root == HasRoot::Yes {
            return Err(LoadError::Duplicate { path: "".into() });
        }
        self.has_root = HasRoot::Yes;
        self.tree.replace_data(NodeId::ROOT, "", &data, |root| *root = *stat);
        self.tree.replace_acl(NodeId::ROOT, acl);
        Ok(())
    }

    /// The list under an id, with one use more. A list that the snapshot missed, because it was made while
    /// the snapshot was written, comes back with the replay; until then nobody has any permission.
    fn acl_slot(&mut self, id: i64) -> AclSlot {
        if id == self.tree.acls.id(AclTable::OPEN) {
            return AclTable::OPEN;
        }
        let tree = &mut self.tree;
        let nobody = || vec![Acl::new(0, "world", "anyone")];
        let slot = *self.acls.entry(id).or_insert_with(|| tree.acls.load(id, nobody()));
        tree.acls.retain(slot);
        slot
    }
}
