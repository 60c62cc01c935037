//! Requests of a leader's clients and of its learners' clients.

use std::sync::Arc;

use zebu_node::{
    ConnectionId, ConnectionPhase, DisconnectReason, Effect, LeaderClients, NodeSettings, ServeEffect,
};
use zebu_proto::client::{ConnectRequest, SetAclRequest};
use zebu_proto::quorum::{Packet, Touch};
use zebu_proto::txn::{Txn, TxnEntry, TxnHeader};
use zebu_proto::{Acl, ErrorCode, Id, Jute, OpCode, Permissions, SessionId};
use zebu_tree::access::{DigestAlgorithm, digest_id};
use zebu_tree::{Policy, Tree};
use zebu_zab::{Action, LinkId};

use crate::client::{
    Ask, EPHEMERAL, create, create_container, create_with_acl, delete, get, hello, set, sync,
};
use crate::node_fixture::{START_MS, TICK_MS, settings, tree_options};
use crate::scripted_peer::{LINK, Member, OTHER_LINK, zxid};

const AWAY: SessionId = SessionId(0x0200_0000_0000_0007);
const TIMEOUT_MS: i32 = 6000;

fn request(session: SessionId, cxid: i32, ask: &Ask) -> Packet {
    let auth = Some(vec![Id::new("ip", "10.0.0.9")]);
    Packet::Request { session, cxid, op: ask.op, payload: ask.body.clone().into(), auth: auth.map(Arc::from) }
}

fn create_session(session: SessionId) -> Packet {
    let mut payload = Vec::new();
    TIMEOUT_MS.encode(&mut payload);
    let op = OpCode::CreateSession.wire();
    Packet::Request { session, cxid: 0, op, payload: payload.into(), auth: None }
}

/// A leader with a session at a learner.
fn leader_and_session() -> Member {
    let mut leader = Member::leader();
    leader.hear_learner(LINK, create_session(AWAY));
    let entries = leader.decide_all();
    assert_eq!(entries[0].txn, Txn::CreateSession { timeout_ms: TIMEOUT_MS });
    assert_eq!((entries[0].header.session, entries[0].header.cxid), (AWAY, 0));
    leader
}

/// What became of a request of a learner.
fn decided(leader: &mut Member, link: LinkId, session: SessionId, ask: &Ask) -> Txn {
    leader.hear_learner(link, request(session, 4, ask));
    let entry = leader.decide_all().pop().unwrap();
    assert_eq!((entry.header.session, entry.header.cxid), (session, 4));
    entry.txn
}

fn own_client(leader: &mut Member, timeout_ms: i32) -> ConnectionId {
    let connection = leader.fixture.open();
    leader.fixture.connect(connection, hello(timeout_ms));
    leader.decide_all();
    assert!(leader.fixture.greeting(connection).is_some());
    connection
}

fn hello_of(session: SessionId) -> ConnectRequest {
    let password = zebu_proto::password::session_password(session);
    ConnectRequest { session_id: session.0, password: Some(password.into()), ..hello(TIMEOUT_MS) }
}

#[test]
fn a_leader_without_clients_of_its_own_refuses_them_and_serves_its_learners() {
    let settings = NodeSettings { leader_clients: LeaderClients::Refused, ..settings() };
    let mut leader = Member::with(settings, Policy::default());
    leader.lead();
    let connection = leader.fixture.open();
    leader.fixture.connect(connection, hello(TIMEOUT_MS));
    assert_eq!(leader.fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::NotServing));
    leader.hear_learner(LINK, create_session(AWAY));
    assert_eq!(leader.decide_all()[0].txn, Txn::CreateSession { timeout_ms: TIMEOUT_MS });
}

#[test]
fn a_write_of_an_own_client_is_answered_when_it_is_decided() {
    let mut leader = Member::leader();
    let connection = own_client(&mut leader, 30_000);
    leader.fixture.send_as(connection, 1, &create("/a", "1", 0));
    leader.fixture.send_as(connection, 2, &set("/a", "2"));
    leader.fixture.send_as(connection, 3, &get("/a"));
    assert_eq!(leader.fixture.node.in_flight(), 2);
    assert!(leader.fixture.received(connection).is_empty());
    let entries = leader.decide_all();
    assert_eq!(entries.iter().map(|entry| entry.header.zxid).collect::<Vec<_>>(), [zxid(2), zxid(3)]);
    let replies = leader.fixture.replies(connection);
    assert_eq!(
        (replies[0].path(), replies[1].stat().version, replies[2].data()),
        ("/a".into(), 1, "2".into())
    );
    assert_eq!((leader.fixture.submitted, leader.fixture.answered), (2, 2));
    assert_eq!(leader.fixture.node.digest_mismatches(), 0);
}

