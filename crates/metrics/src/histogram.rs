//! A Prometheus histogram: counts by fixed upper bounds since the start. Histograms of several servers can be
//! added up; quantiles cannot.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Upper bounds of durations in microseconds: 50 µs to 10 s.
pub const DURATION_BOUNDS: &[u64] = &[
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
];

/// Upper bounds of numbers of things.
pub const SIZE_BOUNDS: &[u64] = &[1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000];

/// The unit of the samples. The text has base units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistogramUnit {
    /// Microseconds; the text shows seconds.
    Microseconds,
    /// Numbers of things.
    Count,
}

/// A histogram with fixed bounds.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    unit: HistogramUnit,
    /// One count per bound, and one for larger samples.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    /// A histogram of durations in microseconds.
    pub fn durations() -> Histogram {
        Histogram::new(DURATION_BOUNDS, HistogramUnit::Microseconds)
    }

    /// A histogram of numbers of things.
    pub fn sizes() -> Histogram {
        Histogram::new(SIZE_BOUNDS, HistogramUnit::Count)
    }

    fn new(bounds: &'static [u64], unit: HistogramUnit) -> Histogram {
        let counts = std::iter::repeat_with(AtomicU64::default).take(bounds.len() + 1).collect();
        Histogram { bounds, unit, counts, sum: AtomicU64::new(0) }
    }

    /// Adds a sample.
    pub fn record(&self, value: u64) {
        self.record_n(value, 1);
    }

    /// Adds `count` equal samples.
    pub fn record_n(&self, value: u64, count: u64) {
        let index = self.bounds.partition_point(|bound| *bound < value);
        self.counts[index].fetch_add(count, Relaxed);
        self.sum.fetch_add(value.saturating_mul(count), Relaxed);
    }

    /// The current values.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let mut below = 0;
        let cumulative = self.counts.iter().map(|count| {
            below += count.load(Relaxed);
            below
        });
        HistogramSnapshot {
            bounds: self.bounds,
            unit: self.unit,
            cumulative: cumulative.collect(),
            sum: self.sum.load(Relaxed),
        }
    }
}

/// The values of a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramSnapshot {
    bounds: &'static [u64],
    unit: HistogramUnit,
    /// Samples up to each bound, and all samples.
    cumulative: Vec<u64>,
    sum: u64,
}

impl HistogramSnapshot {
    /// Each upper bound in the unit of the text, and the samples up to it. The last bound is infinite.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = self.bounds.iter().map(|bound| self.in_base_unit(*bound));
        bounds.chain([f64::INFINITY]).zip(self.cumulative.iter().copied())
    }

    /// The number of samples.
    pub fn count(&self) -> u64 {
        self.cumulative.last().copied().unwrap_or(0)
    }

    /// The sum of the samples in the unit of the text.
    pub fn sum(&self) -> f64 {
        self.in_base_unit(self.sum)
    }

    fn in_base_unit(&self, value: u64) -> f64 {
        match self.unit {
            HistogramUnit::Microseconds => value as f64 / 1e6,
            HistogramUnit::Count => value as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_counts_in_its_bucket_and_all_larger_ones() {
        let histogram = Histogram::durations();
        for micros in [0, 50, 51, 1_000_000, 60_000_000] {
            histogram.record(micros);
        }
        let now = histogram.snapshot();
        let up_to = |limit: f64| now.buckets().find(|(bound, _)| *bound == limit).map(|(_, count)| count);
        assert_eq!((up_to(0.00005), up_to(0.0001), up_to(0.5)), (Some(2), Some(3), Some(3)));
        assert_eq!((up_to(1.0), up_to(10.0), up_to(f64::INFINITY)), (Some(4), Some(4), Some(5)));
        assert_eq!((now.count(), now.sum()), (5, 61.000101));
    }
}
