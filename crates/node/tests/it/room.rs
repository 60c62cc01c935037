//! Requests that make the tree larger while the disk is full: they are refused, all others go on.

use zebu_node::{ConnectionPhase, DisconnectReason, ServeContext};
use zebu_proto::client::CreateOp;
use zebu_proto::quorum::{DiskRoom, Packet};
use zebu_proto::txn::{Txn, TxnEntry};
use zebu_proto::{ErrorCode, Jute, OpCode, SessionId};
use zebu_zab::PeerEvent;

use crate::client::{
    Ask, create, delete, get, multi, multi_check, multi_create, multi_delete, multi_set, set,
};
use crate::learner::learner_and_client;
use crate::node_fixture::NodeFixture;
use crate::scripted_peer::{LINK, Member};

const REFUSED: Option<ErrorCode> = Some(ErrorCode::SystemError);

const REFUSAL: Txn = Txn::error(ErrorCode::SystemError);
const AWAY: SessionId = SessionId(0x0200_0000_0000_0007);

/// The number of refusals per second.
const REFUSALS: usize = 100;

fn set_room(fixture: &mut NodeFixture, room: DiskRoom) {
    let NodeFixture { node, replica, connections, now, .. } = fixture;
    node.handle_peer(PeerEvent::DiskRoom { room }, &mut ServeContext { replica, connections, now: *now });
}

#[test]
fn what_makes_the_tree_larger_is_refused() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    for (path, data) in [("/a", "12345"), ("/b", "1"), ("/c", "")] {
        fixture.call(connection, create(path, data, 0));
    }
    set_room(&mut fixture, DiskRoom::Low);
    assert_eq!(fixture.call(connection, create("/d", "", 0)).error, None, "low is a warning");
    set_room(&mut fixture, DiskRoom::Full);
    assert!(!fixture.node.has_room_to_grow());
    let mut error = |ask| fixture.call(connection, ask).error;
    assert_eq!(error(create("/e", "", 0)), REFUSED);
    assert_eq!(error(set("/a", "123456")), REFUSED);
    assert_eq!(error(set("/a", "54321")), None);
    assert_eq!(error(set("/a", "5")), None);
    assert_eq!(error(set("/a", "54")), REFUSED, "compared with the data before");
    assert_eq!(error(set("/none", "5")), Some(ErrorCode::NoNode), "its own error");
    assert_eq!(error(multi(&[multi_delete("/c"), multi_create(CreateOp::Create, "/f", 0)])), REFUSED);
    assert_eq!(error(multi(&[multi_set("/a", "55555")])), REFUSED);
    assert_eq!(error(multi(&[multi_check("/a", -1), multi_delete("/c"), multi_set("/a", "")])), None);
    assert_eq!(error(delete("/b")), None);
    assert_eq!(error(get("/a")), None);
    set_room(&mut fixture, DiskRoom::Enough);
    assert_eq!(fixture.call(connection, create("/e", "", 0)).error, None);
}

#[test]
fn a_new_session_is_refused_and_an_old_one_resumed() {
    let mut fixture = NodeFixture::new();
    let old = fixture.client();
    set_room(&mut fixture, DiskRoom::Full);
    let new = fixture.open();
    fixture.connect(new, crate::client::hello(30_000));
    assert_eq!(fixture.phase(new), ConnectionPhase::Closed(DisconnectReason::NoRoom));
    let request = fixture.hello_again(old);
    fixture.disconnect(old);
    let again = fixture.open();
    fixture.connect(again, request);
    fixture.persist();
    assert!(fixture.greeting(again).is_some_and(|response| response.session_id != 0));
}

/// A refusal takes no place in the log, so it need not wait, and takes no place of other requests.
#[test]
fn own_clients_are_refused_at_once_and_without_a_transaction() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    fixture.call(connection, create("/a", "", 0));
    set_room(&mut fixture, DiskRoom::Full);
    let before = fixture.history.len();
    let xids: Vec<i32> = (0..REFUSALS + 1_000)
        .map(|number| fixture.send(connection, create(&format!("/b{number}"), "", 0)))
        .collect();
    assert_eq!((fixture.node.in_flight(), fixture.submitted), (0, fixture.answered));
    let answers: Vec<_> = fixture.replies(connection).iter().map(|reply| (reply.xid, reply.error)).collect();
    assert_eq!(answers, xids.iter().map(|xid| (*xid, REFUSED)).collect::<Vec<_>>());
    assert_eq!(fixture.history.len(), before);
    // The order of replies is that of the requests.
    let first = fixture.send(connection, set("/a", ""));
    let second = fixture.send(connection, create("/c", "", 0));
    let third = fixture.send(connection, delete("/a"));
    assert!(fixture.replies(connection).is_empty());
    fixture.persist();
    let answers: Vec<_> = fixture.replies(connection).iter().map(|reply| (reply.xid, reply.error)).collect();
    assert_eq!(answers, [(first, None), (second, REFUSED), (third, None)]);
}

