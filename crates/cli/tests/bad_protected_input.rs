//! Bad input on the ports for peers of servers with TLS or SASL, and protected connections to a server
//! without: the connection is closed within the deadline, and the ensemble goes on to serve.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

#[path = "common/addresses.rs"]
mod addresses;
#[path = "common/ensemble.rs"]
mod ensemble;
#[path = "common/protected.rs"]
mod protected;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use ensemble::{TIME_LIMIT, block_on};
use protected::{ProtectedEnsemble, SASL, TLS};
use zebu_proto::ServerId;
use zebu_proto::quorum::InitialMessage;
use zebu_testing::old_client_hello;

const MAGIC: [u8; 8] = [0x5f, 0x24, 0x35, 0x01, 0x35, 0x01, 0xed, 0xcc];

/// Fatal alerts.
const HANDSHAKE_FAILURE: [u8; 2] = [2, 40];
const PROTOCOL_VERSION: [u8; 2] = [2, 70];

/// Connections at once that send nothing; more than a server keeps.
const SILENT: usize = 100;

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    stream
}

/// Sends bytes and returns what comes back until the server closes the connection.
fn exchange(address: SocketAddr, pieces: &[&[u8]], what: &str) -> Vec<u8> {
    let mut stream = connect(address);
    for piece in pieces {
        // The server may have closed it already.
        let _ = stream.write_all(piece);
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) => assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "{what} is not closed"),
    }
    answer
}

/// The initial message of server 2, whose connection goes to server 1.
fn initial_message() -> Vec<u8> {
    let mut bytes = Vec::new();
    InitialMessage { server: ServerId(2), addresses: vec!["127.0.0.2:1".into()] }.encode(&mut bytes);
    bytes
}

fn serves(protected: &mut ProtectedEnsemble, name: &str) {
    block_on(protected.writes_through(&[0, 1, 2], name));
    let logs = protected.ensemble.logs();
    assert!(!logs.contains("panicked"), "{logs}");
    for child in protected.ensemble.children.iter_mut().flatten() {
        assert!(child.try_wait().unwrap().is_none(), "{logs}");
    }
}

#[test]
fn input_that_is_no_tls_is_closed() {
    let mut protected = ProtectedEnsemble::start(TLS);
    let hello = old_client_hello();
    let by_byte: Vec<&[u8]> = hello.chunks(1).collect();
    let fragments: Vec<u8> = (0..16 << 10).flat_map(|_| [0x16, 0x03, 0x01, 0x00, 0x01, 0x01]).collect();
    for address in protected.peer_ports(0) {
        for (what, pieces) in [
            ("a server id", vec![&[0u8, 0, 0, 0, 0, 0, 0, 2][..]]),
            ("FOLLOWERINFO", vec![&[0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 0][..]]),
            ("SSLv2", vec![&[0x80, 0x2e, 1, 0, 2, 0, 0x15, 0, 0, 0, 0x10][..]]),
            ("an alert record", vec![&[0x15, 3, 3, 0, 2, 2, 40][..]]),
        ] {
            let before = protected.metric(0, "quorum_insecure_connections_blocked");
            assert_eq!(exchange(address, &pieces, what), b"", "{what}");
            let deadline = Instant::now() + TIME_LIMIT;
            while protected.metric(0, "quorum_insecure_connections_blocked") == before {
                assert!(Instant::now() < deadline, "{what} is not counted");
            }
        }
        for (what, pieces) in [
            ("an empty record", vec![&[0x16, 3, 1, 0, 0][..]]),
            ("a record that is too long", vec![&[0x16, 3, 1, 0xff, 0xff][..]]),
            ("junk behind a header", vec![&[0x16, 3, 3, 0, 4, 9, 9, 9, 9][..]]),
            ("fragments", vec![&fragments[..]]),
            ("the first byte", vec![&[0x16][..]]),
        ] {
            let answer = exchange(address, &pieces, what);
            assert!(answer.is_empty() || answer[0] == 0x15, "{what}: {answer:02x?}");
        }
        for (what, pieces) in [("TLS 1.0", vec![&hello[..]]), ("TLS 1.0 by bytes", by_byte.clone())] {
            let answer = exchange(address, &pieces, what);
            let alert = answer.get(5..7);
            let expected = [Some(&HANDSHAKE_FAILURE[..]), Some(&PROTOCOL_VERSION[..])];
            assert!(expected.contains(&alert), "{what}: {answer:02x?}");
        }
        let silent: Vec<TcpStream> = (0..SILENT).map(|_| connect(address)).collect();
        serves(&mut protected, &format!("beside-silent-{}", address.port()));
        for mut stream in silent {
            assert!(matches!(stream.read(&mut [0; 8]), Ok(0)), "a silent connection is closed");
        }
    }
    protected.await_log(0, &["Blocked insecure connection attempt"]);
    for reason in ["not_tls", "protocol", "closed"] {
        assert!(protected.metric(0, &format!("{reason}_quorum_tls_handshake_failed")) > 0, "{reason}");
    }
    serves(&mut protected, "after");
}

