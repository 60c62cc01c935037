//! Finds a node by its parent and its name. The index is many small hash tables. Each grows on its own, so
//! that one create never moves more than a small part of all entries.

use std::hash::BuildHasher;

use foldhash::quality::FixedState;
use hashbrown::HashTable;

use crate::arena::Arena;
use crate::node::NodeId;

const SHARD_BITS: u32 = 10;

/// Where a new node will be. Its name is hashed once, for the search and for the insertion.
#[derive(Clone, Copy)]
pub(crate) struct NamePlace {
    pub(crate) parent: NodeId,
    hash: u64,
}

/// Every node but the root.
pub(crate) struct NameIndex {
    hash: FixedState,
    shards: Box<[HashTable<NodeId>]>,
}

impl NameIndex {
    pub(crate) fn new(hash_seed: u64) -> NameIndex {
        let shards = (0..1 << SHARD_BITS).map(|_| HashTable::new()).collect();
        NameIndex { hash: FixedState::with_seed(hash_seed), shards }
    }

    pub(crate) fn find(&self, nodes: &Arena, parent: NodeId, name: &[u8]) -> Option<NodeId> {
        self.find_hashed(nodes, self.hash_of(parent, name), parent, name)
    }

    /// The node with this name, or the place for a new one.
    pub(crate) fn place(&self, nodes: &Arena, parent: NodeId, name: &[u8]) -> Result<NamePlace, NodeId> {
        let hash = self.hash_of(parent, name);
        match self.find_hashed(nodes, hash, parent, name) {
            Some(existing) => Err(existing),
            None => Ok(NamePlace { parent, hash }),
        }
    }

    fn find_hashed(&self, nodes: &Arena, hash: u64, parent: NodeId, name: &[u8]) -> Option<NodeId> {
        let is_it = |&id: &NodeId| {
            let node = nodes.get(id);
            node.parent == parent && node.name.as_bytes() == name
        };
        self.shards[shard_of(hash)].find(hash, is_it).copied()
    }

    /// Adds the node of a place.
    pub(crate) fn insert(&mut self, nodes: &Arena, place: NamePlace, id: NodeId) {
        let hasher = &self.hash;
        let hash_of = |&id: &NodeId| {
            let node = nodes.get(id);
            hasher.hash_one((node.parent, node.name.as_bytes()))
        };
        self.shards[shard_of(place.hash)].insert_unique(place.hash, id, hash_of);
    }

    pub(crate) fn remove(&mut self, nodes: &Arena, id: NodeId) {
        let node = nodes.get(id);
        let hash = self.hash_of(node.parent, node.name.as_bytes());
        if let Ok(entry) = self.shards[shard_of(hash)].find_entry(hash, |&other| other == id) {
            entry.remove();
        }
    }

    fn hash_of(&self, parent: NodeId, name: &[u8]) -> u64 {
        self.hash.hash_one((parent, name))
    }
}

/// The table of an entry. It is chosen by bits that the table itself does not use, or the entries of a table
/// would collide. The first tables get half as many entries as the last. Tables double when they are full; if
/// all did so at the same tree size, half of the memory would be unused afterwards.
fn shard_of(hash: u64) -> usize {
    const BITS: u32 = 24;
    let uniform = (hash >> 32) & ((1 << BITS) - 1);
    // Close to the logarithm of 1 + x to base 2, for x from 0 to 1: x * (4 - x) / 3.
    let skewed = uniform * ((4 << BITS) - uniform) / 3;
    (skewed >> (2 * BITS - SHARD_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_used_and_the_shares_double() {
        let mut counts = vec![0_u32; 1 << SHARD_BITS];
        for uniform in 0..1_u64 << 24 {
            counts[shard_of(uniform << 32 | 0xff00_0000_ffff_ffff)] += 1;
        }
        assert!(counts.is_sorted_by(|left, right| *left <= right + 1));
        let (first, last) = (f64::from(counts[0]), f64::from(counts[counts.len() - 1]));
        assert!((1.95..2.05).contains(&(last / first)), "{first} {last}");
        assert_eq!((shard_of(0), shard_of(u64::MAX)), (0, counts.len() - 1));
    }
}
