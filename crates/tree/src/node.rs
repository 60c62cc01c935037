//! One node as it is stored. What every node has is in [`Node`]; what a leaf does not have before anything
//! happens to it is in a [`Branch`], which comes with the first need. Both are as small as they can be: a
//! tree has millions of them.

use zebu_proto::StatPersisted;

use crate::acl_table::AclSlot;
use crate::name::Name;
use crate::owner_table::{OwnerSlot, OwnerTable};
use crate::slots::{NO_SLOT, Slot};
use crate::values::Value;

/// Address of a node while it lives; the slot is reused afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(pub(crate) u32);

impl NodeId {
    /// The root.
    pub(crate) const ROOT: NodeId = NodeId(0);
    /// The end of a list, the parent of the root.
    pub(crate) const NONE: NodeId = NodeId(NO_SLOT);

    /// Whether there is a node.
    pub(crate) fn some(self) -> Option<NodeId> {
        if self == NodeId::NONE { None } else { Some(self) }
    }

    pub(crate) fn slot(self) -> usize {
        self.0 as usize
    }
}

/// Address of a [`Branch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BranchId(pub(crate) u32);

impl BranchId {
    /// The node has none.
    pub(crate) const NONE: BranchId = BranchId(NO_SLOT);
}

/// Which node a slot holds. Numbers are given in the order of creation and never again, so a child's
/// is larger than its parent's. The lowest bit says whether the node is part of the tree digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Birth(u64);

impl Birth {
    /// An empty slot.
    pub(crate) const DEAD: Birth = Birth(0);

    pub(crate) fn new(number: u64, counted: bool) -> Birth {
        Birth(number << 1 | u64::from(counted))
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

/// What every node has. 104 bytes; the fields of the stat are spread out because a nested record would be
/// padded.
pub(crate) struct Node {
    pub(crate) name: Name,
    pub(crate) data: Value,
    pub(crate) birth: Birth,
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
    /// The sibling before; for the first child the last one, so that appending is quick.
    pub(crate) previous: NodeId,
}

impl Node {
    /// A node that has no data and is not linked yet, with that part of the stat which every node has.
    pub(crate) fn new(
        parent: NodeId,
        name: &str,
        content: u32,
        acl: AclSlot,
        birth: Birth,
        stat: &StatPersisted,
    ) -> Node {
        Node {
            name: Name::new(name),
            data: Value::NULL,
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
            parent,
            next: NodeId::NONE,
            previous: NodeId::NONE,
        }
    }

    pub(crate) fn data_length(&self) -> usize {
        self.data.length()
    }
}

impl Slot for Node {
    fn vacate(&mut self, next_empty: u32) {
        self.birth = Birth::DEAD;
        self.name = Name::new("");
        self.data = Value::NULL;
        self.next = NodeId(next_empty);
    }

    fn next_empty(&self) -> u32 {
        self.next.0
    }
}

/// Children, the traces that they leave in the stat, and the trace of a changed ACL. 32 bytes.
#[derive(Clone, Copy)]
pub(crate) struct Branch {
    pub(crate) pzxid: i64,
    pub(crate) cversion: i32,
    pub(crate) aversion: i32,
    pub(crate) child_count: u32,
    pub(crate) first_child: NodeId,
    /// What the node adds to the tree digest, if that is known: every child that comes or goes takes it out.
    pub(crate) digest: Option<u32>,
}

impl Branch {
    /// What a node without a branch stands for.
    pub(crate) const fn of_leaf(czxid: i64) -> Branch {
        Branch {
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

    /// Whether a node without children needs one.
    pub(crate) fn is_needed_for(stat: &StatPersisted) -> bool {
        stat.pzxid != stat.czxid || stat.cversion != 0 || stat.aversion != 0
    }
}

impl Slot for Branch {
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
        assert_eq!((size_of::<Node>(), size_of::<Branch>()), (104, 32));
    }
}