#[test]
fn input_that_is_no_sasl_is_closed() {
    let mut protected = ProtectedEnsemble::start(SASL);
    let with = |status: i32, length: i32, token: &[u8]| {
        [&MAGIC[..], &status.to_be_bytes(), &length.to_be_bytes(), token].concat()
    };
    let start = with(0, 0, &[]);
    let error = with(-1, 0, &[]);
    let [quorum, election] = protected.peer_ports(0);
    for (address, introduction) in [(quorum, Vec::new()), (election, initial_message())] {
        for (what, bytes) in [
            ("no magic", vec![0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 0]),
            ("status 7", with(7, 0, &[])),
            ("length -2", with(0, -2, &[])),
            ("the largest length", with(0, i32::MAX, &[])),
            ("a length above the limit", with(0, (64 << 10) + 1, &[])),
            ("magic and silence", MAGIC.to_vec()),
            ("half a magic", MAGIC[..3].to_vec()),
        ] {
            let answer = exchange(address, &[&introduction, &bytes], what);
            assert_eq!(answer, b"", "{what}");
        }
        for (what, bytes) in [
            ("a null token", with(0, -1, &[])),
            ("magic twice", [start.clone(), start.clone()].concat()),
            ("a response without directives", [start.clone(), with(0, 1, b"x")].concat()),
            (
                "the largest token",
                [with(0, 64 << 10, &[b'"'; 64 << 10]), with(0, 64 << 10, &[b'"'; 64 << 10])].concat(),
            ),
        ] {
            let answer = exchange(address, &[&introduction, &bytes], what);
            assert!(answer.ends_with(&error), "{what}: {answer:02x?}");
        }
        let silent: Vec<TcpStream> = (0..SILENT).map(|_| connect(address)).collect();
        serves(&mut protected, &format!("beside-silent-{}", address.port()));
        for mut stream in silent {
            assert!(matches!(stream.read(&mut [0; 8]), Ok(0)), "a silent connection is closed");
        }
    }
    protected.await_log(0, &["Learner not trying to authenticate and authentication is required"]);
    assert!(protected.metric(0, "quorum_auth_failed_count") > 0);
    serves(&mut protected, "after");
}

/// A server whose settings are behind those of the others says so.
#[test]
fn a_server_without_protection_closes_protected_connections() {
    let mut protected = ProtectedEnsemble::start("");
    let magic = [&MAGIC[..], &[0; 8]].concat();
    // Only the leader reads from learners.
    let leader = protected.ensemble.await_leader(3);
    let (quorum, election) = (protected.peer_ports(leader)[0], protected.peer_ports(0)[1]);
    for (address, introduction) in [(quorum, Vec::new()), (election, initial_message())] {
        // The votes of the server may come first.
        exchange(address, &[&introduction, &magic], "SASL");
        assert_eq!(exchange(address, &[&old_client_hello()], "TLS"), b"");
    }
    for (index, port) in [(leader, "port=quorum"), (0, "port=election")] {
        protected
            .await_log(index, &[port, "the peer speaks TLS, and both sslQuorum and portUnification are off"]);
        protected.await_log(index, &[port, "and quorum.auth.enableSasl is off here"]);
    }
    serves(&mut protected, "after");
}
