//! Local sessions at a learner.

use zebu_node::LocalSessionSupport::{WithUpgrade, WithoutUpgrade};
use zebu_node::{ConnectionId, ConnectionPhase, DisconnectReason, LocalSessionSupport, NodeSettings};
use zebu_proto::client::ConnectRequest;
use zebu_proto::client::create::{CreateOp, CreateRequest};
use zebu_proto::quorum::Packet;
use zebu_proto::txn::{CreateTxn, SetDataTxn, SubTxn, Txn};
use zebu_proto::{ErrorCode, OpCode, SessionId};
use zebu_tree::Policy;
use zebu_zab::Action;

use crate::client::{
    Ask, EPHEMERAL, PERSISTENT, Reply, SEQUENTIAL, ask, close_session, create, create_request, create2, get,
    hello, multi, multi_check, multi_create, ping, set, sync,
};
use crate::learner::created;
use crate::node_fixture::{TICK_MS, settings};
use crate::scripted_peer::{Member, zxid};

const ELSEWHERE: SessionId = SessionId(0x0300_0000_0000_0001);
const TIMEOUT_MS: i32 = 30_000;
const NOTHING: [Packet; 0] = [];

fn learner(local_sessions: LocalSessionSupport) -> Member {
    let mut member = Member::with(NodeSettings { local_sessions, ..settings() }, Policy::default());
    member.follow();
    member.deliver(ELSEWHERE, 1, Txn::Create(created("/a", "0")));
    member
}

/// A connection with a new local session, which no other server knows.
fn local_client(member: &mut Member) -> (ConnectionId, SessionId) {
    let connection = member.fixture.open();
    member.fixture.connect(connection, hello(TIMEOUT_MS));
    let greeting = member.fixture.greeting(connection).expect("it need not wait for anybody");
    assert_eq!((greeting.timeout_ms, greeting.session_id >> 56), (TIMEOUT_MS, 1));
    assert_eq!(member.said(), NOTHING);
    (connection, SessionId(greeting.session_id))
}

fn learner_and_local(local_sessions: LocalSessionSupport) -> (Member, ConnectionId, SessionId) {
    let mut member = learner(local_sessions);
    let (connection, session) = local_client(&mut member);
    (member, connection, session)
}

fn returns(member: &mut Member, session: SessionId) -> ConnectionId {
    let password = zebu_proto::password::session_password(session);
    let connection = member.fixture.open();
    let request =
        ConnectRequest { session_id: session.0, password: Some(password.into()), ..hello(TIMEOUT_MS) };
    member.fixture.connect(connection, request);
    connection
}

/// What the leader is asked: numbers and operations.
fn requests(member: &mut Member) -> Vec<(i32, i32)> {
    let packets = member.said().into_iter();
    packets
        .map(|packet| match packet {
            Packet::Request { cxid, op, .. } => (cxid, op),
            other => panic!("a request was expected, found {other:?}"),
        })
        .collect()
}

fn touched(member: &mut Member) -> Vec<SessionId> {
    member.hear_leader(Packet::Ping { zxid: zxid(9) });
    let Some(Packet::PingReply { touched, .. }) = member.said().pop() else { panic!("a reply") };
    touched.into_iter().map(|touch| touch.session).collect()
}

fn count(member: &Member) -> usize {
    member.fixture.node.local_session_report().expect("there are local sessions").len()
}

fn ephemeral(path: &str) -> Txn {
    Txn::Create(CreateTxn { ephemeral: true, ..created(path, "") })
}

const GLOBAL: Txn = Txn::CreateSession { timeout_ms: TIMEOUT_MS };
const CREATE_SESSION: (i32, i32) = (0, OpCode::CreateSession.wire());

/// The codes of a multi that failed.
pub(crate) fn part_errors(reply: &Reply) -> Vec<Option<ErrorCode>> {
    reply.read(|reader| {
        let mut errors = Vec::new();
        loop {
            let (_, done, _) = (reader.int().unwrap(), reader.boolean().unwrap(), reader.int().unwrap());
            if done {
                return errors;
            }
            errors.push(ErrorCode::from_wire(reader.int().unwrap()));
        }
    })
}

