//! Requests of a learner's clients.

use zebu_node::{ConnectionId, ConnectionPhase, DisconnectReason, NodeSettings};
use zebu_proto::client::EventType;
use zebu_proto::client::create::CreateOp;
use zebu_proto::quorum::Packet;
use zebu_proto::txn::{CreateTxn, SetDataTxn, SubTxn, Txn};
use zebu_proto::{Acl, ErrorCode, Id, OpCode, SessionId};
use zebu_tree::Policy;
use zebu_tree::access::{DigestAlgorithm, digest_id};
use zebu_zab::Action;

use crate::client::{
    Ask, Frame, auth, close_session, create, create2, delete, get, get_watch, multi, multi_create, multi_set,
    ping, set, sync, who_am_i,
};
use crate::node_fixture::settings;
use crate::scripted_peer::{Member, zxid};

const ELSEWHERE: SessionId = SessionId(0x0300_0000_0000_0001);

pub(crate) fn created(path: &str, data: &str) -> CreateTxn {
    CreateTxn {
        path: path.into(),
        data: Some(data.as_bytes().into()),
        acl: Some(Acl::open().into()),
        ephemeral: false,
        parent_cversion: -1,
    }
}

fn data_set(path: &str, data: &str, version: i32) -> Txn {
    Txn::SetData(SetDataTxn { path: path.into(), data: Some(data.as_bytes().into()), version })
}

/// A client of a learner, with a session.
pub(crate) fn client(member: &mut Member) -> ConnectionId {
    let connection = member.fixture.open();
    member.fixture.connect(connection, crate::client::hello(30_000));
    let Packet::Request { session, cxid: 0, op, payload, auth: None } = member.said().pop().unwrap() else {
        panic!("a new session is asked for");
    };
    assert_eq!((op, &payload[..]), (OpCode::CreateSession.wire(), &30_000i32.to_be_bytes()[..]));
    assert_eq!(session.0 >> 56, 1, "the id is made here");
    assert_eq!(member.fixture.greeting(connection), None, "nobody has a session before it is decided");
    member.deliver(session, 0, Txn::CreateSession { timeout_ms: 30_000 });
    let greeting = member.fixture.greeting(connection).unwrap();
    assert_eq!((greeting.session_id, greeting.timeout_ms), (session.0, 30_000));
    connection
}

pub(crate) fn learner_and_client() -> (Member, ConnectionId, SessionId) {
    let mut member = Member::learner();
    let connection = client(&mut member);
    let session = member.fixture.session(connection);
    member.deliver(ELSEWHERE, 1, Txn::Create(created("/a", "0")));
    (member, connection, session)
}

/// The requests sent to the leader, without credentials.
fn requests(member: &mut Member) -> Vec<(i32, i32, Vec<u8>)> {
    member
        .said()
        .into_iter()
        .map(|packet| match packet {
            Packet::Request { cxid, op, payload, .. } => (cxid, op, payload.to_vec()),
            other => panic!("a request was expected, found {other:?}"),
        })
        .collect()
}

#[test]
fn writes_are_sent_as_they_came_and_answered_when_they_come_back() {
    let (mut member, connection, session) = learner_and_client();
    let asks = [create("/b", "x", 0), set("/a", "1"), delete("/none")];
    for (ask, xid) in asks.iter().zip(1..) {
        member.fixture.send_as(connection, xid, ask);
    }
    let sent: Vec<_> = asks.iter().zip(1..).map(|(ask, xid)| (xid, ask.op, ask.body.clone())).collect();
    assert_eq!(requests(&mut member), sent);
    assert_eq!(member.fixture.node.in_flight(), 3);
    assert_eq!(member.fixture.answered, 0);

    member.deliver(ELSEWHERE, 1, Txn::Delete("/nothing".into()));
    assert!(member.fixture.received(connection).is_empty(), "another client's number is not this one's");
    member.deliver(session, 1, Txn::Create(created("/b", "x")));
    member.deliver(session, 2, data_set("/a", "1", 1));
    member.deliver(session, 3, Txn::error(ErrorCode::NoNode));
    let replies = member.fixture.replies(connection);
    assert_eq!(replies[0].path(), "/b");
    assert_eq!(replies[1].stat().version, 1);
    assert_eq!(replies[2].error, Some(ErrorCode::NoNode));
    let last = zxid(6).0;
    assert_eq!(
        replies.iter().map(|reply| (reply.xid, reply.zxid)).collect::<Vec<_>>(),
        [(1, last - 2), (2, last - 1), (3, last)]
    );
    assert_eq!((member.fixture.node.in_flight(), member.fixture.answered), (0, 3));
}

