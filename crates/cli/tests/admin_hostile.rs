//! More than a hundred slow, huge and malformed HTTP requests at once: the memory stays bounded, and clients
//! of the service are served as before. Counters and memory decide; the times are only printed.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]
#![allow(clippy::print_stderr, reason = "the measured times are for the reader")]

mod admin_common;
mod common;
mod tls_common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use admin_common::{AS_SUPER, SUPER_DIGEST, admin_port, connect, eventually, exchange, get, request, value};
use common::{create_body, monitored, path_and_watch, resident_kib};
use zebu_proto::{Acl, OpCode};
use zebu_testing::{RawClient, ServerProcess};

/// Attackers of each kind.
const EACH: usize = 8;
/// Requests of the client in the quiet phase, and at least in the hostile one.
const OPERATIONS: usize = 400;
/// Requests of one pipeline.
const PIPELINED: usize = 10_000;
/// The memory may grow by this much in a build without optimizations.
const GROWTH_KIB_MAX: u64 = 96 << 10;

/// What an attacker may get.
#[derive(Clone, Copy, Debug)]
enum Expected {
    /// An error, or a closed connection.
    Refused,
    /// This many answers with 200, because each request is correct.
    Answers(usize),
    /// The connection stays open and silent while the test runs, or is closed.
    Silent,
}

/// One attack: the bytes that are sent, and the outcome.
struct Attack {
    name: &'static str,
    bytes: Vec<u8>,
    expected: Expected,
}

fn attack(name: &'static str, bytes: impl Into<Vec<u8>>, expected: Expected) -> Attack {
    Attack { name, bytes: bytes.into(), expected }
}

const HEAD: &str = "GET /commands/ruok HTTP/1.1\r\nHost: 127.0.0.1\r\n";

fn post(headers: &str, body: &str) -> String {
    format!(
        "POST /commands/shed HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {AS_SUPER}\r\n{headers}\r\n{body}"
    )
}

fn attacks() -> Vec<Attack> {
    use Expected::{Answers, Refused, Silent};
    let megabyte = "a".repeat(1 << 20);
    let many: String = (0..5000).map(|number| format!("H{number}: 1\r\n")).collect();
    let chunks = format!("10000\r\n{}\r\n", "x".repeat(0x10000)).repeat(64);
    let smuggled = "GET /commands/environment HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    let closing = format!("{HEAD}Connection: close\r\n\r\n");
    vec![
        attack("slow headers", "GET /commands/ruok HTTP/1.1\r\nX-Slow: ", Silent),
        attack("slow body", post("Content-Length: 1000\r\n", "{"), Silent),
        attack("no byte", "", Silent),
        attack(
            "half of a TLS handshake",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03half".to_vec(),
            Silent,
        ),
        attack("a huge header", format!("{HEAD}X: {megabyte}\r\n\r\n"), Refused),
        attack("many headers", format!("{HEAD}{many}\r\n"), Refused),
        attack("a long URL", format!("GET /{megabyte} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"), Refused),
        attack("a huge body", post("Content-Length: 99999999\r\n", &megabyte), Refused),
        attack("huge chunks", post("Transfer-Encoding: chunked\r\n", &chunks), Refused),
        attack(
            "a chunk size that is no number",
            post("Transfer-Encoding: chunked\r\n", "zz\r\nx\r\n0\r\n\r\n"),
            Refused,
        ),
        attack(
            "a chunk size above all numbers",
            post("Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\nx\r\n0\r\n\r\n"),
            Refused,
        ),
        attack(
            "two lengths",
            post("Content-Length: 2\r\nContent-Length: 60\r\n", &format!("{{}}{smuggled}")),
            Refused,
        ),
        attack("a length with a sign", post("Content-Length: +2\r\n", &format!("{{}}{smuggled}")), Refused),
        attack(
            "two codings",
            post("Transfer-Encoding: chunked, identity\r\n", &format!("0\r\n\r\n{smuggled}")),
            Refused,
        ),
        attack("a folded header", format!("{HEAD}X: a\r\n b\r\n\r\n"), Refused),
        attack("zero bytes", format!("{HEAD}X: a\0b\r\n\r\n"), Refused),
        attack("a zero byte in the URL", "GET /commands/ru\0ok HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", Refused),
        attack(
            "random bytes",
            (0..8192u32).map(|byte| (byte * 37 + 129) as u8).collect::<Vec<u8>>(),
            Refused,
        ),
        attack("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", Refused),
        attack(
            "a pipeline",
            format!("{}{closing}", format!("{HEAD}\r\n").repeat(PIPELINED - 1)),
            Answers(PIPELINED),
        ),
    ]
}

