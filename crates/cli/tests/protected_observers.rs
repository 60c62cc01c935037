//! The port where followers serve observers, with TLS and SASL: an observer is served there, moves when its
//! follower goes, and a connection without TLS or without a login is refused.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

#[path = "common/addresses.rs"]
mod addresses;
#[path = "common/ensemble.rs"]
mod ensemble;
#[path = "common/protected.rs"]
mod protected;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use ensemble::{TIME_LIMIT, block_on};
use protected::{ProtectedEnsemble, SASL, TLS};
use zebu_testing::port;

const ROLES: [&str; 4] = ["participant", "participant", "participant", "observer"];
const VOTERS: [usize; 3] = [0, 1, 2];
const OBSERVER: usize = 3;

/// A learner that does not authenticate itself begins with this: a FOLLOWERINFO.
const FOLLOWER_INFO: [u8; 12] = [0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 0];

/// The beginning of SASL between servers: the magic, and an empty token.
const SASL_START: [u8; 16] = [0x5f, 0x24, 0x35, 0x01, 0x35, 0x01, 0xed, 0xcc, 0, 0, 0, 0, 0, 0, 0, 0];

/// Three voters and an observer that run with these lines, and the port for observers.
fn start(lines: &str) -> (ProtectedEnsemble, u16) {
    let port = port::free_address().unwrap().port();
    let lines = format!("observerMasterPort={port}\nobserver.election.DelayMs=20\n{lines}");
    let mut protected = ProtectedEnsemble::prepare_as(&ROLES, &lines);
    (0..ROLES.len()).for_each(|index| protected.ensemble.run(index));
    protected.ensemble.await_leader(ROLES.len());
    (protected, port)
}

/// The follower that serves the observer. A voter that leads serves none.
fn await_master(protected: &ProtectedEnsemble) -> usize {
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        let serves = |index: &usize| {
            protected.ensemble.mode(*index).as_deref() == Some("follower")
                && protected.metric(*index, "synced_observers") == 1
        };
        if let Some(master) = VOTERS.into_iter().find(serves) {
            return master;
        }
        assert!(Instant::now() < deadline, "no follower serves the observer\n{}", protected.ensemble.logs());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    stream
}

/// All bytes until the server closes the connection.
fn read_to_end(mut stream: TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_ne!(error.kind(), ErrorKind::WouldBlock, "the connection is not closed");
    }
    answer
}

fn await_metric(protected: &ProtectedEnsemble, index: usize, key: &str, before: i64) {
    let deadline = Instant::now() + TIME_LIMIT;
    while protected.metric(index, key) == before {
        assert!(Instant::now() < deadline, "{key} stays {before}\n{}", protected.ensemble.logs());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn moves_when_its_follower_goes(protected: &mut ProtectedEnsemble) {
    let master = await_master(protected);
    block_on(protected.writes_through(&[0, 1, 2, OBSERVER], "first"));
    protected.ensemble.kill(master);
    let other = await_master(protected);
    assert_ne!(other, master);
    block_on(protected.writes_through(&[other, OBSERVER], "second"));
    protected.ensemble.run(master);
    protected.ensemble.await_leader(ROLES.len());
}

#[test]
fn an_observer_is_served_by_tls_and_sasl() {
    let (mut protected, port) = start(&format!("{SASL}{TLS}"));
    moves_when_its_follower_goes(&mut protected);
    let master = await_master(&protected);
    let address = SocketAddr::from(([127, 0, 0, master as u8 + 1], port));
    let blocked = "quorum_insecure_connections_blocked";
    let before = protected.metric(master, blocked);
    let mut stream = connect(address);
    stream.write_all(&FOLLOWER_INFO).unwrap();
    assert_eq!(read_to_end(stream), b"", "a learner without TLS");
    await_metric(&protected, master, blocked, before);
    block_on(protected.writes_through(&[OBSERVER], "after"));
}

#[test]
fn the_port_for_observers_wants_sasl() {
    let (mut protected, port) = start(SASL);
    moves_when_its_follower_goes(&mut protected);
    let master = await_master(&protected);
    let address = SocketAddr::from(([127, 0, 0, master as u8 + 1], port));
    let failed = "quorum_auth_failed_count";

    let before = protected.metric(master, failed);
    let mut stream = connect(address);
    stream.write_all(&FOLLOWER_INFO).unwrap();
    assert_eq!(read_to_end(stream), b"", "a learner without a login");
    await_metric(&protected, master, failed, before);

    let before = protected.metric(master, failed);
    let mut stream = connect(address);
    stream.write_all(&SASL_START).unwrap();
    let mut head = [0; 16];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(head[..12], SASL_START[..12], "the challenge is in progress");
    let mut challenge = vec![0; u32::from_be_bytes(head[12..].try_into().unwrap()) as usize];
    stream.read_exact(&mut challenge).unwrap();
    assert!(challenge.starts_with(b"realm=\"zk-quorum-sasl-md5\""), "{challenge:?}");
    let wrong = b"username=\"zebu\"";
    let length = (wrong.len() as u32).to_be_bytes();
    stream.write_all(&[&SASL_START[..12], &length, wrong].concat()).unwrap();
    let answer = read_to_end(stream);
    assert_eq!(answer[8..12], (-1i32).to_be_bytes(), "{answer:02x?}");
    await_metric(&protected, master, failed, before);
    block_on(protected.writes_through(&[OBSERVER], "after"));
}
