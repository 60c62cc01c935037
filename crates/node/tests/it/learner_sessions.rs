//! Sessions of a learner's clients: the packets to and from the leader.

use zebu_node::{ConnectionId, ConnectionPhase, DisconnectReason};
use zebu_proto::client::ConnectRequest;
use zebu_proto::quorum::{Packet, Touch};
use zebu_proto::txn::{Txn, TxnHeader};
use zebu_proto::{ErrorCode, ServerId, SessionId, Zxid};
use zebu_tree::{Policy, Tree};
use zebu_zab::{Action, ServingRole};

use crate::client::{get, hello, ping, set, set_watches};
use crate::learner::{client, created, learner_and_client};
use crate::node_fixture::{START_MS, TICK_MS, settings, tree_options};
use crate::scripted_peer::{EPOCH, Member, zxid};

const ELSEWHERE: SessionId = SessionId(0x0300_0000_0000_0001);

fn hello_of(session: SessionId) -> ConnectRequest {
    let password = zebu_proto::password::session_password(session);
    ConnectRequest { session_id: session.0, password: Some(password.into()), ..hello(30_000) }
}

fn returns(member: &mut Member, session: SessionId) -> ConnectionId {
    let connection = member.fixture.open();
    member.fixture.connect(connection, hello_of(session));
    connection
}

fn revalidate(session: SessionId) -> Packet {
    Packet::Revalidate { session, timeout_ms: 30_000 }
}

fn touched(member: &mut Member) -> Vec<SessionId> {
    member.hear_leader(Packet::Ping { zxid: zxid(9) });
    let Some(Packet::PingReply { zxid: copied, touched, room: None }) = member.said().pop() else {
        panic!("a reply")
    };
    assert_eq!(copied, zxid(9));
    assert!(touched.iter().all(|Touch { timeout_ms, .. }| *timeout_ms == 30_000));
    touched.into_iter().map(|touch| touch.session).collect()
}

/// All clients are looked at when so much time has passed: 1/128 of a tick.
const LOOK_MS: i64 = TICK_MS / 128 + 1;

#[test]
fn the_leader_is_asked_about_a_session_that_comes_over() {
    let (mut member, _, _) = learner_and_client();
    member.deliver(ELSEWHERE, 0, Txn::CreateSession { timeout_ms: 5000 });
    let connection = returns(&mut member, ELSEWHERE);
    assert_eq!(member.said(), [revalidate(ELSEWHERE)]);
    assert_eq!(member.fixture.greeting(connection), None);
    member.hear_leader(Packet::Revalidated { session: ELSEWHERE, valid: true });
    let greeting = member.fixture.greeting(connection).unwrap();
    assert_eq!((greeting.session_id, greeting.timeout_ms), (ELSEWHERE.0, 30_000));
    member.fixture.send_as(connection, 1, &get("/a"));
    member.fixture.send_as(connection, 2, &set("/a", ""));
    assert_eq!(member.fixture.xids(connection), [1]);
    assert!(matches!(member.said()[..], [Packet::Request { session: ELSEWHERE, .. }]));
}

#[test]
fn who_does_not_know_the_password_is_refused_here() {
    let (mut member, first, session) = learner_and_client();
    let connection = member.fixture.open();
    let guess = ConnectRequest { password: Some([7; 16].into()), ..hello_of(session) };
    member.fixture.connect(connection, guess);
    assert_eq!(member.fixture.greeting(connection).unwrap().session_id, 0);
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Draining);
    assert!(member.said().is_empty());
    assert_eq!(member.fixture.phase(first), ConnectionPhase::Serving);
}

#[test]
fn a_session_that_the_leader_does_not_know_is_refused() {
    let (mut member, _, _) = learner_and_client();
    let connection = returns(&mut member, ELSEWHERE);
    member.hear_leader(Packet::Revalidated { session: ELSEWHERE, valid: false });
    assert_eq!(member.fixture.greeting(connection).unwrap().session_id, 0);
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Draining);
    member.hear_leader(Packet::Revalidated { session: ELSEWHERE, valid: true });
}

#[test]
fn a_client_that_comes_back_waits_until_its_former_writes_are_applied() {
    let (mut member, first, session) = learner_and_client();
    member.fixture.send_as(first, 1, &set("/a", "1"));
    let second = returns(&mut member, session);
    assert_eq!(member.fixture.phase(first), ConnectionPhase::Closed(DisconnectReason::Replaced));
    let delivery = member.transaction(session, 1, Txn::Create(created("/late", "")));
    member.script().committed = zxid(3);
    member.hear_leader(Packet::Revalidated { session, valid: true });
    assert_eq!(member.fixture.greeting(second), None);
    member.want([delivery]);
    member.apply();
    assert!(member.fixture.greeting(second).is_some());
    assert_eq!(member.fixture.replica.last_zxid(), zxid(3));
}