#[test]
fn a_new_session_is_nobody_elses_business() {
    let (mut member, connection, session) = learner_and_local(WithUpgrade);
    let before = member.fixture.replica.last_zxid();
    member.fixture.send_as(connection, 1, &get("/a"));
    member.fixture.send_as(connection, -2, &ping());
    assert_eq!(member.fixture.xids(connection), [1, -2]);
    assert_eq!(touched(&mut member), [], "the leader is not told of a session that it does not know");
    assert_eq!((count(&member), member.fixture.replica.tree().sessions().len()), (1, 0));
    member.fixture.send_as(connection, 2, &close_session());
    assert_eq!((member.said(), member.fixture.xids(connection)), (NOTHING.to_vec(), vec![2]));
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Draining);
    assert_eq!((count(&member), member.fixture.answered), (0, 1));
    assert_eq!(member.fixture.replica.last_zxid(), before);
    let again = returns(&mut member, session);
    assert_eq!(member.said(), [Packet::Revalidate { session, timeout_ms: TIMEOUT_MS }], "it is gone here");
    member.hear_leader(Packet::Revalidated { session, valid: false });
    assert_eq!(member.fixture.greeting(again).unwrap().session_id, 0);
}

#[test]
fn its_writes_are_the_leaders_business_as_any() {
    let (mut member, connection, session) = learner_and_local(WithUpgrade);
    member.fixture.send_as(connection, 1, &set("/a", "1"));
    member.fixture.send_as(connection, 2, &sync("/a"));
    member.fixture.send_as(connection, 3, &create("/p", "", PERSISTENT));
    let asked = requests(&mut member);
    assert_eq!(asked.iter().map(|(cxid, _)| *cxid).collect::<Vec<_>>(), [1, 2, 3], "nothing else is asked");
    let data_set = SetDataTxn { path: "/a".into(), data: Some((*b"1").into()), version: 1 };
    member.deliver(session, 1, Txn::SetData(data_set));
    member.script().committed = member.fixture.replica.last_zxid();
    member.hear_leader(Packet::Sync);
    member.deliver(session, 3, Txn::Create(created("/p", "")));
    assert_eq!(member.fixture.xids(connection), [1, 2, 3]);
    assert_eq!(count(&member), 1);
}

#[test]
fn a_farewell_waits_for_the_answers_before_it() {
    let (mut member, connection, session) = learner_and_local(WithUpgrade);
    member.fixture.send_as(connection, 1, &create("/p", "", PERSISTENT));
    member.fixture.send_as(connection, 2, &close_session());
    assert!(member.fixture.received(connection).is_empty());
    member.deliver(session, 1, Txn::Create(created("/p", "")));
    assert_eq!(member.fixture.xids(connection), [1, 2]);
    assert_eq!((member.fixture.submitted, member.fixture.answered), (2, 2));
    assert!(member.fixture.connection(connection).is_drained());
}

#[test]
fn it_expires_here_without_a_word() {
    let (mut member, connection, session) = learner_and_local(WithUpgrade);
    let (idle, _) = local_client(&mut member);
    member.pass(i64::from(TIMEOUT_MS) - TICK_MS);
    member.fixture.send_as(connection, -2, &ping());
    assert_eq!(member.fixture.xids(connection), [-2]);
    member.pass(2 * TICK_MS);
    assert_eq!(member.fixture.phase(idle), ConnectionPhase::Closed(DisconnectReason::SessionEnded));
    assert_eq!((member.fixture.phase(connection), count(&member)), (ConnectionPhase::Serving, 1));
    member.fixture.disconnect(connection);
    assert!(member.fixture.node.next_deadline() < i64::MAX);
    member.pass(i64::from(TIMEOUT_MS) + TICK_MS);
    assert_eq!((count(&member), member.said()), (0, NOTHING.to_vec()));
    returns(&mut member, session);
    assert_eq!(member.said(), [Packet::Revalidate { session, timeout_ms: TIMEOUT_MS }]);
}