#[test]
fn a_learners_write_is_decided_like_an_own_one() {
    let mut leader = leader_and_session();
    assert!(matches!(decided(&mut leader, LINK, AWAY, &create("/a", "", EPHEMERAL)), Txn::Create(_)));
    assert_eq!(leader.fixture.replica.tree().ephemerals_of(AWAY), ["/a".into()]);
    let exists = decided(&mut leader, LINK, AWAY, &create("/a", "", 0));
    assert_eq!(
        exists,
        Txn::error(ErrorCode::NodeExists),
        "a refusal is a transaction, for whoever waits there"
    );
    let close = Ask::raw(OpCode::CloseSession.wire(), &[]);
    assert_eq!(decided(&mut leader, LINK, AWAY, &close), Txn::CloseSession(Some(vec!["/a".into()])));
    assert_eq!(decided(&mut leader, LINK, AWAY, &delete("/b")), Txn::error(ErrorCode::SessionExpired));
}

#[test]
fn the_learner_is_believed_who_its_client_is() {
    let mut leader = leader_and_session();
    let me = || Id::new("digest", digest_id("me:pw", DigestAlgorithm::Sha1));
    let acl = vec![Acl::new(Permissions::ALL, "digest", digest_id("me:pw", DigestAlgorithm::Sha1))];
    decided(&mut leader, LINK, AWAY, &create_with_acl("/mine", acl));
    let mut as_id = |id: Option<Id>| {
        let ask = set("/mine", "");
        let auth = id.map(|id| [id].into());
        let packet = Packet::Request { session: AWAY, cxid: 4, op: ask.op, payload: ask.body.into(), auth };
        leader.hear_learner(LINK, packet);
        leader.decide_all().pop().unwrap().txn
    };
    assert_eq!(as_id(Some(Id::new("ip", "10.0.0.9"))), Txn::error(ErrorCode::NoAuth));
    assert_eq!(as_id(None), Txn::error(ErrorCode::NoAuth));
    assert!(matches!(as_id(Some(me())), Txn::SetData(_)));
    assert!(matches!(as_id(Some(Id::new("super", ""))), Txn::SetData(_)));
}

#[test]
fn whatever_a_learner_sends_becomes_a_transaction() {
    let mut leader = leader_and_session();
    for (op, record, error) in [
        (OpCode::Create.wire(), &[0, 0][..], ErrorCode::MarshallingError),
        (OpCode::Multi.wire(), &[1], ErrorCode::MarshallingError),
        (OpCode::SetData.wire(), &[], ErrorCode::MarshallingError),
        (OpCode::CreateSession.wire(), &[1], ErrorCode::MarshallingError),
        (OpCode::GetData.wire(), &[0, 0, 0, 1, b'/', 0], ErrorCode::Unimplemented),
        (OpCode::DeleteContainer.wire(), &[], ErrorCode::Unimplemented),
        (4711, &[], ErrorCode::Unimplemented),
    ] {
        assert_eq!(decided(&mut leader, LINK, AWAY, &Ask::raw(op, record)), Txn::error(error), "{op}");
    }
}

#[test]
fn an_id_is_given_to_one_session() {
    let mut leader = leader_and_session();
    for session in [AWAY, SessionId::NONE, SessionId(i64::MIN)] {
        leader.hear_learner(OTHER_LINK, create_session(session));
        assert_eq!(leader.decide_all()[0].txn, Txn::error(ErrorCode::SessionExpired), "{session}");
    }
    assert_eq!(leader.fixture.replica.tree().sessions().len(), 1);
}