#[test]
fn what_the_former_connection_still_sends_is_dropped() {
    let (mut member, first, session) = learner_and_client();
    let late = [5, 6].map(|xid| member.fixture.receive(first, &set("/a", "late").frame(xid)));
    let second = returns(&mut member, session);
    member.said();
    let [late, later] = late;
    member.fixture.submit(late);
    assert!(member.said().is_empty());
    assert_eq!(member.fixture.answered, 1);
    member.hear_leader(Packet::Revalidated { session, valid: true });
    assert!(member.fixture.greeting(second).is_some());
    member.fixture.submit(later);
    assert!(member.said().is_empty());
    assert_eq!(member.fixture.answered, 2);
    member.fixture.disconnect(first);
    member.fixture.send_as(second, 1, &set("/a", ""));
    assert_eq!(member.said().len(), 1, "the former connection's end does not concern the present one");
}

#[test]
fn a_session_that_ended_after_the_leaders_word_is_refused() {
    let (mut member, _, session) = learner_and_client();
    let connection = returns(&mut member, session);
    let delivery = member.transaction(session, 0, Txn::CloseSession(Some(vec![])));
    member.script().committed = zxid(3);
    member.hear_leader(Packet::Revalidated { session, valid: true });
    member.want([delivery]);
    member.apply();
    assert_eq!(member.fixture.greeting(connection).unwrap().session_id, 0);
}

#[test]
fn two_connections_for_one_session_are_answered_in_the_order_of_their_questions() {
    let (mut member, _, session) = learner_and_client();
    let (second, third) = (returns(&mut member, session), returns(&mut member, session));
    member.hear_leader(Packet::Revalidated { session, valid: true });
    assert!(member.fixture.greeting(second).is_some());
    member.hear_leader(Packet::Revalidated { session, valid: true });
    assert!(member.fixture.greeting(third).is_some());
    assert_eq!(member.fixture.phase(second), ConnectionPhase::Closed(DisconnectReason::Replaced));
    assert_eq!(member.fixture.phase(third), ConnectionPhase::Serving);
}

#[test]
fn a_client_that_has_seen_more_goes_elsewhere() {
    let (mut member, _, session) = learner_and_client();
    for request in [hello(30_000), hello_of(session)] {
        let connection = member.fixture.open();
        member.fixture.connect(connection, ConnectRequest { last_zxid_seen: zxid(99).0, ..request });
        assert_eq!(
            member.fixture.phase(connection),
            ConnectionPhase::Closed(DisconnectReason::AheadOfServer)
        );
    }
    assert!(member.said().is_empty());
}

/// A read-only server showed its log, which the next leader does not have. No write has happened since.
#[test]
fn a_client_that_has_seen_an_earlier_epoch_is_accepted_before_the_first_write() {
    let leader = ServerId(3);
    let epoch = EPOCH + 1;
    for serving in [
        ServingRole::Leading { epoch },
        ServingRole::Following { leader, epoch },
        ServingRole::Observing { leader, epoch },
    ] {
        let mut member = Member::new();
        member.script().last = Zxid::new(epoch, 0);
        member.want([Action::Serve(serving)]);
        assert_eq!(member.fixture.replica.last_zxid(), Zxid::ZERO);
        let refused = ConnectionPhase::Closed(DisconnectReason::AheadOfServer);
        for (seen, phase) in [
            (zxid(1), ConnectionPhase::Handshake),
            (Zxid::new(epoch, 0), ConnectionPhase::Handshake),
            (Zxid::new(epoch, 1), refused),
            (Zxid::new(epoch + 1, 0), refused),
        ] {
            let connection = member.fixture.open();
            member.fixture.connect(connection, ConnectRequest { last_zxid_seen: seen.0, ..hello(30_000) });
            assert_eq!(member.fixture.phase(connection), phase, "{serving:?} {seen}");
        }
    }
}

#[test]
fn the_leader_hears_of_every_session_that_spoke_since_the_last_ping() {
    let (mut member, connection, session) = learner_and_client();
    let other = client(&mut member);
    let other_session = member.fixture.session(other);
    assert_eq!(touched(&mut member), [session, other_session], "each once");
    assert_eq!(touched(&mut member), []);
    member.fixture.pass(LOOK_MS);
    member.fixture.send_as(connection, -2, &ping());
    assert_eq!(touched(&mut member), [session]);
    member.fixture.send_as(connection, -2, &ping());
    assert_eq!(touched(&mut member), [], "it was looked at a moment ago");
    member.fixture.pass(LOOK_MS);
    assert_eq!(touched(&mut member), [], "nothing was said in another millisecond");
    member.fixture.send_as(connection, -2, &ping());
    member.fixture.pass(LOOK_MS);
    assert_eq!(touched(&mut member), [session]);
    member.fixture.send_as(other, 1, &get("/a"));
    member.fixture.disconnect(other);
    assert_eq!(touched(&mut member), [other_session], "its last touch too");
    member.fixture.disconnect(connection);
    assert_eq!(touched(&mut member), []);
}

