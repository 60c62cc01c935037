//! The admin server and the exporter's listener, from whole configurations.

use std::time::Duration;

use super::*;
use zebu_tree::access::IpNetwork;

use crate::config::admin::{AdminProtection, ApiAccess, ConsoleSetting, PortOrigin};

#[test]
fn the_admin_server_is_on_and_on_loopback_unless_told_otherwise() {
    let admin = with_base("").config().admin.unwrap();
    assert_eq!(
        (admin.address.to_string().as_str(), admin.port_origin),
        ("127.0.0.1:8080", PortOrigin::Default)
    );
    assert_eq!(admin.command_url, "/commands");
    assert_eq!(admin.protection, AdminProtection::Plain);
    assert_eq!(admin.idle_timeout, Duration::from_secs(30));
    assert_eq!(admin.rate_limiter_interval, Duration::from_secs(300));
    assert!(admin.snapshot_enabled && admin.restore_enabled);
    assert_eq!(with_base("admin.enableServer=False\n").config().admin, None);
    let odd = with_base("admin.enableServer=no\n");
    odd.warnings(&[
        "zoo.cfg:4: admin.enableServer = \"no\" counts as true, as in ZooKeeper; write true or false",
    ]);
    assert!(odd.config().admin.is_some());
}

#[test]
fn every_key_of_the_admin_server() {
    let case = with_base(
        "admin.serverAddress=0.0.0.0\nadmin.serverPort=0x10\nadmin.idleTimeout=5\nadmin.commandURL=/zk/\n\
         admin.rateLimiterIntervalInMS=7\nadmin.snapshot.enabled=false\nadmin.restore.enabled=false\n\
         admin.allowedHosts=ZK1, zk2.example\n",
    );
    let admin = case.config().admin.unwrap();
    assert_eq!(
        (admin.address.to_string().as_str(), admin.port_origin),
        ("0.0.0.0:16", PortOrigin::Configured)
    );
    assert_eq!((admin.idle_timeout.as_millis(), admin.rate_limiter_interval.as_millis()), (5, 7));
    assert_eq!(
        (admin.command_url.as_str(), admin.snapshot_enabled, admin.restore_enabled),
        ("/zk", false, false)
    );
    assert_eq!(admin.allowed_hosts, ["zk1", "zk2.example"]);
    let word = file(BASE).word("zookeeper.admin.serverPort=9").config().admin.unwrap();
    assert_eq!(word.address.port(), 9);
    with_base("admin.serverprot=1\n").warnings(&[
        "zoo.cfg:4: admin.serverprot is unknown and has no effect; did you mean admin.serverPort?",
    ]);
    with_base("admin.serverPort=many\n").warnings(&[
        "zoo.cfg:4: admin.serverPort = \"many\" is not a number; the default is used, as in ZooKeeper",
    ]);
}

#[test]
fn an_admin_port_never_opens_with_less_protection_than_asked_for() {
    with_base("admin.needClientAuth=true\n").errors(&[
        "zoo.cfg:4: admin.needClientAuth=true needs TLS; set admin.forceHttps=true or admin.portUnification=true",
    ]);
    assert!(with_base("admin.forceHttps=true\n").load().config.is_none());
    assert!(with_base("admin.forceHttps=maybe\n").load().config.is_none());
}

/// Two routes of one path would end the process at its start.
#[test]
fn commands_take_no_route_of_another_kind() {
    for url in ["/live", "/ready", "/version", "/metrics", "/v1", "/v1/tree", "/console"] {
        assert!(with_base(&format!("admin.commandURL={url}\n")).load().config.is_none(), "{url}");
    }
    assert_eq!(with_base("admin.commandURL=/v11\n").config().admin.unwrap().command_url, "/v11");
}

#[test]
fn the_api_is_off_unless_it_is_enabled() {
    let api = |lines: &str| with_base(lines).config().admin.unwrap().api;
    assert_eq!(api(""), ApiAccess::Off);
    assert_eq!(api("admin.api.readOnly=true\n"), ApiAccess::Off);
    assert_eq!(api("admin.api.enabled=true\n"), ApiAccess::ReadWrite);
    assert_eq!(api("admin.api.enabled=true\nadmin.api.readOnly=true\n"), ApiAccess::ReadOnly);
    for key in ["admin.api.enabled", "admin.api.readOnly"] {
        assert!(with_base(&format!("{key}=maybe\n")).load().config.is_none(), "{key}");
    }
}

/// The console is on for this machine only. Elsewhere it needs a request, and TLS or a second one.
#[test]
fn the_console_is_for_loopback_unless_it_is_enabled() {
    let console = |lines: &str| with_base(lines).config().admin.unwrap().console;
    let far = "admin.serverAddress=0.0.0.0\n";
    assert_eq!(console(""), ConsoleSetting::ReadWrite);
    assert_eq!(console("admin.console.readOnly=true\n"), ConsoleSetting::ReadOnly);
    assert_eq!(console("admin.console.enabled=false\n"), ConsoleSetting::Off);
    assert_eq!(console(far), ConsoleSetting::Off);
    let enabled = format!("{far}admin.console.enabled=true\n");
    assert!(with_base(&enabled).load().config.is_none(), "plain passwords");
    assert_eq!(console(&format!("{enabled}admin.console.plaintext=true\n")), ConsoleSetting::ReadWrite);
    for key in ["admin.console.enabled", "admin.console.readOnly", "admin.console.plaintext"] {
        assert!(with_base(&format!("{key}=maybe\n")).load().config.is_none(), "{key}");
    }
}

#[test]
fn only_named_proxies_are_believed() {
    let key = "IPAuthenticationProvider.usexforwardedfor=true\n";
    let proxies = |lines: &str| with_base(lines).config().admin.unwrap().trusted_proxies;
    assert!(proxies("").is_empty());
    let network = |text| IpNetwork::parse(text).unwrap();
    let both = proxies(&format!("{key}admin.trustedProxies=10.0.0.0/8, fd00::1\n"));
    assert_eq!(both, [network("10.0.0.0/8"), network("fd00::1")]);
    with_base(key).warnings(&[
        "zoo.cfg:4: IPAuthenticationProvider.usexforwardedfor=true has no effect: name the proxies in \
         admin.trustedProxies",
    ]);
    with_base("admin.trustedProxies=10.0.0.1\n").warnings(&[
        "zoo.cfg:4: admin.trustedProxies has no effect without IPAuthenticationProvider.usexforwardedfor=true",
    ]);
    with_base(&format!("{key}admin.trustedProxies=lb.example\n")).errors(&[
        "zoo.cfg:5: admin.trustedProxies = \"lb.example\" is not valid; allowed: addresses and networks such as \
         10.0.0.0/8, with commas",
    ]);
}

#[test]
fn the_exporter_needs_its_class() {
    assert_eq!(with_base("metricsProvider.httpPort=7001\n").config().exporter.listeners, []);
    let class =
        "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n";
    let listener = with_base(class).config().exporter.listeners.remove(0);
    assert_eq!(
        (listener.address.to_string().as_str(), listener.port_origin),
        ("0.0.0.0:7000", PortOrigin::Default)
    );
    let configured =
        with_base(&format!("{class}metricsProvider.httpHost=127.0.0.1\nmetricsProvider.httpPort=7001\n"));
    assert_eq!(configured.config().exporter.listeners[0].address.to_string(), "127.0.0.1:7001");
    // A port for TLS without keys does not open.
    assert!(with_base(&format!("{class}metricsProvider.httpsPort=7002\n")).load().config.is_none());
}
