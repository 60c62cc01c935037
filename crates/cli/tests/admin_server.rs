//! The admin server of the zebu program: ports, credentials, snapshots, hostile clients and probes.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod admin_common;
mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::time::Duration;

use admin_common::{
    AS_SUPER, SUPER_DIGEST, TIME_LIMIT, admin_port, call, connect, exchange, get, get_as, request, value,
};
use common::{create_body, path_and_watch};
use zebu_proto::{Acl, OpCode, Permissions};
use zebu_testing::{RawClient, ServerProcess, ServerProcessBuilder, port};

fn server() -> ServerProcessBuilder {
    common::server()
        .line("admin.enableServer=true")
        .line("admin.serverPort=0")
        .line(format!("DigestAuthenticationProvider.superDigest={SUPER_DIGEST}"))
}

fn open_acl() -> Vec<Acl> {
    vec![Acl::new(Permissions::ALL, "world", "anyone")]
}

/// Runs a server that should end by itself, and returns its status and output.
fn failing_start(lines: &str) -> (Option<i32>, String) {
    let home = tempfile::tempdir().unwrap();
    let client = port::free_address().unwrap();
    let config = home.path().join("zoo.cfg");
    let text = format!(
        "dataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\n{lines}\n",
        home.path().join("data").display(),
        client.port()
    );
    fs::write(&config, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_zebu"))
        .arg("serve")
        .arg(&config)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_configured_port_in_use_refuses_the_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let (status, output) = failing_start(&format!("admin.serverPort={port}"));
    assert_eq!(status, Some(4), "{output}");
    assert!(
        output.contains("admin.serverPort") && output.contains("Unable to start AdminServer"),
        "{output}"
    );
    let (status, output) = failing_start(&format!(
        "admin.enableServer=false\nmetricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n\
         metricsProvider.httpHost=127.0.0.1\n\
         metricsProvider.httpPort={port}"
    ));
    assert_eq!(status, Some(4), "{output}");
    assert!(output.contains("metricsProvider.httpPort"), "{output}");
}

/// The default port is not free or is taken by one of two servers: both serve clients.
#[test]
fn a_default_port_in_use_is_a_warning() {
    let taken = TcpListener::bind("127.0.0.1:8080");
    let server = common::server().line("admin.enableServer=true").start().unwrap();
    let output = server.output();
    // Where another program holds the port, it may release it at any time.
    if taken.is_ok() {
        assert!(output.contains("no admin server") && output.contains("set admin.serverPort"), "{output}");
    }
}

#[test]
fn keys_without_tls_or_with_wrong_values_refuse_the_start() {
    for (lines, expected) in [
        ("admin.needClientAuth=true", "admin.needClientAuth=true needs TLS"),
        ("admin.forceHttps=true", "ssl.quorum.keyStore.location is not set"),
        ("admin.commandURL=commands", "admin.commandURL = \"commands\" is not valid"),
        ("admin.serverPort=70000", "admin.serverPort = \"70000\" is not valid"),
    ] {
        let (status, output) = failing_start(lines);
        assert_eq!(status, Some(2), "{output}");
        assert!(output.contains(expected), "{output}");
    }
}

#[test]
fn keys_are_taken_as_properties_and_the_command_url_moves() {
    let server = common::server()
        .line("admin.enableServer=true")
        .property("zookeeper.admin.serverPort", "0")
        .property("zookeeper.admin.commandURL", "/zk/admin/")
        .start()
        .unwrap();
    let address = admin_port(&server);
    assert!(address.ip().is_loopback());
    assert_eq!(value(&get(address, "/zk/admin/ruok"), "command"), "ruok");
    assert!(get(address, "/zk/admin").text().contains("<a href=\"/zk/admin/ruok\">ruok</a>"));
    assert_eq!(get(address, "/commands/ruok").status, 404);
}

/// A snapshot is exact although writes go on, another server starts from it, and Zebu's tool reads it.
#[test]
fn a_snapshot_is_exact_and_another_server_starts_from_it() {
    let server = server().line("admin.rateLimiterIntervalInMS=0").start().unwrap();
    let address = admin_port(&server);
    let client_address = server.address();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let writer = std::thread::spawn(move || {
        let (mut client, _) = RawClient::open(client_address).unwrap();
        let mut count = 0;
        // Pairs: a snapshot that holds the second node of a pair holds the first one, too.
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            call(&mut client, OpCode::Create, create_body(&format!("/n{count:06}"), &[7; 64], open_acl(), 0));
            count += 1;
        }
        count
    });
    admin_common::eventually("writes", || {
        value(&get(address, "/commands/server_stats"), "node_count").as_u64().unwrap() > 1500
    });
    let answers: Vec<_> = (0..5).map(|_| get_as(address, "/commands/snapshot", AS_SUPER)).collect();
    stop.send(()).unwrap();
    let written = writer.join().unwrap();
    let newest = answers.last().unwrap();
    for answer in &answers {
        assert_eq!(answer.status, 200, "{}", answer.text());
        let zxid =
            i64::from_str_radix(answer.header("last_zxid").unwrap().trim_start_matches("0x"), 16).unwrap();
        assert_eq!(nodes_after_start(&answer.body, zxid), zxid - 1, "nodes of a snapshot at {zxid:#x}");
        assert!(zxid <= written + 1);
    }
    assert_eq!(newest.header("content-type"), Some("application/octet-stream"));
    assert_eq!(newest.header("snapshot_size"), newest.header("content-length"));
}

