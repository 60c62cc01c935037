//! The keys of the metrics exporter (`metricsProvider.*`). Reads and checks them; it opens no port.
//!
//! A class that is not known is an error: its metrics would be missed where they are collected.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::admin::{PortOrigin, read_address, read_port};
use super::load::SystemAccess;
use super::setting_reader::SettingReader;

const PROMETHEUS: &str = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";
/// Providers without a port.
const SILENT: [&str; 2] = [
    "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider",
    "org.apache.zookeeper.metrics.impl.NullMetricsProvider",
];
/// ZooKeeper's port of the metrics exporter.
const PORT_DEFAULT: u16 = 7000;
/// Keys of Java's worker threads and queues.
const WITHOUT_EFFECT: [&str; 4] = [
    "metricsProvider.numWorkerThreads",
    "metricsProvider.maxQueueSize",
    "metricsProvider.workerShutdownTimeoutMs",
    "metricsProvider.prometheusMetricsSummaryRotateIntervalSeconds",
];

/// The metrics exporter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExporterConfig {
    /// The listener; `None` unless `metricsProvider.className` names the Prometheus provider.
    pub listener: Option<ExporterListener>,
    /// `exportJvmInfo`: whether values of the process are shown.
    pub process_info: bool,
}

impl Default for ExporterConfig {
    fn default() -> ExporterConfig {
        ExporterConfig { listener: None, process_info: true }
    }
}

/// The listener of the exporter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExporterListener {
    /// `metricsProvider.httpHost` and `metricsProvider.httpPort`.
    pub address: SocketAddr,
    /// Whether `metricsProvider.httpPort` is set.
    pub port_origin: PortOrigin,
}

pub(super) fn read_exporter(reader: &mut SettingReader<'_>, system: &dyn SystemAccess) -> ExporterConfig {
    for key in WITHOUT_EFFECT {
        if let Some(setting) = reader.get(key) {
            let text = format!("{key} has no effect: metrics need neither threads nor a queue");
            reader.diagnostics.note(&setting.origin, text);
        }
    }
    let process_info = reader.loose_switch("metricsProvider.exportJvmInfo", true);
    let listener = if exports(reader) { Some(read_listener(reader, system)) } else { None };
    ExporterConfig { listener, process_info }
}

fn exports(reader: &mut SettingReader<'_>) -> bool {
    let key = "metricsProvider.className";
    let Some(setting) = reader.get(key) else {
        if let Some(port) = reader.get("metricsProvider.httpPort") {
            let text = format!("metricsProvider.httpPort has no effect without {key}={PROMETHEUS}");
            reader.diagnostics.note(&port.origin, text);
        }
        return false;
    };
    if setting.value != PROMETHEUS && !SILENT.contains(&setting.value.as_str()) {
        reader.report_invalid(key, setting, &format!("{PROMETHEUS}, {} or {}", SILENT[0], SILENT[1]));
    }
    setting.value == PROMETHEUS
}

fn read_listener(reader: &mut SettingReader<'_>, system: &dyn SystemAccess) -> ExporterListener {
    if let Some(setting) = reader.get("metricsProvider.httpsPort") {
        let text = "metricsProvider.httpsPort: the exporter has no TLS; write metricsProvider.httpPort, with \
                    metricsProvider.httpHost=127.0.0.1 behind a proxy that has TLS";
        reader.diagnostics.error(&setting.origin, text.to_owned());
    }
    let (port, port_origin) = read_port(reader, "metricsProvider.httpPort", PORT_DEFAULT);
    let all = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let address = read_address(reader, "metricsProvider.httpHost", port, all, system);
    ExporterListener { address, port_origin }
}