/// The client restarts its xids on each connection, and its former connection sent another multi with the
/// same xid. A ZooKeeper leader may commit the former one after the session has moved here.
#[test]
fn the_answer_to_another_request_closes_the_connection() {
    let deletes = Txn::Multi(vec![SubTxn(Txn::Delete("/a".into()))]);
    let sets = Txn::Multi(vec![SubTxn(data_set("/a", "1", 1)), SubTxn(data_set("/a", "2", 2))]);
    let creates = Txn::Multi(vec![SubTxn(Txn::Create(created("/m", "")))]);
    for (ops, txn) in [
        (vec![multi_create(CreateOp::Create, "/m", 0)], deletes.clone()),
        (vec![multi_create(CreateOp::Create2, "/m", 0)], deletes.clone()),
        (vec![multi_set("/a", "1")], deletes),
        (vec![multi_set("/a", "1")], sets),
        (vec![multi_set("/a", "1"), multi_set("/a", "2")], creates),
    ] {
        let (mut member, connection, session) = learner_and_client();
        member.fixture.send_as(connection, 1, &multi(&ops));
        member.deliver(session, 1, txn);
        assert_eq!(
            member.fixture.phase(connection),
            ConnectionPhase::Closed(DisconnectReason::ReplyMismatch)
        );
    }
}

#[test]
fn reads_are_local_and_wait_for_the_writes_before_them_only() {
    let (mut member, connection, session) = learner_and_client();
    let other = client(&mut member);
    member.fixture.send_as(connection, 1, &set("/a", "mine"));
    member.fixture.send_as(connection, 2, &get("/a"));
    member.fixture.send_as(other, 1, &get("/a"));
    assert_eq!(member.fixture.replies(other)[0].data(), "0");
    assert!(member.fixture.received(connection).is_empty());
    member.deliver(session, 1, data_set("/a", "mine", 1));
    let replies = member.fixture.replies(connection);
    assert_eq!((replies[0].xid, replies[1].data().as_str()), (1, "mine"));
}

#[test]
fn every_shape_of_reply_is_made_of_the_leaders_transaction() {
    let (mut member, connection, session) = learner_and_client();
    member.fixture.send_as(connection, 1, &create2("/c", "", 0));
    let ops = [multi_create(CreateOp::Create, "/m", 0), multi_set("/a", "5")];
    member.fixture.send_as(connection, 2, &multi(&ops));
    member.fixture.send_as(connection, 3, &multi(&ops));
    member.fixture.send_as(connection, 4, &crate::client::set_acl("/a", Acl::open()));
    member.deliver(session, 1, Txn::Create2(created("/c", "")));
    let parts = vec![SubTxn(Txn::Create(created("/m", ""))), SubTxn(data_set("/a", "5", 1))];
    member.deliver(session, 2, Txn::Multi(parts));
    let failed =
        vec![SubTxn(Txn::error(ErrorCode::NodeExists)), SubTxn(Txn::error(ErrorCode::RuntimeInconsistency))];
    member.deliver(session, 3, Txn::Multi(failed));
    member.deliver(session, 4, Txn::error(ErrorCode::InvalidAcl));
    let replies = member.fixture.replies(connection);
    assert_eq!(replies[0].path_and_stat().0, "/c");
    assert_eq!((replies[1].error, replies[2].error), (None, None), "a multi has no error in its header");
    assert!(replies[1].body.len() > replies[2].body.len());
    assert_eq!(replies[3].error, Some(ErrorCode::InvalidAcl));
}

#[test]
fn the_leader_is_told_who_asks() {
    let policy = Policy::default();
    let mut member = Member::with(settings(), policy);
    member.follow();
    let connection = client(&mut member);
    member.fixture.send_as(connection, -4, &auth("digest", "me:pw"));
    member.fixture.send_as(connection, 2, &who_am_i());
    assert!(member.said().is_empty(), "credentials are a matter of the connection");
    assert_eq!(member.fixture.xids(connection), [-4, 2]);
    member.fixture.send_as(connection, 3, &set("/a", ""));
    let Packet::Request { auth: Some(ids), .. } = member.said().pop().unwrap() else { panic!("a request") };
    let digest = digest_id("me:pw", DigestAlgorithm::Sha1);
    assert_eq!(*ids, [Id::new("ip", "127.0.0.1"), Id::new("digest", digest)]);
}

