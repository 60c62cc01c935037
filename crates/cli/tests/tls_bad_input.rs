//! Bad input on the TLS ports: the connection ends within its time, is counted, and disturbs no other one.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod common;
mod tls_common;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};
use rustls::client::ResolvesClientCert;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, SignatureScheme};
use tls_common::*;
use zebu_proto::OpCode;

/// A server whose both ports take TLS, and a connection from before the bad input.
struct Target {
    started: SecureServer,
    witness: TlsClient,
}

impl Deref for Target {
    type Target = SecureServer;

    fn deref(&self) -> &SecureServer {
        &self.started
    }
}

impl Target {
    fn start(lines: &[&str]) -> Target {
        let started = SecureServer::start(&[&["client.portUnification=true"], lines].concat());
        let witness = started.client_named(&[(DnType::CommonName, "witness")]);
        let witness = TlsClient::open(started.secure, &witness).unwrap();
        Target { started, witness }
    }

    fn ports(&self) -> [SocketAddr; 2] {
        [self.secure, self.server.address()]
    }

    fn assert_others_are_served(&mut self) {
        assert_eq!(self.witness.who_am_i(), ["x509:CN=witness", "ip:127.0.0.1"]);
        let config = self.client_named(&[(DnType::CommonName, "new")]);
        for port in self.ports() {
            assert!(is_accepted(port, &config), "{port}");
        }
    }
}

/// Sends bytes and reads to the end. Returns the answer and how long it took.
fn exchange(address: SocketAddr, bytes: &[u8]) -> (Vec<u8>, Duration) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    let begin = Instant::now();
    // The server may end the connection before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "the connection was not closed");
    }
    (answer, begin.elapsed())
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, 3, 1];
    bytes.extend(u16::try_from(content.len()).unwrap().to_be_bytes());
    bytes.extend(content);
    bytes
}

/// A ClientHello without extensions.
fn client_hello(version: [u8; 2], suites: &[u16]) -> Vec<u8> {
    let mut body = version.to_vec();
    body.extend([7; 32]);
    body.push(0);
    body.extend(u16::try_from(suites.len() * 2).unwrap().to_be_bytes());
    suites.iter().for_each(|suite| body.extend(suite.to_be_bytes()));
    body.extend([1, 0]);
    let mut message = vec![1, 0];
    message.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
    message.extend(body);
    record(22, &message)
}

const ALERT: u8 = 21;
const HANDSHAKE_FAILURE: u8 = 40;
const DECODE_ERROR: u8 = 50;
const PROTOCOL_VERSION: u8 = 70;

#[test]
fn beginnings_that_are_no_handshake() {
    let mut target = Target::start(&[]);
    let mut fragmented = Vec::new();
    for _ in 0..40_000 {
        // A ClientHello of 16 MB that comes one byte per record.
        fragmented.extend(record(22, if fragmented.is_empty() { &[1, 0xff, 0xff, 0xff] } else { &[0] }));
    }
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("an empty record", vec![22, 3, 1, 0, 0, 22, 3, 1, 0, 0]),
        ("a record of 65535 bytes", vec![22, 3, 1, 0xff, 0xff]),
        ("garbage", [&[22, 3, 3, 0, 200][..], &[0xaa; 200]].concat()),
        ("a foreign major version", vec![22, 5, 0, 0, 5, 1, 2, 3, 4, 5]),
        ("an alert first", [vec![22], vec![3, 3, 0, 2, 2, 40]].concat()),
        ("a ClientHello without end", fragmented),
    ];
    for (what, bytes) in cases {
        for port in target.ports() {
            let (_, time) = exchange(port, &bytes);
            assert!(time < Duration::from_secs(20), "{what}: {time:?}");
        }
    }
    for (what, bytes) in [
        ("SSLv2", [&[0x80, 0x2e, 1, 3, 1, 0, 0x15, 0, 0, 0, 0x10][..], &[1; 37]].concat()),
        ("HTTP", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        ("an application record", record(23, b"data")),
    ] {
        let (_, time) = exchange(target.secure, &bytes);
        assert!(time < Duration::from_secs(20), "{what}: {time:?}");
    }
    eventually("the refusal is counted", || target.metric("unsuccessful_handshake") > 0);
    target.assert_others_are_served();
}

