//! One server's rounds of one load, and the middle of them.

use serde::{Deserialize, Serialize};
use zebu_bench::Report;

use super::middle::median;

/// Medians over the rounds; of errors the sum.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Side {
    pub(crate) cpu_us_per_operation: f64,
    pub(crate) operations_per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// The 99th percentile of the second in which it was highest.
    pub(crate) worst_second_p99_us: f64,
    /// Operations of the second that had fewest, as a part of the average.
    pub(crate) worst_second_share: f64,
    pub(crate) resident_mib: f64,
    pub(crate) generator_us_per_operation: f64,
    /// The generator's part of the CPU time of both.
    pub(crate) generator_share: f64,
    pub(crate) errors: u64,
    pub(crate) rounds: Vec<Report>,
}

impl Side {
    pub(crate) fn of(rounds: Vec<Report>) -> Side {
        let middle = |of: &dyn Fn(&Report) -> f64| median(rounds.iter().map(of));
        let resident =
            |report: &Report| report.servers.iter().map(|server| server.resident_bytes).sum::<u64>();
        Side {
            cpu_us_per_operation: middle(&|report| report.cpu_us_per_operation.unwrap_or_default()),
            operations_per_second: middle(&|report| report.operations_per_second),
            p50_us: middle(&|report| report.latency_us.p50 as f64),
            p99_us: middle(&|report| report.latency_us.p99 as f64),
            worst_second_p99_us: middle(&|report| {
                report.worst_second().map_or(0.0, |second| second.p99_us as f64)
            }),
            worst_second_share: middle(&|report| report.worst_second_share),
            resident_mib: middle(&|report| resident(report) as f64 / f64::from(1 << 20)),
            generator_us_per_operation: middle(&|report| report.generator_us_per_operation),
            generator_share: middle(&|report| report.generator_share.unwrap_or_default()),
            errors: rounds.iter().map(|report| report.errors).sum(),
            rounds,
        }
    }
}
