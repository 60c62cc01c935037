//! A sorted list of nodes in blocks. A node takes four bytes, and a change moves one block. The list knows no
//! order of its own: the caller compares.

use std::cmp::Ordering;

use crate::node::NodeId;

/// Nodes of a full block. A full block is split, and small neighbours are joined.
const BLOCK_MAX: usize = 512;

#[derive(Debug, Default)]
pub(crate) struct SortedBlocks {
    /// None is empty.
    blocks: Vec<Vec<NodeId>>,
}

/// A place in the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockPosition {
    block: usize,
    index: usize,
}

impl SortedBlocks {
    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let blocks = self.blocks.len() * size_of::<Vec<NodeId>>();
        // Blocks at the end of the list are full; others are at least half full on average.
        blocks + self.blocks.len() * BLOCK_MAX * size_of::<NodeId>()
    }

    /// The first node for which `compare` does not say that it is less.
    pub(crate) fn lower_bound(&self, compare: impl Fn(NodeId) -> Ordering) -> BlockPosition {
        let is_before =
            |block: &Vec<NodeId>| block.last().is_some_and(|&last| compare(last) == Ordering::Less);
        let block = self.blocks.partition_point(is_before);
        let index = match self.blocks.get(block) {
            Some(nodes) => nodes.partition_point(|&node| compare(node) == Ordering::Less),
            None => 0,
        };
        BlockPosition { block, index }
    }

    /// The nodes from a position on.
    pub(crate) fn iter_from(&self, position: BlockPosition) -> impl Iterator<Item = NodeId> {
        let first = self.blocks.get(position.block).map_or(&[][..], |nodes| &nodes[position.index..]);
        let rest = self.blocks.get(position.block + 1..).unwrap_or_default();
        first.iter().chain(rest.iter().flatten()).copied()
    }

    /// Adds a node that is not in the list.
    pub(crate) fn insert(&mut self, node: NodeId, compare: impl Fn(NodeId) -> Ordering) {
        let last = self.blocks.last().and_then(|nodes| nodes.last());
        if last.is_none_or(|&last| compare(last) == Ordering::Less) {
            return self.push(node);
        }
        let BlockPosition { block, index } = self.lower_bound(compare);
        let nodes = &mut self.blocks[block];
        nodes.insert(index, node);
        if nodes.len() > BLOCK_MAX {
            let upper = nodes.split_off(BLOCK_MAX / 2);
            self.blocks.insert(block + 1, upper);
        }
    }

    /// Removes a node, if it is in the list.
    pub(crate) fn remove(&mut self, node: NodeId, compare: impl Fn(NodeId) -> Ordering) {
        let BlockPosition { block, index } = self.lower_bound(compare);
        let Some(nodes) = self.blocks.get_mut(block) else { return };
        if nodes.get(index) != Some(&node) {
            return;
        }
        nodes.remove(index);
        let length = nodes.len();
        if length == 0 {
            self.blocks.remove(block);
        } else if self.blocks.get(block + 1).is_some_and(|next| length + next.len() <= BLOCK_MAX / 2) {
            let next = self.blocks.remove(block + 1);
            self.blocks[block].extend(next);
        }
    }

    fn push(&mut self, node: NodeId) {
        match self.blocks.last_mut() {
            Some(nodes) if nodes.len() < BLOCK_MAX => nodes.push(node),
            Some(_) | None => {
                let mut nodes = Vec::with_capacity(BLOCK_MAX);
                nodes.push(node);
                self.blocks.push(nodes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all(list: &SortedBlocks) -> Vec<u32> {
        list.iter_from(BlockPosition { block: 0, index: 0 }).map(|node| node.0).collect()
    }

    /// Every list equals an ordered set, whatever the order of its changes.
    #[test]
    fn it_equals_an_ordered_set() {
        let mut state = 7u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) % below) as u32
        };
        let (mut list, mut expected) = (SortedBlocks::default(), BTreeSet::new());
        for round in 0..60_000 {
            let value = if round < 3000 { round } else { random(4000) };
            // First it grows, then it shrinks, then both.
            let grows = match round / 15_000 {
                0 | 1 => random(10) > 1,
                2 => random(10) == 0,
                _ => random(2) == 0,
            };
            if grows && expected.insert(value) {
                list.insert(NodeId(value), |other| other.0.cmp(&value));
            } else if !grows {
                expected.remove(&value);
                list.remove(NodeId(value), |other| other.0.cmp(&value));
            }
            if round % 499 == 0 {
                assert_eq!(all(&list), expected.iter().copied().collect::<Vec<_>>());
                let from = random(4100);
                let position = list.lower_bound(|other| other.0.cmp(&from));
                let found: Vec<u32> = list.iter_from(position).map(|node| node.0).take(5).collect();
                assert_eq!(found, expected.range(from..).copied().take(5).collect::<Vec<_>>(), "{from}");
                assert!(list.blocks.iter().all(|nodes| !nodes.is_empty() && nodes.len() <= BLOCK_MAX));
            }
        }
    }

    #[test]
    fn ascending_nodes_fill_their_blocks() {
        let mut list = SortedBlocks::default();
        for value in 0..10 * BLOCK_MAX as u32 {
            list.insert(NodeId(value), |other| other.0.cmp(&value));
        }
        assert_eq!(list.blocks.len(), 10);
    }
}
