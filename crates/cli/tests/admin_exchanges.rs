//! Replays every recorded exchange of Apache ZooKeeper's admin server against the zebu program in the same
//! situation. The answers are equal, but for the named differences of the table below, which
//! docs/differences.md lists too.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod admin_common;
mod common;
#[path = "common/ensemble.rs"]
mod ensemble;
mod tls_common;

use std::net::SocketAddr;

use admin_common::{
    AS_SUPER, Answer, Recorded, SUPER_DIGEST, admin_port, connect, create_recorded_state, eventually,
    exchange, get, masked, port_of, recorded, value,
};
use common::auth_body;
use ensemble::Ensemble;
use zebu_proto::jute::encode_bytes;
use zebu_proto::{Acl, Jute, OpCode, Permissions};
use zebu_testing::{RawClient, ServerProcessBuilder, port};

/// How an answer of Zebu relates to a recorded one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Relation {
    /// Equal.
    Same,
    /// Equal but for the order, which ZooKeeper does not promise.
    AnyOrder,
    /// Equal for the super user. Other callers are refused: an ACL of `/` that is open to the world gives no
    /// right to the whole state.
    AsSuper,
    /// The same status and the same first and last entries; values between them differ.
    Frame,
    /// Another status, or another body.
    Status(u16),
}

use Relation::{AnyOrder, AsSuper, Frame, Same, Status};

/// The named differences. A name stands for all exchanges that begin with it.
const DIFFERENCES: &[(&str, Relation, &str)] = &[
    ("standalone-after-restore-dump", Frame, "a restore ends all sessions of the snapshot"),
    (
        "standalone-after-restore-server_stats",
        AnyOrder,
        "the order of server_stats is that of a Java machine",
    ),
    ("prometheus-admin-monitor", Frame, "the set of metrics"),
    ("standalone-alias-srvr", AnyOrder, "the order of server_stats is that of a Java machine"),
    ("standalone-server_stats", AnyOrder, "the order of server_stats is that of a Java machine"),
    ("standalone-stats", AnyOrder, "the order of server_stats is that of a Java machine"),
    ("ensemble-leader-server_stats", AnyOrder, "the order of server_stats is that of a Java machine"),
    ("ensemble-follower-server_stats", AnyOrder, "the order of server_stats is that of a Java machine"),
    ("ensemble-observer-server_stats", AnyOrder, "the order of server_stats is that of a Java machine"),
    ("ensemble-leader-voting_view", AnyOrder, "another server may lead"),
    ("ensemble-follower-voting_view", AnyOrder, "another server may follow"),
    ("standalone-monitor", Frame, "the set of metrics"),
    ("ensemble-leader-monitor", Frame, "the set of metrics"),
    ("ensemble-follower-monitor", Frame, "the set of metrics"),
    ("ensemble-observer-monitor", Frame, "the set of metrics"),
    ("standalone-environment", Frame, "values of a Java machine"),
    ("ensemble-no-quorum-environment", Frame, "values of a Java machine"),
    (
        "standalone-system_properties",
        Frame,
        "there is no Java machine; settings are shown, secrets are hidden",
    ),
    ("standalone-list", Frame, "shed_connections of 3.10 and drain are there"),
    ("ensemble-no-quorum-monitor", Status(503), "JSON instead of a Java stack trace"),
    ("standalone-root", Status(404), "a short text instead of Jetty's page"),
    ("standalone-put-ruok", Status(405), "Allow says which methods there are"),
    ("standalone-post-ruok", Status(405), "JSON and Allow instead of a Java stack trace"),
    ("standalone-get-restore-noauth", Same, ""),
    ("standalone-get-restore", Status(403), "a digest that no ACL names; a stack trace there"),
    (
        "standalone-shed",
        Status(403),
        "shed_connections of 3.10 is there, and wants an identity that an ACL names",
    ),
    ("standalone-snapshot-ip", AsSuper, "a world-open ACL gives no right"),
    ("standalone-snapshot-not-streaming", AsSuper, "a world-open ACL gives no right"),
    ("standalone-snapshot-streaming", AsSuper, "a world-open ACL gives no right"),
    (
        "standalone-snapshot-large-headers",
        AsSuper,
        "a world-open ACL gives no right; Content-Length at any size",
    ),
    ("standalone-snapshot-rate-limited", AsSuper, "a world-open ACL gives no right; error says why"),
    ("standalone-restore-noauth", Same, ""),
    ("standalone-restore-bad-body", Status(400), "the body is at fault, and error says why"),
    ("standalone-restore-rate-limited", AsSuper, "restore is for the super user only; error says why"),
    ("standalone-restore", AsSuper, "restore is for the super user only; it is durable"),
    ("tls-x509-without-certificate", Same, ""),
];

