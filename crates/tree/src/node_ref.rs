//! A node as readers see it.

use std::sync::Arc;

use zebu_proto::client::ChildKind;
use zebu_proto::{Acl, Stat, StatPersisted};

use crate::arena::NodeState;
use crate::node::{NodeId, ZNode};
use crate::owner::Lifetime;
use crate::tree::Tree;

/// A node of a borrowed tree.
#[derive(Clone, Copy)]
pub struct NodeRef<'a> {
    tree: &'a Tree,
    node: &'a ZNode,
    id: NodeId,
}

impl<'a> NodeRef<'a> {
    pub(crate) fn new(tree: &'a Tree, id: NodeId) -> NodeRef<'a> {
        NodeRef { tree, node: tree.nodes.get(id), id }
    }

    pub(crate) fn id(&self) -> NodeId {
        self.id
    }

    /// Data; null is not the empty data.
    pub fn data(&self) -> Option<&'a [u8]> {
        self.tree.nodes.data(self.node)
    }

    /// Length of the data; zero for null.
    pub fn data_length(&self) -> usize {
        self.node.data_length()
    }

    /// The transaction that created the node.
    pub fn czxid(&self) -> i64 {
        self.node.czxid
    }

    /// The stat that clients see.
    pub fn stat(&self) -> Stat {
        let NodeState { stat, child_count, .. } = self.tree.nodes.state(self.node);
        let shown_owner = self.tree.lifetime(stat.ephemeral_owner).shown_owner();
        stat.visible(self.node.data_length(), child_count as usize, shown_owner)
    }

    /// The stat that snapshots keep.
    pub fn persisted(&self) -> StatPersisted {
        self.tree.nodes.stat(self.node)
    }

    /// The ACL of the node.
    pub fn acl(&self) -> &'a Arc<[Acl]> {
        self.tree.acls.get(self.tree.nodes.traits(self.node).acl)
    }

    /// The lifetime of the node.
    pub fn lifetime(&self) -> Lifetime {
        self.tree.lifetime(self.tree.nodes.owner(self.node))
    }

    /// Names of the children, oldest first.
    pub fn children(&self) -> Children<'a> {
        let branch = self.tree.nodes.branch(self.node);
        Children { tree: self.tree, next: branch.first_child, left: branch.child_count as usize }
    }

    /// The oldest child.
    pub fn first_child(&self) -> Option<NodeRef<'a>> {
        self.tree.nodes.branch(self.node).first_child.some().map(|id| NodeRef::new(self.tree, id))
    }

    /// The next younger child of its parent.
    pub fn next_sibling(&self) -> Option<NodeRef<'a>> {
        self.node.next.some().map(|id| NodeRef::new(self.tree, id))
    }

    /// Its parent; `None` for the root.
    pub fn parent(&self) -> Option<NodeRef<'a>> {
        self.node.parent.some().map(|id| NodeRef::new(self.tree, id))
    }

    /// The child with this name.
    pub fn child(&self, name: &str) -> Option<NodeRef<'a>> {
        self.tree.child(self.id, name).map(|id| NodeRef::new(self.tree, id))
    }

    /// How many children it has.
    pub fn num_children(&self) -> usize {
        self.tree.nodes.branch(self.node).child_count as usize
    }

    /// Whether a list of this kind contains the node.
    pub fn is_of_kind(&self, kind: ChildKind) -> bool {
        match kind {
            ChildKind::All => true,
            ChildKind::Persistent => self.lifetime().session().is_none(),
            ChildKind::Ephemeral => self.lifetime().session().is_some(),
        }
    }

    /// The last component of its path; empty for the root.
    pub fn name(&self) -> &'a str {
        self.node.name.as_str()
    }

    /// Its path; "/" for the root.
    pub fn path(&self) -> String {
        match self.tree.path_of(self.id) {
            path if path.is_empty() => "/".to_owned(),
            path => path,
        }
    }
}

/// The names of a node's children.
#[derive(Clone)]
pub struct Children<'a> {
    tree: &'a Tree,
    next: NodeId,
    left: usize,
}

impl<'a> Children<'a> {
    fn next_node(&mut self) -> Option<&'a ZNode> {
        let node = self.tree.nodes.get(self.next.some()?);
        self.next = node.next;
        self.left = self.left.saturating_sub(1);
        Some(node)
    }

    /// The names as bytes, for callers that only copy them: a `str` is validated again.
    pub fn bytes(mut self) -> impl Iterator<Item = &'a [u8]> {
        std::iter::from_fn(move || self.next_node().map(|node| node.name.as_bytes()))
    }
}

impl<'a> Iterator for Children<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.next_node().map(|node| node.name.as_str())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Children<'_> {}
