//! The exporter's port for TLS: certificates of collectors, one port for both protocols, and new files.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod admin_common;
mod common;
mod tls_common;

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;

use admin_common::{connect, exchange, port_of, request};
use tempfile::TempDir;
use tls_common::{BOTH_VERSIONS, TestAuthority, TlsClient, client_config, eventually, write_private};
use zebu_testing::{ServerProcess, ServerProcessBuilder, port};

const CLASS: &str = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";

/// An authority with the files of a server.
struct Keys {
    authority: TestAuthority,
    home: TempDir,
}

impl Keys {
    fn new() -> Keys {
        let keys = Keys { authority: TestAuthority::new("test"), home: tempfile::tempdir().unwrap() };
        write_private(&keys.path("keys.pem"), &keys.authority.server("exporter"));
        std::fs::write(keys.path("trust.pem"), keys.authority.pem()).unwrap();
        keys
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.home.path().join(name)
    }

    fn identity(&self) -> String {
        self.authority.client(&[(rcgen::DnType::CommonName, "collector")])
    }
}

fn server(keys: &Path, trust: &Path) -> ServerProcessBuilder {
    common::server()
        .line(format!("metricsProvider.className={CLASS}"))
        .line("metricsProvider.httpHost=127.0.0.1")
        .line(format!("metricsProvider.ssl.keyStore.location={}", keys.display()))
        .line(format!("metricsProvider.ssl.trustStore.location={}", trust.display()))
}

fn secure_port(server: &ServerProcess) -> SocketAddr {
    port_of(server, "metrics exporter with TLS")
}

/// Whether a collector with this identity gets the metrics.
fn is_served(address: SocketAddr, authority: &TestAuthority, identity: Option<&str>) -> bool {
    let config = client_config(&authority.pem(), identity, &BOTH_VERSIONS);
    TlsClient::connect(address, &config).is_ok_and(|client| {
        let mut stream = client.stream;
        let _ = stream.write_all(&request("GET", "/metrics", &[], ""));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || text.starts_with("HTTP/1.1 200"), "{text}");
        text.contains("znode_count 5")
    })
}

#[test]
fn a_collector_needs_a_certificate_unless_it_is_not_wanted() {
    let keys = Keys::new();
    let stranger = TestAuthority::new("stranger").client(&[(rcgen::DnType::CommonName, "collector")]);
    let build =
        || server(&keys.path("keys.pem"), &keys.path("trust.pem")).line("metricsProvider.httpsPort=0");
    // The words are those of ZooKeeper; a certificate is needed by default.
    for (lines, without, by_stranger) in [
        (&[][..], false, false),
        (
            &["metricsProvider.ssl.need.client.auth=false", "metricsProvider.ssl.want.client.auth=true"],
            true,
            false,
        ),
        (&["metricsProvider.ssl.need.client.auth=false"], true, true),
    ] {
        let server = lines.iter().fold(build(), |builder, line| builder.line(*line)).start().unwrap();
        let address = secure_port(&server);
        assert!(is_served(address, &keys.authority, Some(&keys.identity())), "{lines:?}");
        assert_eq!(is_served(address, &keys.authority, None), without, "{lines:?}");
        assert_eq!(is_served(address, &keys.authority, Some(&stranger)), by_stranger, "{lines:?}");
        // No plain port opens beside it, and this one takes no plain request.
        assert!(!server.output().contains("metrics exporter listens"), "{}", server.output());
        let mut plain = connect(address);
        plain.write_all(&request("GET", "/metrics", &[], "")).unwrap();
        let mut answer = Vec::new();
        let _ = plain.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&answer));
    }
}

#[test]
fn both_protocols_have_one_port_or_two() {
    let keys = Keys::new();
    let build = || server(&keys.path("keys.pem"), &keys.path("trust.pem"));
    let two = build().line("metricsProvider.httpPort=0").line("metricsProvider.httpsPort=0").start().unwrap();
    let plain = exchange(connect(port_of(&two, "metrics exporter")), &request("GET", "/metrics", &[], ""));
    assert_eq!(plain.status, 200);
    assert!(is_served(secure_port(&two), &keys.authority, Some(&keys.identity())));
    assert_ne!(port_of(&two, "metrics exporter"), secure_port(&two));
    let shared = port::free_address().unwrap().port();
    let one = build()
        .line(format!("metricsProvider.httpPort={shared}"))
        .line(format!("metricsProvider.httpsPort={shared}"))
        .start()
        .unwrap();
    let address = secure_port(&one);
    assert_eq!(address.port(), shared);
    assert_eq!(exchange(connect(address), &request("GET", "/metrics", &[], "")).status, 200);
    assert!(is_served(address, &keys.authority, Some(&keys.identity())));
}

#[test]
fn new_files_are_used_without_a_restart() {
    let keys = Keys::new();
    let server = server(&keys.path("keys.pem"), &keys.path("trust.pem"))
        .line("metricsProvider.httpsPort=0")
        .start()
        .unwrap();
    let address = secure_port(&server);
    assert!(is_served(address, &keys.authority, Some(&keys.identity())));
    let next = Keys::new();
    write_private(&keys.path("keys.pem"), &next.authority.server("exporter"));
    std::fs::write(keys.path("trust.pem"), next.authority.pem()).unwrap();
    eventually("new collectors are served", || is_served(address, &next.authority, Some(&next.identity())));
    assert!(!is_served(address, &keys.authority, Some(&keys.identity())));
}

#[test]
fn a_port_for_tls_without_usable_keys_refuses_the_start() {
    let keys = Keys::new();
    let missing = keys.path("missing.pem");
    let trust = keys.path("trust.pem");
    for (builder, expected) in [
        (server(&missing, &trust).line("metricsProvider.httpsPort=0"), "missing.pem"),
        (server(&trust, &trust).line("metricsProvider.httpsPort=0"), "metricsProvider.ssl.keyStore.location"),
        (
            common::server()
                .line(format!("metricsProvider.className={CLASS}"))
                .line("metricsProvider.httpsPort=0"),
            "metricsProvider.ssl.keyStore.location is not set",
        ),
    ] {
        let error = builder.start().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}
