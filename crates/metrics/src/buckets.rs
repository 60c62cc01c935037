//! The log-linear buckets of a summary: exact below 32, then 16 buckets per power of two. A bucket's value
//! is at most 6 % above its samples.

/// Buckets per power of two.
const SUB_BUCKETS: u32 = 16;
/// Values below this have a bucket of their own.
const EXACT: u32 = 2 * SUB_BUCKETS;
/// Powers of two from `EXACT` to the largest `u32`.
const OCTAVES: u32 = 32 - EXACT.ilog2();

/// The number of buckets.
pub(crate) const BUCKETS: usize = (EXACT + OCTAVES * SUB_BUCKETS) as usize;

/// The bucket of a value. Values above `u32::MAX` share the last bucket.
#[inline]
pub(crate) fn bucket_of(value: u64) -> u16 {
    let value = u32::try_from(value).unwrap_or(u32::MAX);
    if value < EXACT {
        return value as u16;
    }
    let octave = value.ilog2();
    let sub = (value >> (octave - SUB_BUCKETS.ilog2())) - SUB_BUCKETS;
    (EXACT + (octave - EXACT.ilog2()) * SUB_BUCKETS + sub) as u16
}

/// The largest value of a bucket.
pub(crate) fn largest_in(bucket: usize) -> u64 {
    let bucket = bucket as u32;
    if bucket < EXACT {
        return u64::from(bucket);
    }
    let octave = EXACT.ilog2() + (bucket - EXACT) / SUB_BUCKETS;
    let sub = (bucket - EXACT) % SUB_BUCKETS;
    (u64::from(SUB_BUCKETS + sub + 1) << (octave - SUB_BUCKETS.ilog2())) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_exact_below_32_and_within_6_percent_above() {
        let around = (0..32u32).flat_map(|shift| {
            let base = 1u64 << shift;
            (0..40).map(move |step| base.saturating_sub(20) + step)
        });
        for value in around.filter(|value| *value <= u64::from(u32::MAX)) {
            let bucket = usize::from(bucket_of(value));
            let largest = largest_in(bucket);
            assert!(bucket < BUCKETS && largest >= value, "{value} in {bucket} up to {largest}");
            assert!(largest as f64 <= value as f64 * 1.0625, "{value} in {bucket} up to {largest}");
            assert_eq!(usize::from(bucket_of(largest)), bucket, "{value}");
            assert_eq!(usize::from(bucket_of(largest + 1)).min(BUCKETS - 1), (bucket + 1).min(BUCKETS - 1));
        }
        assert_eq!(bucket_of(u64::MAX), bucket_of(u64::from(u32::MAX)));
        assert!((0..32).all(|value| largest_in(usize::from(bucket_of(value))) == value));
    }
}