/// The number of `/n…` nodes of a server that starts from this snapshot alone.
fn nodes_after_start(snapshot: &[u8], zxid: i64) -> i64 {
    let mut server = common::server().start().unwrap();
    server.stop().unwrap();
    let directory = server.data_dir().join("version-2");
    fs::read_dir(&directory).unwrap().for_each(|entry| fs::remove_file(entry.unwrap().path()).unwrap());
    fs::write(directory.join(format!("snapshot.{zxid:x}")), snapshot).unwrap();
    server.start().unwrap();
    let (mut client, _) = RawClient::open(server.address()).unwrap();
    let (_, reply, body) = client.call(OpCode::GetChildren, path_and_watch("/", false)).unwrap();
    assert_eq!(reply.err, 0);
    i64::from(i32::from_be_bytes(body[..4].try_into().unwrap())) - 1
}

#[test]
fn snapshots_of_operators_are_measured_and_those_that_come_too_soon_are_counted() {
    let server = server().line("admin.rateLimiterIntervalInMS=600000").start().unwrap();
    let address = admin_port(&server);
    let metric = |name: &str| value(&get(address, "/commands/monitor"), name).as_u64().unwrap();
    let before = metric("cnt_snapshottime");
    assert_eq!(get_as(address, "/commands/snapshot", AS_SUPER).status, 200);
    assert_eq!(metric("cnt_snapshottime"), before + 1);
    assert_eq!(metric("snapshot_rate_limited_count"), 0);
    assert_eq!(get_as(address, "/commands/snapshot", AS_SUPER).status, 429);
    assert_eq!(metric("snapshot_rate_limited_count"), 1);
    assert_eq!(metric("cnt_snapshottime"), before + 1);
}

#[test]
fn the_whole_state_needs_a_named_identity_and_restore_the_super_user() {
    let server = server().line("admin.rateLimiterIntervalInMS=0").start().unwrap();
    let address = admin_port(&server);
    let snapshot = "/commands/snapshot?streaming=false";
    let post = |path: &str, authorization: &str, body: &str| {
        exchange(
            connect(address),
            &request("POST", path, &[&format!("Authorization: {authorization}")], body),
        )
    };
    assert_eq!(get_as(address, snapshot, "digest anybody:anything").status, 403);
    assert_eq!(get_as(address, snapshot, "ip").status, 403);
    assert_eq!(get_as(address, snapshot, "digest super:wrong").status, 403);
    assert_eq!(get_as(address, snapshot, AS_SUPER).status, 200);
    assert_eq!(post("/commands/restore", "digest anybody:anything", "x").status, 403);
    assert_eq!(post("/commands/restore", AS_SUPER, "x").status, 400);
    assert_eq!(post("/commands/shed", "digest a:b", "{\"percentage\":100}").status, 403);
    // A client is closed by the super user only.
    let (mut client, _) = RawClient::open(server.address()).unwrap();
    for (body, status, error) in [
        ("", 400, "Request body is required"),
        ("{}", 400, "Missing required field: percentage"),
        ("{\"percentage\":101}", 400, "Percentage must be between 0 and 100"),
        ("nothing", 400, "Invalid JSON or failed to read request body"),
    ] {
        let answer = post("/commands/shed_connections", AS_SUPER, body);
        assert_eq!(answer.status, status, "{}", answer.text());
        assert!(value(&answer, "error").as_str().unwrap().starts_with(error), "{}", answer.text());
    }
    let shed = post("/commands/shed", AS_SUPER, "{\"percentage\":\"100\"}");
    assert_eq!((shed.status, value(&shed, "connections_shed")), (200, 1.into()), "{}", shed.text());
    assert!(client.call(OpCode::Exists, path_and_watch("/", false)).is_err());
}

#[test]
fn secrets_are_not_shown() {
    let server = server().property("zookeeper.ssl.keyStore.password", "hunter2").start().unwrap();
    let address = admin_port(&server);
    for command in ["system_properties", "initial_configuration", "configuration", "environment"] {
        let text = get(address, &format!("/commands/{command}")).text();
        assert!(!text.contains("hunter2") && !text.contains("lK75jTNcA"), "{text}");
    }
    assert!(get(address, "/commands/sysp").text().contains("\"zookeeper.admin.serverPort\" : \"0\""));
}

