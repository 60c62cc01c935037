//! The Space-Saving sketch: the heaviest keys of a stream, in bounded memory.
//!
//! A key whose share of the whole weight exceeds one part in `capacity` is always kept. The count of a key
//! is never too low, and `error` bounds by how much it is too high.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// The heaviest keys of a stream.
#[derive(Debug)]
pub struct SpaceSaving<K> {
    capacity: usize,
    slots: Vec<Slot<K>>,
    /// The slots as a binary heap: no slot is lighter than its parent, so that the lightest one is first.
    heap: Vec<u32>,
    by_key: HashTable<u32>,
    hash: FixedState,
}

#[derive(Debug)]
struct Slot<K> {
    key: K,
    count: u64,
    error: u64,
    /// Its index in the heap.
    heap_index: u32,
}

/// A kept key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate<'a, K> {
    /// The key.
    pub key: &'a K,
    /// Its weight, never too low.
    pub count: u64,
    /// The weight is too high by at most this much.
    pub error: u64,
}

impl<K: Hash + Ord> SpaceSaving<K> {
    /// An empty sketch of at most `capacity` keys. Clients choose keys, so the seed must be secret.
    pub fn new(capacity: usize, seed: u64) -> SpaceSaving<K> {
        SpaceSaving {
            capacity: capacity.max(1),
            slots: Vec::new(),
            heap: Vec::new(),
            by_key: HashTable::new(),
            hash: FixedState::with_seed(seed),
        }
    }

    /// Adds weight to a key. A new key replaces the lightest one if there is no room.
    pub fn add<Q>(&mut self, key: &Q, weight: u64)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let SpaceSaving { slots, heap, by_key, hash, .. } = self;
        let code = hash.hash_one(key);
        if let Some(&slot) = by_key.find(code, |&slot| borrowed(&slots[slot as usize].key) == key) {
            let Slot { count, heap_index, .. } = &mut slots[slot as usize];
            *count = count.saturating_add(weight);
            let heap_index = *heap_index as usize;
            sift_down(heap, slots, heap_index);
            return;
        }
        let slot = if slots.len() < self.capacity {
            let index = slots.len() as u32;
            slots.push(Slot { key: key.to_owned(), count: weight, error: 0, heap_index: index });
            heap.push(index);
            sift_up(heap, slots, index as usize);
            index
        } else {
            let lightest = heap[0];
            let Slot { key: old, count, error, .. } = &mut slots[lightest as usize];
            if let Ok(entry) = by_key.find_entry(hash.hash_one(&*old), |&slot| slot == lightest) {
                entry.remove();
            }
            *old = key.to_owned();
            *error = *count;
            *count = count.saturating_add(weight);
            sift_down(heap, slots, 0);
            lightest
        };
        by_key.insert_unique(code, slot, |&slot| hash.hash_one(&slots[slot as usize].key));
    }

    /// Halves all counts, and forgets keys without weight.
    pub fn halve(&mut self) {
        let SpaceSaving { slots, heap, by_key, hash, .. } = self;
        for slot in slots.iter_mut() {
            slot.count /= 2;
            slot.error /= 2;
        }
        slots.retain(|slot| slot.count > 0);
        // A sorted list is a heap.
        slots.sort_by_key(|slot| slot.count);
        heap.clear();
        by_key.clear();
        for index in 0..slots.len() as u32 {
            slots[index as usize].heap_index = index;
            heap.push(index);
            let code = hash.hash_one(&slots[index as usize].key);
            by_key.insert_unique(code, index, |&slot| hash.hash_one(&slots[slot as usize].key));
        }
    }

    /// The heaviest keys, heaviest first; keys of the same weight by their order.
    pub fn heaviest(&self, limit: usize) -> Vec<Estimate<'_, K>> {
        let slots = self.slots.iter();
        let mut all: Vec<_> =
            slots.map(|slot| Estimate { key: &slot.key, count: slot.count, error: slot.error }).collect();
        all.sort_unstable_by(|left, right| {
            right.count.cmp(&left.count).then_with(|| left.key.cmp(right.key))
        });
        all.truncate(limit);
        all
    }

    /// The number of kept keys.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no key is kept.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

fn borrowed<K: Borrow<Q>, Q: ?Sized>(key: &K) -> &Q {
    key.borrow()
}

/// Moves a slot that became heavier away from the root.
fn sift_down<K>(heap: &mut [u32], slots: &mut [Slot<K>], mut index: usize) {
    let moved = heap[index];
    let count = slots[moved as usize].count;
    loop {
        let left = 2 * index + 1;
        let Some(&first) = heap.get(left) else { break };
        let (mut child, mut lighter) = (left, first);
        if let Some(&second) = heap.get(left + 1)
            && slots[second as usize].count < slots[first as usize].count
        {
            (child, lighter) = (left + 1, second);
        }
        if slots[lighter as usize].count >= count {
            break;
        }
        heap[index] = lighter;
        slots[lighter as usize].heap_index = index as u32;
        index = child;
    }
    heap[index] = moved;
    slots[moved as usize].heap_index = index as u32;
}

