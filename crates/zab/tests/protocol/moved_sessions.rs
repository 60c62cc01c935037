//! Sessions that move between a follower and its observers, which the leader sees behind one link. A request
//! that arrives late, over the old connection of its session, reaches the leader as a write that fails.

use zebu_proto::quorum::Packet;
use zebu_proto::{OpCode, SessionId, Zxid};
use zebu_zab::{Action, LinkCloseReason, PeerEffect};

use crate::desk::Desk;
use crate::serving_observers::{OBSERVER, with_observer};

const SESSION: SessionId = SessionId(7);

fn request(cxid: i32, op: OpCode) -> Packet {
    Packet::Request { session: SESSION, cxid, op: op.wire(), payload: [1, 2].into(), auth: None }
}

fn revalidate() -> Packet {
    Packet::Revalidate { session: SESSION, timeout_ms: 4000 }
}

/// A packet of a client of the follower itself, as the leader gets it.
fn send_own(desk: &mut Desk, packet: Packet) -> Packet {
    let mut out = Vec::new();
    desk.peer.send_to_leader(packet, &mut out);
    match &out[..] {
        [Action::Peer(PeerEffect::Send { packet, .. })] => packet.clone(),
        other => panic!("{other:?}"),
    }
}

fn failing(packet: &Packet) -> (i32, OpCode) {
    match packet {
        Packet::Request { session: SESSION, cxid, op, .. } => (*cxid, OpCode::from_wire(*op).unwrap()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_late_request_of_an_observer_fails_after_the_session_has_moved_to_its_master() {
    let (mut desk, link) = with_observer();
    for packet in [request(0, OpCode::CreateSession), request(1, OpCode::Create)] {
        desk.packet(OBSERVER, packet.clone());
        assert_eq!(desk.take_sent(link), [packet]);
    }
    assert_eq!(send_own(&mut desk, revalidate()), revalidate());
    assert_eq!(send_own(&mut desk, request(5, OpCode::Create)), request(5, OpCode::Create));
    desk.packet(OBSERVER, request(2, OpCode::Create));
    desk.packet(OBSERVER, request(3, OpCode::CloseSession));
    desk.packet(OBSERVER, request(4, OpCode::Sync));
    let sent = desk.take_sent(link);
    let failed: Vec<_> = sent[..2].iter().map(failing).collect();
    assert_eq!(failed, [(2, OpCode::SetData), (3, OpCode::Create)], "writes that fail, with their cxids");
    assert_eq!(sent[2..], [request(4, OpCode::Sync)], "a sync has no effect");

    // The session returns to the observer.
    desk.packet(OBSERVER, revalidate());
    desk.packet(OBSERVER, request(6, OpCode::Delete));
    assert_eq!(desk.take_sent(link), [revalidate(), request(6, OpCode::Delete)]);
    assert_eq!(failing(&send_own(&mut desk, request(7, OpCode::Delete))), (7, OpCode::Create));
}

#[test]
fn a_session_that_has_ended_or_was_refused_has_no_owner() {
    let (mut desk, link) = with_observer();
    desk.packet(OBSERVER, revalidate());
    assert_eq!(failing(&send_own(&mut desk, request(1, OpCode::Delete))), (1, OpCode::Create));
    desk.packet(link, Packet::Revalidated { session: SESSION, valid: false });
    assert_eq!(send_own(&mut desk, request(2, OpCode::Delete)), request(2, OpCode::Delete));
    desk.packet(OBSERVER, revalidate());
    desk.peer.session_ended(SESSION);
    assert_eq!(send_own(&mut desk, request(3, OpCode::Delete)), request(3, OpCode::Delete));
}

/// An observer of Apache ZooKeeper does not close the connection of a client whose writes fail.
#[test]
fn an_observer_that_keeps_a_moved_session_loses_its_link() {
    let (mut desk, link) = with_observer();
    desk.packet(OBSERVER, revalidate());
    send_own(&mut desk, revalidate());
    for cxid in 0..100 {
        desk.packet(OBSERVER, request(cxid, OpCode::Delete));
        if let Some(reason) = desk.closed(OBSERVER) {
            assert!(matches!(reason, LinkCloseReason::MovedSession { session: SESSION, .. }), "{reason}");
            assert!(cxid > 5, "it closes the connection as soon as it hears of the refusal");
            return;
        }
        desk.wait(50);
        desk.packet(link, Packet::Ping { zxid: Zxid::new(6, 0) });
    }
    panic!("it was never closed");
}
