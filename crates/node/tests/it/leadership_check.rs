//! A leader whose followers may have elected another: it confirms no session before a quorum has answered a
//! ping.

use zebu_node::{ConnectionId, ConnectionPhase, DisconnectReason};
use zebu_proto::client::ConnectRequest;
use zebu_proto::quorum::Packet;
use zebu_proto::{Jute, OpCode, SessionId};
use zebu_zab::Action;

use crate::client::{Ask, create, get, hello, set, sync};
use crate::scripted_peer::{LINK, Member, OTHER_LINK, zxid};

const AWAY: SessionId = SessionId(0x0200_0000_0000_0007);
const TIMEOUT_MS: i32 = 6000;

fn request(session: SessionId, cxid: i32, ask: &Ask) -> Packet {
    Packet::Request { session, cxid, op: ask.op, payload: ask.body.clone().into(), auth: None }
}

fn hello_of(session: SessionId) -> ConnectRequest {
    let password = zebu_proto::password::session_password(session);
    ConnectRequest { session_id: session.0, password: Some(password.into()), ..hello(TIMEOUT_MS) }
}

/// A leader with a client of its own and one at a learner. Its followers answer pings by hand.
fn leader_with_clients() -> (Member, ConnectionId) {
    let mut leader = Member::leader();
    let mut payload = Vec::new();
    TIMEOUT_MS.encode(&mut payload);
    let (op, payload) = (OpCode::CreateSession.wire(), payload.into());
    leader.hear_learner(LINK, Packet::Request { session: AWAY, cxid: 0, op, payload, auth: None });
    let connection = leader.fixture.open();
    leader.fixture.connect(connection, hello(TIMEOUT_MS));
    leader.decide_all();
    assert!(leader.fixture.greeting(connection).is_some());
    leader.script().answered = Some(0);
    (leader, connection)
}

/// A quorum answers the last ping.
fn answered(leader: &mut Member, ping: u64) {
    leader.script().answered = Some(ping);
    leader.want([]);
}

fn xids(leader: &mut Member, connection: ConnectionId) -> Vec<i32> {
    leader.fixture.replies(connection).iter().map(|reply| reply.xid).collect()
}

/// The process may have been suspended: its clock shows no time since the last answer of a quorum.
#[test]
fn a_leader_that_stood_still_asks_first() {
    let (mut leader, connection) = leader_with_clients();
    leader.fixture.send_as(connection, 1, &sync("/"));
    leader.hear_learner(LINK, request(AWAY, 1, &sync("/")));
    assert!(xids(&mut leader, connection).is_empty() && leader.answers().is_empty());
    answered(&mut leader, 1);
    assert_eq!(xids(&mut leader, connection), [1]);
    assert!(leader.answers().is_empty(), "the other one came later");
    answered(&mut leader, 2);
    assert_eq!(leader.answers(), [(LINK, zxid(2), Packet::Sync)]);
}

