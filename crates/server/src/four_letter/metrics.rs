//! Statistics of latencies in `srvr` and `stat`.

use zebu_metrics::average;

/// Statistics of samples, without their distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SummaryReport {
    /// Smallest; 0 without a sample.
    pub(crate) min: i64,
    /// Largest; 0 without a sample.
    pub(crate) max: i64,
    /// Number of samples.
    pub(crate) count: i64,
    /// Sum of the samples.
    pub(crate) sum: i64,
}

impl SummaryReport {
    /// The average with four decimals.
    pub(crate) fn average(&self) -> f64 {
        average(self.sum, self.count)
    }
}
