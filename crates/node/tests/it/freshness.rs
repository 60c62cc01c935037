//! Reads that say how fresh their answer must be: at a leader, at a learner, at a server alone, and on three
//! servers.

use zebu_node::{ConnectionId, ConnectionPhase};
use zebu_proto::client::{EventType, FEATURE_FEED, Freshness};
use zebu_proto::quorum::{Packet, PeerAnnouncement};
use zebu_proto::txn::{SetDataTxn, Txn};
use zebu_proto::{ErrorCode, Jute, OpCode, SessionId, Zxid};

use crate::client::{
    Ask, Frame, ask, create, delete, exists, get, get_acl, get_watch, hello, set, set_acl, sync,
};
use crate::node_fixture::NodeFixture;
use crate::scripted_peer::{Member, zxid};
use crate::three_nodes::ThreeNodes;

const VIRTUAL: &str = "/zookeeper/zebu";

pub(crate) fn with(freshness: Freshness, read: Ask) -> Ask {
    ask(OpCode::With, |out| {
        freshness.encode(out);
        read.op.encode(out);
        out.extend_from_slice(&read.body);
    })
}

fn linear(read: Ask) -> Ask {
    with(Freshness::LINEARIZABLE, read)
}

fn at_least(zxid: Zxid, read: Ask) -> Ask {
    with(Freshness { min_zxid: Some(zxid), ..Freshness::default() }, read)
}

fn max_age(max_age_ms: i32, read: Ask) -> Ask {
    with(Freshness { max_age_ms: Some(max_age_ms), ..Freshness::default() }, read)
}

fn xids(member: &mut Member, connection: ConnectionId) -> Vec<i32> {
    member.fixture.xids(connection)
}

/// A Zebu leader with a client. A quorum answers pings by hand.
fn leader() -> (Member, ConnectionId) {
    let mut leader = Member::new();
    leader.script().announcement = Some(PeerAnnouncement::CURRENT);
    leader.lead();
    let connection = leader.fixture.open();
    leader.fixture.connect(connection, hello(8000));
    leader.decide_all();
    leader.fixture.send_as(connection, 1, &create("/a", "old", 0));
    leader.decide_all();
    leader.fixture.take_bytes(connection);
    leader.script().answered = Some(0);
    (leader, connection)
}

/// A learner of a Zebu leader with a client and the node `/a`.
fn learner() -> (Member, ConnectionId, SessionId) {
    let mut learner = Member::new();
    learner.script().announcement = Some(PeerAnnouncement::CURRENT);
    learner.follow();
    let connection = learner.fixture.open();
    learner.fixture.connect(connection, hello(8000));
    let Some(Packet::Request { session, .. }) = learner.said().pop() else { panic!("no new session") };
    learner.deliver(session, 0, Txn::CreateSession { timeout_ms: 8000 });
    learner.fixture.greeting(connection).unwrap();
    learner.fixture.send_as(connection, 1, &create("/a", "old", 0));
    let txn = zebu_proto::txn::CreateTxn {
        path: "/a".into(),
        data: Some(b"old".as_slice().into()),
        acl: Some(zebu_proto::Acl::open().into()),
        ephemeral: false,
        parent_cversion: 1,
    };
    learner.deliver(session, 1, Txn::Create(txn));
    learner.fixture.take_bytes(connection);
    learner.said();
    (learner, connection, session)
}

fn set_txn(data: &str, version: i32) -> Txn {
    Txn::SetData(SetDataTxn { path: "/a".into(), data: Some(data.as_bytes().into()), version })
}

fn syncs(member: &mut Member) -> usize {
    let is_sync =
        |packet: &Packet| matches!(packet, Packet::Request { op, .. } if *op == OpCode::Sync.wire());
    member.said().iter().filter(|packet| is_sync(packet)).count()
}