#[test]
fn who_waits_for_the_ensemble_is_not_silent() {
    let (mut member, connection, session) = learner_and_local(WithUpgrade);
    member.fixture.send_as(connection, 1, &set("/none", ""));
    member.pass(3 * i64::from(TIMEOUT_MS));
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Serving);
    member.deliver(session, 1, Txn::error(ErrorCode::NoNode));
    assert_eq!(member.fixture.xids(connection), [1]);
}

#[test]
fn a_client_comes_back_to_it_without_the_leader() {
    let (mut member, first, session) = learner_and_local(WithUpgrade);
    let second = returns(&mut member, session);
    assert_eq!(member.fixture.phase(first), ConnectionPhase::Closed(DisconnectReason::Replaced));
    assert_eq!(member.fixture.greeting(second).unwrap().session_id, session.0);
    member.fixture.disconnect(first);
    member.fixture.disconnect(second);
    member.pass(i64::from(TIMEOUT_MS) - 1);
    let third = returns(&mut member, session);
    assert_eq!(member.fixture.greeting(third).unwrap().session_id, session.0);
    let guess = member.fixture.open();
    let request = ConnectRequest { session_id: session.0, password: Some([7; 16].into()), ..hello(9000) };
    member.fixture.connect(guess, request);
    assert_eq!(member.fixture.greeting(guess).unwrap().session_id, 0);
    assert_eq!((member.fixture.phase(third), member.said()), (ConnectionPhase::Serving, NOTHING.to_vec()));
}

#[test]
fn a_client_that_comes_back_waits_for_what_it_asked_for_before() {
    let (mut member, first, session) = learner_and_local(WithUpgrade);
    member.fixture.send_as(first, 1, &create("/b", "", PERSISTENT));
    member.fixture.send_as(first, 2, &create("/c", "", PERSISTENT));
    let late = member.fixture.receive(first, &create("/d", "", EPHEMERAL).frame(3));
    let second = returns(&mut member, session);
    let third = returns(&mut member, session);
    assert_eq!(member.fixture.phase(second), ConnectionPhase::Closed(DisconnectReason::Replaced));
    member.said();
    member.fixture.submit(late);
    assert_eq!((member.said(), count(&member)), (NOTHING.to_vec(), 1), "the former connection is deaf");
    member.deliver(session, 1, Txn::Create(created("/b", "")));
    assert_eq!(member.fixture.greeting(third), None);
    member.deliver(session, 2, Txn::Create(created("/c", "")));
    assert_eq!(member.fixture.greeting(third).unwrap().session_id, session.0);
    assert_eq!((member.fixture.submitted, member.fixture.answered), (3, 3));
}

#[test]
fn a_session_that_expires_while_its_client_waits_to_come_back_is_refused() {
    let (mut member, first, session) = learner_and_local(WithUpgrade);
    member.fixture.send_as(first, 1, &create("/b", "", PERSISTENT));
    let second = returns(&mut member, session);
    member.pass(i64::from(TIMEOUT_MS) + TICK_MS);
    assert_eq!(count(&member), 0);
    member.deliver(session, 1, Txn::Create(created("/b", "")));
    assert_eq!(member.fixture.phase(second), ConnectionPhase::Closed(DisconnectReason::SessionEnded));
}

/// A create with the flags of an ephemeral node under another operation code.
fn with_code(code: OpCode, op: CreateOp) -> Ask {
    let request = CreateRequest { ttl_ms: -1, ..create_request(op, "/e", "", EPHEMERAL) };
    ask(code, |out| request.encode(out))
}

/// Every request for an ephemeral node, whatever its operation code.
fn ephemeral_requests() -> Vec<Ask> {
    vec![
        create("/e", "", EPHEMERAL),
        create2("/e", "", EPHEMERAL | SEQUENTIAL),
        with_code(OpCode::CreateContainer, CreateOp::Container),
        multi(&[multi_check("/a", 0), multi_create(CreateOp::Create, "/e", EPHEMERAL)]),
        multi(&[multi_create(CreateOp::Create2, "/e", EPHEMERAL), multi_check("/a", 0)]),
    ]
}