fn relation(name: &str) -> Relation {
    let found = DIFFERENCES.iter().find(|(prefix, _, _)| name.starts_with(prefix));
    found.map_or(Same, |(_, relation, _)| *relation)
}

/// Headers that must be the same.
const HEADERS: [&str; 3] = ["content-type", "allow", "strict-transport-security"];

fn check(recorded: &Recorded, answer: &Answer) {
    let name = &recorded.name;
    let (wanted, relation) = (&recorded.answer, relation(name));
    let context = format!("{name}: {}\n{}", answer.status, answer.text());
    if let Status(status) = relation {
        assert_eq!(answer.status, status, "{context}");
        assert!(!answer.text().contains("java"), "{context}");
        return;
    }
    assert_eq!(answer.status, wanted.status, "{context}");
    for header in HEADERS {
        assert_eq!(answer.header(header), wanted.header(header), "{header} of {context}");
    }
    for header in ["last_zxid", "snapshot_size"] {
        assert_eq!(answer.header(header).is_some(), wanted.header(header).is_some(), "{header} of {context}");
    }
    if let Some(size) = answer.header("snapshot_size").filter(|_| wanted.text().starts_with('(')) {
        assert_eq!(answer.body.len().to_string(), size, "{name}");
        return;
    }
    let trimmed = |text: &str| -> Vec<String> {
        let mut lines: Vec<String> =
            masked(text).iter().map(|line| line.trim_end_matches(',').to_owned()).collect();
        lines.sort();
        lines
    };
    let (wanted_text, text) = (wanted.text(), answer.text());
    let (wanted_text, text) = (wanted_text.trim_end(), text.trim_end());
    match relation {
        Same | AsSuper if wanted.status >= 429 => {
            assert_eq!(value(answer, "command"), value(wanted, "command"), "{context}");
            assert!(value(answer, "error").is_string(), "{context}");
        }
        Same | AsSuper => assert_eq!(masked(text), masked(wanted_text), "{context}"),
        AnyOrder => assert_eq!(trimmed(text), trimmed(wanted_text), "{context}"),
        Frame => {
            let (lines, wanted_lines) = (masked(text), masked(wanted_text));
            assert_eq!(lines.first(), wanted_lines.first(), "{context}");
            assert_eq!(
                lines.iter().rev().take(3).collect::<Vec<_>>(),
                wanted_lines.iter().rev().take(3).collect::<Vec<_>>()
            );
        }
        Status(_) => {}
    }
}

/// Sends a recorded request, with the super user's credentials where they are needed.
fn replay(recorded: &Recorded, address: SocketAddr) {
    let name = &recorded.name;
    if relation(name) == AsSuper && recorded.answer.status == 200 {
        let refused = exchange(connect(address), &recorded.request(None));
        assert_eq!((refused.status, value(&refused, "error")), (403, "Not authorized".into()), "{name}");
    }
    let authorization = (relation(name) == AsSuper).then_some(AS_SUPER);
    check(recorded, &exchange(connect(address), &recorded.request(authorization)));
}

fn server() -> ServerProcessBuilder {
    common::server()
        .property("zookeeper.admin.enableServer", "true")
        .line("admin.enableServer=true")
        .line("admin.serverPort=0")
        .line(format!("DigestAuthenticationProvider.superDigest={SUPER_DIGEST}"))
}

/// Gives `/` to the user `admin` with the password `pw`; the world reads.
fn close_root(client: &mut RawClient) {
    let (_, reply, _) = client.call(OpCode::Auth, auth_body("digest", b"admin:pw")).unwrap();
    assert_eq!(reply.err, 0);
    let (_, reply, _) = client
        .call(OpCode::SetAcl, |out| {
            encode_bytes(b"/", out);
            let all = Acl::new(Permissions::ALL, "auth", "");
            vec![all, Acl::new(Permissions::READ, "world", "anyone")].encode(out);
            (-1i32).encode(out);
        })
        .unwrap();
    assert_eq!(reply.err, 0);
}

#[test]
fn standalone() {
    let server = server().line("admin.rateLimiterIntervalInMS=0").start().unwrap();
    let limited = server_with_limiter();
    let address = admin_port(&server);
    let mut clients = create_recorded_state(server.address());
    let (closed, open): (Vec<_>, Vec<_>) = recorded("standalone-")
        .into_iter()
        .filter(|exchange| !is_about_restore(&exchange.name))
        .partition(|exchange| {
            matches!(exchange.name.trim_start_matches("standalone-snapshot-"), "allowed" | "forbidden")
        });
    for exchange in &open {
        match exchange.name.as_str() {
            "standalone-snapshot-rate-limited" => replay(exchange, admin_port(&limited)),
            _ => replay(exchange, address),
        }
    }
    close_root(&mut clients[0]);
    assert_eq!(closed.len(), 2);
    closed.iter().for_each(|exchange| replay(exchange, address));
}