#[test]
fn a_leader_asks_a_quorum_after_the_read_came() {
    let (mut leader, connection) = leader();
    leader.fixture.send_as(connection, 2, &linear(get("/a")));
    leader.fixture.send_as(connection, 3, &linear(get("/a")));
    leader.fixture.tick();
    assert_eq!(leader.script().asked, 1, "one check for both");
    assert!(xids(&mut leader, connection).is_empty());
    leader.fixture.send_as(connection, 4, &linear(get("/a")));
    leader.fixture.tick();
    leader.script().answered = Some(1);
    leader.want([]);
    assert_eq!(xids(&mut leader, connection), [2, 3], "the last one came after the check");
    leader.script().answered = Some(2);
    leader.want([]);
    assert_eq!(xids(&mut leader, connection), [4]);
    assert_eq!(leader.fixture.submitted, leader.fixture.answered);
}

/// Another server may have committed and answered a write that this leader has proposed and not applied.
#[test]
fn a_leader_shows_what_it_had_proposed() {
    let (mut leader, connection) = leader();
    let other = leader.fixture.open();
    leader.fixture.connect(other, hello(8000));
    leader.decide_all();
    leader.fixture.send_as(other, 1, &set("/a", "new"));
    leader.fixture.send_as(connection, 2, &linear(get("/a")));
    leader.fixture.tick();
    leader.script().answered = Some(1);
    leader.want([]);
    assert!(xids(&mut leader, connection).is_empty());
    leader.decide_all();
    assert_eq!(leader.fixture.replies(connection)[0].data(), "new");
}

#[test]
fn what_a_client_sends_behind_a_fresh_read_comes_behind_it() {
    let (mut leader, connection) = leader();
    leader.fixture.send_as(connection, 2, &linear(get("/a")));
    leader.fixture.send_as(connection, 3, &set("/a", "new"));
    leader.fixture.send_as(connection, 4, &linear(get("/a")));
    leader.fixture.send_as(connection, 5, &sync("/"));
    leader.fixture.tick();
    assert!(leader.proposed().is_empty());
    for answered in 1..=3 {
        leader.script().answered = Some(answered);
        leader.want([]);
        leader.fixture.tick();
    }
    leader.decide_all();
    leader.script().answered = Some(9);
    leader.want([]);
    let replies = leader.fixture.replies(connection);
    assert_eq!(replies.iter().map(|reply| reply.xid).collect::<Vec<_>>(), [2, 3, 4, 5]);
    assert_eq!((replies[0].data(), replies[2].data()), ("old".into(), "new".into()));
    assert_eq!(leader.fixture.submitted, leader.fixture.answered);
}

#[test]
fn a_closed_connection_leaves_nothing_behind() {
    let (mut leader, connection) = leader();
    leader.fixture.send_as(connection, 2, &linear(get("/a")));
    leader.fixture.send_as(connection, 3, &set("/a", "new"));
    leader.fixture.tick();
    leader.fixture.disconnect(connection);
    leader.script().answered = Some(1);
    leader.want([]);
    assert!(leader.proposed().is_empty());
    assert_eq!(leader.fixture.submitted, leader.fixture.answered);
}

#[test]
fn the_end_of_the_role_closes_readers_that_wait() {
    let (mut leader, connection) = leader();
    leader.fixture.send_as(connection, 2, &linear(get("/a")));
    leader.fixture.send_as(connection, 3, &set("/a", "new"));
    leader.fixture.tick();
    leader.want([zebu_zab::Action::StopServing]);
    assert!(matches!(leader.fixture.phase(connection), ConnectionPhase::Closed(_)));
    assert_eq!(leader.fixture.submitted, leader.fixture.answered);
}

