//! Floods of connections on the ports for peers that never identify themselves: each port keeps a bounded
//! number, and neither a configured server nor another host loses its place to them.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

#[path = "common/addresses.rs"]
mod addresses;
#[path = "common/ensemble.rs"]
mod ensemble;
#[path = "common/protected.rs"]
mod protected;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use ensemble::{TIME_LIMIT, block_on};
use protected::{ProtectedEnsemble, SASL, TLS};
use socket2::{Domain, Socket, Type};
use zebu_proto::quorum::packet::{LEARNER_PROTOCOL, LearnerInfo};
use zebu_proto::quorum::{InitialMessage, Packet};
use zebu_proto::{ServerId, Zxid};
use zebu_testing::old_client_hello;

/// Unidentified connections that a port keeps.
const KEPT: usize = 64;

/// Connections of one flood.
const FLOOD: usize = 200;

/// An address of a configured server, of a host that is not configured, and of the flood.
const MEMBER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const OTHER_HOST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 8);
const FLOODER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

/// A server gives a connection five seconds to identify itself. A flood that took longer proves nothing.
const IN_TIME: Duration = Duration::from_secs(4);

/// Floods until one was quick enough.
const ATTEMPTS: usize = 20;

fn connect_from(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    stream
}

/// Opens connections that stay silent, and waits until the server has closed those that have no place.
fn flood(address: SocketAddr) -> Vec<TcpStream> {
    let mut flood: Vec<TcpStream> = (0..FLOOD).map(|_| connect_from(FLOODER, address)).collect();
    for stream in &mut flood[..FLOOD - KEPT] {
        let closed = stream.read(&mut [0; 8]);
        assert!(matches!(closed, Ok(0)), "the oldest of the flood are closed: {closed:?}");
    }
    flood
}

/// Connects from a host, lets a flood come, and sends the first bytes after it. The server must answer.
fn keeps_its_place(from: Ipv4Addr, address: SocketAddr, first: &[u8], protected: &ProtectedEnsemble) {
    for _ in 0..ATTEMPTS {
        let began = Instant::now();
        let mut honest = connect_from(from, address);
        let flood = flood(address);
        // A connection that was closed may refuse the bytes or take them in vain.
        let sent = honest.write_all(first);
        let mut byte = [0];
        let answer = honest.read(&mut byte);
        let took = began.elapsed();
        drop(flood);
        match (&sent, &answer) {
            (Ok(()), Ok(1)) => return,
            _ if took < IN_TIME => {
                panic!(
                    "{from} lost its place at {address}: {sent:?}, {answer:?}\n{}",
                    protected.ensemble.logs()
                )
            }
            _ => {}
        }
    }
    panic!("this machine is too slow: no flood took less than {IN_TIME:?}");
}

fn follower_info(server: i64) -> Vec<u8> {
    let info =
        LearnerInfo { server: ServerId(server), protocol: LEARNER_PROTOCOL, config_version: 0, zebu: None };
    let mut bytes = Vec::new();
    Packet::FollowerInfo { accepted: Zxid::ZERO, info }.encode(&mut bytes);
    bytes
}

/// The initial message of server 4, which is configured and does not run.
fn initial_message() -> Vec<u8> {
    let mut bytes = Vec::new();
    InitialMessage { server: ServerId(4), addresses: vec!["127.0.0.4:1".into()] }.encode(&mut bytes);
    bytes
}

/// Three servers that run, and a fourth one that is configured.
fn start(lines: &str) -> ProtectedEnsemble {
    let mut protected = ProtectedEnsemble::prepare_as(&["participant"; 4], lines);
    (0..3).for_each(|index| protected.ensemble.run(index));
    protected.ensemble.await_leader(3);
    protected
}

/// A follower that comes again while the flood goes on at both ports of all servers.
fn a_follower_comes_again(protected: &mut ProtectedEnsemble) {
    let leader = protected.ensemble.await_leader(3);
    let addresses: Vec<SocketAddr> = (0..3).flat_map(|index| protected.peer_ports(index)).collect();
    let follower = (0..3).find(|index| *index != leader).unwrap();
    protected.ensemble.kill(follower);
    let floods: Vec<_> = addresses
        .into_iter()
        .filter(|address| !protected.peer_ports(follower).contains(address))
        .map(flood)
        .collect();
    protected.ensemble.run(follower);
    assert_eq!(protected.ensemble.await_leader(3), leader, "the leader stays");
    drop(floods);
    block_on(protected.writes_through(&[0, 1, 2], "after-the-flood"));
    assert!(protected.ensemble.logs().contains("too many connections that do not say who they are"));
}

#[test]
fn a_flood_takes_no_place_of_another_host_at_plain_ports() {
    let mut protected = start("");
    let leader = protected.ensemble.await_leader(3);
    let [quorum, election] = protected.peer_ports(leader);
    for from in [MEMBER, OTHER_HOST] {
        keeps_its_place(from, quorum, &follower_info(4), &protected);
        keeps_its_place(from, election, &initial_message(), &protected);
    }
    a_follower_comes_again(&mut protected);
}

#[test]
fn a_flood_takes_no_place_of_another_host_at_ports_with_sasl() {
    let mut protected = start(SASL);
    let [quorum, election] = protected.peer_ports(0);
    let start = [0x5f, 0x24, 0x35, 0x01, 0x35, 0x01, 0xed, 0xcc, 0, 0, 0, 0, 0, 0, 0, 0];
    for from in [MEMBER, OTHER_HOST] {
        keeps_its_place(from, quorum, &start, &protected);
        keeps_its_place(from, election, &[&initial_message()[..], &start[..]].concat(), &protected);
    }
    a_follower_comes_again(&mut protected);
}

#[test]
fn a_flood_takes_no_place_of_another_host_at_ports_with_tls() {
    let mut protected = start(TLS);
    // The answer is an alert, so that the place is seen without a handshake.
    let hello = old_client_hello();
    for address in protected.peer_ports(0) {
        for from in [MEMBER, OTHER_HOST] {
            keeps_its_place(from, address, &hello, &protected);
        }
    }
    a_follower_comes_again(&mut protected);
}
