//! Limits of the packets that a follower keeps for its observers, if the leader or the observers read
//! nothing. The observer above the limit loses its connection, and the follower goes on.

use zebu_proto::quorum::Packet;
use zebu_proto::{OpCode, ServerId, SessionId};
use zebu_zab::{LinkCloseReason, ServingRole};

use crate::desk::Desk;
use crate::serving_observers::{OBSERVER, with_observer};

const BYTES: usize = 1 << 20;

fn request(op: OpCode, bytes: usize) -> Packet {
    let payload = vec![0; bytes].into();
    Packet::Request { session: SessionId(1), cxid: 1, op: op.wire(), payload, auth: None }
}

/// Sends packets until the connection of the observer is closed; returns how many were accepted.
fn send_until_closed(desk: &mut Desk, mut send: impl FnMut(&mut Desk)) -> (usize, LinkCloseReason) {
    for count in 0..1_000_000 {
        if let Some(reason) = desk.closed(OBSERVER) {
            return (count, reason);
        }
        desk.actions.clear();
        send(desk);
    }
    panic!("it was never closed");
}

fn assert_relay_is_full(reason: &LinkCloseReason, limit: usize) {
    match reason {
        LinkCloseReason::RelayFull { server: ServerId(9), limit: of, .. } if *of == limit => {}
        other => panic!("{other}"),
    }
    assert!(reason.to_string().starts_with("server 9 exceeds a limit"), "{reason}");
}

fn assert_follows(desk: &Desk) {
    assert!(matches!(desk.peer.serving(), Some(ServingRole::Following { .. })), "{:?}", desk.peer.serving());
}

#[test]
fn requests_that_the_leader_does_not_take() {
    let (mut desk, leader) = with_observer();
    desk.stalled = Some(leader);
    let packet = request(OpCode::Create, BYTES);
    let (count, reason) = send_until_closed(&mut desk, |desk| desk.packet(OBSERVER, packet.clone()));
    assert_eq!(count, 64, "63 whole ones fit, and the next one is refused");
    assert_relay_is_full(&reason, 64 << 20);
    assert_follows(&desk);
}

#[test]
fn requests_that_the_leader_takes_are_as_many_as_they_like() {
    let (mut desk, _) = with_observer();
    let packet = request(OpCode::Create, BYTES);
    for _ in 0..200 {
        desk.packet(OBSERVER, packet.clone());
    }
    assert_eq!(desk.closed(OBSERVER), None);
}

#[test]
fn syncs_that_the_leader_does_not_answer() {
    let (mut desk, _) = with_observer();
    let packet = request(OpCode::Sync, 0);
    let (count, reason) = send_until_closed(&mut desk, |desk| desk.packet(OBSERVER, packet.clone()));
    assert_eq!(count, (1 << 18) + 1);
    assert_relay_is_full(&reason, 1 << 18);
    assert_follows(&desk);
}

#[test]
fn answers_that_the_observer_does_not_take() {
    let (mut desk, leader) = with_observer();
    desk.stalled = Some(OBSERVER);
    let packet = request(OpCode::Sync, 0);
    let (count, reason) = send_until_closed(&mut desk, |desk| {
        desk.packet(OBSERVER, packet.clone());
        desk.packet(leader, Packet::Sync);
    });
    assert!((1 << 18..(1 << 18) + 100).contains(&count), "{count}: some are on their way");
    assert_relay_is_full(&reason, 1 << 18);
    assert_follows(&desk);
}

/// An observer that sends packets but reads none gets no further pings.
#[test]
fn pings_for_an_observer_that_takes_nothing() {
    let (mut desk, leader) = with_observer();
    desk.stalled = Some(OBSERVER);
    let mut pings = 0;
    for _ in 0..1000 {
        desk.actions.clear();
        desk.wait(50);
        desk.packet(leader, Packet::Ping { zxid: zebu_proto::Zxid::new(6, 0) });
        pings += desk.take_sent(OBSERVER).len();
        desk.packet(
            OBSERVER,
            Packet::PingReply { zxid: zebu_proto::Zxid::new(6, 0), touched: vec![], room: None },
        );
    }
    assert!((10..20).contains(&pings), "{pings}: the window has 1000 bytes");
    assert_follows(&desk);
}