#[test]
fn a_learner_sends_one_sync_for_all_readers() {
    let (mut learner, connection, session) = learner();
    for xid in 2..5 {
        learner.fixture.send_as(connection, xid, &linear(get("/a")));
    }
    learner.fixture.tick();
    assert_eq!(syncs(&mut learner), 1);
    learner.fixture.send_as(connection, 5, &linear(get("/a")));
    learner.fixture.tick();
    assert_eq!(syncs(&mut learner), 0, "one at a time");
    learner.deliver(session, 99, set_txn("new", 1));
    learner.hear_leader(Packet::Sync);
    let replies = learner.fixture.replies(connection);
    assert_eq!(replies.iter().map(|reply| reply.xid).collect::<Vec<_>>(), [2, 3, 4]);
    assert!(replies.iter().all(|reply| reply.data() == "new"));
    learner.fixture.tick();
    assert_eq!(syncs(&mut learner), 1, "the next one for the one that came meanwhile");
    learner.hear_leader(Packet::Sync);
    assert_eq!(xids(&mut learner, connection), [5]);
    assert_eq!(learner.fixture.submitted, learner.fixture.answered);
}

/// A watch that is registered before the wait would fire for a change that the read shows.
#[test]
fn the_watch_of_a_fresh_read_is_registered_with_the_read() {
    let (mut learner, connection, session) = learner();
    learner.fixture.send_as(connection, 2, &linear(get_watch("/a")));
    learner.fixture.tick();
    learner.deliver(session, 98, set_txn("new", 1));
    assert!(learner.fixture.received(connection).is_empty(), "no event for what the read will show");
    learner.hear_leader(Packet::Sync);
    assert_eq!(learner.fixture.replies(connection)[0].data(), "new");
    learner.deliver(session, 99, set_txn("newer", 2));
    let events = learner.fixture.received(connection);
    assert!(matches!(&events[..], [Frame::Event { kind: EventType::NodeDataChanged, .. }]), "{events:?}");
}

#[test]
fn under_another_leader_a_fresh_read_is_refused_and_the_connection_stays() {
    let mut leader = Member::leader();
    let connection = leader.fixture.open();
    leader.fixture.connect(connection, hello(8000));
    leader.decide_all();
    leader.fixture.take_bytes(connection);
    for ask in [linear(get("/")), max_age(1000, get("/"))] {
        leader.fixture.send_as(connection, 1, &ask);
        assert_eq!(leader.fixture.replies(connection)[0].error, Some(ErrorCode::Unimplemented));
    }
    leader.fixture.send_as(connection, 2, &at_least(zxid(1), get("/")));
    leader.fixture.send_as(connection, 3, &get(VIRTUAL));
    let replies = leader.fixture.replies(connection);
    assert_eq!(replies[0].error, None);
    assert!(
        replies[1].data().ends_with("features=min_zxid,page,scan,deltree,feed,move\n"),
        "{}",
        replies[1].data()
    );
    assert_eq!(leader.fixture.phase(connection), ConnectionPhase::Serving);
}

#[test]
fn an_age_is_local_while_the_last_check_is_young_enough() {
    let (mut learner, connection, _) = learner();
    learner.fixture.send_as(connection, 2, &max_age(1000, get("/a")));
    learner.fixture.tick();
    assert_eq!(syncs(&mut learner), 1, "nothing is known yet");
    learner.fixture.pass(600);
    learner.hear_leader(Packet::Sync);
    assert_eq!(xids(&mut learner, connection), [2]);
    learner.fixture.pass(400);
    learner.fixture.send_as(connection, 3, &max_age(1000, get("/a")));
    assert_eq!(xids(&mut learner, connection), [3], "a second since the check began");
    learner.fixture.pass(1);
    learner.fixture.send_as(connection, 4, &max_age(1000, get("/a")));
    learner.fixture.tick();
    assert!(xids(&mut learner, connection).is_empty());
    assert_eq!(syncs(&mut learner), 1);
}

