//! The storage of nodes and of their optional parts: a stat is composed here and split again. The arena does
//! not link nodes; the tree links parents and children.

use zebu_proto::{Buffer, StatPersisted};

use crate::data_store::DataStore;
use crate::node::{BranchId, CreationOrder, NodeBranch, NodeId, ZNode};
use crate::owner_table::OwnerTable;
use crate::slots::Slots;

/// All nodes.
pub(crate) struct Arena {
    nodes: Slots<ZNode>,
    branches: Slots<NodeBranch>,
    owners: OwnerTable,
    values: DataStore,
}

impl Arena {
    pub(crate) fn new() -> Arena {
        Arena {
            nodes: Slots::new(),
            branches: Slots::new(),
            owners: OwnerTable::new(),
            values: DataStore::new(),
        }
    }

    /// How many nodes exist.
    pub(crate) fn len(&self) -> usize {
        self.nodes.live()
    }

    /// How many slots there are, empty ones included.
    pub(crate) fn slots(&self) -> usize {
        self.nodes.count()
    }

    /// Adds a node that was made with this stat.
    pub(crate) fn insert(&mut self, mut node: ZNode, data: &Buffer, stat: &StatPersisted) -> NodeId {
        node.data = self.values.insert(data);
        node.owner = self.owners.intern(stat.ephemeral_owner);
        let id = NodeId(self.nodes.insert(node));
        if NodeBranch::is_needed_for(stat) {
            self.branch_mut(id).set_stat(stat);
        }
        id
    }

    /// Empties a slot. The name and the data are released at once.
    pub(crate) fn remove(&mut self, id: NodeId) {
        let node = self.get(id);
        let (data, owner, branch) = (node.data, node.owner, node.branch);
        self.values.remove(data);
        self.owners.release(owner);
        if branch != BranchId::NONE {
            self.branches.remove(branch.0);
        }
        self.nodes.remove(id.0);
    }

    pub(crate) fn get(&self, id: NodeId) -> &ZNode {
        self.nodes.get(id.0)
    }

    pub(crate) fn get_mut(&mut self, id: NodeId) -> &mut ZNode {
        self.nodes.get_mut(id.0)
    }

    /// The node in a slot, if the slot exists and is not empty.
    pub(crate) fn at_slot(&self, slot: usize) -> Option<(NodeId, &ZNode)> {
        if slot >= self.slots() {
            return None;
        }
        let id = NodeId(u32::try_from(slot).ok()?);
        let node = self.get(id);
        if node.birth == CreationOrder::DEAD { None } else { Some((id, node)) }
    }

    /// Null is not the empty data.
    pub(crate) fn data(&self, node: &ZNode) -> Option<&[u8]> {
        self.values.get(node.data)
    }

    /// Replaces the data. Neither the checksum nor the stat follows.
    pub(crate) fn set_data(&mut self, id: NodeId, data: &Buffer) {
        let node = self.nodes.get_mut(id.0);
        node.data = self.values.replace(node.data, data);
    }

    /// The node's branch, or the default of a leaf.
    pub(crate) fn branch(&self, node: &ZNode) -> NodeBranch {
        match node.branch {
            BranchId::NONE => NodeBranch::of_leaf(node.czxid),
            BranchId(slot) => *self.branches.get(slot),
        }
    }

    /// The node's branch; created if it has none.
    pub(crate) fn branch_mut(&mut self, id: NodeId) -> &mut NodeBranch {
        let node = self.nodes.get_mut(id.0);
        if node.branch == BranchId::NONE {
            node.branch = BranchId(self.branches.insert(NodeBranch::of_leaf(node.czxid)));
        }
        self.branches.get_mut(node.branch.0)
    }

    /// The stored owner.
    pub(crate) fn owner(&self, node: &ZNode) -> i64 {
        self.owners.get(node.owner)
    }

    pub(crate) fn stat(&self, node: &ZNode) -> StatPersisted {
        let branch = self.branch(node);
        StatPersisted {
            czxid: node.czxid,
            mzxid: node.mzxid,
            ctime: node.ctime,
            mtime: node.mtime,
            version: node.version,
            cversion: branch.cversion,
            aversion: branch.aversion,
            ephemeral_owner: self.owner(node),
            pzxid: branch.pzxid,
        }
    }

    /// Stores the node's part of the tree digest, after its data and its stat. A leaf has no field for it.
    pub(crate) fn note_digest(&mut self, id: NodeId, digest: i64) {
        let branch = self.get(id).branch;
        if branch != BranchId::NONE {
            self.branches.get_mut(branch.0).digest = u32::try_from(digest).ok();
        }
    }

    pub(crate) fn set_stat(&mut self, id: NodeId, stat: &StatPersisted) {
        let node = self.nodes.get_mut(id.0);
        if self.owners.get(node.owner) != stat.ephemeral_owner {
            let before = std::mem::replace(&mut node.owner, self.owners.intern(stat.ephemeral_owner));
            self.owners.release(before);
        }
        node.czxid = stat.czxid;
        node.mzxid = stat.mzxid;
        node.ctime = stat.ctime;
        node.mtime = stat.mtime;
        node.version = stat.version;
        if node.branch != BranchId::NONE || NodeBranch::is_needed_for(stat) {
            self.branch_mut(id).set_stat(stat);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl_table::AclTable;

    fn insert(arena: &mut Arena, stat: &StatPersisted) -> NodeId {
        let node = ZNode::new("name", 0, AclTable::OPEN, CreationOrder::new(1, true), stat);
        arena.insert(node, &None, stat)
    }

    fn stat() -> StatPersisted {
        StatPersisted {
            czxid: 5,
            mzxid: 6,
            ctime: 7,
            mtime: 8,
            version: 9,
            cversion: 0,
            aversion: 0,
            ephemeral_owner: 0,
            pzxid: 5,
        }
    }

    #[test]
    fn only_an_unusual_stat_takes_a_branch() {
        let plain = stat();
        for (stat, branches) in [
            (plain, 0),
            (StatPersisted { ephemeral_owner: 77, ..plain }, 0),
            (StatPersisted { pzxid: 6, ..plain }, 1),
            (StatPersisted { pzxid: 0, ..plain }, 1),
            (StatPersisted { cversion: -1, ..plain }, 1),
            (StatPersisted { aversion: 1, ..plain }, 1),
        ] {
            let mut arena = Arena::new();
            let id = insert(&mut arena, &stat);
            assert_eq!(arena.stat(arena.get(id)), stat);
            assert_eq!(arena.branches.live(), branches, "{stat:?}");
            arena.set_stat(id, &plain);
            assert_eq!(arena.stat(arena.get(id)), plain);
            arena.remove(id);
            assert_eq!((arena.len(), arena.branches.live()), (0, 0));
        }
    }

    #[test]
    fn a_branch_keeps_the_stat_of_the_leaf() {
        let mut arena = Arena::new();
        let id = insert(&mut arena, &stat());
        arena.branch_mut(id).child_count = 1;
        assert_eq!(arena.stat(arena.get(id)), stat());
        let changed = StatPersisted { czxid: 50, pzxid: 50, ..stat() };
        arena.set_stat(id, &changed);
        assert_eq!((arena.stat(arena.get(id)), arena.branch(arena.get(id)).child_count), (changed, 1));
    }
}