#[test]
fn the_first_ephemeral_node_makes_it_global() {
    for request in ephemeral_requests() {
        let (mut member, connection, session) = learner_and_local(WithUpgrade);
        member.fixture.send_as(connection, 7, &request);
        let said = member.said();
        let [Packet::Request { session: upgraded, cxid: 0, op, payload, auth: None }, second] = &said[..]
        else {
            panic!("a session and the request, found {said:?}");
        };
        assert_eq!((*upgraded, *op), (session, OpCode::CreateSession.wire()));
        assert_eq!(payload[..], TIMEOUT_MS.to_be_bytes());
        assert!(matches!(second, Packet::Request { cxid: 7, op, .. } if *op == request.op), "{second:?}");
        assert_eq!(count(&member), 0);
        assert_eq!(touched(&mut member), [session], "from now on the leader has to hear of it");
        member.deliver(session, 0, GLOBAL);
        assert!(member.fixture.received(connection).is_empty(), "nobody asked for a session");
        member.deliver(session, 7, Txn::error(ErrorCode::NoNode));
        assert_eq!(member.fixture.xids(connection), [7]);
        assert_eq!(member.fixture.phase(connection), ConnectionPhase::Serving);
    }
}

#[test]
fn what_is_no_ephemeral_node_leaves_it_local() {
    let (mut member, connection, _) = learner_and_local(WithUpgrade);
    let asks = [
        create("/p", "", PERSISTENT),
        create2("/p", "", SEQUENTIAL),
        crate::client::create_container("/c"),
        crate::client::create_ttl("/t", 1000),
        with_code(OpCode::CreateTtl, CreateOp::Ttl),
        create("/p", "", 9),
        multi(&[multi_create(CreateOp::Create, "/p", PERSISTENT), multi_check("/a", 0)]),
    ];
    for (xid, request) in (1..).zip(&asks) {
        member.fixture.send_as(connection, xid, request);
    }
    assert_eq!(requests(&mut member).len(), asks.len());
    assert_eq!(count(&member), 1);
}

#[test]
fn requests_behind_the_upgrade_keep_their_order() {
    let (mut member, connection, session) = learner_and_local(WithUpgrade);
    member.fixture.send_as(connection, 1, &set("/none", ""));
    member.fixture.send_as(connection, 2, &create("/e", "", EPHEMERAL));
    member.fixture.send_as(connection, 3, &get("/e"));
    member.fixture.send_as(connection, 4, &create("/f", "", EPHEMERAL));
    member.fixture.send_as(connection, 5, &close_session());
    let asked: Vec<i32> = requests(&mut member).into_iter().map(|(cxid, _)| cxid).collect();
    assert_eq!(asked, [1, 0, 2, 4, 5], "it is made global once, and ends as a global one");
    member.deliver(session, 1, Txn::error(ErrorCode::NoNode));
    assert_eq!(member.fixture.xids(connection), [1]);
    member.deliver(session, 0, GLOBAL);
    assert!(member.fixture.received(connection).is_empty());
    member.deliver(session, 2, ephemeral("/e"));
    let replies = member.fixture.replies(connection);
    assert_eq!((replies[0].path(), replies[1].data()), ("/e".into(), String::new()));
    member.deliver(session, 4, ephemeral("/f"));
    member.deliver(session, 5, Txn::CloseSession(Some(vec!["/e".into(), "/f".into()])));
    assert_eq!(member.fixture.xids(connection), [4, 5]);
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Draining);
    assert_eq!((member.fixture.submitted, member.fixture.answered), (4, 4));
    assert_eq!(member.fixture.replica.tree().ephemerals_count(), 0);
}

#[test]
fn a_connection_lost_during_the_upgrade_leaves_a_global_session() {
    let (mut member, connection, session) = learner_and_local(WithUpgrade);
    member.fixture.send_as(connection, 1, &create("/e", "", EPHEMERAL));
    assert_eq!(requests(&mut member).len(), 2);
    member.fixture.disconnect(connection);
    let again = returns(&mut member, session);
    assert_eq!(
        member.said(),
        [Packet::Revalidate { session, timeout_ms: TIMEOUT_MS }],
        "the leader knows it"
    );
    // An Apache leader answers at once; what it speaks of has not come yet.
    member.hear_leader(Packet::Revalidated { session, valid: true });
    assert_eq!(member.fixture.greeting(again), None);
    member.deliver(session, 0, GLOBAL);
    assert_eq!(member.fixture.greeting(again).unwrap().session_id, session.0);
    member.deliver(session, 1, ephemeral("/e"));
    assert_eq!(member.fixture.replica.tree().ephemerals_of(session), ["/e".into()]);
    assert_eq!(touched(&mut member), [session]);
}