fn forwarded(session: SessionId, cxid: i32, ask: Ask) -> Packet {
    Packet::Request { session, cxid, op: ask.op, payload: ask.body.into(), auth: None }
}

fn create_session(session: SessionId) -> Packet {
    let mut payload = Vec::new();
    6_000i32.encode(&mut payload);
    forwarded(session, 0, Ask::raw(OpCode::CreateSession.wire(), &payload))
}

/// A leader without room, with a session of a learner and the node `/a`.
fn leader_without_room() -> Member {
    let mut leader = Member::leader();
    leader.hear_learner(LINK, create_session(AWAY));
    leader.hear_learner(LINK, forwarded(AWAY, 1, create("/a", "", 0)));
    leader.decide_all();
    leader.script().lacks_room = true;
    for number in 0..REFUSALS {
        leader.hear_learner(LINK, forwarded(AWAY, 2, create(&format!("/b{number}"), "", 0)));
    }
    let refused = leader.decide_all();
    assert!(refused.len() == REFUSALS && refused.iter().all(|entry| entry.txn == REFUSAL));
    leader
}

#[test]
fn refusals_of_a_learner_wait_for_the_next_second_and_keep_their_order() {
    let mut leader = leader_without_room();
    leader.hear_learner(LINK, forwarded(AWAY, 3, create("/c", "", 0)));
    leader.hear_learner(LINK, forwarded(AWAY, 4, delete("/a")));
    assert!(leader.proposed().is_empty(), "neither is proposed in this second");
    leader.pass(1_000);
    let entries = leader.decide_all();
    assert_eq!(entries.iter().map(|entry| entry.header.cxid).collect::<Vec<_>>(), [3, 4]);
    assert_eq!((&entries[0].txn, &entries[1].txn), (&REFUSAL, &Txn::Delete("/a".into())));
}

#[test]
fn a_request_that_waits_for_its_refusal_is_carried_out_when_there_is_room() {
    let mut leader = leader_without_room();
    leader.hear_learner(LINK, forwarded(AWAY, 3, create("/c", "", 0)));
    leader.script().lacks_room = false;
    leader.pass(1_000);
    assert!(matches!(leader.decide_all()[..], [TxnEntry { txn: Txn::Create(_), .. }]));
}

/// ZooKeeper's learners do not bound the sessions that their clients ask for.
#[test]
fn sessions_that_wait_are_bounded_and_opened_in_several_rounds() {
    let mut leader = leader_without_room();
    for number in 0..10_000 {
        leader.hear_learner(LINK, create_session(SessionId(0x0300_0000_0000_0000 + number)));
    }
    assert!(leader.proposed().is_empty());
    leader.hear_learner(LINK, create_session(SessionId(0x0400_0000_0000_0000)));
    assert_eq!(leader.decide_all().pop().unwrap().txn, REFUSAL, "one more is refused at once");
    leader.script().lacks_room = false;
    leader.pass(1_000);
    for round in 0..10 {
        assert_eq!(leader.decide_all().len(), 1_000, "round {round}");
        assert_eq!(leader.fixture.node.next_deadline() <= leader.fixture.now.monotonic_ms, round < 9);
        leader.pass(0);
    }
    assert!(leader.decide_all().is_empty());
}

#[test]
fn a_learner_refuses_what_its_leader_would_refuse() {
    let (mut learner, connection, session) = learner_and_client();
    learner.said();
    learner.deliver(SessionId(77), 5, REFUSAL);
    let answered = learner.fixture.answered;
    for xid in 0..1_000 {
        learner.fixture.send_as(connection, xid, &create("/b", "", 0));
    }
    learner.fixture.send_as(connection, 1_000, &set("/a", "longer"));
    assert_eq!(learner.fixture.answered - answered, 1_001, "no permit is kept");
    assert!(learner.fixture.replies(connection).iter().all(|reply| reply.error == REFUSED));
    assert!(learner.said().is_empty());
    let new = learner.fixture.open();
    learner.fixture.connect(new, crate::client::hello(30_000));
    assert_eq!(learner.fixture.phase(new), ConnectionPhase::Closed(DisconnectReason::NoRoom));
    learner.fixture.send_as(connection, 1_001, &set("/a", ""));
    learner.fixture.send_as(connection, 1_002, &delete("/a"));
    assert_eq!(learner.said().len(), 2, "these make room or need none");
    // A while later it asks the leader again.
    learner.pass(1_000);
    learner.fixture.send_as(connection, 1_003, &create("/b", "", 0));
    assert_eq!(learner.said().len(), 1);
    learner.deliver(SessionId(77), 6, REFUSAL);
    learner.deliver(SessionId(78), 0, Txn::CreateSession { timeout_ms: 5_000 });
    learner.fixture.send_as(connection, 1_004, &create("/c", "", 0));
    assert_eq!(learner.said().len(), 1, "another server's session shows that there is room");
    assert_eq!(learner.fixture.session(connection), session);
}