#[test]
fn what_does_not_decode_is_not_sent_on() {
    let (mut member, connection, _) = learner_and_client();
    for (op, xid) in [(OpCode::Create, 1), (OpCode::Multi, 2), (OpCode::SetData, 3)] {
        member.fixture.send_as(connection, xid, &Ask::raw(op.wire(), &[0, 0]));
    }
    assert!(member.said().is_empty());
    let replies = member.fixture.replies(connection);
    assert!(replies.iter().all(|reply| reply.error == Some(ErrorCode::MarshallingError)), "{replies:?}");
    assert_eq!(member.fixture.submitted, member.fixture.answered);
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Serving);
}

#[test]
fn a_request_that_waited_too_long_is_not_sent_on() {
    let mut member =
        Member::with(NodeSettings { throttled_op_wait_ms: 100, ..settings() }, Policy::default());
    member.follow();
    let connection = client(&mut member);
    let late: Vec<_> = [set("/a", ""), sync("/"), close_session()]
        .iter()
        .zip(1..)
        .map(|(ask, xid)| member.fixture.receive(connection, &ask.frame(xid)))
        .collect();
    member.fixture.pass(101);
    late.into_iter().for_each(|submission| member.fixture.submit(submission));
    assert_eq!(requests(&mut member), [(3, OpCode::CloseSession.wire(), vec![])], "a farewell is never late");
    let throttled = Some(ErrorCode::ThrottledOp);
    let errors: Vec<_> =
        member.fixture.replies(connection).iter().map(|reply| (reply.xid, reply.error)).collect();
    assert_eq!(errors, [(1, throttled), (2, throttled)]);
}

#[test]
fn syncs_are_answered_in_order_and_not_before_the_tree_is_there() {
    let (mut member, connection, session) = learner_and_client();
    let other = client(&mut member);
    member.fixture.send_as(connection, 1, &set("/a", "1"));
    member.fixture.send_as(connection, 2, &sync("/x"));
    member.fixture.send_as(connection, 3, &get("/a"));
    member.fixture.send_as(other, 7, &sync("/y"));
    let ops: Vec<_> = requests(&mut member).into_iter().map(|(cxid, op, _)| (cxid, op)).collect();
    let sync_op = OpCode::Sync.wire();
    assert_eq!(ops, [(1, OpCode::SetData.wire()), (2, sync_op), (7, sync_op)]);

    // The commit and the reply have arrived; the own append is not durable yet.
    let delivery = member.transaction(session, 1, data_set("/a", "1", 1));
    member.script().committed = zxid(4);
    member.hear_leader(Packet::Sync);
    assert!(member.fixture.received(connection).is_empty());
    member.want([delivery]);
    member.apply();
    let replies = member.fixture.replies(connection);
    assert_eq!(replies.iter().map(|reply| reply.xid).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!((replies[1].path(), replies[1].zxid), ("/x".to_owned(), zxid(4).0));
    assert!(member.fixture.received(other).is_empty());
    member.hear_leader(Packet::Sync);
    assert_eq!(member.fixture.replies(other)[0].path(), "/y");
    member.hear_leader(Packet::Sync);
    assert_eq!(member.fixture.submitted, member.fixture.answered);
}

/// The leader answers a sync between two commits, and both are committed before either is applied.
#[test]
fn a_sync_is_answered_between_the_transactions_where_the_leader_put_it() {
    let (mut member, connection, session) = learner_and_client();
    member.fixture.send_as(connection, 1, &sync("/x"));
    member.fixture.send_as(connection, 2, &set("/a", "1"));
    let first = member.transaction(ELSEWHERE, 9, data_set("/a", "0", 1));
    let answer = Action::FromLeader { packet: Packet::Sync, after: zxid(3) };
    let second = member.transaction(session, 2, data_set("/a", "1", 2));
    member.script().committed = zxid(4);
    member.want([first, answer, second]);
    assert_eq!(member.apply(), 2);
    let replies = member.fixture.replies(connection);
    let replies: Vec<_> = replies.iter().map(|reply| (reply.xid, reply.zxid)).collect();
    assert_eq!(replies, [(1, zxid(3).0), (2, zxid(4).0)]);
    assert_eq!(member.fixture.submitted, member.fixture.answered);
}

#[test]
fn a_watch_fires_for_a_write_of_another_server() {
    let (mut member, connection, _) = learner_and_client();
    member.fixture.send_as(connection, 1, &get_watch("/a"));
    member.fixture.received(connection);
    member.deliver(ELSEWHERE, 9, data_set("/a", "new", 1));
    let event = Frame::Event { zxid: zxid(3).0, kind: EventType::NodeDataChanged, path: "/a".to_owned() };
    assert_eq!(member.fixture.received(connection), [event]);
}

#[test]
fn a_session_that_moved_loses_its_connection_here_without_a_word() {
    let moved = || Txn::error(ErrorCode::SessionMoved);
    let in_multi = Txn::Multi(vec![SubTxn(moved()), SubTxn(Txn::error(ErrorCode::RuntimeInconsistency))]);
    let by_master = || Txn::error(ErrorCode::NodeExists);
    let sets = || multi(&[multi_set("/a", ""), multi_set("/a", "")]);
    for (ask, txn) in [
        (set("/a", ""), moved()),
        (sets(), in_multi),
        // An observer master has refused these.
        (set("/a", ""), by_master()),
        (sets(), by_master()),
        (create("/b", "", 0), Txn::error(ErrorCode::BadVersion)),
    ] {
        let (mut member, connection, session) = learner_and_client();
        member.fixture.send_as(connection, 1, &ask);
        member.fixture.send_as(connection, 2, &set("/a", ""));
        member.deliver(session, 1, txn);
        assert_eq!(member.fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::Replaced));
        assert!(member.fixture.take_bytes(connection).is_empty());
        member.deliver(session, 2, moved());
        assert_eq!((member.fixture.answered, member.fixture.node.in_flight()), (2, 0));
    }
}

