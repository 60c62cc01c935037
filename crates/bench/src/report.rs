//! What a run has shown, for people and for scripts.

use std::fmt;

use serde::Serialize;

use crate::run::Load;
use crate::session::Tally;

/// What the load cost one server process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ServerCost {
    /// Its process id.
    pub process: u32,
    /// CPU seconds during the measurement.
    pub cpu_seconds: f64,
    /// Resident memory at the end.
    pub resident_bytes: u64,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// What was sent.
    pub mix: String,
    /// Sessions.
    pub sessions: usize,
    /// Requests in flight per session.
    pub in_flight: usize,
    /// Bytes of data per node.
    pub data_bytes: usize,
    /// Seconds of the measurement.
    pub seconds: f64,
    /// Requests answered.
    pub operations: u64,
    /// Of these with an error.
    pub errors: u64,
    /// Requests answered per second.
    pub operations_per_second: f64,
    /// Latencies in microseconds: mean, then the usual points of the distribution.
    pub latency_us: Latencies,
    /// Cost per server process.
    pub servers: Vec<ServerCost>,
    /// CPU microseconds of all named servers per operation; `None` if no process was named.
    pub cpu_us_per_operation: Option<f64>,
}

/// Points of the latency distribution in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latencies {
    /// Mean.
    pub mean: f64,
    /// Half are quicker.
    pub p50: u64,
    /// 95 of 100 are quicker.
    pub p95: u64,
    /// 99 of 100 are quicker.
    pub p99: u64,
    /// 999 of 1000 are quicker.
    pub p999: u64,
    /// The slowest.
    pub max: u64,
}

impl Report {
    pub(crate) fn new(load: &Load, tally: &Tally, servers: Vec<ServerCost>) -> Report {
        let seconds = load.duration.as_secs_f64();
        let latency = &tally.latency_us;
        let cpu_seconds: f64 = servers.iter().map(|server| server.cpu_seconds).sum();
        let cpu_us_per_operation = if servers.is_empty() || tally.done == 0 {
            None
        } else {
            Some(cpu_seconds * 1e6 / tally.done as f64)
        };
        Report {
            mix: load.mix.to_string(),
            sessions: load.sessions,
            in_flight: load.in_flight,
            data_bytes: load.data_bytes,
            seconds,
            operations: tally.done,
            errors: tally.errors,
            operations_per_second: tally.done as f64 / seconds,
            latency_us: Latencies {
                mean: latency.mean(),
                p50: latency.value_at_quantile(0.5),
                p95: latency.value_at_quantile(0.95),
                p99: latency.value_at_quantile(0.99),
                p999: latency.value_at_quantile(0.999),
                max: latency.max(),
            },
            servers,
            cpu_us_per_operation,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let latency = &self.latency_us;
        writeln!(
            f,
            "{}: {} sessions x {} in flight, {} bytes, {:.0} s",
            self.mix, self.sessions, self.in_flight, self.data_bytes, self.seconds
        )?;
        writeln!(f, "  {:.0} operations/s, {} errors", self.operations_per_second, self.errors)?;
        writeln!(
            f,
            "  latency us: mean {:.0}, p50 {}, p95 {}, p99 {}, p99.9 {}, max {}",
            latency.mean, latency.p50, latency.p95, latency.p99, latency.p999, latency.max
        )?;
        if let Some(cpu_us) = self.cpu_us_per_operation {
            writeln!(
                f,
                "  server CPU: {cpu_us:.2} us per operation, {:.0} operations per CPU-second",
                1e6 / cpu_us
            )?;
        }
        for server in &self.servers {
            let mib = server.resident_bytes as f64 / (1 << 20) as f64;
            writeln!(
                f,
                "  process {}: {:.2} CPU seconds, {mib:.0} MiB resident",
                server.process, server.cpu_seconds
            )?;
        }
        Ok(())
    }
}
