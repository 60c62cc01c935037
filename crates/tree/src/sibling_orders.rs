//! The children of few large nodes in an order, for readers that take them in pages.
//!
//! The tree links children in no particular order. An order is built on demand, in slices of bounded work.
//! From then on each create and delete keeps it correct, so that a page costs its own length. An order that
//! no reader uses is dropped after some changes; a tree without orders pays one comparison per change.

use std::cmp::Ordering;

use crate::arena::Arena;
use crate::node::{NodeId, ZNode};
use crate::sorted_blocks::SortedBlocks;

/// Orders at a time.
const ORDERS_MAX: usize = 16;

/// Bytes of all orders. A single order may exceed them: it takes a few bytes per child.
const ORDER_BYTES_MAX: usize = 256 << 20;

/// Changes of a parent's children after which its order is dropped, if no reader has used it meanwhile.
const UNREAD_CHANGES_MAX: u64 = 1 << 20;

/// Uses of other orders after which an order may be dropped that no reader has finished.
const ABANDONED_AFTER: u64 = 10_000;

/// The order of siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiblingSort {
    /// By the bytes of their names.
    ByName,
    /// By the transaction that created them, then by name.
    ByCreation,
}

/// The work that one call may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortLimits {
    /// So many children are sorted for each call; more are kept in an order.
    pub at_once: usize,
    /// Children that one call adds to an order.
    pub per_slice: usize,
}

/// The place behind which a reader wants to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildBound<'a> {
    /// Behind this name; the empty name is before all others.
    AfterName(&'a str),
    /// At the children of this transaction and later ones.
    FromCreation(i64),
}

impl ChildBound<'_> {
    fn sort(self) -> SiblingSort {
        match self {
            ChildBound::AfterName(_) => SiblingSort::ByName,
            ChildBound::FromCreation(_) => SiblingSort::ByCreation,
        }
    }

    /// Whether a node is before the bound, which no node equals.
    fn compare(self, node: &ZNode) -> Ordering {
        let is_before = match self {
            ChildBound::AfterName(name) => node.name.as_bytes() <= name.as_bytes(),
            ChildBound::FromCreation(czxid) => node.czxid < czxid,
        };
        if is_before { Ordering::Less } else { Ordering::Greater }
    }
}

#[derive(Debug)]
struct SiblingOrder {
    /// The order is dropped with the parent, before its slot is reused.
    parent: NodeId,
    sort: SiblingSort,
    sorted: SortedBlocks,
    /// The next child to add; [`NodeId::NONE`] when the order is complete. Later children are linked behind
    /// it.
    cursor: NodeId,
    /// The value of [`SiblingOrders::uses`] at the last use.
    used_at: u64,
    /// Whether a reader has used the complete order.
    is_read: bool,
    changes_since_use: u64,
}

/// All orders of a tree.
#[derive(Debug, Default)]
pub(crate) struct SiblingOrders {
    orders: Vec<SiblingOrder>,
    uses: u64,
}

impl SiblingOrders {
    /// A child was linked behind all its siblings.
    pub(crate) fn attached(&mut self, nodes: &Arena, id: NodeId) {
        if self.orders.is_empty() {
            return;
        }
        let parent = nodes.get(id).parent;
        self.orders.retain_mut(|order| {
            if order.parent != parent {
                return true;
            }
            // A cursor gets to the new child by its link.
            if order.cursor == NodeId::NONE {
                order.add(nodes, id);
            }
            order.counts_change()
        });
    }

    /// A node without children will be unlinked.
    pub(crate) fn detaching(&mut self, nodes: &Arena, id: NodeId) {
        if self.orders.is_empty() {
            return;
        }
        let node = nodes.get(id);
        let parent = node.parent;
        self.orders.retain_mut(|order| {
            if order.parent == id {
                return false;
            }
            if order.parent != parent {
                return true;
            }
            if order.cursor == id {
                order.cursor = node.next;
            } else {
                let sort = order.sort;
                order.sorted.remove(id, |other| compare(sort, nodes.get(other), node));
            }
            order.counts_change()
        });
    }

