//! The keys of the metrics exporter (`metricsProvider.*`). Reads and checks them; it opens no port.
//!
//! A class that is not known is an error: its metrics would be missed where they are collected.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::admin::{AdminProtection, PortOrigin, read_address, read_port};
use super::load::SystemAccess;
use super::security::tls::read_checked_family;
use super::security::tls_family::{TlsFamily, warn_unused_family};
use super::setting_reader::SettingReader;

const PROMETHEUS: &str = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";
/// Providers without a port.
const SILENT: [&str; 2] = [
    "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider",
    "org.apache.zookeeper.metrics.impl.NullMetricsProvider",
];
/// ZooKeeper's port of the metrics exporter.
const PORT_DEFAULT: u16 = 7000;
const HTTP_PORT: &str = "metricsProvider.httpPort";
const HTTPS_PORT: &str = "metricsProvider.httpsPort";
/// Keys of Java's worker threads and queues.
const WITHOUT_EFFECT: [&str; 4] = [
    "metricsProvider.numWorkerThreads",
    "metricsProvider.maxQueueSize",
    "metricsProvider.workerShutdownTimeoutMs",
    "metricsProvider.prometheusMetricsSummaryRotateIntervalSeconds",
];

/// The metrics exporter.
#[derive(Debug, Clone, PartialEq)]
pub struct ExporterConfig {
    /// The listeners: none, unless `metricsProvider.className` names the Prometheus provider.
    pub listeners: Vec<ExporterListener>,
    /// `exportJvmInfo`: whether values of the process are shown.
    pub process_info: bool,
}

impl Default for ExporterConfig {
    fn default() -> ExporterConfig {
        ExporterConfig { listeners: Vec::new(), process_info: true }
    }
}

/// A listener of the exporter.
#[derive(Debug, Clone, PartialEq)]
pub struct ExporterListener {
    /// The key of the port, for messages.
    pub key: &'static str,
    /// `metricsProvider.httpHost` with the port.
    pub address: SocketAddr,
    /// Whether the port is set.
    pub port_origin: PortOrigin,
    /// Plain HTTP, TLS, or both if the two ports are the same.
    pub protection: AdminProtection,
}

pub(super) fn read_exporter(reader: &mut SettingReader<'_>, system: &dyn SystemAccess) -> ExporterConfig {
    for key in WITHOUT_EFFECT {
        if let Some(setting) = reader.get(key) {
            let text = format!("{key} has no effect: metrics need neither threads nor a queue");
            reader.diagnostics.note(&setting.origin, text);
        }
    }
    let process_info = reader.loose_switch("metricsProvider.exportJvmInfo", true);
    let listeners = if exports(reader) { read_listeners(reader, system) } else { Vec::new() };
    ExporterConfig { listeners, process_info }
}

fn exports(reader: &mut SettingReader<'_>) -> bool {
    let key = "metricsProvider.className";
    let Some(setting) = reader.get(key) else {
        for port_key in [HTTP_PORT, HTTPS_PORT] {
            if let Some(port) = reader.get(port_key) {
                let text = format!("{port_key} has no effect without {key}={PROMETHEUS}");
                reader.diagnostics.note(&port.origin, text);
            }
        }
        return false;
    };
    if setting.value != PROMETHEUS && !SILENT.contains(&setting.value.as_str()) {
        reader.report_invalid(key, setting, &format!("{PROMETHEUS}, {} or {}", SILENT[0], SILENT[1]));
    }
    setting.value == PROMETHEUS
}

fn read_listeners(reader: &mut SettingReader<'_>, system: &dyn SystemAccess) -> Vec<ExporterListener> {
    let all = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let (port, port_origin) = read_port(reader, HTTP_PORT, PORT_DEFAULT);
    let address = read_address(reader, "metricsProvider.httpHost", port, all, system);
    let plain =
        || ExporterListener { key: HTTP_PORT, address, port_origin, protection: AdminProtection::Plain };
    if reader.get(HTTPS_PORT).is_none() {
        warn_unused_family(reader, TlsFamily::Exporter, "set metricsProvider.httpsPort");
        return vec![plain()];
    }
    let (secure_port, _) = read_port(reader, HTTPS_PORT, 0);
    let Some(family) = read_checked_family(reader, system, TlsFamily::Exporter, HTTPS_PORT) else {
        // An error was reported, so no server starts with this value.
        return Vec::new();
    };
    let is_shared = port_origin == PortOrigin::Configured && port == secure_port && port != 0;
    let family = Box::new(family);
    let secure = ExporterListener {
        key: HTTPS_PORT,
        address: SocketAddr::new(address.ip(), secure_port),
        port_origin: PortOrigin::Configured,
        protection: if is_shared {
            AdminProtection::PlainOrTls(family)
        } else {
            AdminProtection::Tls(family)
        },
    };
    match port_origin {
        // A collector that asks for TLS gets no plain port beside it.
        PortOrigin::Default => vec![secure],
        PortOrigin::Configured if is_shared => vec![secure],
        PortOrigin::Configured => vec![plain(), secure],
    }
}