/// Runs an attack; returns its connection if it stays open.
fn run(address: SocketAddr, attack: &Attack) -> Option<TcpStream> {
    let mut stream = connect(address);
    stream.set_write_timeout(Some(admin_common::TIME_LIMIT)).unwrap();
    if matches!(attack.expected, Expected::Silent) {
        // A full port may close an idle connection for a newer one.
        let _ = stream.write_all(&attack.bytes);
        return Some(stream);
    }
    let writer = {
        let (mut stream, bytes) = (stream.try_clone().unwrap(), attack.bytes.clone());
        // The server may close before it has read everything.
        thread::spawn(move || drop(stream.write_all(&bytes)))
    };
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    writer.join().unwrap();
    let text = String::from_utf8_lossy(&answer);
    let (name, begin) = (attack.name, text.chars().take(300).collect::<String>());
    match attack.expected {
        Expected::Refused => {
            let good = text.matches("HTTP/1.1 200").count();
            let bad = text.matches("HTTP/1.1 4").count();
            assert!(good == 0 && bad <= 1, "{name}: {begin}");
            assert!(answer.is_empty() || bad == 1, "{name}: {begin}");
        }
        Expected::Answers(count) => {
            // A full port may not take the connection at all.
            let found = text.matches("HTTP/1.1 200").count();
            assert!(answer.is_empty() || found == count, "{name}: {found} answers: {begin}");
        }
        Expected::Silent => {}
    }
    None
}

/// Writes and reads until told to stop; returns the times of the requests in microseconds.
fn operate(client: &mut RawClient, prefix: &str, mut goes_on: impl FnMut(usize) -> bool) -> Vec<u128> {
    let mut times = Vec::new();
    for number in 0.. {
        if !goes_on(times.len()) {
            break;
        }
        let path = format!("/{prefix}{number}");
        for op in [OpCode::Create, OpCode::GetData] {
            let begun = Instant::now();
            let (_, reply, _) = match op {
                OpCode::Create => client.call(op, create_body(&path, b"x", Acl::open(), 0)).unwrap(),
                _ => client.call(op, path_and_watch(&path, false)).unwrap(),
            };
            assert_eq!(reply.err, 0, "{op:?} {path}");
            times.push(begun.elapsed().as_micros());
        }
    }
    times
}

fn percentile_99(times: &[u128]) -> u128 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() * 99 / 100]
}

fn server(home: &std::path::Path) -> ServerProcess {
    let authority = tls_common::TestAuthority::new("test");
    tls_common::write_private(&home.join("keys.pem"), &authority.server("admin"));
    std::fs::write(home.join("trust.pem"), authority.pem()).unwrap();
    common::server()
        .line("admin.enableServer=true")
        .line("admin.serverPort=0")
        .line("admin.portUnification=true")
        .line(format!("ssl.quorum.keyStore.location={}", home.join("keys.pem").display()))
        .line(format!("ssl.quorum.trustStore.location={}", home.join("trust.pem").display()))
        .line(format!("DigestAuthenticationProvider.superDigest={SUPER_DIGEST}"))
        .start()
        .unwrap()
}

/// Samples the memory until it is told to stop; returns the peak in KiB.
fn watch_memory(server: &ServerProcess, stop: &Arc<AtomicBool>) -> JoinHandle<u64> {
    let (path, stop) = (format!("/proc/{}/status", server.id().unwrap()), stop.clone());
    thread::spawn(move || {
        let mut peak = 0;
        while !stop.load(Ordering::Acquire) {
            let status = std::fs::read_to_string(&path).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
            peak = peak.max(line.trim().trim_end_matches(" kB").parse().unwrap());
            thread::sleep(Duration::from_millis(10));
        }
        peak
    })
}