#[test]
fn a_read_waits_for_its_transaction_up_to_a_quarter_of_the_timeout() {
    let (mut learner, connection, session) = learner();
    learner.fixture.send_as(connection, 2, &at_least(zxid(3), get("/a")));
    learner.fixture.send_as(connection, 3, &at_least(zxid(9), get("/a")));
    learner.fixture.send_as(connection, 4, &get("/a"));
    learner.fixture.send_as(connection, 5, &set("/a", "behind"));
    assert!(learner.said().is_empty(), "no leader is asked, and the write waits");
    learner.deliver(session, 99, set_txn("new", 1));
    assert_eq!(learner.fixture.replies(connection)[0].data(), "new");
    assert_eq!(learner.fixture.node.next_deadline(), learner.fixture.now.monotonic_ms + 2000);
    learner.pass(1999);
    assert!(xids(&mut learner, connection).is_empty());
    learner.pass(1);
    let replies = learner.fixture.replies(connection);
    assert_eq!(replies[0].error, Some(ErrorCode::OperationTimeout));
    assert_eq!((replies[1].xid, replies[1].data()), (4, "new".into()));
    assert_eq!(learner.said().len(), 1, "the write has left");
}

#[test]
fn a_server_alone_answers_at_once() {
    let mut server = NodeFixture::new();
    let connection = server.client();
    server.call(connection, create("/a", "x", 0));
    assert_eq!(server.call(connection, linear(get("/a"))).data(), "x");
    assert_eq!(server.call(connection, max_age(0, get("/a"))).data(), "x");
    assert_eq!(server.call(connection, linear(exists("/none"))).error, Some(ErrorCode::NoNode));
    assert_eq!(server.call(connection, at_least(Zxid(1), get("/a"))).data(), "x");
}

#[test]
fn a_virtual_node_says_what_works() {
    let mut server = NodeFixture::new();
    let connection = server.client();
    let node = server.call(connection, get(VIRTUAL));
    assert!(
        node.data().contains("features=min_zxid,linear,max_age,page,scan,deltree,feed\n"),
        "{}",
        node.data()
    );
    assert_eq!(server.call(connection, exists(VIRTUAL)).stat().data_length, node.data().len() as i32);
    assert_eq!(server.call(connection, get_acl(VIRTUAL)).error, None);
    let acl = zebu_proto::Acl::open();
    for write in [create(VIRTUAL, "", 0), set(VIRTUAL, ""), delete(VIRTUAL), set_acl(VIRTUAL, acl)] {
        assert_eq!(server.call(connection, write).error, Some(ErrorCode::BadArguments));
    }
    let names = server.call(connection, crate::client::children_watch("/zookeeper")).names();
    assert!(!names.contains(&"zebu".to_owned()), "{names:?}");
}

#[test]
fn unknown_options_are_refused_and_hello_is_answered() {
    let mut server = NodeFixture::new();
    let connection = server.client();
    let unknown = ask(OpCode::With, |out| {
        64i32.encode(out);
        4i32.encode(out);
    });
    assert_eq!(server.call(connection, unknown).error, Some(ErrorCode::BadArguments));
    let reply = server.call(connection, ask(OpCode::Hello, |out| 3i32.encode(out)));
    assert_eq!(reply.read(|reader| reader.int().unwrap()), FEATURE_FEED);
}

#[test]
fn each_of_three_servers_shows_the_last_write() {
    let mut ensemble = ThreeNodes::new();
    let ids: Vec<_> = ensemble.learners().into_iter().chain(ensemble.leader()).collect();
    let clients: Vec<_> = ids.iter().map(|&id| (id, ensemble.client(id, 30_000))).collect();
    let (first, connection) = clients[0];
    ensemble.call(first, connection, create("/a", "", 0));
    for round in 0..20 {
        let (writer, connection) = clients[round % 3];
        let value = round.to_string();
        ensemble.call(writer, connection, set("/a", &value));
        for &(reader, connection) in &clients {
            assert_eq!(ensemble.call(reader, connection, linear(get("/a"))).data(), value);
        }
    }
}
