//! ACLs, each stored once. Nodes refer to a slot; snapshots refer to an ACL by an id that is never reused. A
//! snapshot that is taken in slices therefore cannot mix up two ACLs.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::quality::FixedState;
use hashbrown::HashTable;
use zebu_proto::Acl;

/// The id of the open ACL, which is in no snapshot's table.
const OPEN_ID: i64 = -1;

/// The highest id in a snapshot. So many ids are left above it that they do not run out.
const LOADED_ID_MAX: i64 = 1 << 62;

/// The slot of a node's ACL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AclSlot(u32);

struct AclRecord {
    id: i64,
    list: Arc<[Acl]>,
    uses: u64,
}

/// All ACLs that nodes use.
pub(crate) struct AclTable {
    /// The first is the open ACL; it is never released.
    slots: Vec<AclRecord>,
    free: Vec<u32>,
    by_list: HashTable<u32>,
    next_id: i64,
    hash: FixedState,
    /// The slot that was returned last: the next node often has the same ACL.
    recent: u32,
}

impl AclTable {
    /// The open ACL, for a null one and for the nodes that exist from the start.
    pub(crate) const OPEN: AclSlot = AclSlot(0);

    pub(crate) fn new(hash_seed: u64) -> AclTable {
        AclTable {
            slots: vec![AclRecord { id: OPEN_ID, list: Acl::open().into(), uses: 1 }],
            free: Vec::new(),
            by_list: HashTable::new(),
            next_id: 1,
            hash: FixedState::with_seed(hash_seed),
            recent: AclTable::OPEN.0,
        }
    }

    pub(crate) fn get(&self, slot: AclSlot) -> &Arc<[Acl]> {
        &self.slots[slot.0 as usize].list
    }

    /// The id of the ACL in snapshots.
    pub(crate) fn id(&self, slot: AclSlot) -> i64 {
        self.slots[slot.0 as usize].id
    }

    /// An ACL that is in use already, to share it.
    pub(crate) fn find(&self, list: &[Acl]) -> Option<&Arc<[Acl]>> {
        let found =
            self.by_list.find(self.hash.hash_one(list), |&slot| *self.slots[slot as usize].list == *list);
        found.map(|&slot| &self.slots[slot as usize].list)
    }

    /// The slot of an ACL, with its use count incremented. Null is the open ACL.
    pub(crate) fn intern(&mut self, list: Option<&[Acl]>) -> AclSlot {
        let Some(list) = list else {
            return AclTable::OPEN;
        };
        let recent = &mut self.slots[self.recent as usize];
        if recent.uses > 0 && self.recent != AclTable::OPEN.0 && *recent.list == *list {
            recent.uses += 1;
            return AclSlot(self.recent);
        }
        let hash = self.hash.hash_one(list);
        let found = self.by_list.find(hash, |&slot| *self.slots[slot as usize].list == *list).copied();
        let slot = match found {
            Some(slot) => slot,
            None => {
                let id = self.next_id;
                self.next_id += 1;
                self.add(id, list.into())
            }
        };
        self.slots[slot as usize].uses += 1;
        self.recent = slot;
        AclSlot(slot)
    }

    /// Decrements the use count; the last use releases the ACL.
    pub(crate) fn release(&mut self, slot: AclSlot) {
        if slot == AclTable::OPEN {
            return;
        }
        let uses = &mut self.slots[slot.0 as usize].uses;
        *uses = uses.saturating_sub(1);
        if *uses == 0 {
            self.drop_slot(slot.0);
        }
    }

    /// An ACL from a snapshot, not used yet. `None` if the id is too high.
    pub(crate) fn load(&mut self, id: i64, list: Vec<Acl>) -> Option<AclSlot> {
        if id > LOADED_ID_MAX {
            return None;
        }
        self.next_id = self.next_id.max(id + 1);
        Some(AclSlot(self.add(id, list.into())))
    }

    /// Increments the use count of a loaded ACL.
    pub(crate) fn retain(&mut self, slot: AclSlot) {
        if slot != AclTable::OPEN {
            self.slots[slot.0 as usize].uses += 1;
        }
    }

    /// Drops the ACLs of a snapshot that no node uses.
    pub(crate) fn drop_unused(&mut self) {
        for slot in 1..self.slots.len() as u32 {
            if self.slots[slot as usize].uses == 0 {
                self.drop_slot(slot);
            }
        }
    }

    /// Every ACL in use but the open one, with its id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, &Arc<[Acl]>)> {
        self.slots.iter().skip(1).filter(|slot| slot.uses > 0).map(|slot| (slot.id, &slot.list))
    }

    fn add(&mut self, id: i64, list: Arc<[Acl]>) -> u32 {
        let hash = self.hash.hash_one(&*list);
        let new = AclRecord { id, list, uses: 0 };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = new;
                slot
            }
            None => {
                self.slots.push(new);
                self.slots.len() as u32 - 1
            }
        };
        let (slots, hasher) = (&self.slots, &self.hash);
        self.by_list.insert_unique(hash, slot, |&slot| hasher.hash_one(&*slots[slot as usize].list));
        slot
    }

    fn drop_slot(&mut self, slot: u32) {
        let hash = self.hash.hash_one(&*self.slots[slot as usize].list);
        // A free slot is not in the table.
        if let Ok(entry) = self.by_list.find_entry(hash, |&other| other == slot) {
            entry.remove();
            self.slots[slot as usize].list = Arc::from([]);
            self.free.push(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_shared_and_ids_are_never_reused() {
        let mut table = AclTable::new(1);
        let read = table.intern(Some(&Acl::read_only()));
        assert_eq!((table.id(read), table.id(AclTable::OPEN)), (1, -1));
        assert_eq!(table.intern(None), AclTable::OPEN);
        let open = table.intern(Some(&Acl::open()));
        assert_ne!(open, AclTable::OPEN, "a list that was given is an ordinary one");
        assert_eq!(table.intern(Some(&Acl::open())), open);
        table.release(open);
        assert_eq!(table.iter().count(), 2);
        table.release(open);
        assert_eq!(table.iter().map(|(id, _)| id).collect::<Vec<_>>(), [1]);
        let again = table.intern(Some(&Acl::open()));
        assert_eq!((again, table.id(again)), (open, 3));
        assert!(table.find(&Acl::open()).is_some() && table.find(&[]).is_none());
    }

    #[test]
    fn loaded_lists_that_nobody_uses_go() {
        let mut table = AclTable::new(1);
        let used = table.load(7, Acl::open()).unwrap();
        table.load(9, Acl::read_only()).unwrap();
        table.retain(used);
        table.drop_unused();
        assert_eq!(table.iter().map(|(id, _)| id).collect::<Vec<_>>(), [7]);
        let next = table.intern(Some(&[]));
        assert_eq!(table.id(next), 10, "ids continue after the highest loaded one");
    }
}