/// Whether an exchange needs a restore, or a server of its own because it is one.
fn is_about_restore(name: &str) -> bool {
    name.starts_with("standalone-after-restore-")
        || (name.starts_with("standalone-restore") && name != "standalone-restore-noauth")
}

/// The exchanges with recorded snapshots, and those of a server after its restore.
#[test]
fn restore() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../admin/testdata/exchanges/standalone-snapshot-streaming.bin");
    let snapshot = std::fs::read(path).unwrap();
    let server = server().start().unwrap();
    let address = admin_port(&server);
    let mut clients = create_recorded_state(server.address());
    let send = |recorded: &Recorded, authorization, body: &[u8]| {
        exchange(connect(address), &recorded.request_with(authorization, body))
    };
    let find = |name: &str| recorded(name).remove(0);
    for name in ["standalone-restore", "standalone-restore-rate-limited"] {
        let exchange =
            recorded("standalone-restore").into_iter().find(|exchange| exchange.name == name).unwrap();
        let refused = send(&exchange, None, &snapshot);
        assert_eq!((refused.status, value(&refused, "error")), (403, "Not authorized".into()), "{name}");
        // The first call takes the interval, and the second one comes too soon.
        check(&exchange, &send(&exchange, Some(AS_SUPER), &snapshot));
    }
    let (_client, _) = RawClient::open(server.address()).unwrap();
    let after = recorded("standalone-after-restore-");
    assert_eq!(after.len(), 4);
    after.iter().for_each(|exchange| replay(exchange, address));
    let stats = get(address, "/commands/server_stats");
    // The snapshot has 14 nodes; four of them belong to its sessions.
    assert_eq!(value(&stats, "node_count"), 10, "{}", stats.text());
    assert!(
        clients.iter_mut().all(|client| client.call(OpCode::Ping, |_| ()).is_err()),
        "clients are closed"
    );
    let other = self::server().start().unwrap();
    let bad = find("standalone-restore-bad-body");
    let answer = exchange(connect(admin_port(&other)), &bad.request(Some(AS_SUPER)));
    check(&bad, &answer);
}

/// A server whose snapshot of this interval is taken.
fn server_with_limiter() -> zebu_testing::ServerProcess {
    let server = server().start().unwrap();
    let answer = admin_common::get_as(admin_port(&server), "/commands/snapshot?streaming=false", AS_SUPER);
    assert_eq!(answer.status, 200, "{}", answer.text());
    server
}

#[test]
fn ensemble() {
    let mut ensemble =
        Ensemble::prepare_as(&["participant", "participant", "participant", "observer"], "initLimit=20");
    let admin: Vec<SocketAddr> = (0..4).map(|_| port::free_address().unwrap()).collect();
    for (index, address) in admin.iter().enumerate() {
        let path = ensemble.home.path().join(format!("zoo{index}.cfg"));
        let text = std::fs::read_to_string(&path).unwrap();
        let port = address.port();
        let text = text.replace("admin.enableServer=false", &format!("admin.serverPort={port}"));
        std::fs::write(&path, text.replace("tickTime=500", "tickTime=500\nminSessionTimeout=4000")).unwrap();
        ensemble.run(index);
    }
    let leader = ensemble.await_leader(4);
    let follower = (0..3).find(|index| *index != leader).unwrap();
    let clients = create_recorded_state(ensemble.clients[follower]);
    eventually("all servers are ready", || admin.iter().all(|address| get(*address, "/ready").status == 200));
    for (role, index) in [("leader", leader), ("follower", follower), ("observer", 3)] {
        eventually("the state is everywhere", || {
            value(&get(admin[index], "/commands/server_stats"), "node_count") == 14
        });
        let ready = get(admin[index], "/ready");
        assert_eq!((ready.status, value(&ready, "role")), (200, role.into()), "{}", ready.text());
        for exchange in recorded(&format!("ensemble-{role}-")) {
            replay(&exchange, admin[index]);
        }
    }
    let observers = get(admin[leader], "/commands/observers");
    assert_eq!(value(&observers, "observers")[0]["sid"], 4, "{}", observers.text());
    drop(clients);
    (0..3).filter(|index| *index != leader).for_each(|index| ensemble.kill(index));
    eventually("the leader has no quorum", || get(admin[leader], "/ready").status == 503);
    let ready = get(admin[leader], "/ready");
    assert_eq!(value(&ready, "status"), "looking", "{}", ready.text());
    assert_eq!(get(admin[leader], "/live").status, 200);
    recorded("ensemble-no-quorum-").iter().for_each(|exchange| replay(exchange, admin[leader]));
}

