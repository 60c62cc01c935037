//! Storage of entries in chunks, addressed by small numbers, reused after removal. It grows by one chunk at a
//! time and never copies its entries, so that no request waits for the growth of a large tree.

/// Slots per chunk: the limit of unused slots.
const CHUNK: usize = 4096;

/// The number that stands for no slot.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// An entry that stores the next empty slot while its own slot is empty.
pub(crate) trait SlotEntry {
    /// Drops the content and stores the number.
    fn vacate(&mut self, next_empty: u32);
    /// The number stored by [`SlotEntry::vacate`].
    fn next_empty(&self) -> u32;
}

/// All slots of one kind.
pub(crate) struct Slots<T> {
    chunks: Vec<Vec<T>>,
    /// The slot emptied last, or [`NO_SLOT`].
    empty: u32,
    live: usize,
}

impl<T: SlotEntry> Slots<T> {
    pub(crate) fn new() -> Slots<T> {
        Slots { chunks: Vec::new(), empty: NO_SLOT, live: 0 }
    }

    /// How many slots are not empty.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// How many slots there are, empty ones included.
    pub(crate) fn count(&self) -> usize {
        match self.chunks.last() {
            Some(last) => (self.chunks.len() - 1) * CHUNK + last.len(),
            None => 0,
        }
    }

    pub(crate) fn insert(&mut self, value: T) -> u32 {
        self.live += 1;
        if self.empty != NO_SLOT {
            let number = self.empty;
            let slot = self.get_mut(number);
            let next_empty = slot.next_empty();
            *slot = value;
            self.empty = next_empty;
            return number;
        }
        let number = u32::try_from(self.count()).expect("four billion nodes do not fit in memory");
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(value),
            Some(_) | None => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(value);
                self.chunks.push(chunk);
            }
        }
        number
    }

    /// Empties a slot that is not empty.
    pub(crate) fn remove(&mut self, number: u32) {
        let empty = self.empty;
        self.get_mut(number).vacate(empty);
        self.empty = number;
        self.live -= 1;
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> &T {
        let number = number as usize;
        &self.chunks[number / CHUNK][number % CHUNK]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> &mut T {
        let number = number as usize;
        &mut self.chunks[number / CHUNK][number % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl SlotEntry for u32 {
        fn vacate(&mut self, next_empty: u32) {
            *self = next_empty;
        }

        fn next_empty(&self) -> u32 {
            *self
        }
    }

    #[test]
    fn emptied_slots_are_used_before_new_ones() {
        let mut slots = Slots::new();
        let many = CHUNK as u32 * 2 + 1;
        for value in 0..many {
            assert_eq!(slots.insert(value * 10), value);
        }
        for number in [5, many - 1, 0] {
            slots.remove(number);
        }
        assert_eq!((slots.live(), slots.count()), (many as usize - 3, many as usize));
        let reused: Vec<u32> = (0..4).map(|value| slots.insert(value)).collect();
        assert_eq!(reused, [0, many - 1, 5, many]);
        assert_eq!((*slots.get(5), *slots.get(6), *slots.get(many - 2)), (2, 60, (many - 2) * 10));
        assert_eq!((slots.live(), slots.count()), (many as usize + 1, many as usize + 1));
    }
}
