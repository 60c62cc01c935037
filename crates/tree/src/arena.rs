//! The storage of nodes and of their optional parts: a stat is composed here and split again. The arena does
//! not link nodes; the tree links parents and children.

use zebu_proto::StatPersisted;

use crate::acl_table::AclSlot;
use crate::birth_numbers::BirthNumbers;
use crate::data_store::{DataStore, NewData};
use crate::node::{BranchId, ChangeId, ChangeRecord, NodeBranch, NodeId, ZNode};
use crate::slots::Slots;
use crate::trait_table::{NodeTraits, TraitSlot, TraitTable};

/// The fields of a node, composed.
pub(crate) struct NodeState {
    pub(crate) stat: StatPersisted,
    pub(crate) child_count: u32,
    /// The node's part of the tree digest, if it is stored. A leaf has no field for it.
    pub(crate) digest: Option<i64>,
}

/// All nodes.
pub(crate) struct Arena {
    nodes: Slots<ZNode>,
    changes: Slots<ChangeRecord>,
    branches: Slots<NodeBranch>,
    traits: TraitTable,
    values: DataStore,
    births: BirthNumbers,
}

impl Arena {
    pub(crate) fn new() -> Arena {
        Arena {
            nodes: Slots::new(),
            changes: Slots::new(),
            branches: Slots::new(),
            traits: TraitTable::new(),
            values: DataStore::new(),
            births: BirthNumbers::new(),
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

    /// Adds a node that was made with this stat. Its traits and its stat have the same owner.
    pub(crate) fn insert(
        &mut self,
        mut node: ZNode,
        data: NewData<'_>,
        traits: NodeTraits,
        stat: &StatPersisted,
    ) -> NodeId {
        node.data = self.values.insert(data);
        node.traits = self.traits.intern(traits);
        let fresh = self.nodes.count();
        let id = NodeId(self.nodes.insert(node));
        if id.slot() != fresh {
            self.births.reused(id.slot());
        }
        self.split_stat(id, stat);
        id
    }

    /// Empties a slot. The name and the data are released at once.
    pub(crate) fn remove(&mut self, id: NodeId) {
        let node = self.get(id);
        let (data, traits, change) = (node.data, node.traits, node.change);
        self.values.remove(data);
        self.traits.release(traits);
        if change != ChangeId::NONE {
            let branch = self.changes.get(change.0).branch;
            if branch != BranchId::NONE {
                self.branches.remove(branch.0);
            }
            self.changes.remove(change.0);
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
        if node.traits == TraitSlot::NONE { None } else { Some((id, node)) }
    }

    /// Null is not the empty data.
    pub(crate) fn data(&self, node: &ZNode) -> Option<&[u8]> {
        self.values.get(node.data)
    }

    /// Replaces the data. Neither the checksum nor the stat follows.
    pub(crate) fn set_data(&mut self, id: NodeId, data: NewData<'_>) {
        let node = self.nodes.get_mut(id.0);
        node.data = self.values.replace(node.data, data);
    }

    /// What the node has in common with others.
    pub(crate) fn traits(&self, node: &ZNode) -> &NodeTraits {
        self.traits.get(node.traits)
    }

    /// Replaces the ACL of a node. Returns the one before.
    pub(crate) fn set_acl(&mut self, id: NodeId, acl: AclSlot) -> AclSlot {
        let traits = *self.traits(self.get(id));
        self.set_traits(id, NodeTraits { acl, ..traits });
        traits.acl
    }

    fn set_traits(&mut self, id: NodeId, traits: NodeTraits) {
        let after = self.traits.intern(traits);
        let before = std::mem::replace(&mut self.get_mut(id).traits, after);
        self.traits.release(before);
    }

    /// The number of the next node in a reused slot.
    pub(crate) fn next_birth(&self) -> u64 {
        self.births.next()
    }

    /// The number of a node in a reused slot; zero for the first node in its slot.
    pub(crate) fn birth(&self, id: NodeId) -> u64 {
        self.births.of(id.slot())
    }

    /// The node's branch, or the default of a leaf.
    pub(crate) fn branch(&self, node: &ZNode) -> NodeBranch {
        match self.branch_id(node) {
            BranchId::NONE => NodeBranch::of_leaf(node.czxid),
            BranchId(slot) => *self.branches.get(slot),
        }
    }

    fn branch_id(&self, node: &ZNode) -> BranchId {
        match node.change {
            ChangeId::NONE => BranchId::NONE,
            ChangeId(slot) => self.changes.get(slot).branch,
        }
    }

    /// The node's branch; created if it has none.
    pub(crate) fn branch_mut(&mut self, id: NodeId) -> &mut NodeBranch {
        let czxid = self.get(id).czxid;
        let branches = &mut self.branches;
        let node = self.nodes.get_mut(id.0);
        if node.change == ChangeId::NONE {
            node.change = ChangeId(self.changes.insert(ChangeRecord::of_unchanged(node)));
        }
        let change = self.changes.get_mut(node.change.0);
        if change.branch == BranchId::NONE {
            change.branch = BranchId(branches.insert(NodeBranch::of_leaf(czxid)));
        }
        branches.get_mut(change.branch.0)
    }

    /// The stored owner.
    pub(crate) fn owner(&self, node: &ZNode) -> i64 {
        self.traits(node).owner
    }

    pub(crate) fn stat(&self, node: &ZNode) -> StatPersisted {
        self.state(node).stat
    }

    /// All that is known of a node beside its name and data.
    #[inline]
    pub(crate) fn state(&self, node: &ZNode) -> NodeState {
        let mut stat = StatPersisted {
            czxid: node.czxid,
            mzxid: node.czxid,
            ctime: node.ctime,
            mtime: node.ctime,
            version: 0,
            cversion: 0,
            aversion: 0,
            ephemeral_owner: self.owner(node),
            pzxid: node.czxid,
        };
        let (mut child_count, mut digest) = (0, None);
        if node.change != ChangeId::NONE {
            let change = self.changes.get(node.change.0);
            (stat.mzxid, stat.mtime, stat.version) = (change.mzxid, change.mtime, change.version);
            if change.branch != BranchId::NONE {
                let branch = self.branches.get(change.branch.0);
                (stat.pzxid, stat.cversion, stat.aversion) = (branch.pzxid, branch.cversion, branch.aversion);
                child_count = branch.child_count;
                digest = branch.digest.map(i64::from);
            }
        }
        NodeState { stat, child_count, digest }
    }

    /// Replaces the stat, and the node's part of the tree digest where there is a field for it.
    pub(crate) fn set_stat(&mut self, id: NodeId, stat: &StatPersisted, digest: i64) {
        let traits = *self.traits(self.get(id));
        if traits.owner != stat.ephemeral_owner {
            self.set_traits(id, NodeTraits { owner: stat.ephemeral_owner, ..traits });
        }
        let node = self.nodes.get_mut(id.0);
        (node.czxid, node.ctime) = (stat.czxid, stat.ctime);
        if let Some(branch) = self.split_stat(id, stat) {
            branch.digest = u32::try_from(digest).ok();
        }
    }

    /// Stores the fields that a new leaf does not need.
    fn split_stat(&mut self, id: NodeId, stat: &StatPersisted) -> Option<&mut NodeBranch> {
        let needs_branch = NodeBranch::is_needed_for(stat);
        let node = self.nodes.get_mut(id.0);
        if node.change == ChangeId::NONE {
            if !needs_branch && !ChangeRecord::is_needed_for(stat) {
                return None;
            }
            node.change = ChangeId(self.changes.insert(ChangeRecord::of_unchanged(node)));
        }
        let change = self.changes.get_mut(node.change.0);
        (change.mzxid, change.mtime, change.version) = (stat.mzxid, stat.mtime, stat.version);
        if change.branch == BranchId::NONE {
            if !needs_branch {
                return None;
            }
            change.branch = BranchId(self.branches.insert(NodeBranch::of_leaf(stat.czxid)));
        }
        let branch = self.branches.get_mut(change.branch.0);
        branch.set_stat(stat);
        Some(branch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl_table::AclTable;

    fn insert(arena: &mut Arena, stat: &StatPersisted) -> NodeId {
        let traits = NodeTraits { owner: stat.ephemeral_owner, acl: AclTable::OPEN, is_counted: true };
        arena.insert(ZNode::new("name", 0, stat), NewData::Borrowed(None), traits, stat)
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
    fn only_an_unusual_stat_takes_more_records() {
        let plain = StatPersisted { mzxid: 5, mtime: 7, version: 0, ..stat() };
        for (stat, changes, branches) in [
            (plain, 0, 0),
            (StatPersisted { ephemeral_owner: 77, ..plain }, 0, 0),
            (StatPersisted { mzxid: 6, ..plain }, 1, 0),
            (StatPersisted { mtime: 6, ..plain }, 1, 0),
            (StatPersisted { version: -1, ..plain }, 1, 0),
            (StatPersisted { pzxid: 6, ..plain }, 1, 1),
            (StatPersisted { pzxid: 0, ..plain }, 1, 1),
            (StatPersisted { cversion: -1, ..plain }, 1, 1),
            (StatPersisted { aversion: 1, ..plain }, 1, 1),
        ] {
            let mut arena = Arena::new();
            let id = insert(&mut arena, &stat);
            assert_eq!(arena.stat(arena.get(id)), stat);
            assert_eq!((arena.changes.live(), arena.branches.live()), (changes, branches), "{stat:?}");
            arena.set_stat(id, &plain, 0);
            assert_eq!(arena.stat(arena.get(id)), plain);
            arena.remove(id);
            assert_eq!((arena.len(), arena.changes.live(), arena.branches.live()), (0, 0, 0));
        }
    }

    #[test]
    fn a_branch_keeps_the_stat_of_the_leaf() {
        let mut arena = Arena::new();
        let id = insert(&mut arena, &stat());
        arena.branch_mut(id).child_count = 1;
        assert_eq!(arena.stat(arena.get(id)), stat());
        let changed = StatPersisted { czxid: 50, pzxid: 50, ..stat() };
        arena.set_stat(id, &changed, 0);
        assert_eq!((arena.stat(arena.get(id)), arena.branch(arena.get(id)).child_count), (changed, 1));
    }
}