/// Moves a new slot towards the root.
fn sift_up<K>(heap: &mut [u32], slots: &mut [Slot<K>], mut index: usize) {
    let moved = heap[index];
    let count = slots[moved as usize].count;
    while index > 0 {
        let above = (index - 1) / 2;
        let parent = heap[above];
        if slots[parent as usize].count <= count {
            break;
        }
        heap[index] = parent;
        slots[parent as usize].heap_index = index as u32;
        index = above;
    }
    heap[index] = moved;
    slots[moved as usize].heap_index = index as u32;
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// A repeatable stream of numbers.
    struct Stream(u64);

    impl Stream {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        }

        /// A number below `keys` by Zipf's law with exponent one, about.
        fn zipf(&mut self, keys: u64) -> u64 {
            let uniform = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
            ((keys as f64).powf(uniform) as u64).clamp(1, keys) - 1
        }
    }

    fn counted(
        capacity: usize,
        stream: impl Iterator<Item = (u64, u64)>,
    ) -> (SpaceSaving<u64>, BTreeMap<u64, u64>) {
        let (mut sketch, mut exact) = (SpaceSaving::new(capacity, 5), BTreeMap::new());
        for (key, weight) in stream {
            sketch.add(&key, weight);
            *exact.entry(key).or_default() += weight;
        }
        (sketch, exact)
    }

    fn assert_bounds(sketch: &SpaceSaving<u64>, exact: &BTreeMap<u64, u64>, capacity: u64) {
        let total: u64 = exact.values().sum();
        for Estimate { key, count, error } in sketch.heaviest(usize::MAX) {
            let true_count = exact[key];
            assert!(
                count >= true_count && count - error <= true_count,
                "{key}: {count} {error} {true_count}"
            );
            assert!(error <= total / capacity, "{key}: {error} of {total}");
        }
        let kept: BTreeSet<u64> = sketch.heaviest(usize::MAX).iter().map(|kept| *kept.key).collect();
        for (key, count) in exact.iter().filter(|(_, count)| **count > total / capacity) {
            assert!(kept.contains(key), "{key}: {count}");
        }
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        let (sketch, exact) = counted(8, (0..80).map(|number| (number % 8, number)));
        assert_eq!(sketch.len(), 8);
        for Estimate { key, count, error } in sketch.heaviest(8) {
            assert_eq!((count, error), (exact[key], 0));
        }
    }

    #[test]
    fn the_error_is_bounded_for_every_load() {
        let mut stream = Stream(1);
        let zipf: Vec<_> = (0..200_000).map(|_| (stream.zipf(100_000), 1)).collect();
        let uniform: Vec<_> = (0..50_000).map(|_| (stream.next() % 3000, 1 + stream.next() % 9)).collect();
        let rising: Vec<_> = (0..20_000).map(|number| (number, number)).collect();
        for load in [zipf, uniform, rising] {
            let (sketch, exact) = counted(512, load.into_iter());
            assert_eq!(sketch.len(), 512);
            assert_bounds(&sketch, &exact, 512);
        }
    }

    #[test]
    fn the_heaviest_keys_of_a_zipf_load_are_found_in_order() {
        let mut stream = Stream(2);
        let (sketch, exact) = counted(512, (0..400_000).map(|_| (stream.zipf(1_000_000), 1)));
        let mut heaviest: Vec<_> = exact.iter().map(|(key, count)| (*count, *key)).collect();
        heaviest.sort_unstable_by(|left, right| right.cmp(left));
        let expected: Vec<u64> = heaviest.iter().take(10).map(|(_, key)| *key).collect();
        let found: Vec<u64> = sketch.heaviest(10).iter().map(|kept| *kept.key).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn equal_streams_give_equal_answers() {
        let answer = || {
            let mut stream = Stream(3);
            let (sketch, _) = counted(64, (0..20_000).map(|_| (stream.zipf(5000), 1)));
            let kept = sketch.heaviest(64);
            kept.iter().map(|kept| (*kept.key, kept.count, kept.error)).collect::<Vec<_>>()
        };
        assert_eq!(answer(), answer());
    }

    #[test]
    fn halving_forgets_old_keys_and_keeps_the_others() {
        let mut sketch = SpaceSaving::<String>::new(4, 1);
        sketch.add("/a", 100);
        sketch.add("/b", 1);
        sketch.halve();
        assert_eq!(sketch.len(), 1);
        sketch.add("/a", 1);
        sketch.add("/b", 7);
        let kept: Vec<_> = sketch.heaviest(4).iter().map(|kept| (kept.key.as_str(), kept.count)).collect();
        assert_eq!(kept, [("/a", 51), ("/b", 7)]);
        for _ in 0..10 {
            sketch.halve();
        }
        assert!(sketch.is_empty());
    }
}
