//! Reproducible choices. The sequence belongs to the seed for ever: a seed in a bug report must mean the
//! same run tomorrow, so no library decides it.

/// SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not zero.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// True in `percent` of all cases.
    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// True in `count` of a thousand cases.
    pub(crate) fn per_mille(&mut self, count: usize) -> bool {
        self.below(1000) < count
    }

    /// One of `items`.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// One of the values, each as often as its weight says.
    pub(crate) fn weighted<T: Copy>(&mut self, items: &[(usize, T)]) -> T {
        let mut left = self.below(items.iter().map(|(weight, _)| weight).sum());
        for &(weight, item) in items {
            if left < weight {
                return item;
            }
            left -= weight;
        }
        unreachable!("the number drawn is below the sum of the weights")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_for_ever() {
        let mut random = Random::new(42);
        let drawn: Vec<usize> = (0..5).map(|_| random.below(1000)).collect();
        assert_eq!(drawn, [413, 291, 858, 764, 250]);
    }
}