#[test]
fn an_expired_session_is_closed_and_what_it_had_asked_for_is_not_forgotten() {
    let (mut member, connection, session) = learner_and_client();
    member.fixture.send_as(connection, 0, &set("/a", "late"));
    member.deliver(session, 0, Txn::CloseSession(Some(vec![])));
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::SessionEnded));
    assert_eq!(member.fixture.answered, 0, "the close has the number of the write, but it is not its answer");
    member.deliver(session, 0, Txn::error(ErrorCode::SessionExpired));
    assert_eq!(member.fixture.answered, 1);
}

#[test]
fn a_farewell_is_answered_and_then_the_connection_ends() {
    let (mut member, connection, session) = learner_and_client();
    member.fixture.send_as(connection, 1, &set("/a", "1"));
    member.fixture.send_as(connection, 2, &close_session());
    member.deliver(session, 1, data_set("/a", "1", 1));
    member.deliver(session, 2, Txn::CloseSession(Some(vec![])));
    assert_eq!(member.fixture.xids(connection), [1, 2]);
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Draining);
    assert!(member.fixture.connection(connection).is_drained());
}

#[test]
fn a_connection_whose_requests_do_not_come_back_is_closed() {
    let (mut member, connection, session) = learner_and_client();
    for xid in 1..=3 {
        member.fixture.send_as(connection, xid, &set("/a", ""));
    }
    member.deliver(session, 2, data_set("/a", "", 1));
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::ReplyOutOfOrder));
    assert_eq!((member.fixture.answered, member.fixture.node.in_flight()), (2, 1));
    member.deliver(session, 3, data_set("/a", "", 2));
    assert_eq!(member.fixture.answered, 3);
}

#[test]
fn a_write_of_a_client_that_left_is_carried_out_and_accounted_for() {
    let (mut member, connection, session) = learner_and_client();
    member.fixture.send_as(connection, 1, &set("/a", "1"));
    member.fixture.disconnect(connection);
    member.deliver(session, 1, data_set("/a", "1", 1));
    assert_eq!(member.fixture.answered, 1);
    assert_eq!(member.fixture.replica.tree().node("/a").unwrap().data(), Some(&b"1"[..]));
}

/// A request may wait for the core while the role ends in which its connection was accepted and another one
/// begins.
#[test]
fn a_request_of_an_earlier_role_is_not_taken_up() {
    let mut member = Member::learner();
    let connection = client(&mut member);
    let late = [1, 2].map(|xid| member.fixture.receive(connection, &create("/a", "", 0).frame(xid)));
    let [first, second] = late;
    member.said();
    member.want([Action::StopServing]);
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::NotServing));
    member.follow();
    member.fixture.submit(first);
    member.collect();
    assert_eq!(member.said(), []);
    member.want([Action::StopServing]);
    member.lead();
    member.fixture.submit(second);
    member.collect();
    assert!(member.proposed().is_empty());
}

#[test]
fn pings_of_clients_are_answered_here() {
    let (mut member, connection, _) = learner_and_client();
    member.fixture.send_as(connection, -2, &ping());
    assert_eq!(member.fixture.xids(connection), [-2]);
    assert!(member.said().is_empty());
}