#[test]
fn only_where_a_session_is_it_may_write() {
    let mut leader = leader_and_session();
    let moved = Txn::error(ErrorCode::SessionMoved);
    assert_eq!(decided(&mut leader, OTHER_LINK, AWAY, &create("/a", "", 0)), moved);
    let close = Ask::raw(OpCode::CloseSession.wire(), &[]);
    assert_eq!(decided(&mut leader, OTHER_LINK, AWAY, &close), moved);

    leader.hear_learner(OTHER_LINK, Packet::Revalidate { session: AWAY, timeout_ms: TIMEOUT_MS });
    assert_eq!(leader.answers(), [(OTHER_LINK, zxid(3), Packet::Revalidated { session: AWAY, valid: true })]);
    assert_eq!(decided(&mut leader, LINK, AWAY, &create("/a", "", 0)), moved);
    assert!(matches!(decided(&mut leader, OTHER_LINK, AWAY, &create("/a", "", 0)), Txn::Create(_)));

    // It comes to the leader itself, and goes away again.
    let connection = leader.fixture.open();
    leader.fixture.connect(connection, hello_of(AWAY));
    assert!(leader.fixture.greeting(connection).is_some());
    assert_eq!(decided(&mut leader, OTHER_LINK, AWAY, &create("/b", "", 0)), moved);
    let late = leader.fixture.receive(connection, &create("/c", "", 0).frame(1));
    leader.hear_learner(LINK, Packet::Revalidate { session: AWAY, timeout_ms: TIMEOUT_MS });
    assert_eq!(leader.fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::Replaced));
    leader.fixture.submit(late);
    leader.collect();
    assert!(leader.proposed().is_empty());
    assert_eq!((leader.fixture.submitted, leader.fixture.answered), (1, 1));
    leader.fixture.disconnect(connection);
    assert!(matches!(decided(&mut leader, LINK, AWAY, &create("/b", "", 0)), Txn::Create(_)));
}

/// An observer master sends them for late requests of sessions that have moved.
#[test]
fn writes_of_an_observer_master_for_moved_sessions_fail_whatever_the_acls_are() {
    let mut leader = leader_and_session();
    let mut payload = Vec::new();
    SetAclRequest { path: Some("/".into()), acl: Some(Acl::read_only().into()), version: -1 }
        .encode(&mut payload);
    let closed = decided(&mut leader, LINK, AWAY, &Ask::raw(OpCode::SetAcl.wire(), &payload));
    assert!(matches!(closed, Txn::SetAcl(_)), "{closed:?}");
    let own = decided(&mut leader, LINK, AWAY, &create("/zookeeper", "", 0));
    assert_eq!(own, Txn::error(ErrorCode::NoAuth), "the client itself gets another error");
    for (op, error) in [
        (OpCode::Create, ErrorCode::BadVersion),
        (OpCode::CreateTtl, ErrorCode::BadVersion),
        (OpCode::Multi, ErrorCode::NodeExists),
        (OpCode::CloseSession, ErrorCode::NodeExists),
    ] {
        let digest = leader.fixture.replica.tree().digest();
        leader.hear_learner(LINK, zebu_zab::refused_request(AWAY, 9, op.wire()));
        let entry = leader.decide_all().pop().unwrap();
        assert_eq!((entry.header.session, entry.header.cxid), (AWAY, 9));
        assert_eq!(entry.txn, Txn::error(error), "{op:?}");
        assert_eq!(leader.fixture.replica.tree().digest(), digest, "nothing has changed");
    }
    let close = Ask::raw(OpCode::CloseSession.wire(), &[]);
    assert!(matches!(decided(&mut leader, LINK, AWAY, &close), Txn::CloseSession(_)), "it was still open");
}

#[test]
fn a_session_is_revalidated_behind_everything_that_is_proposed() {
    let mut leader = leader_and_session();
    leader.hear_learner(LINK, request(AWAY, 1, &create("/a", "", 0)));
    leader.hear_learner(OTHER_LINK, Packet::Revalidate { session: AWAY, timeout_ms: TIMEOUT_MS });
    leader.hear_learner(OTHER_LINK, Packet::Revalidate { session: SessionId(5), timeout_ms: TIMEOUT_MS });
    assert_eq!(
        leader.answers(),
        [
            (OTHER_LINK, zxid(2), Packet::Revalidated { session: AWAY, valid: true }),
            (OTHER_LINK, zxid(2), Packet::Revalidated { session: SessionId(5), valid: false }),
        ]
    );
}

