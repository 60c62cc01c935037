//! A summary: count, sum and extremes since the start, and quantiles of the last ten minutes.
//!
//! Recording takes a few relaxed atomic additions and neither a lock nor, after the first sample, an
//! allocation. Two threads that record while the windows turn may lose some samples of a quantile; count and
//! sum stay exact.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::buckets::{BUCKETS, bucket_of, largest_in};

/// Windows whose samples the quantiles cover.
const WINDOWS: usize = 5;
/// Milliseconds of one window: five windows are ten minutes, as in ZooKeeper's exporter.
const WINDOW_MS: i64 = 120_000;

/// A measured value with its distribution.
#[derive(Debug)]
pub struct Summary {
    count: AtomicU64,
    sum: AtomicU64,
    /// Extremes since the last reset.
    min: AtomicU64,
    max: AtomicU64,
    count_at_reset: AtomicU64,
    sum_at_reset: AtomicU64,
    /// Allocated with the first sample, because many summaries never get one.
    windows: OnceLock<Box<Windows>>,
}

#[derive(Debug)]
struct Windows {
    /// `WINDOWS` arrays of `BUCKETS` counts.
    counts: Box<[AtomicU32]>,
    current: AtomicUsize,
    /// The number of the period in which the current window began.
    period: AtomicI64,
}

impl Default for Summary {
    fn default() -> Summary {
        Summary {
            count: AtomicU64::new(0),
            sum: AtomicU64::new(0),
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
            count_at_reset: AtomicU64::new(0),
            sum_at_reset: AtomicU64::new(0),
            windows: OnceLock::new(),
        }
    }
}

impl Summary {
    /// Adds a sample.
    pub fn record(&self, value: u64) {
        self.record_n(value, 1);
    }

    /// Adds `count` equal samples.
    pub fn record_n(&self, value: u64, count: u64) {
        if count == 0 {
            return;
        }
        self.count.fetch_add(count, Relaxed);
        if value > 0 {
            self.sum.fetch_add(value.saturating_mul(count), Relaxed);
        }
        self.widen(value, value);
        self.windows().add(bucket_of(value), u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// Adds a difference of two times; a negative one, of clocks that disagree, is left out.
    pub fn record_elapsed(&self, elapsed_ms: i64) {
        if let Ok(elapsed_ms) = u64::try_from(elapsed_ms) {
            self.record(elapsed_ms);
        }
    }

    /// A read costs less than an atomic change, and the extremes rarely change.
    fn widen(&self, min: u64, max: u64) {
        if min < self.min.load(Relaxed) {
            self.min.fetch_min(min, Relaxed);
        }
        if max > self.max.load(Relaxed) {
            self.max.fetch_max(max, Relaxed);
        }
    }

    fn windows(&self) -> &Windows {
        self.windows.get_or_init(|| {
            let counts = std::iter::repeat_with(AtomicU32::default).take(WINDOWS * BUCKETS).collect();
            Box::new(Windows { counts, current: AtomicUsize::new(0), period: AtomicI64::new(i64::MIN) })
        })
    }

    /// The values at a time in monotonic milliseconds. Old windows are dropped first, so a caller must come
    /// at least every two minutes.
    pub fn snapshot(&self, now_ms: i64) -> SummarySnapshot {
        let total_count = self.count.load(Relaxed);
        let total_sum = self.sum.load(Relaxed);
        let count = total_count.saturating_sub(self.count_at_reset.load(Relaxed));
        let mut recent = vec![];
        if let Some(windows) = self.windows.get() {
            windows.turn(now_ms.div_euclid(WINDOW_MS));
            recent = windows.sum();
        }
        SummarySnapshot {
            total_count,
            total_sum,
            count,
            sum: total_sum.saturating_sub(self.sum_at_reset.load(Relaxed)),
            min: if count == 0 { 0 } else { self.min.load(Relaxed) },
            max: if count == 0 { 0 } else { self.max.load(Relaxed) },
            recent,
        }
    }

    /// Count, sum, minimum and maximum since the last reset; zeros without a sample.
    pub fn since_reset(&self) -> (u64, u64, u64, u64) {
        let count = self.count.load(Relaxed).saturating_sub(self.count_at_reset.load(Relaxed));
        if count == 0 {
            return (0, 0, 0, 0);
        }
        let sum = self.sum.load(Relaxed).saturating_sub(self.sum_at_reset.load(Relaxed));
        (count, sum, self.min.load(Relaxed), self.max.load(Relaxed))
    }

    /// Begins anew for `mntr`, quantiles included. The totals stay.
    pub fn reset(&self) {
        self.count_at_reset.store(self.count.load(Relaxed), Relaxed);
        self.sum_at_reset.store(self.sum.load(Relaxed), Relaxed);
        self.min.store(u64::MAX, Relaxed);
        self.max.store(0, Relaxed);
        if let Some(windows) = self.windows.get() {
            windows.counts.iter().for_each(|count| count.store(0, Relaxed));
        }
    }
}

impl Windows {
    fn add(&self, bucket: u16, count: u32) {
        let index = self.current.load(Relaxed) * BUCKETS + usize::from(bucket);
        self.counts[index].fetch_add(count, Relaxed);
    }

    /// Begins a new window for each period that has passed.
    fn turn(&self, period: i64) {
        let before = self.period.load(Relaxed);
        if before >= period || self.period.compare_exchange(before, period, Relaxed, Relaxed).is_err() {
            return;
        }
        if before == i64::MIN {
            return;
        }
        let passed = usize::try_from(period - before).unwrap_or(WINDOWS).min(WINDOWS);
        for _ in 0..passed {
            let next = (self.current.load(Relaxed) + 1) % WINDOWS;
            self.counts[next * BUCKETS..][..BUCKETS].iter().for_each(|count| count.store(0, Relaxed));
            self.current.store(next, Relaxed);
        }
    }

    /// The counts of all windows together.
    fn sum(&self) -> Vec<u64> {
        let mut sum = vec![0; BUCKETS];
        for window in self.counts.chunks(BUCKETS) {
            for (sum, count) in sum.iter_mut().zip(window) {
                *sum += u64::from(count.load(Relaxed));
            }
        }
        sum
    }
}

/// The values of a summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SummarySnapshot {
    /// Samples since the start.
    pub total_count: u64,
    /// Their sum.
    pub total_sum: u64,
    /// Samples since the last reset.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The smallest since the last reset; 0 without a sample.
    pub min: u64,
    /// The largest since the last reset; 0 without a sample.
    pub max: u64,
    /// Counts of the last ten minutes by bucket; empty without a sample.
    recent: Vec<u64>,
}

impl SummarySnapshot {
    /// A summary without quantiles.
    pub fn of_totals(count: u64, sum: u64, min: u64, max: u64) -> SummarySnapshot {
        SummarySnapshot { total_count: count, total_sum: sum, count, sum, min, max, recent: Vec::new() }
    }