#[test]
fn old_versions_and_weak_suites_get_an_alert() {
    let mut target = Target::start(&[]);
    let before = target.metric("unsuccessful_handshake");
    for (version, suites) in [
        ([3, 1], &[0xc013, 0x002f][..]),
        ([3, 2], &[0xc013, 0x002f]),
        // RC4, and a value of GREASE.
        ([3, 3], &[0x0005, 0x0a0a]),
        ([3, 3], &[]),
    ] {
        for port in target.ports() {
            let (answer, _) = exchange(port, &client_hello(version, suites));
            assert_eq!(answer.first(), Some(&ALERT), "{version:?}");
            let alert = answer.get(6).copied().unwrap();
            assert!(
                [HANDSHAKE_FAILURE, PROTOCOL_VERSION, DECODE_ERROR].contains(&alert),
                "{version:?}: {alert}"
            );
        }
    }
    eventually("all refusals are counted", || target.metric("unsuccessful_handshake") == before + 8);
    target.assert_others_are_served();
}

/// Silence, and half a handshake, end at the deadline on both ports, all at the same time.
#[test]
fn slow_handshakes_end_in_time() {
    let mut target = Target::start(&[]);
    let cases: [&[u8]; 3] = [b"", &[22], &[22, 3, 1, 0, 100, 1, 0, 0]];
    std::thread::scope(|scope| {
        for port in target.ports() {
            for bytes in cases {
                scope.spawn(move || {
                    let (_, time) = exchange(port, bytes);
                    assert!(time > Duration::from_secs(5), "{bytes:?}: {time:?}");
                    assert!(time < Duration::from_secs(20), "{bytes:?}: {time:?}");
                });
            }
        }
    });
    eventually("no handshake is left", || target.metric("outstanding_tls_handshake") == 0);
    target.assert_others_are_served();
}

#[test]
fn handshakes_at_once_are_limited() {
    let mut target = Target::start(&["netty.server.outstandingHandshake.limit=3"]);
    let silent: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(target.secure).unwrap()).collect();
    eventually("three handshakes run", || target.metric("outstanding_tls_handshake") == 3);
    let (answer, time) = exchange(target.secure, b"");
    assert!(answer.is_empty());
    assert!(time < Duration::from_secs(5), "closed at once: {time:?}");
    eventually("the refusal is counted", || target.metric("tls_handshake_exceeded") == 1);
    drop(silent);
    eventually("their places are free again", || target.metric("outstanding_tls_handshake") == 0);
    target.assert_others_are_served();
}

#[test]
fn bytes_after_the_handshake_that_are_no_records() {
    let mut target = Target::start(&[]);
    let identity = target.authority.client(&[(DnType::CommonName, "c")]);
    for version in BOTH_VERSIONS {
        let config = client_config(&target.authority.pem(), Some(&identity), &[version]);
        for bytes in
            [&[99, 3, 3, 0, 1, 0][..], &[23, 3, 3, 0, 5, 1, 2, 3, 4, 5], &[22, 3, 3, 0, 4, 0, 0, 0, 0]]
        {
            let mut client = TlsClient::open(target.secure, &config).unwrap();
            client.stream.sock.write_all(bytes).unwrap();
            assert!(client.receive_frame().is_err(), "{bytes:?}");
        }
    }
    // A flood of key updates.
    let config = client_config(&target.authority.pem(), Some(&identity), &[&rustls::version::TLS13]);
    let mut client = TlsClient::open(target.secure, &config).unwrap();
    for _ in 0..1000 {
        if client.stream.conn.refresh_traffic_keys().is_err() || client.stream.flush().is_err() {
            break;
        }
    }
    drop(client);
    target.assert_others_are_served();
}

/// Shows any chain.
#[derive(Debug)]
struct AnyChain(Arc<CertifiedKey>);