/// The text of the exporter: status, content type and the names of the filter.
#[test]
fn exporter() {
    let server = common::server()
        .line("metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider")
        .line("metricsProvider.httpHost=127.0.0.1")
        .line("metricsProvider.httpPort=0")
        .property("zookeeper.admin.enableServer", "true")
        .line("admin.enableServer=true")
        .line("admin.serverPort=0")
        .start()
        .unwrap();
    let address = port_of(&server, "metrics exporter");
    let mut count = 0;
    for recorded in recorded("prometheus-") {
        count += 1;
        if recorded.name == "prometheus-admin-monitor" {
            replay(&recorded, admin_port(&server));
            continue;
        }
        let answer = exchange(connect(address), &recorded.request(None));
        let context = format!("{}: {}", recorded.name, answer.text());
        assert_eq!(answer.status, recorded.answer.status, "{context}");
        if answer.status == 200 {
            assert_eq!(answer.header("content-type"), recorded.answer.header("content-type"), "{context}");
        }
        if recorded.name.ends_with("name-filter") {
            let names: Vec<_> =
                answer.text().lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
            assert_eq!(names.len(), 2, "{context}");
            assert!(names.iter().any(|line| line.starts_with("znode_count 5")), "{context}");
        }
    }
    assert_eq!(count, 10);
}

#[test]
fn tls() {
    let authority = tls_common::TestAuthority::new("test");
    let home = tempfile::tempdir().unwrap();
    tls_common::write_private(&home.path().join("keys.pem"), &authority.server("admin"));
    std::fs::write(home.path().join("trust.pem"), authority.pem()).unwrap();
    let identity = authority.client(&[(rcgen::DnType::CommonName, "operator")]);
    let with_tls = |builder: ServerProcessBuilder| {
        builder
            .line(format!("ssl.quorum.keyStore.location={}", home.path().join("keys.pem").display()))
            .line(format!("ssl.quorum.trustStore.location={}", home.path().join("trust.pem").display()))
            .line("authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider")
            .line("X509AuthenticationProvider.superUser=CN=operator")
    };
    let unified = with_tls(server()).line("admin.portUnification=true").start().unwrap();
    let mutual = with_tls(server())
        .line("admin.portUnification=true")
        .line("admin.needClientAuth=true")
        .start()
        .unwrap();
    let config = |identity| tls_common::client_config(&authority.pem(), identity, &tls_common::BOTH_VERSIONS);
    for exchange in recorded("tls-") {
        let (server, identity) = match exchange.name.as_str() {
            "tls-x509" => (&mutual, Some(identity.as_str())),
            "tls-need-client-auth-plain" => (&mutual, None),
            _ => (&unified, None),
        };
        let address = admin_port(server);
        if exchange.name.contains("plain") || exchange.name.contains("-http-") {
            replay(&exchange, address);
            continue;
        }
        let client = tls_common::TlsClient::connect(address, &config(identity)).unwrap();
        check(&exchange, &admin_common::exchange(client.stream, &exchange.request(None)));
    }
    // A client without a certificate is not served where one is needed.
    let refused = tls_common::TlsClient::connect(admin_port(&mutual), &config(None));
    let served = refused.is_ok_and(|client| {
        let mut stream = client.stream;
        let _ =
            std::io::Write::write_all(&mut stream, &admin_common::request("GET", "/commands/ruok", &[], ""));
        let mut answer = Vec::new();
        let _ = std::io::Read::read_to_end(&mut stream, &mut answer);
        !answer.is_empty()
    });
    assert!(!served);
    // A port for TLS only takes no plain request.
    let forced = with_tls(server()).line("admin.forceHttps=true").start().unwrap();
    let mut plain = connect(admin_port(&forced));
    std::io::Write::write_all(&mut plain, &admin_common::request("GET", "/commands/ruok", &[], "")).unwrap();
    let mut answer = Vec::new();
    let _ = std::io::Read::read_to_end(&mut plain, &mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&answer));
}

#[test]
fn every_difference_has_an_exchange_and_every_exchange_a_test() {
    let all = recorded("");
    assert_eq!(all.len(), 124);
    for (prefix, _, _) in DIFFERENCES {
        assert!(all.iter().any(|exchange| exchange.name.starts_with(prefix)), "{prefix}");
    }
    for exchange in &all {
        let groups = [
            "standalone-",
            "ensemble-leader-",
            "ensemble-follower-",
            "ensemble-observer-",
            "ensemble-no-quorum-",
            "prometheus-",
            "tls-",
        ];
        assert!(groups.iter().any(|group| exchange.name.starts_with(group)), "{}", exchange.name);
    }
}
