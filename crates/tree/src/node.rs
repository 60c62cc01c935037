//! One node as it is stored. The fields of every node are in [`ZNode`]. Fields that a new leaf does not
//! need are in a [`ChangeRecord`] and a [`NodeBranch`], which are added on demand: a leaf that was never set
//! takes 72 bytes instead of 104, one that was set 96. All are as small as possible: a tree has millions.

use zebu_proto::StatPersisted;

use crate::data_store::DataRef;
use crate::name::Name;
use crate::slots::{NO_SLOT, SlotEntry};
use crate::trait_table::{TraitSlot, TraitTable};

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

/// The slot of a [`ChangeRecord`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangeId(pub(crate) u32);

impl ChangeId {
    /// The node has none.
    pub(crate) const NONE: ChangeId = ChangeId(NO_SLOT);
}

/// The fields of every node. 72 bytes; the fields of the stat are flattened because a nested record would be
/// padded.
pub(crate) struct ZNode {
    pub(crate) name: Name,
    pub(crate) data: DataRef,
    pub(crate) czxid: i64,
    pub(crate) ctime: i64,
    /// Checksum of path and data; see [`crate::digest`].
    pub(crate) content: u32,
    /// ACL and owner. [`TraitSlot::NONE`] in an empty slot.
    pub(crate) traits: TraitSlot,
    pub(crate) change: ChangeId,
    pub(crate) parent: NodeId,
    pub(crate) next: NodeId,
    /// The previous sibling; for the first child the last one, so that appending is fast.
    pub(crate) previous: NodeId,
}

impl ZNode {
    /// A node without data and links, with the stat fields of every node.
    pub(crate) fn new(name: &str, content: u32, stat: &StatPersisted) -> ZNode {
        ZNode {
            name: Name::new(name),
            data: DataRef::NULL,
            czxid: stat.czxid,
            ctime: stat.ctime,
            content,
            traits: TraitTable::PLAIN,
            change: ChangeId::NONE,
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
        self.traits = TraitSlot::NONE;
        self.name = Name::new("");
        self.data = DataRef::NULL;
        self.next = NodeId(next_empty);
    }

    fn next_empty(&self) -> u32 {
        self.next.0
    }
}

/// The fields of a node whose data was changed since its creation, and the way to its [`NodeBranch`]. 24
/// bytes.
#[derive(Clone, Copy)]
pub(crate) struct ChangeRecord {
    pub(crate) mzxid: i64,
    pub(crate) mtime: i64,
    pub(crate) version: i32,
    pub(crate) branch: BranchId,
}

impl ChangeRecord {
    /// The values of a node without this record.
    pub(crate) const fn of_unchanged(node: &ZNode) -> ChangeRecord {
        ChangeRecord { mzxid: node.czxid, mtime: node.ctime, version: 0, branch: BranchId::NONE }
    }

    /// Whether a node without a branch needs this record.
    pub(crate) fn is_needed_for(stat: &StatPersisted) -> bool {
        stat.mzxid != stat.czxid || stat.mtime != stat.ctime || stat.version != 0
    }
}

impl SlotEntry for ChangeRecord {
    fn vacate(&mut self, next_empty: u32) {
        self.branch = BranchId(next_empty);
    }

    fn next_empty(&self) -> u32 {
        self.branch.0
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
        assert_eq!((size_of::<ZNode>(), size_of::<ChangeRecord>(), size_of::<NodeBranch>()), (72, 24, 32));
    }
}
