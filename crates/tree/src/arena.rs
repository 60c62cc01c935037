//! Where nodes live: fixed-size slots in chunks, addressed by small ids, reused after deletion. The arena
//! links nothing; who is whose child is the tree's business.

use zebu_proto::{Buffer, StatPersisted};

use crate::acl_table::AclSlot;
use crate::name::Name;

/// Slots per chunk: a growing tree never copies its nodes and never holds more than this unused.
const CHUNK: usize = 1024;

/// Address of a node while it lives; the slot is reused afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(u32);

impl NodeId {
    /// The root.
    pub(crate) const ROOT: NodeId = NodeId(0);
    /// The end of a list, the parent of the root.
    pub(crate) const NONE: NodeId = NodeId(u32::MAX);

    /// Whether there is a node.
    pub(crate) fn some(self) -> Option<NodeId> {
        if self == NodeId::NONE { None } else { Some(self) }
    }

    pub(crate) fn slot(self) -> usize {
        self.0 as usize
    }
}

/// Which node a slot holds. Numbers are given in the order of creation and never again, so a child's
/// is larger than its parent's. The lowest bit says whether the node is part of the tree digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Birth(u64);

impl Birth {
    /// An empty slot.
    const DEAD: Birth = Birth(0);

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

/// One node. 136 bytes; the fields of the stat are spread out because a nested record would be padded.
pub(crate) struct Node {
    pub(crate) name: Name,
    pub(crate) data: Buffer,
    pub(crate) birth: Birth,
    pub(crate) czxid: i64,
    pub(crate) mzxid: i64,
    pub(crate) pzxid: i64,
    pub(crate) ctime: i64,
    pub(crate) mtime: i64,
    pub(crate) owner: i64,
    pub(crate) version: i32,
    pub(crate) cversion: i32,
    pub(crate) aversion: i32,
    /// Checksum of path and data; see [`crate::digest`].
    pub(crate) content: u32,
    pub(crate) acl: AclSlot,
    pub(crate) parent: NodeId,
    pub(crate) first_child: NodeId,
    pub(crate) next: NodeId,
    /// The sibling before; for the first child the last one, so that appending is quick.
    pub(crate) previous: NodeId,
    pub(crate) child_count: u32,
}

impl Node {
    pub(crate) fn stat(&self) -> StatPersisted {
        StatPersisted {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            cversion: self.cversion,
            aversion: self.aversion,
            ephemeral_owner: self.owner,
            pzxid: self.pzxid,
        }
    }

    pub(crate) fn set_stat(&mut self, stat: &StatPersisted) {
        self.czxid = stat.czxid;
        self.mzxid = stat.mzxid;
        self.ctime = stat.ctime;
        self.mtime = stat.mtime;
        self.version = stat.version;
        self.cversion = stat.cversion;
        self.aversion = stat.aversion;
        self.owner = stat.ephemeral_owner;
        self.pzxid = stat.pzxid;
    }

    pub(crate) fn data_length(&self) -> usize {
        self.data.as_ref().map_or(0, |data| data.len())
    }
}

/// All slots.
pub(crate) struct Arena {
    chunks: Vec<Vec<Node>>,
    /// First of the empty slots, linked through `next`.
    free: NodeId,
    live: usize,
}

impl Arena {
    pub(crate) fn new() -> Arena {
        Arena { chunks: Vec::new(), free: NodeId::NONE, live: 0 }
    }

    /// How many nodes live.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// How many slots there are, empty ones included.
    pub(crate) fn slots(&self) -> usize {
        match self.chunks.last() {
            Some(last) => (self.chunks.len() - 1) * CHUNK + last.len(),
            None => 0,
        }
    }

    pub(crate) fn insert(&mut self, node: Node) -> NodeId {
        self.live += 1;
        if let Some(id) = self.free.some() {
            let slot = self.get_mut(id);
            let next_free = slot.next;
            *slot = node;
            self.free = next_free;
            return id;
        }
        let slot = u32::try_from(self.slots()).expect("a tree of four billion nodes does not fit in memory");
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(node),
            Some(_) | None => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(node);
                self.chunks.push(chunk);
            }
        }
        NodeId(slot)
    }

    /// Empties a slot. The name and the data are released at once.
    pub(crate) fn remove(&mut self, id: NodeId) {
        let free = self.free;
        let node = self.get_mut(id);
        node.birth = Birth::DEAD;
        node.name = Name::new("");
        node.data = None;
        node.next = free;
        self.free = id;
        self.live -= 1;
    }

    pub(crate) fn get(&self, id: NodeId) -> &Node {
        &self.chunks[id.slot() / CHUNK][id.slot() % CHUNK]
    }

    pub(crate) fn get_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.chunks[id.slot() / CHUNK][id.slot() % CHUNK]
    }

    /// The node in a slot, if the slot exists and is not empty.
    pub(crate) fn at_slot(&self, slot: usize) -> Option<(NodeId, &Node)> {
        let node = self.chunks.get(slot / CHUNK)?.get(slot % CHUNK)?;
        let id = NodeId(u32::try_from(slot).ok()?);
        if node.birth == Birth::DEAD { None } else { Some((id, node)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_stays_small() {
        assert_eq!(size_of::<Node>(), 136);
    }
}
