//! One node as it is stored. The fields of every node are in [`ZNode`]; fields that a new leaf does not need
//! are in a [`NodeBranch`], which is added on demand. Both are as small as possible: a tree has millions of
//! them.

use zebu_proto::StatPersisted;

use crate::acl_table::AclSlot;
use crate::data_store::DataRef;
use crate::name::Name;
use crate::owner_table::{OwnerSlot, OwnerTable};
use crate::slots::{NO_SLOT, SlotEntry};

/// The slot of a node while it exists; the slot is reused afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(pub(crate) u32);

impl NodeId {
    /// The root.
    pub(crate) const ROOT: NodeId = NodeId(0);
    /// The end of a list, the parent of the root.
    pub(crate) const NONE: NodeId = NodeId(NO_SLOT);

    /// The id, or `None` for [`NodeId::NONE`].
    pub(crate) fn some(self) -> Option<NodeId> {
        if self == NodeId::NONE { None } else { Some(self) }
    }

    pub(crate) fn slot(self) -> usize {
        self.0 as usize
    }
}

/// The slot of a [`NodeBranch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BranchId(pub(crate) u32);

impl BranchId {
    /// The node has none.
    pub(crate) const NONE: BranchId = BranchId(NO_SLOT);
}

/// Identifies the node in a slot. Numbers are assigned in the order of creation and never reused, so a
/// child's is larger than its parent's. The lowest bit says whether the node is part of the tree digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CreationOrder(u64);

impl CreationOrder {
    /// An empty slot.
    pub(crate) const DEAD: CreationOrder = CreationOrder(0);

    pub(crate) fn new(number: u64, counted: bool) -> CreationOrder {
        CreationOrder(number << 1 | u64::from(counted))
    }

    /// Position in the order of creation.
    pub(crate) fn number(self) -> u64 {
        self.0 >> 1
    }

    /// Whether the node is part of the tree digest.
    pub(crate) fn is_counted(self) -> bool {
        self.0 & 1 == 1
    }
}

/// The fields of every node. 104 bytes; the fields of the stat are flattened because a nested record would be
/// padded.
pub(crate) struct ZNode {
    pub(crate) name: Name,
    pub(crate) data: DataRef,
    pub(crate) birth: CreationOrder,
    pub(crate) czxid: i64,
    pub(crate) mzxid: i64,
    pub(crate) ctime: i64,
    pub(crate) mtime: i64,
    pub(crate) version: i32,
    /// Checksum of path and data; see [`crate::digest`].
    pub(crate) content: u32,
    pub(crate) acl: AclSlot,
    pub(crate) owner: OwnerSlot,
    pub(crate) branch: BranchId,
    pub(crate) parent: NodeId,
    pub(crate) next: NodeId,
    /// The previous sibling; for the first child the last one, so that appending is fast.
    pub(crate) previous: NodeId,
}

impl ZNode {
    /// A node without data and links, with the stat fields of every node.
    pub(crate) fn new(
        name: &str,
        content: u32,
        acl: AclSlot,
        birth: CreationOrder,
        stat: &StatPersisted,
    ) -> ZNode {
        ZNode {
            name: Name::new(name),
            data: DataRef::NULL,
            birth,
            czxid: stat.czxid,
            mzxid: stat.mzxid,
            ctime: stat.ctime,
            mtime: stat.mtime,
            version: stat.version,
            content,
            acl,
            owner: OwnerTable::NOBODY,
            branch: BranchId::NONE,
            parent: NodeId::NONE,
            next: NodeId::NONE,
            previous: NodeId::NONE,
        }
    }

    pub(crate) fn data_length(&self) -> usize {
        self.data.length()
    }
}

impl SlotEntry for ZNode {
    fn vacate(&mut self, next_empty: u32) {
        self.birth = CreationOrder::DEAD;
        self.name = Name::new("");
        self.data = DataRef::NULL;
        self.next = NodeId(next_empty);
    }

    fn next_empty(&self) -> u32 {
        self.next.0
    }
}

/// Children, their counters in the stat, and the version of a changed ACL. 32 bytes.
#[derive(Clone, Copy)]
pub(crate) struct NodeBranch {
    pub(crate) pzxid: i64,
    pub(crate) cversion: i32,
    pub(crate) aversion: i32,
    pub(crate) child_count: u32,
    pub(crate) first_child: NodeId,
    /// The node's part of the tree digest, if known: every created or deleted child subtracts it.
    pub(crate) digest: Option<u32>,
}

impl NodeBranch {
    /// The values of a node without a branch.
    pub(crate) const fn of_leaf(czxid: i64) -> NodeBranch {
        NodeBranch {
            pzxid: czxid,
            cversion: 0,
            aversion: 0,
            child_count: 0,
            first_child: NodeId::NONE,
            digest: None,
        }
    }

    pub(crate) fn set_stat(&mut self, stat: &StatPersisted) {
        self.pzxid = stat.pzxid;
        self.cversion = stat.cversion;
        self.aversion = stat.aversion;
        self.digest = None;
    }

    /// Whether a node without children needs a branch.
    pub(crate) fn is_needed_for(stat: &StatPersisted) -> bool {
        stat.pzxid != stat.czxid || stat.cversion != 0 || stat.aversion != 0
    }
}

impl SlotEntry for NodeBranch {
    fn vacate(&mut self, next_empty: u32) {
        self.first_child = NodeId(next_empty);
    }

    fn next_empty(&self) -> u32 {
        self.first_child.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_stays_small() {
        assert_eq!((size_of::<ZNode>(), size_of::<NodeBranch>()), (104, 32));
    }
}