    /// Up to `max` children behind a bound, in order. `None` if another call has to continue the work.
    pub(crate) fn children_after(
        &mut self,
        nodes: &Arena,
        parent: NodeId,
        bound: ChildBound<'_>,
        max: usize,
        per_slice: usize,
    ) -> Option<Vec<NodeId>> {
        self.uses += 1;
        let is_it = |order: &SiblingOrder| order.parent == parent && order.sort == bound.sort();
        let index = match self.orders.iter().position(is_it) {
            Some(index) => index,
            None => {
                self.make_room()?;
                self.orders.push(SiblingOrder {
                    parent,
                    sort: bound.sort(),
                    sorted: SortedBlocks::default(),
                    cursor: nodes.branch(nodes.get(parent)).first_child,
                    used_at: self.uses,
                    is_read: false,
                    changes_since_use: 0,
                });
                self.orders.len() - 1
            }
        };
        let order = &mut self.orders[index];
        order.used_at = self.uses;
        order.changes_since_use = 0;
        if !order.build(nodes, per_slice) {
            return None;
        }
        order.is_read = true;
        let position = order.sorted.lower_bound(|id| bound.compare(nodes.get(id)));
        Some(order.sorted.iter_from(position).take(max).collect())
    }

    /// Makes room for another order. Fails while all others are being built for other readers.
    fn make_room(&mut self) -> Option<()> {
        loop {
            let bytes: usize = self.orders.iter().map(|order| order.sorted.bytes()).sum();
            if self.orders.len() < ORDERS_MAX && bytes < ORDER_BYTES_MAX {
                return Some(());
            }
            let uses = self.uses;
            let may_go = |order: &SiblingOrder| order.is_read || uses - order.used_at > ABANDONED_AFTER;
            let candidates = self.orders.iter().enumerate().filter(|(_, order)| may_go(order));
            let (oldest, _) = candidates.min_by_key(|(_, order)| order.used_at)?;
            self.orders.swap_remove(oldest);
        }
    }
}

impl SiblingOrder {
    /// Adds up to `max` children. Returns whether the order is complete.
    fn build(&mut self, nodes: &Arena, max: usize) -> bool {
        for _ in 0..max {
            let Some(id) = self.cursor.some() else { return true };
            self.add(nodes, id);
            self.cursor = nodes.get(id).next;
        }
        self.cursor == NodeId::NONE
    }

    fn add(&mut self, nodes: &Arena, id: NodeId) {
        let (sort, node) = (self.sort, nodes.get(id));
        self.sorted.insert(id, |other| compare(sort, nodes.get(other), node));
    }

    /// Counts a change. Returns whether the order is worth keeping.
    fn counts_change(&mut self) -> bool {
        self.changes_since_use += 1;
        self.changes_since_use <= UNREAD_CHANGES_MAX
    }
}

/// The order of two siblings.
pub(crate) fn compare(sort: SiblingSort, one: &ZNode, other: &ZNode) -> Ordering {
    let by_name = || one.name.as_bytes().cmp(other.name.as_bytes());
    match sort {
        SiblingSort::ByName => by_name(),
        SiblingSort::ByCreation => one.czxid.cmp(&other.czxid).then_with(by_name),
    }
}

/// Up to `max` children behind a bound, sorted for this call.
pub(crate) fn sort_children(nodes: &Arena, parent: NodeId, bound: ChildBound<'_>, max: usize) -> Vec<NodeId> {
    let next = |id: &NodeId| nodes.get(*id).next.some();
    let first = nodes.branch(nodes.get(parent)).first_child.some();
    let is_behind = |id: &NodeId| bound.compare(nodes.get(*id)) == Ordering::Greater;
    let mut children: Vec<NodeId> = std::iter::successors(first, next).filter(is_behind).collect();
    let by_sort = |one: &NodeId, other: &NodeId| compare(bound.sort(), nodes.get(*one), nodes.get(*other));
    if children.len() > max {
        children.select_nth_unstable_by(max, by_sort);
        children.truncate(max);
    }
    children.sort_unstable_by(by_sort);
    children
}