#[test]
fn a_session_that_could_not_be_made_global_ends() {
    let (mut member, connection, session) = learner_and_local(WithUpgrade);
    member.fixture.send_as(connection, 1, &create("/e", "", EPHEMERAL));
    member.deliver(session, 0, Txn::error(ErrorCode::SessionExpired));
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::SessionEnded));
    member.deliver(session, 1, Txn::error(ErrorCode::SessionExpired));
    assert_eq!((member.fixture.submitted, member.fixture.answered), (1, 1));
}

#[test]
fn the_leader_lost_during_the_upgrade_ends_everything() {
    let (mut member, connection, session) = learner_and_local(WithUpgrade);
    let (idle, other) = local_client(&mut member);
    member.fixture.send_as(connection, 1, &create("/e", "", EPHEMERAL));
    member.said();
    member.want([Action::StopServing]);
    for connection in [connection, idle] {
        assert_eq!(member.fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::NotServing));
    }
    assert_eq!((member.fixture.node.local_session_report(), member.fixture.answered), (None, 1));
    member.fixture.disconnect(connection);
    member.fixture.disconnect(idle);
    member.follow();
    for session in [session, other] {
        returns(&mut member, session);
        assert_eq!(member.said(), [Packet::Revalidate { session, timeout_ms: TIMEOUT_MS }]);
    }
    assert_eq!(count(&member), 0, "local sessions end with the role");
}

#[test]
fn without_upgrade_an_ephemeral_node_is_refused_here() {
    for request in ephemeral_requests().into_iter().filter(|request| request.op != OpCode::Multi.wire()) {
        let (mut member, connection, _) = learner_and_local(WithoutUpgrade);
        member.fixture.send_as(connection, 1, &set("/none", ""));
        member.fixture.send_as(connection, 2, &request);
        assert_eq!(requests(&mut member), [(1, OpCode::SetData.wire())]);
        assert!(member.fixture.received(connection).is_empty(), "in its turn");
        let session = member.fixture.session(connection);
        member.deliver(session, 1, Txn::error(ErrorCode::NoNode));
        let replies = member.fixture.replies(connection);
        assert_eq!(replies[1].error, Some(ErrorCode::EphemeralOnLocalSession));
        assert_eq!((count(&member), member.fixture.answered), (1, 2));
    }
}

#[test]
fn without_upgrade_a_multi_is_told_why_the_leader_refuses_it() {
    let (mut member, connection, session) = learner_and_local(WithoutUpgrade);
    let ops = [multi_create(CreateOp::Create, "/p", 0), multi_create(CreateOp::Create, "/e", EPHEMERAL)];
    let part = |code| SubTxn(Txn::Error(code));
    for (xid, first, second) in
        [(1, 0, ErrorCode::SessionExpired.wire()), (2, -110, ErrorCode::RuntimeInconsistency.wire())]
    {
        member.fixture.send_as(connection, xid, &multi(&ops));
        assert_eq!(requests(&mut member), [(xid, OpCode::Multi.wire())], "the session stays what it is");
        member.deliver(session, xid, Txn::Multi(vec![part(first), part(second)]));
    }
    let replies = member.fixture.replies(connection);
    assert_eq!(part_errors(&replies[0]), [None, Some(ErrorCode::EphemeralOnLocalSession)]);
    assert_eq!(
        part_errors(&replies[1]),
        [Some(ErrorCode::NodeExists), Some(ErrorCode::RuntimeInconsistency)]
    );
}

#[test]
fn without_local_sessions_there_are_none_to_report() {
    let mut member = Member::learner();
    let connection = member.fixture.open();
    member.fixture.connect(connection, hello(TIMEOUT_MS));
    assert_eq!(requests(&mut member), [CREATE_SESSION]);
    assert_eq!(member.fixture.node.local_session_report(), None);
    assert_eq!(member.fixture.node.next_deadline(), i64::MAX);
}
