//! What a run has shown, for people and for scripts.

use std::fmt;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::cost::ServerCost;
use crate::run::{Load, Pace};
use crate::tally::Tally;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The kinds of requests.
    pub mix: String,
    /// The number of sessions.
    pub sessions: usize,
    /// When requests were sent.
    pub pace: Pace,
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
    /// The same for each second of the measurement, by the time at which requests were sent or, at a
    /// fixed rate, were due.
    pub each_second: Vec<Second>,
    /// Cost per server process.
    pub servers: Vec<ServerCost>,
    /// CPU seconds of the process that made the load, during the measurement.
    pub generator_cpu_seconds: f64,
    /// CPU microseconds of all named servers per operation; `None` if no process was named.
    pub cpu_us_per_operation: Option<f64>,
    /// CPU microseconds of the process that made the load, per operation.
    pub generator_us_per_operation: f64,
    /// The generator's part of the CPU time that it and the named servers took together; `None` if no
    /// process was named.
    pub generator_share: Option<f64>,
    /// The second in which fewest requests were answered, as a part of the average second.
    pub worst_second_share: f64,
}

/// One second of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Requests of this second that were answered, then or later.
    pub operations: u64,
    /// 99 of 100 were quicker, in microseconds.
    pub p99_us: u64,
    /// The slowest, in microseconds.
    pub max_us: u64,
}

/// Points of the latency distribution in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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

impl Latencies {
    pub(crate) fn of(latency_us: &Histogram<u64>) -> Latencies {
        Latencies {
            mean: latency_us.mean(),
            p50: latency_us.value_at_quantile(0.5),
            p95: latency_us.value_at_quantile(0.95),
            p99: latency_us.value_at_quantile(0.99),
            p999: latency_us.value_at_quantile(0.999),
            max: latency_us.max(),
        }
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Latencies { mean, p50, p95, p99, p999, max } = self;
        write!(f, "mean {mean:.0}, p50 {p50}, p95 {p95}, p99 {p99}, p99.9 {p999}, max {max}")
    }
}

impl Report {
    pub(crate) fn new(load: &Load, tally: &Tally, servers: Vec<ServerCost>, generator: ServerCost) -> Report {
        let seconds = load.duration.as_secs_f64();
        let latency = &tally.latency_us;
        let done = tally.done();
        let cpu_seconds: f64 = servers.iter().map(|server| server.cpu_seconds).sum();
        let cpu_us_per_operation =
            if servers.is_empty() || done == 0 { None } else { Some(cpu_seconds * 1e6 / done as f64) };
        let each_second: Vec<Second> = tally.seconds.iter().map(Second::of).collect();
        let fewest = each_second.iter().map(|second| second.operations).min().unwrap_or(0);
        let average = done as f64 / each_second.len().max(1) as f64;
        let all_cpu_seconds = cpu_seconds + generator.cpu_seconds;
        Report {
            mix: load.mix.to_string(),
            sessions: load.sessions,
            pace: load.pace,
            data_bytes: load.data_bytes,
            seconds,
            operations: done,
            errors: tally.errors,
            operations_per_second: done as f64 / seconds,
            latency_us: Latencies::of(latency),
            each_second,
            servers,
            generator_cpu_seconds: generator.cpu_seconds,
            cpu_us_per_operation,
            generator_us_per_operation: generator.cpu_seconds * 1e6 / done.max(1) as f64,
            generator_share: cpu_us_per_operation
                .filter(|_| all_cpu_seconds > 0.0)
                .map(|_| generator.cpu_seconds / all_cpu_seconds),
            worst_second_share: if done == 0 { 0.0 } else { fewest as f64 / average },
        }
    }

    /// The second with the highest 99th percentile.
    pub fn worst_second(&self) -> Option<Second> {
        self.each_second.iter().copied().max_by_key(|second| (second.p99_us, second.max_us))
    }
}

impl Second {
    fn of(latency_us: &Histogram<u32>) -> Second {
        Second {
            operations: latency_us.len(),
            p99_us: latency_us.value_at_quantile(0.99),
            max_us: latency_us.max(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} sessions{}, {} bytes, {:.0} s",
            self.mix, self.sessions, self.pace, self.data_bytes, self.seconds
        )?;
        writeln!(f, "  {:.0} operations/s, {} errors", self.operations_per_second, self.errors)?;
        let Latencies { mean, p50, p95, p99, p999, max } = self.latency_us;
        writeln!(f, "  latency us       mean      p50      p95      p99    p99.9      max")?;
        writeln!(f, "  all          {mean:>8.0} {p50:>8} {p95:>8} {p99:>8} {p999:>8} {max:>8}")?;
        if let Some(Second { p99_us, max_us, .. }) = self.worst_second() {
            writeln!(f, "  worst second                            {p99_us:>8}          {max_us:>8}")?;
        }
        let fewest = 100.0 * self.worst_second_share;
        writeln!(f, "  the second with fewest operations had {fewest:.0} % of the average")?;
        if let Some(cpu_us) = self.cpu_us_per_operation {
            writeln!(
                f,
                "  server CPU: {cpu_us:.2} us per operation, {:.0} operations per CPU-second",
                1e6 / cpu_us
            )?;
        }
        write!(
            f,
            "  load generator: {:.2} us per operation, {:.2} CPU seconds",
            self.generator_us_per_operation, self.generator_cpu_seconds
        )?;
        match self.generator_share {
            Some(share) => writeln!(f, ", {:.0} % of all", 100.0 * share)?,
            None => writeln!(f)?,
        }
        self.servers.iter().try_for_each(|server| writeln!(f, "  {server}"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::nodes::Nodes;

    #[test]
    fn a_second_without_answers_is_the_worst_one() {
        let load = Load {
            servers: Vec::new(),
            sessions: 1,
            pace: Pace::InFlight(1),
            mix: "get".parse().unwrap(),
            data_bytes: 0,
            nodes: Nodes::flat("/", 1),
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(2),
            processes: vec![1],
        };
        let mut tally = Tally::new();
        let from = Instant::now();
        for _ in 0..4 {
            tally.record(from, from, from + Duration::from_micros(50), 0);
        }
        let cost = |cpu_seconds| ServerCost { process: 1, cpu_seconds, resident_bytes: 0 };
        let report = Report::new(&load, &tally, vec![cost(3.0)], cost(1.0));
        assert_eq!((report.worst_second_share, report.generator_share), (1.0, Some(0.25)));
        assert_eq!((report.cpu_us_per_operation, report.generator_us_per_operation), (Some(750e3), 250e3));
        tally.reach(2);
        assert_eq!(Report::new(&load, &tally, vec![], cost(1.0)).worst_second_share, 0.0);
    }
}