#[test]
fn syncs_wait_for_what_is_proposed() {
    let mut leader = leader_and_session();
    let connection = own_client(&mut leader, 30_000);
    leader.fixture.send_as(connection, 1, &sync("/at-once"));
    assert_eq!(leader.fixture.replies(connection)[0].path(), "/at-once");
    leader.hear_learner(LINK, request(AWAY, 1, &create("/a", "", 0)));
    leader.hear_learner(LINK, request(SessionId(99), 7, &sync("/x")));
    assert_eq!(leader.answers(), [(LINK, zxid(3), Packet::Sync)]);
    leader.fixture.send_as(connection, 2, &sync("/y"));
    leader.fixture.send_as(connection, 3, &set("/a", "later"));
    leader.fixture.send_as(connection, 4, &get("/a"));
    assert!(leader.fixture.received(connection).is_empty());
    leader.decide_all();
    let replies = leader.fixture.replies(connection);
    assert_eq!(replies.iter().map(|reply| reply.xid).collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!((replies[0].path(), replies[0].zxid), ("/y".to_owned(), zxid(3).0));
    assert_eq!(leader.fixture.submitted, leader.fixture.answered);
}

fn touch(session: SessionId) -> Packet {
    Packet::PingReply { zxid: zxid(1), touched: vec![Touch { session, timeout_ms: TIMEOUT_MS }], room: None }
}

fn is_there(leader: &Member, session: SessionId) -> bool {
    leader.fixture.replica.tree().sessions().contains_key(&session)
}

#[test]
fn a_session_lives_as_long_as_its_learner_hears_of_it() {
    let mut leader = leader_and_session();
    for _ in 0..10 {
        leader.pass(i64::from(TIMEOUT_MS) - 1);
        leader.hear_learner(LINK, touch(AWAY));
        leader.decide_all();
    }
    assert!(is_there(&leader, AWAY));
    leader.hear_learner(LINK, touch(SessionId(77)));
    leader.pass(i64::from(TIMEOUT_MS) + TICK_MS);
    let entry = leader.decide_all().pop().unwrap();
    assert_eq!((entry.header.session, entry.header.cxid), (AWAY, 0));
    assert_eq!(entry.txn, Txn::CloseSession(Some(vec![])));
    assert!(!is_there(&leader, AWAY));
    leader.hear_learner(LINK, Packet::Revalidate { session: AWAY, timeout_ms: TIMEOUT_MS });
    assert!(matches!(leader.answers()[..], [(_, _, Packet::Revalidated { valid: false, .. })]));
}

/// A leader that did not ping for a while has syncs before it that came ahead of the touches that they
/// follow.
#[test]
fn a_sync_that_is_answered_is_a_touch() {
    let mut leader = leader_and_session();
    leader.pass(i64::from(TIMEOUT_MS) - 1);
    leader.hear_learner(LINK, request(AWAY, 1, &sync("/")));
    assert!(matches!(leader.answers()[..], [(LINK, _, Packet::Sync)]));
    leader.pass(i64::from(TIMEOUT_MS) - 1);
    assert!(leader.decide_all().is_empty() && is_there(&leader, AWAY));
}

/// The next leader may have begun, and gives sessions their timeout from then on: nothing may be said about
/// them here.
#[test]
fn a_leader_that_hands_over_confirms_nothing() {
    let mut leader = leader_and_session();
    let [asks, comes] = [own_client(&mut leader, 30_000), leader.fixture.open()];
    leader.script().is_exhausted = true;
    leader.hear_learner(LINK, request(AWAY, 1, &sync("/")));
    leader.hear_learner(OTHER_LINK, Packet::Revalidate { session: AWAY, timeout_ms: TIMEOUT_MS });
    assert!(leader.answers().is_empty());
    leader.fixture.send_as(asks, 1, &sync("/"));
    leader.fixture.connect(comes, hello_of(AWAY));
    for connection in [asks, comes] {
        assert_eq!(leader.fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::NotServing));
    }
    assert_eq!(leader.fixture.submitted, leader.fixture.answered);
}

#[test]
fn a_session_of_a_lost_learner_lives_for_its_timeout() {
    let mut leader = leader_and_session();
    leader.pass(5000);
    leader.hear_learner(LINK, touch(AWAY));
    leader.pass(4000);
    leader.want([Action::LearnerLost { link: LINK }]);
    leader.pass(1999);
    assert!(leader.decide_all().is_empty());
    leader.pass(TICK_MS + 1);
    assert_eq!(leader.decide_all().len(), 1, "counted from the last touch");
    assert!(!is_there(&leader, AWAY));
}

