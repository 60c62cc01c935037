//! Numbers nodes in the order of creation. A node in a slot that is used for the first time needs none:
//! the slot itself tells. Numbers are kept for chunks of slots in which one was reused, so that a tree
//! whose nodes stay has 8 bytes less per node.

/// Slots whose numbers are stored together.
const CHUNK: usize = 4096;

/// The numbers of nodes in reused slots.
pub(crate) struct BirthNumbers {
    /// The number of the next node in a reused slot.
    next: u64,
    chunks: Vec<Option<Box<[u64]>>>,
}

impl BirthNumbers {
    pub(crate) fn new() -> BirthNumbers {
        BirthNumbers { next: 1, chunks: Vec::new() }
    }

    /// A node was put into a slot that another one had before.
    pub(crate) fn reused(&mut self, slot: usize) {
        let at = slot / CHUNK;
        if at >= self.chunks.len() {
            self.chunks.resize_with(at + 1, || None);
        }
        let chunk = self.chunks[at].get_or_insert_with(|| vec![0; CHUNK].into());
        chunk[slot % CHUNK] = self.next;
        self.next += 1;
    }

    /// Larger than the number of every node in a reused slot.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The number of a node in a reused slot, or zero for the first node in its slot.
    pub(crate) fn of(&self, slot: usize) -> u64 {
        match self.chunks.get(slot / CHUNK) {
            Some(Some(chunk)) => chunk[slot % CHUNK],
            Some(None) | None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reused_slots_have_numbers() {
        let mut births = BirthNumbers::new();
        assert_eq!((births.of(0), births.of(1 << 20), births.next()), (0, 0, 1));
        for slot in [CHUNK * 3 + 1, 5, CHUNK * 3 + 1] {
            births.reused(slot);
        }
        let numbers = [5, 6, CHUNK, CHUNK * 3, CHUNK * 3 + 1, CHUNK * 4].map(|slot| births.of(slot));
        assert_eq!((numbers, births.next()), ([2, 0, 0, 0, 3, 0], 4));
        assert_eq!(births.chunks.iter().flatten().count(), 2);
    }
}