/// A port for both protocols counts each plain connection, and none with TLS.
#[test]
fn plain_connections_beside_tls_are_counted() {
    let home = tempfile::tempdir().unwrap();
    let server = server(home.path());
    let address = admin_port(&server);
    assert_eq!(monitored(&server, "insecure_admin_count"), 0);
    for _ in 0..3 {
        assert_eq!(get(address, "/commands/ruok").status, 200);
    }
    assert_eq!(monitored(&server, "insecure_admin_count"), 3);
    let trust = std::fs::read_to_string(home.path().join("trust.pem")).unwrap();
    let config = tls_common::client_config(&trust, None, &tls_common::BOTH_VERSIONS);
    let client = tls_common::TlsClient::connect(address, &config).unwrap();
    let answer = exchange(client.stream, &request("GET", "/commands/ruok", &[], ""));
    assert_eq!((answer.status, monitored(&server, "insecure_admin_count")), (200, 3));
}

#[test]
fn a_hundred_hostile_requests_cost_only_their_connections() {
    let home = tempfile::tempdir().unwrap();
    let server = server(home.path());
    let address = admin_port(&server);
    let (mut client, _) = RawClient::open(server.address()).unwrap();
    let stats = || value(&get(address, "/commands/server_stats"), "server_stats");
    let quiet = operate(&mut client, "quiet", |count| count < OPERATIONS);
    let (memory_before, received_before) =
        (resident_kib(&server), stats()["packets_received"].as_u64().unwrap());
    let (stop, running) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let memory = watch_memory(&server, &stop);
    let mut attackers = Vec::new();
    for attack in attacks() {
        let attack = Arc::new(attack);
        for _ in 0..EACH {
            let (attack, running) = (attack.clone(), running.clone());
            running.fetch_add(1, Ordering::AcqRel);
            attackers.push(thread::spawn(move || {
                let open = run(address, &attack);
                running.fetch_sub(1, Ordering::AcqRel);
                open
            }));
        }
    }
    assert!(attackers.len() >= 100);
    let hostile =
        operate(&mut client, "hostile", |count| count < OPERATIONS || running.load(Ordering::Acquire) > 0);
    let open: Vec<TcpStream> =
        attackers.into_iter().filter_map(|attacker| attacker.join().unwrap()).collect();
    assert_eq!(open.len(), 4 * EACH);
    // Operators are served while the silent connections are open.
    assert_eq!(value(&get(address, "/commands/ruok"), "error"), serde_json::Value::Null);
    assert_eq!(get(address, "/ready").status, 200);
    stop.store(true, Ordering::Release);
    let peak = memory.join().unwrap();
    let after = stats();
    eprintln!(
        "p99 {} us without and {} us with attackers, {} requests; memory {memory_before} KiB before, {peak} KiB at most, \
         {} KiB after",
        percentile_99(&quiet),
        percentile_99(&hostile),
        hostile.len(),
        resident_kib(&server)
    );
    assert!(peak < memory_before + GROWTH_KIB_MAX, "{peak} KiB after {memory_before} KiB");
    // Each request of the client was received once, and nothing else.
    assert_eq!(after["packets_received"].as_u64().unwrap() - received_before, hostile.len() as u64);
    assert_eq!(after["num_alive_client_connections"], 1);
    assert_eq!(after["outstanding_requests"], 0);
    drop(open);
}

/// Bytes behind a request with a length and chunks are no request: a proxy may take them for its body.
#[test]
fn nothing_is_smuggled_behind_chunks_with_a_length() {
    let home = tempfile::tempdir().unwrap();
    let server = server(home.path());
    let smuggled = "GET /commands/environment HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    let body = format!("2\r\n{{}}\r\n0\r\n\r\n{smuggled}");
    let request = post(&format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n", body.len()), &body);
    let mut stream = connect(admin_port(&server));
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    eventually("the server is well", || get(admin_port(&server), "/live").status == 200);
}