/// The tree of a new leader has the timeout of the creation only.
#[test]
fn an_idle_session_of_a_learner_keeps_its_negotiated_timeout_at_a_new_leader() {
    let mut tree = Tree::new(tree_options());
    let header = TxnHeader { session: AWAY, cxid: 0, zxid: zxid(0), time_ms: START_MS };
    tree.apply(&header, &Txn::CreateSession { timeout_ms: 4_000 }, &mut |_| ());
    let mut member = Member::over(tree, settings(), Policy::default());
    member.lead();
    let touched = vec![Touch { session: AWAY, timeout_ms: 30_000 }];
    member.hear_learner(LINK, Packet::PingReply { zxid: zxid(1), touched, room: None });
    for _ in 0..10 {
        member.pass(1_000);
    }
    assert!(member.decide_all().is_empty() && is_there(&member, AWAY));
    let connection = member.fixture.open();
    member.fixture.connect(connection, hello_of(AWAY));
    member.decide_all();
    let greeting = member.fixture.greeting(connection).unwrap();
    assert_eq!(greeting.session_id, AWAY.0, "a touch claims nothing");
}

#[test]
fn a_new_leader_gives_every_session_its_full_timeout() {
    let mut tree = Tree::new(tree_options());
    let header = TxnHeader { session: AWAY, cxid: 0, zxid: zxid(0), time_ms: START_MS };
    tree.apply(&header, &Txn::CreateSession { timeout_ms: TIMEOUT_MS }, &mut |_| ());
    let mut member = Member::over(tree, settings(), Policy::default());
    member.pass(60_000);
    assert!(member.proposed().is_empty(), "who does not lead expires nobody");
    member.lead();
    assert_eq!(member.fixture.node.session_report().buckets.len(), 1);
    member.pass(i64::from(TIMEOUT_MS) - TICK_MS);
    assert!(member.proposed().is_empty());
    member.pass(2 * TICK_MS);
    assert_eq!(member.proposed().len(), 1);
}

#[test]
fn ephemeral_nodes_of_nobody_are_removed_by_a_transaction() {
    let mut tree = Tree::new(tree_options());
    let header = TxnHeader { session: AWAY, cxid: 0, zxid: zxid(0), time_ms: START_MS };
    let mut orphan = crate::learner::created("/orphan", "");
    orphan.ephemeral = true;
    tree.apply(&header, &Txn::Create(orphan), &mut |_| ());
    let mut member = Member::over(tree, settings(), Policy::default());
    member.lead();
    let entries: Vec<TxnEntry> = member.decide_all();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].txn, Txn::CloseSession(Some(vec!["/orphan".into()])));
    assert!(member.fixture.replica.tree().node("/orphan").is_none());
}

#[test]
fn containers_are_removed_by_the_leader_only() {
    for leads in [true, false] {
        let mut member =
            Member::with(NodeSettings { session_timeout_ms_max: i32::MAX, ..settings() }, Policy::default());
        member.lead();
        let connection = own_client(&mut member, i32::MAX);
        for ask in [create_container("/c"), create("/c/x", "", 0), delete("/c/x")] {
            member.fixture.send_as(connection, 1, &ask);
            member.decide_all();
        }
        if !leads {
            member.want([Action::StopServing]);
            member.follow();
        }
        member.pass(60_000);
        let deleted = member.proposed().iter().any(|entry| entry.txn == Txn::DeleteContainer("/c".into()));
        assert_eq!(deleted, leads);
    }
}

#[test]
fn when_no_place_is_left_whoever_asks_is_sent_elsewhere() {
    let mut leader = leader_and_session();
    let connection = own_client(&mut leader, 30_000);
    let idle = own_client(&mut leader, 30_000);
    leader.fixture.send_as(connection, 1, &create("/a", "", 0));
    leader.script().is_exhausted = true;
    leader.fixture.send_as(connection, 2, &create("/b", "", 0));
    leader.hear_learner(LINK, request(AWAY, 1, &create("/c", "", 0)));
    let newcomer = leader.fixture.open();
    leader.fixture.connect(newcomer, hello(30_000));
    leader.pass(60_000);
    assert_eq!(leader.decide_all().len(), 1, "what was proposed before is decided");
    for closed in [connection, newcomer] {
        assert_eq!(leader.fixture.phase(closed), ConnectionPhase::Closed(DisconnectReason::NotServing));
    }
    assert_eq!(leader.fixture.phase(idle), ConnectionPhase::Serving);
    assert_eq!((leader.fixture.submitted, leader.fixture.answered), (2, 2));
    assert!(leader.fixture.replica.tree().node("/a").is_some());
}

#[test]
fn orders_begin_with_the_word_to_serve() {
    let mut leader = Member::leader();
    let orders = leader.take_effects();
    assert!(matches!(orders[..], [Effect::Serve(ServeEffect::Serve(_))]), "{orders:?}");
}