#[test]
fn what_a_client_sends_behind_a_held_sync_comes_behind_it() {
    let (mut leader, connection) = leader_with_clients();
    let other = leader.fixture.open();
    leader.fixture.connect(other, hello(TIMEOUT_MS));
    leader.decide_all();
    leader.fixture.greeting(other);
    leader.fixture.send_as(connection, 1, &create("/a", "before", 0));
    leader.fixture.send_as(connection, 2, &sync("/"));
    leader.fixture.send_as(connection, 3, &get("/a"));
    leader.fixture.send_as(connection, 4, &set("/a", "after"));
    leader.fixture.send_as(other, 1, &create("/b", "", 0));
    assert_eq!(leader.decide_all().len(), 2, "the first of the one, and all of the other");
    assert_eq!(xids(&mut leader, connection), [1]);
    answered(&mut leader, 1);
    assert_eq!(leader.decide_all().len(), 1);
    let replies = leader.fixture.replies(connection);
    assert_eq!(replies.iter().map(|reply| reply.xid).collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(replies[1].data(), "before");
    assert_eq!(leader.fixture.submitted, leader.fixture.answered);
}

#[test]
fn what_a_learner_sends_behind_a_held_sync_comes_behind_it() {
    let (mut leader, _) = leader_with_clients();
    leader.hear_learner(LINK, request(AWAY, 1, &sync("/")));
    leader.hear_learner(LINK, request(AWAY, 2, &create("/a", "", 0)));
    assert!(leader.proposed().is_empty());
    leader.hear_learner(OTHER_LINK, request(SessionId(5), 1, &create("/b", "", 0)));
    assert_eq!(leader.proposed().len(), 1, "another learner need not wait");
    leader.hear_learner(LINK, request(SessionId(6), 1, &create("/c", "", 0)));
    assert_eq!(leader.proposed().len(), 1, "nor another client of the same learner");
    leader.hear_learner(LINK, request(SessionId(6), 2, &sync("/")));
    leader.hear_learner(LINK, request(SessionId(6), 3, &create("/d", "", 0)));
    answered(&mut leader, 1);
    assert_eq!(leader.answers(), [(LINK, zxid(4), Packet::Sync)], "in front of the write");
    assert_eq!(leader.proposed().len(), 1);
    answered(&mut leader, 2);
    assert_eq!((leader.answers().len(), leader.proposed().len()), (1, 1));
}

/// The client's lease begins when it sends the request.
#[test]
fn that_a_session_lives_is_said_only_if_a_quorum_is_there_now() {
    let (mut leader, _) = leader_with_clients();
    let connection = leader.fixture.open();
    leader.fixture.connect(connection, hello_of(AWAY));
    leader.hear_learner(OTHER_LINK, Packet::Revalidate { session: AWAY, timeout_ms: TIMEOUT_MS });
    let gone = SessionId(77);
    leader.hear_learner(OTHER_LINK, Packet::Revalidate { session: gone, timeout_ms: TIMEOUT_MS });
    assert!(leader.fixture.greeting(connection).is_none());
    answered(&mut leader, 1);
    assert!(leader.fixture.greeting(connection).is_some_and(|greeting| greeting.session_id == AWAY.0));
    answered(&mut leader, 3);
    let said = |session, valid| (OTHER_LINK, zxid(2), Packet::Revalidated { session, valid });
    assert_eq!(leader.answers(), [said(AWAY, true), said(gone, false)]);
    assert_eq!(
        leader.fixture.phase(connection),
        ConnectionPhase::Closed(DisconnectReason::Replaced),
        "it went on elsewhere"
    );
}

#[test]
fn a_session_does_not_expire_while_its_client_waits_for_a_quorum() {
    let (mut leader, _) = leader_with_clients();
    leader.pass(i64::from(TIMEOUT_MS) - 1);
    leader.hear_learner(OTHER_LINK, Packet::Revalidate { session: AWAY, timeout_ms: TIMEOUT_MS });
    leader.pass(i64::from(TIMEOUT_MS) - 1);
    let expired = leader.decide_all();
    assert!(expired.iter().all(|entry| entry.header.session != AWAY), "{expired:?}");
}

#[test]
fn a_client_that_leaves_while_it_waits_gets_nothing() {
    let (mut leader, _) = leader_with_clients();
    let connection = leader.fixture.open();
    leader.fixture.connect(connection, hello_of(AWAY));
    leader.fixture.disconnect(connection);
    answered(&mut leader, 1);
    leader.pass(i64::from(TIMEOUT_MS) + 4000);
    assert!(leader.decide_all().iter().any(|entry| entry.header.session == AWAY), "its session expires");
}

#[test]
fn who_waits_when_the_role_ends_is_sent_elsewhere() {
    let (mut leader, connection) = leader_with_clients();
    let comes = leader.fixture.open();
    leader.fixture.connect(comes, hello_of(AWAY));
    leader.fixture.send_as(connection, 1, &sync("/"));
    leader.fixture.send_as(connection, 2, &create("/a", "", 0));
    leader.hear_learner(LINK, request(AWAY, 1, &sync("/")));
    leader.want([Action::LearnerLost { link: LINK }, Action::StopServing]);
    for connection in [connection, comes] {
        assert_eq!(leader.fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::NotServing));
    }
    assert_eq!(leader.fixture.submitted, leader.fixture.answered);
    assert!(leader.answers().is_empty() && leader.proposed().is_empty());
}

#[test]
fn what_a_lost_learner_has_asked_is_forgotten() {
    let (mut leader, _) = leader_with_clients();
    leader.hear_learner(LINK, request(AWAY, 1, &sync("/")));
    leader.hear_learner(LINK, request(AWAY, 2, &create("/a", "", 0)));
    leader.hear_learner(LINK, Packet::Revalidate { session: AWAY, timeout_ms: TIMEOUT_MS });
    leader.want([Action::LearnerLost { link: LINK }]);
    answered(&mut leader, 9);
    assert!(leader.answers().is_empty() && leader.proposed().is_empty());
}

#[test]
fn a_leader_that_hands_over_does_not_let_anybody_wait() {
    let (mut leader, connection) = leader_with_clients();
    leader.fixture.send_as(connection, 1, &sync("/"));
    leader.hear_learner(LINK, request(AWAY, 1, &sync("/")));
    leader.script().is_exhausted = true;
    leader.want([]);
    assert_eq!(leader.fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::NotServing));
    assert!(leader.answers().is_empty());
    assert_eq!(leader.fixture.submitted, leader.fixture.answered);
}
