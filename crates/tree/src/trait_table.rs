//! What many nodes have in common: ACL, owner, and whether the digest contains them. Each combination is
//! stored once, and a node refers to it by a slot of four bytes instead of 17. Most nodes have the open ACL
//! and no owner; a session owns many with the same ACL. [`crate::owner`] defines the meaning of owners.

use std::collections::BTreeMap;

use crate::acl_table::{AclSlot, AclTable};
use crate::slots::{NO_SLOT, SlotEntry, Slots};

/// The slot of a node's traits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraitSlot(u32);

impl TraitSlot {
    /// The slot of no node.
    pub(crate) const NONE: TraitSlot = TraitSlot(NO_SLOT);
}

/// What nodes have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeTraits {
    /// The stored owner; zero if the node stays until it is deleted.
    pub(crate) owner: i64,
    pub(crate) acl: AclSlot,
    /// Whether the node is part of the tree digest.
    pub(crate) is_counted: bool,
}

impl NodeTraits {
    const PLAIN: NodeTraits = NodeTraits { owner: 0, acl: AclTable::OPEN, is_counted: true };
}

struct SharedTraits {
    traits: NodeTraits,
    /// Number of nodes; of an empty slot the next empty one.
    uses: u32,
}

impl SlotEntry for SharedTraits {
    fn vacate(&mut self, next_empty: u32) {
        self.uses = next_empty;
    }

    fn next_empty(&self) -> u32 {
        self.uses
    }
}

/// All traits of nodes.
pub(crate) struct TraitTable {
    shared: Slots<SharedTraits>,
    by_traits: BTreeMap<NodeTraits, u32>,
    /// The slot that was returned last: the next node often has the same traits.
    recent: TraitSlot,
}

impl TraitTable {
    /// No owner and the open ACL, with the digest. Its uses are not counted.
    pub(crate) const PLAIN: TraitSlot = TraitSlot(0);

    pub(crate) fn new() -> TraitTable {
        let mut shared = Slots::new();
        shared.insert(SharedTraits { traits: NodeTraits::PLAIN, uses: 0 });
        TraitTable { shared, by_traits: BTreeMap::new(), recent: TraitTable::PLAIN }
    }

    pub(crate) fn get(&self, slot: TraitSlot) -> &NodeTraits {
        &self.shared.get(slot.0).traits
    }

    /// The slot of some traits, with its use count incremented.
    pub(crate) fn intern(&mut self, traits: NodeTraits) -> TraitSlot {
        if traits == NodeTraits::PLAIN {
            return TraitTable::PLAIN;
        }
        let recent = self.shared.get_mut(self.recent.0);
        if recent.traits == traits {
            recent.uses += 1;
            return self.recent;
        }
        let shared = &mut self.shared;
        let new = || shared.insert(SharedTraits { traits, uses: 0 });
        let slot = *self.by_traits.entry(traits).or_insert_with(new);
        self.shared.get_mut(slot).uses += 1;
        self.recent = TraitSlot(slot);
        self.recent
    }

    /// Decrements the use count; the last use frees the slot.
    pub(crate) fn release(&mut self, slot: TraitSlot) {
        if slot == TraitTable::PLAIN {
            return;
        }
        let shared = self.shared.get_mut(slot.0);
        shared.uses -= 1;
        if shared.uses == 0 {
            self.by_traits.remove(&shared.traits);
            self.shared.remove(slot.0);
            if self.recent == slot {
                self.recent = TraitTable::PLAIN;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traits_are_shared_and_slots_are_reused() {
        let of = |owner| NodeTraits { owner, ..NodeTraits::PLAIN };
        let mut table = TraitTable::new();
        assert_eq!((table.intern(of(0)), table.get(TraitTable::PLAIN).owner), (TraitTable::PLAIN, 0));
        let first = table.intern(of(7));
        assert_eq!(table.intern(of(7)), first);
        let second = table.intern(of(i64::MIN));
        let outside = table.intern(NodeTraits { is_counted: false, ..of(7) });
        assert_eq!((table.get(first), table.get(second)), (&of(7), &of(i64::MIN)));
        assert!(outside != first && !table.get(outside).is_counted);
        table.release(first);
        assert_eq!(table.intern(of(7)), first);
        for slot in [first, first, TraitTable::PLAIN] {
            table.release(slot);
        }
        assert_eq!(table.intern(of(9)), first, "the slot was freed with the last use");
        assert_eq!(
            (table.get(first).owner, table.get(second).owner, table.by_traits.len()),
            (9, i64::MIN, 3)
        );
    }
}
