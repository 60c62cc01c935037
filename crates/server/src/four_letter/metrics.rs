//! The metrics of `mntr`: names without the `zk_` prefix, and values in their printed form.

use super::java_text;

/// A value of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum MetricValue {
    /// A whole number.
    Integer(i64),
    /// A number that Java holds as a double.
    Decimal(f64),
}

impl MetricValue {
    /// The text in `mntr`.
    pub(crate) fn text(self) -> String {
        match self {
            MetricValue::Integer(value) => value.to_string(),
            MetricValue::Decimal(value) => java_text::double(value),
        }
    }
}

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
        java_text::average(self.sum, self.count)
    }
}

/// Names and values, in the order of the reply.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct MetricsReport {
    /// Names without the `zk_` prefix.
    pub(crate) values: Vec<(String, MetricValue)>,
}

impl MetricsReport {
    /// Adds a gauge or counter.
    pub(crate) fn integer(&mut self, name: impl Into<String>, value: i64) {
        self.values.push((name.into(), MetricValue::Integer(value)));
    }

    /// Adds a gauge that Java holds as a double.
    pub(crate) fn decimal(&mut self, name: impl Into<String>, value: f64) {
        self.values.push((name.into(), MetricValue::Decimal(value)));
    }

    /// Adds the five values of a basic summary.
    pub(crate) fn summary(&mut self, name: &str, summary: &SummaryReport) {
        self.decimal(format!("avg_{name}"), summary.average());
        self.integer(format!("min_{name}"), summary.min);
        self.integer(format!("max_{name}"), summary.max);
        self.integer(format!("cnt_{name}"), summary.count);
        self.integer(format!("sum_{name}"), summary.sum);
    }
}

/// The gauges of a standalone server.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Gauges {
    /// Latency of requests since start or reset.
    pub(crate) latency: SummaryReport,
    /// `packets_received`.
    pub(crate) packets_received: i64,
    /// `packets_sent`.
    pub(crate) packets_sent: i64,
    /// `num_alive_connections`.
    pub(crate) connections: i64,
    /// `outstanding_requests`.
    pub(crate) outstanding_requests: i64,
    /// `uptime` in milliseconds.
    pub(crate) uptime_ms: i64,
    /// `znode_count`.
    pub(crate) znode_count: i64,
    /// `watch_count`, of both watch tables.
    pub(crate) watch_count: i64,
    /// `ephemerals_count`.
    pub(crate) ephemerals_count: i64,
    /// `approximate_data_size` in bytes.
    pub(crate) approximate_data_size: i64,
    /// `global_sessions`.
    pub(crate) global_sessions: i64,
    /// `local_sessions`.
    pub(crate) local_sessions: i64,
    /// `open_file_descriptor_count`.
    pub(crate) open_files: i64,
    /// `max_file_descriptor_count`.
    pub(crate) max_files: i64,
    /// `connection_drop_probability`, 0 to 1.
    pub(crate) connection_drop_probability: f64,
    /// Sizes of replies; `None` before the first.
    pub(crate) response_size: Option<ResponseSize>,
    /// `auth_failed_count`.
    pub(crate) auth_failed: i64,
    /// `non_mtls_local_conn_count`.
    pub(crate) plain_local_connections: i64,
    /// `non_mtls_remote_conn_count`.
    pub(crate) plain_remote_connections: i64,
}

/// Sizes of replies in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResponseSize {
    /// Last reply.
    pub(crate) last: i64,
    /// Smallest reply.
    pub(crate) min: i64,
    /// Largest reply.
    pub(crate) max: i64,
}

impl Gauges {
    /// Adds all gauges under their names.
    pub(crate) fn add_to(&self, metrics: &mut MetricsReport) {
        metrics.decimal("avg_latency", self.latency.average());
        let size = self.response_size.unwrap_or(ResponseSize { last: -1, min: -1, max: -1 });
        for (name, value) in [
            ("min_latency", self.latency.min),
            ("max_latency", self.latency.max),
            ("packets_received", self.packets_received),
            ("packets_sent", self.packets_sent),
            ("num_alive_connections", self.connections),
            ("outstanding_requests", self.outstanding_requests),
            ("uptime", self.uptime_ms),
            ("znode_count", self.znode_count),
            ("watch_count", self.watch_count),
            ("ephemerals_count", self.ephemerals_count),
            ("approximate_data_size", self.approximate_data_size),
            ("global_sessions", self.global_sessions),
            ("local_sessions", self.local_sessions),
            ("open_file_descriptor_count", self.open_files),
            ("max_file_descriptor_count", self.max_files),
            ("last_client_response_size", size.last),
            ("min_client_response_size", size.min),
            ("max_client_response_size", size.max),
            ("outstanding_tls_handshake", 0),
            ("auth_failed_count", self.auth_failed),
            ("non_mtls_local_conn_count", self.plain_local_connections),
            ("non_mtls_remote_conn_count", self.plain_remote_connections),
        ] {
            metrics.integer(name, value);
        }
        metrics.decimal("connection_drop_probability", self.connection_drop_probability);
    }
}
