//! Walks the complete tree in slices, for a snapshot, while transactions are applied between the slices.
//!
//! The result is fuzzy: it contains some effects of transactions that were applied meanwhile. It is exact
//! again once the history from the first slice on has been replayed over it. Only nodes that existed at the
//! start are visited, each at most once and after its parent.

use zebu_proto::StatPersisted;

use crate::node::NodeId;
use crate::tree::Tree;

/// Whether there is more to visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkProgress {
    /// Call again.
    More,
    /// Every node was visited.
    Done,
    /// A session was closed without a list of its ephemeral nodes since the start: no replay makes this walk
    /// exact. The caller starts another one.
    Void,
}

/// Receives a node: path ("" for the root), data, id of its ACL, stat.
pub type NodeSink<'a> = &'a mut dyn FnMut(&str, Option<&[u8]>, i64, &StatPersisted);

/// Position of a walk. It borrows nothing.
#[derive(Debug)]
pub struct Walker {
    /// The number of the next node in a reused slot, at the start. The replay adds nodes that were created
    /// later.
    end_birth: u64,
    /// The counter of [`Tree`] at the start.
    unlisted_ends: u64,
    /// The next slot to visit.
    next_slot: usize,
    end_slot: usize,
    /// The slots that were visited early, because a child came before.
    visited: Vec<u64>,
    /// The parent visited last in this slice, with its path: siblings are often adjacent.
    parent: (NodeId, String),
    /// Bytes of paths and data that this slice may still visit.
    bytes_left: usize,
}

impl Tree {
    /// Begins a walk.
    pub fn walker(&self) -> Walker {
        let slots = self.nodes.slots();
        Walker {
            end_birth: self.nodes.next_birth(),
            unlisted_ends: self.unlisted_ends,
            next_slot: 0,
            end_slot: slots,
            visited: vec![0; slots.div_ceil(64)],
            parent: (NodeId::NONE, String::new()),
            bytes_left: 0,
        }
    }
}

impl Walker {
    /// Visits about `max_nodes` nodes (a few more if ancestors are missing). The tree is that of the start.
    pub fn next_slice(&mut self, tree: &Tree, max_nodes: usize, sink: NodeSink<'_>) -> WalkProgress {
        self.next_bounded_slice(tree, max_nodes, usize::MAX, sink)
    }

    /// Like [`Walker::next_slice`], but ends also after `max_bytes` bytes of paths and data. Only the last
    /// node exceeds them.
    pub fn next_bounded_slice(
        &mut self,
        tree: &Tree,
        max_nodes: usize,
        max_bytes: usize,
        sink: NodeSink<'_>,
    ) -> WalkProgress {
        if tree.unlisted_ends != self.unlisted_ends {
            return WalkProgress::Void;
        }
        // Transactions between the slices can have given the slot to another node.
        self.parent.0 = NodeId::NONE;
        self.bytes_left = max_bytes.max(1);
        let slice_end = self.next_slot.saturating_add(max_nodes.max(1)).min(self.end_slot);
        while self.next_slot < slice_end {
            if let Some((id, _)) = tree.nodes.at_slot(self.next_slot)
                && tree.nodes.birth(id) < self.end_birth
                && !self.visit_with_ancestors(tree, id, sink)
            {
                // The next slice begins at the same slot: some ancestors of its node are visited now.
                return WalkProgress::More;
            }
            self.next_slot += 1;
        }
        if self.next_slot == self.end_slot { WalkProgress::Done } else { WalkProgress::More }
    }

    /// Ancestors are older than the node, so they existed at the start too. Returns false if the bytes of the
    /// slice ended before the node.
    fn visit_with_ancestors(&mut self, tree: &Tree, id: NodeId, sink: NodeSink<'_>) -> bool {
        let mut due = Vec::new();
        let mut at = id.some();
        while let Some(id) = at.filter(|&id| !self.is_visited(id)) {
            due.push(id);
            at = tree.nodes.get(id).parent.some();
        }
        for id in due.into_iter().rev() {
            if self.bytes_left == 0 {
                return false;
            }
            self.mark_visited(id);
            self.visit(tree, id, sink);
        }
        true
    }

    fn visit(&mut self, tree: &Tree, id: NodeId, sink: NodeSink<'_>) {
        let node = tree.nodes.get(id);
        let acl = tree.acls.id(tree.nodes.traits(node).acl);
        let data_length = tree.nodes.data(node).map_or(0, <[u8]>::len);
        let Some(parent) = node.parent.some() else {
            self.bytes_left = self.bytes_left.saturating_sub(data_length);
            sink("", tree.nodes.data(node), acl, &tree.nodes.stat(node));
            return;
        };
        if self.parent.0 != parent {
            self.parent = (parent, tree.path_of(parent));
        }
        let path = &mut self.parent.1;
        let length = path.len();
        path.push('/');
        path.push_str(node.name.as_str());
        self.bytes_left = self.bytes_left.saturating_sub(path.len() + data_length);
        sink(path, tree.nodes.data(node), acl, &tree.nodes.stat(node));
        path.truncate(length);
    }

    fn is_visited(&self, id: NodeId) -> bool {
        self.visited.get(id.slot() / 64).is_some_and(|word| word >> (id.slot() % 64) & 1 == 1)
    }

    fn mark_visited(&mut self, id: NodeId) {
        if let Some(word) = self.visited.get_mut(id.slot() / 64) {
            *word |= 1 << (id.slot() % 64);
        }
    }
}