impl ResolvesClientCert for AnyChain {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

fn with_chain(
    authority: &TestAuthority,
    key: &KeyPair,
    chain: Vec<CertificateDer<'static>>,
) -> Arc<ClientConfig> {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
    let mut config = (*client_config(&authority.pem(), None, &BOTH_VERSIONS)).clone();
    config.client_auth_cert_resolver = Arc::new(AnyChain(Arc::new(CertifiedKey::new(chain, key))));
    Arc::new(config)
}

#[test]
fn certificates_that_must_not_pass() {
    let mut target = Target::start(&[]);
    let issue = |change: &dyn Fn(&mut CertificateParams)| {
        let mut params = subject(&[(DnType::CommonName, "c")]);
        change(&mut params);
        client_config(&target.authority.pem(), Some(&target.authority.issue(&params)), &BOTH_VERSIONS)
    };
    let expired = issue(&|params| params.not_after = date_time_ymd(2021, 1, 1));
    let early = issue(&|params| params.not_before = date_time_ymd(2089, 1, 1));
    let server_only = issue(&|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]);
    let key = KeyPair::generate().unwrap();
    let leaf = subject(&[(DnType::CommonName, "c")]).self_signed(&key).unwrap();
    let many = with_chain(&target.authority, &key, vec![leaf.der().clone(); 50]);
    let mut large = subject(&[(DnType::CommonName, "c")]);
    large.distinguished_name.push(DnType::OrganizationName, "x".repeat(100_000));
    let large = with_chain(&target.authority, &key, vec![large.self_signed(&key).unwrap().der().clone()]);
    let garbage = with_chain(&target.authority, &key, vec![CertificateDer::from(vec![0x30, 3, 1, 2, 3])]);
    let before = target.metric("unsuccessful_handshake");
    for (what, config) in [
        ("expired", expired),
        ("not valid yet", early),
        ("for servers only", server_only),
        ("50 certificates", many),
        ("100 kB", large),
        ("no certificate", garbage),
    ] {
        assert!(!is_accepted(target.secure, &config), "{what}");
    }
    eventually("all refusals are counted", || target.metric("unsuccessful_handshake") == before + 6);
    target.assert_others_are_served();
}

/// Strange subjects give the id that Java writes; nothing of them breaks a line of the log.
#[test]
fn strange_subjects() {
    let mut target = Target::start(&[]);
    let long = "y".repeat(20_000);
    for (value, expected) in [
        ("a\nb\tc", "CN=a\nb\tc".to_owned()),
        ("a\0b", "CN=a\\00b".to_owned()),
        (" x,y ", "CN=\\ x\\,y\\ ".to_owned()),
        (long.as_str(), format!("CN={long}")),
    ] {
        let identity = target.authority.client(&[(DnType::CommonName, value)]);
        let config = client_config(&target.authority.pem(), Some(&identity), &BOTH_VERSIONS);
        let mut client = TlsClient::open(target.secure, &config).unwrap();
        assert_eq!(client.who_am_i()[0], format!("x509:{expected}"));
    }
    let nobody = client_config(&target.authority.pem(), Some(&target.authority.client(&[])), &BOTH_VERSIONS);
    assert_eq!(TlsClient::open(target.secure, &nobody).unwrap().who_am_i()[0], "x509:");
    target.assert_others_are_served();
}

#[test]
fn connections_that_just_end() {
    let mut target = Target::start(&[]);
    let identity = target.authority.client(&[(DnType::CommonName, "c")]);
    let config = client_config(&target.authority.pem(), Some(&identity), &BOTH_VERSIONS);
    for _ in 0..5 {
        // Without close_notify; with a half close; with a reset inside the handshake; at once.
        drop(TlsClient::open(target.secure, &config).unwrap());
        let mut half = TlsClient::open(target.secure, &config).unwrap();
        half.stream.sock.shutdown(Shutdown::Write).unwrap();
        assert!(half.receive_frame().is_err());
        let mut reset = TcpStream::connect(target.secure).unwrap();
        reset.write_all(&client_hello([3, 3], &[0xc02b])[..20]).unwrap();
        drop(reset);
        drop(TcpStream::connect(target.secure).unwrap());
        // With close_notify, and after a closeSession.
        let mut polite = TlsClient::open(target.secure, &config).unwrap();
        assert_eq!(polite.call(OpCode::CloseSession, |_| {}).unwrap().0.err, 0);
        let mut rest = Vec::new();
        polite.stream.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
    }
    eventually("all connections are gone", || target.metric("num_alive_connections") <= 2);
    let output = target.server.output();
    let noise =
        output.lines().filter(|line| line.contains("WARN") && !line.contains("maxClientCnxns")).count();
    assert_eq!(noise, 0, "{output}");
    target.assert_others_are_served();
}
