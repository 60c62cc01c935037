//! Owners, each stored once: most nodes have none, and a session owns many. Nodes refer to a slot of four
//! bytes instead of an id of eight. [`crate::owner`] defines their meaning.

use std::collections::BTreeMap;

use crate::slots::{SlotEntry, Slots};

/// The slot of a node's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnerSlot(u32);

struct NodeOwner {
    id: i64,
    /// Number of nodes; of an empty slot the next empty one.
    uses: u32,
}

impl SlotEntry for NodeOwner {
    fn vacate(&mut self, next_empty: u32) {
        self.uses = next_empty;
    }

    fn next_empty(&self) -> u32 {
        self.uses
    }
}

/// All owners of nodes.
pub(crate) struct OwnerTable {
    owners: Slots<NodeOwner>,
    by_id: BTreeMap<i64, u32>,
}

impl OwnerTable {
    /// The owner zero, of nodes that stay until they are deleted. It is not counted.
    pub(crate) const NOBODY: OwnerSlot = OwnerSlot(0);

    pub(crate) fn new() -> OwnerTable {
        let mut owners = Slots::new();
        owners.insert(NodeOwner { id: 0, uses: 0 });
        OwnerTable { owners, by_id: BTreeMap::new() }
    }

    pub(crate) fn get(&self, slot: OwnerSlot) -> i64 {
        self.owners.get(slot.0).id
    }

    /// The slot of an owner, with its use count incremented.
    pub(crate) fn intern(&mut self, id: i64) -> OwnerSlot {
        if id == 0 {
            return OwnerTable::NOBODY;
        }
        let owners = &mut self.owners;
        let slot = *self.by_id.entry(id).or_insert_with(|| owners.insert(NodeOwner { id, uses: 0 }));
        owners.get_mut(slot).uses += 1;
        OwnerSlot(slot)
    }

    /// Decrements the use count; the last use frees the slot.
    pub(crate) fn release(&mut self, slot: OwnerSlot) {
        if slot == OwnerTable::NOBODY {
            return;
        }
        let owner = self.owners.get_mut(slot.0);
        owner.uses -= 1;
        if owner.uses == 0 {
            self.by_id.remove(&owner.id);
            self.owners.remove(slot.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_shared_and_slots_are_reused() {
        let mut table = OwnerTable::new();
        assert_eq!((table.intern(0), table.get(OwnerTable::NOBODY)), (OwnerTable::NOBODY, 0));
        let first = table.intern(7);
        assert_eq!(table.intern(7), first);
        let second = table.intern(i64::MIN);
        assert_eq!((table.get(first), table.get(second)), (7, i64::MIN));
        table.release(first);
        assert_eq!(table.intern(7), first);
        for slot in [first, first, OwnerTable::NOBODY] {
            table.release(slot);
        }
        assert_eq!(table.intern(9), first, "the slot was freed with the last use");
        assert_eq!((table.get(first), table.get(second), table.by_id.len()), (9, i64::MIN, 2));
    }
}