    /// The quantile of the last ten minutes; `None` without a sample in that time.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        let samples: u64 = self.recent.iter().sum();
        if samples == 0 {
            return None;
        }
        let rank = ((samples as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.recent.iter().enumerate() {
            seen += count;
            if seen >= rank {
                // The bucket may reach beyond the largest sample.
                return Some(largest_in(bucket).min(self.max.max(self.min)));
            }
        }
        None
    }
}

/// Records runs of equal samples with one atomic step per run.
#[derive(Debug)]
pub struct Runs<'a> {
    summary: &'a Summary,
    run: SampleRun,
}

/// Equal samples in a row, not recorded yet. Its owner flushes it at the end of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct SampleRun {
    value: u64,
    count: u64,
}

impl SampleRun {
    /// Adds a sample. The summary must be the same until the next flush.
    #[inline]
    pub fn add(&mut self, summary: &Summary, value: u64) {
        if value != self.value {
            self.flush(summary);
            self.value = value;
        }
        self.count += 1;
    }

    /// Adds elapsed milliseconds. A negative time comes from a clock that was set back, and is left out.
    #[inline]
    pub fn add_elapsed(&mut self, summary: &Summary, elapsed_ms: i64) {
        if let Ok(value) = u64::try_from(elapsed_ms) {
            self.add(summary, value);
        }
    }

    /// Records the samples.
    pub fn flush(&mut self, summary: &Summary) {
        summary.record_n(self.value, std::mem::take(&mut self.count));
    }
}

impl<'a> Runs<'a> {
    /// Begins without a sample. The last run is recorded when this is dropped.
    pub fn of(summary: &'a Summary) -> Runs<'a> {
        Runs { summary, run: SampleRun::default() }
    }

    /// Adds a difference of two times; a negative one is left out.
    #[inline]
    pub fn record_elapsed(&mut self, elapsed_ms: i64) {
        self.run.add_elapsed(self.summary, elapsed_ms);
    }
}

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        self.run.flush(self.summary);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_MS: i64 = 60_000;

    #[test]
    fn quantiles_cover_ten_minutes_and_totals_everything() {
        let summary = Summary::default();
        assert_eq!(summary.snapshot(0).quantile(0.5), None);
        (1..=100).for_each(|value| summary.record(value));
        let first = summary.snapshot(0);
        assert_eq!((first.count, first.sum, first.min, first.max), (100, 5050, 1, 100));
        assert_eq!((first.quantile(0.01), first.quantile(0.25)), (Some(1), Some(25)));
        assert_eq!((first.quantile(0.5), first.quantile(1.0)), (Some(51), Some(100)));
        summary.record_n(7, 1000);
        assert_eq!(summary.snapshot(4 * MINUTE_MS).quantile(0.5), Some(7));
        let silent = summary.snapshot(30 * MINUTE_MS);
        assert_eq!((silent.quantile(0.5), silent.total_count, silent.max), (None, 1100, 100));
        summary.record(3);
        assert_eq!(summary.snapshot(31 * MINUTE_MS).quantile(0.99), Some(3));
    }

    #[test]
    fn a_window_leaves_after_ten_minutes() {
        let summary = Summary::default();
        summary.snapshot(0);
        summary.record(5);
        assert_eq!(summary.snapshot(0).quantile(0.5), Some(5));
        for minute in [2, 4, 6, 8] {
            assert_eq!(summary.snapshot(minute * MINUTE_MS).quantile(0.5), Some(5), "{minute}");
        }
        assert_eq!(summary.snapshot(10 * MINUTE_MS).quantile(0.5), None);
    }

    #[test]
    fn a_reset_begins_anew_for_mntr_only() {
        let summary = Summary::default();
        summary.record(9);
        summary.reset();
        summary.record(2);
        let now = summary.snapshot(0);
        assert_eq!((now.count, now.sum, now.min, now.max), (1, 2, 2, 2));
        assert_eq!((now.total_count, now.total_sum, now.quantile(0.99)), (2, 11, Some(2)));
        assert_eq!(summary.since_reset(), (1, 2, 2, 2));
    }

    #[test]
    fn runs_count_like_single_samples() {
        let (single, runs) = (Summary::default(), Summary::default());
        let mut run = Runs::of(&runs);
        for value in [0, 0, 4, 4, 9, 0] {
            single.record(value);
            run.record_elapsed(value as i64);
        }
        run.record_elapsed(-3);
        drop(run);
        assert_eq!(single.snapshot(0), runs.snapshot(0));
    }
}