#[test]
fn pages_of_other_origins_and_foreign_names_are_refused() {
    let server = server().start().unwrap();
    let address = admin_port(&server);
    let with = |lines: &[&str]| {
        exchange(connect(address), &request("GET", "/commands/stat_reset", lines, "")).status
    };
    assert_eq!(with(&[]), 200);
    assert_eq!(with(&["Origin: http://evil.example"]), 403);
    assert_eq!(with(&["Sec-Fetch-Site: cross-site"]), 403);
    let foreign = b"GET /commands/ruok HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(exchange(connect(address), foreign).status, 403);
}

fn resident_bytes(server: &ServerProcess) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id().unwrap())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
}

/// More slow connections than the port takes, then huge and malformed requests: operators and clients are
/// served, and the memory stays bounded.
#[test]
fn slow_huge_and_malformed_requests_cost_only_their_connections() {
    let server = server().start().unwrap();
    let address = admin_port(&server);
    let (mut client, _) = RawClient::open(server.address()).unwrap();
    let before = resident_bytes(&server);
    let packets =
        |address| value(&get(address, "/commands/server_stats"), "server_stats")["packets_received"].as_u64();
    let packets_before = packets(address).unwrap();
    let slow: Vec<_> = (0..300)
        .map(|number| {
            let mut stream = connect(address);
            let _ = write!(stream, "GET /commands/ruok HTTP/1.1\r\nX-Number: {number}");
            stream
        })
        .collect();
    let hostile: Vec<_> =
        (0..100).map(|number| std::thread::spawn(move || send_hostile(address, number))).collect();
    for number in 0..200 {
        let path = format!("/c{number}");
        call(&mut client, OpCode::Create, create_body(&path, b"x", open_acl(), 0));
        call(&mut client, OpCode::GetData, path_and_watch(&path, false));
    }
    for thread in hostile {
        thread.join().unwrap();
    }
    assert_eq!(value(&get(address, "/commands/ruok"), "error"), serde_json::Value::Null);
    let grown = resident_bytes(&server).saturating_sub(before);
    assert!(grown < 48 << 20, "{grown} bytes more");
    let stat = |name: &str| value(&get(address, "/commands/server_stats"), "server_stats")[name].clone();
    assert_eq!(stat("num_alive_client_connections"), 1);
    // A request is outstanding until its permit is back, shortly after its reply.
    admin_common::eventually("no request is outstanding", || stat("outstanding_requests") == 0);
    assert_eq!(packets(address).unwrap() - packets_before, 400);
    drop(slow);
}

/// Sends one of several bad requests; the server answers with an error or closes.
fn send_hostile(address: SocketAddr, number: usize) {
    let mut stream = connect(address);
    stream.set_write_timeout(Some(TIME_LIMIT)).unwrap();
    let request: Vec<u8> = match number % 5 {
        0 => format!("GET /commands/ruok HTTP/1.1\r\nHost: 127.0.0.1\r\nX: {}\r\n\r\n", "x".repeat(1 << 20))
            .into_bytes(),
        1 => format!("GET /{} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "a".repeat(1 << 20)).into_bytes(),
        2 => (0..4096u32).map(|byte| (byte * 37 + number as u32) as u8).collect(),
        3 => {
            let headers: String = (0..5000).map(|number| format!("H{number}: 1\r\n")).collect();
            format!("GET /commands/ruok HTTP/1.1\r\n{headers}\r\n").into_bytes()
        }
        _ => format!(
            "POST /commands/shed HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {AS_SUPER}\r\nContent-Length: \
             99999999\r\n\r\n{}",
            "x".repeat(1 << 20)
        )
        .into_bytes(),
    };
    // The server may close before it has read everything.
    let _ = stream.write_all(&request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || text.starts_with("HTTP/1.1 4"), "{number}: {text}");
}

#[test]
fn probes_follow_the_life_of_a_server() {
    let mut server = server().start().unwrap();
    let address = admin_port(&server);
    let ready = get(address, "/ready");
    assert_eq!(ready.text(), "{\"status\":\"ready\",\"role\":\"standalone\",\"reason\":null}\n");
    assert_eq!(get(address, "/live").status, 200);
    assert!(value(&get(address, "/version"), "zookeeper").as_str().unwrap().starts_with("3.9"));
    assert!(get(address, "/metrics").text().contains("\nznode_count 5"));
    let mut keep = connect(address);
    keep.write_all(b"GET /ready HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
    server.stop().unwrap();
    // The admin server ends with the process, also with open connections.
    assert!(std::net::TcpStream::connect_timeout(&address, Duration::from_secs(5)).is_err());
}
