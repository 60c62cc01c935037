//! The order in which ZooKeeper prints servers, groups and weights: that of a Java hash map with numeric
//! keys. It only makes equal configs print alike.

/// The initial number of buckets of a Java hash map.
const BUCKETS_MIN: usize = 16;

/// Sorts entries in the iteration order of a Java hash map. Entries of one bucket ascend.
pub(super) fn in_java_order<T>(entries: impl Iterator<Item = (i64, T)>) -> Vec<(i64, T)> {
    let mut entries: Vec<(i64, T)> = entries.collect();
    let mut buckets = BUCKETS_MIN;
    while entries.len() > buckets / 4 * 3 {
        buckets *= 2;
    }
    entries.sort_by_key(|(number, _)| (bucket(*number, buckets), *number));
    entries
}

fn bucket(number: i64, buckets: usize) -> usize {
    let number = number as u64;
    let hash = (number ^ (number >> 32)) as u32;
    (hash ^ (hash >> 16)) as usize & (buckets - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(numbers: &[i64]) -> Vec<i64> {
        in_java_order(numbers.iter().map(|&number| (number, ())))
            .into_iter()
            .map(|(number, ())| number)
            .collect()
    }

    #[test]
    fn small_numbers_ascend_and_large_ones_wrap() {
        assert_eq!(order(&[3, 1, 15, 0]), [0, 1, 3, 15]);
        assert_eq!(order(&[1, 2, 16, 33]), [16, 1, 33, 2]);
        assert_eq!(order(&[1, 1 << 32, 2]), [1, 1 << 32, 2]);
        assert_eq!(order(&[-1, 5]), [-1, 5]);
    }

    #[test]
    fn more_of_them_have_more_buckets() {
        let twelve: Vec<i64> = (10..22).collect();
        assert_eq!(order(&twelve), [16, 17, 18, 19, 20, 21, 10, 11, 12, 13, 14, 15]);
        let thirteen: Vec<i64> = (10..23).collect();
        assert_eq!(order(&thirteen), thirteen);
    }
}