#[test]
fn a_client_that_waits_for_the_ensemble_is_not_silent() {
    let (mut member, connection, session) = learner_and_client();
    member.fixture.send_as(connection, 1, &set("/a", ""));
    for _ in 0..3 {
        member.fixture.pass(LOOK_MS);
        assert_eq!(touched(&mut member), [session]);
    }
    member.fixture.pass(LOOK_MS);
    member.deliver(session, 1, Txn::error(ErrorCode::NoNode));
    assert_eq!(touched(&mut member), []);
}

#[test]
fn every_learner_reports_a_new_session_once() {
    let mut member = Member::learner();
    member.deliver(ELSEWHERE, 0, Txn::CreateSession { timeout_ms: 30_000 });
    assert_eq!(touched(&mut member), [ELSEWHERE]);
    assert_eq!(touched(&mut member), []);
}

#[test]
fn a_client_that_left_before_its_session_was_made_does_not_keep_it() {
    let mut member = Member::learner();
    let connection = member.fixture.open();
    member.fixture.connect(connection, hello(30_000));
    let Some(Packet::Request { session, .. }) = member.said().pop() else { panic!("a request") };
    member.fixture.disconnect(connection);
    member.deliver(session, 0, Txn::CreateSession { timeout_ms: 30_000 });
    assert_eq!(touched(&mut member), [session]);
    assert_eq!(touched(&mut member), []);
}

#[test]
fn a_session_that_was_refused_closes_its_connection() {
    let mut member = Member::learner();
    let connection = member.fixture.open();
    member.fixture.connect(connection, hello(30_000));
    let Some(Packet::Request { session, .. }) = member.said().pop() else { panic!("a request") };
    member.deliver(session, 0, Txn::error(ErrorCode::SessionExpired));
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::NotServing));
}

#[test]
fn watches_are_set_again_after_a_client_came_over() {
    let (mut member, _, _) = learner_and_client();
    member.deliver(ELSEWHERE, 0, Txn::CreateSession { timeout_ms: 30_000 });
    let connection = returns(&mut member, ELSEWHERE);
    member.hear_leader(Packet::Revalidated { session: ELSEWHERE, valid: true });
    member.fixture.greeting(connection);
    member.fixture.send_as(connection, -8, &set_watches(zxid(2).0, &[&["/a"], &["/new"], &[]]));
    assert_eq!(member.fixture.received(connection).len(), 1);
    member.deliver(ELSEWHERE, 5, Txn::Create(created("/new", "")));
    member.deliver(ELSEWHERE, 6, Txn::Delete("/a".into()));
    assert_eq!(member.fixture.received(connection).len(), 2);
}

/// The id of the first session that a member asks its leader for.
fn first_id(member: &mut Member) -> SessionId {
    let connection = member.fixture.open();
    member.fixture.connect(connection, hello(30_000));
    match member.said()[..] {
        [Packet::Request { session, .. }] => session,
        ref said => panic!("{said:?}"),
    }
}

/// The clock went back: a member starts in the same millisecond as before, and even draws the same. What its
/// log knows of its former life is over when its next client comes.
#[test]
fn a_new_session_never_gets_the_id_of_one_that_has_ended() {
    let former = first_id(&mut Member::learner());
    assert_eq!(first_id(&mut Member::learner()), former);
    let mut tree = Tree::new(tree_options());
    let header = TxnHeader { session: former, cxid: 0, zxid: Zxid::new(0, 1), time_ms: START_MS };
    tree.apply(&header, &Txn::CreateSession { timeout_ms: 5000 }, &mut |_| ());

    let mut member = Member::over(tree, settings(), Policy::default());
    member.deliver(former, 0, Txn::CloseSession(None));
    member.follow();
    assert_ne!(first_id(&mut member), former);
}

/// The id by which a learner asks whether moves are recorded. Its password can be computed like any other.
const QUESTION: SessionId = SessionId(0x005A_4542_5500_0001);

#[test]
fn no_client_resumes_the_session_of_a_question() {
    let (mut member, _, _) = learner_and_client();
    let connection = returns(&mut member, QUESTION);
    assert!(member.said().is_empty(), "the leader is not asked");
    assert_eq!(member.fixture.greeting(connection).unwrap().session_id, 0);
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Draining);
}

/// A client of another server may have asked, through an observer master.
#[test]
fn an_answer_that_this_learner_did_not_ask_for_keeps_no_connection() {
    let (mut member, connection, _) = learner_and_client();
    member.hear_leader(Packet::Revalidated { session: QUESTION, valid: true });
    member.fixture.send_as(connection, 1, &set("/a", "1"));
    member.script().goes_on = true;
    member.want([Action::StopServing]);
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::NotServing));
}
