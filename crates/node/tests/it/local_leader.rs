//! Local sessions at a leader: its own, those of its learners, and those of a standalone server, which has
//! none.

use zebu_node::LocalSessionSupport::{Off, WithUpgrade, WithoutUpgrade};
use zebu_node::{
    ConnectionId, ConnectionPhase, DisconnectReason, LocalSessionSupport, NodeSettings, ThrottleSettings,
};
use zebu_proto::client::ConnectRequest;
use zebu_proto::client::create::CreateOp;
use zebu_proto::quorum::{Packet, Touch};
use zebu_proto::txn::Txn;
use zebu_proto::{ErrorCode, Jute, OpCode, SessionId};
use zebu_tree::Policy;
use zebu_zab::Action;

use crate::client::{
    Ask, EPHEMERAL, PERSISTENT, close_session, create, get, hello, multi, multi_create, ping, set, sync,
};
use crate::local_learner::part_errors;
use crate::node_fixture::{NodeFixture, TICK_MS, settings};
use crate::scripted_peer::{LINK, Member, OTHER_LINK};

const TIMEOUT_MS: i32 = 30_000;
/// Ids that were made by a learner, and by the leader itself.
const AWAY: SessionId = SessionId(0x0200_0000_0000_0007);
const MINE: SessionId = SessionId(0x0100_0000_0000_0007);

fn leader(local_sessions: LocalSessionSupport) -> Member {
    let mut member = Member::with(NodeSettings { local_sessions, ..settings() }, Policy::default());
    member.lead();
    member
}

fn leader_and_local(local_sessions: LocalSessionSupport) -> (Member, ConnectionId, SessionId) {
    let mut leader = leader(local_sessions);
    let connection = leader.fixture.open();
    leader.fixture.connect(connection, hello(TIMEOUT_MS));
    let greeting = leader.fixture.greeting(connection).expect("it need not wait for anybody");
    assert!(leader.proposed().is_empty());
    (leader, connection, SessionId(greeting.session_id))
}

fn hello_of(session: SessionId) -> ConnectRequest {
    let password = zebu_proto::password::session_password(session);
    ConnectRequest { session_id: session.0, password: Some(password.into()), ..hello(TIMEOUT_MS) }
}

fn returns(leader: &mut Member, session: SessionId) -> ConnectionId {
    let connection = leader.fixture.open();
    leader.fixture.connect(connection, hello_of(session));
    connection
}

fn request(session: SessionId, cxid: i32, ask: &Ask) -> Packet {
    Packet::Request { session, cxid, op: ask.op, payload: ask.body.clone().into(), auth: None }
}

fn create_session(session: SessionId) -> Packet {
    let mut payload = Vec::new();
    TIMEOUT_MS.encode(&mut payload);
    let op = OpCode::CreateSession.wire();
    Packet::Request { session, cxid: 0, op, payload: payload.into(), auth: None }
}

/// What became of requests of a learner.
fn decided(leader: &mut Member, packets: impl IntoIterator<Item = Packet>) -> Vec<Txn> {
    for packet in packets {
        leader.hear_learner(LINK, packet);
    }
    leader.decide_all().into_iter().map(|entry| entry.txn).collect()
}

fn is_valid(leader: &mut Member, session: SessionId) -> bool {
    leader.hear_learner(OTHER_LINK, Packet::Revalidate { session, timeout_ms: TIMEOUT_MS });
    let Some((_, _, Packet::Revalidated { valid, .. })) = leader.answers().pop() else { panic!("an answer") };
    valid
}

fn counts(leader: &Member) -> (usize, usize) {
    let local = leader.fixture.node.local_session_report().expect("there are local sessions");
    (local.len(), leader.fixture.node.session_report().len())
}

#[test]
fn a_leaders_client_has_a_local_session_without_a_transaction() {
    let (mut leader, connection, session) = leader_and_local(WithUpgrade);
    assert_eq!(counts(&leader), (1, 0));
    leader.fixture.send_as(connection, 1, &create("/p", "", PERSISTENT));
    leader.fixture.send_as(connection, 2, &get("/p"));
    leader.fixture.send_as(connection, 3, &close_session());
    let entries = leader.decide_all();
    assert_eq!(entries.len(), 1, "the farewell is none");
    assert_eq!((entries[0].header.session, entries[0].header.cxid), (session, 1));
    assert_eq!(leader.fixture.xids(connection), [1, 2, 3]);
    assert_eq!((leader.fixture.phase(connection), counts(&leader)), (ConnectionPhase::Draining, (0, 0)));
    let again = returns(&mut leader, session);
    assert_eq!(leader.fixture.greeting(again).unwrap().session_id, 0);
}

#[test]
fn it_expires_without_a_transaction() {
    let (mut leader, connection, session) = leader_and_local(WithUpgrade);
    leader.pass(i64::from(TIMEOUT_MS) - TICK_MS);
    leader.fixture.send_as(connection, -2, &ping());
    leader.pass(i64::from(TIMEOUT_MS) - TICK_MS);
    assert_eq!(leader.fixture.phase(connection), ConnectionPhase::Serving);
    leader.pass(2 * TICK_MS);
    assert_eq!(leader.fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::SessionEnded));
    assert_eq!((counts(&leader), leader.proposed().len()), ((0, 0), 0));
    let again = returns(&mut leader, session);
    assert_eq!(leader.fixture.greeting(again).unwrap().session_id, 0);
}

#[test]
fn it_expires_after_its_connection() {
    let (mut leader, connection, _) = leader_and_local(WithUpgrade);
    let end_ms = leader.fixture.now.monotonic_ms + i64::from(TIMEOUT_MS) + TICK_MS;
    leader.fixture.disconnect(connection);
    assert!(leader.fixture.node.next_deadline() <= end_ms, "somebody has to look");
    leader.pass(i64::from(TIMEOUT_MS) - 1);
    assert_eq!(counts(&leader), (1, 0));
    leader.pass(1 + TICK_MS);
    assert_eq!((counts(&leader), leader.proposed().len()), ((0, 0), 0));
}

#[test]
fn a_client_comes_back_to_it_here_and_nowhere_else() {
    let (mut leader, first, session) = leader_and_local(WithUpgrade);
    assert!(!is_valid(&mut leader, session), "it cannot go to a learner");
    leader.fixture.send_as(first, 1, &create("/p", "", PERSISTENT));
    let second = returns(&mut leader, session);
    assert_eq!(leader.fixture.phase(first), ConnectionPhase::Closed(DisconnectReason::Replaced));
    assert_eq!(leader.fixture.greeting(second), None, "what it asked for has neither happened nor failed");
    leader.decide_all();
    assert_eq!(leader.fixture.greeting(second).unwrap().session_id, session.0);
    leader.fixture.disconnect(first);
    leader.fixture.disconnect(second);
    leader.pass(i64::from(TIMEOUT_MS) - 1);
    let third = returns(&mut leader, session);
    assert_eq!(leader.fixture.greeting(third).unwrap().session_id, session.0);
    let stranger = returns(&mut leader, AWAY);
    assert_eq!(
        leader.fixture.greeting(stranger).unwrap().session_id,
        0,
        "nor can one of a learner come here"
    );
}

#[test]
fn what_the_former_connection_still_sends_is_dropped() {
    let (mut leader, first, session) = leader_and_local(WithUpgrade);
    let late = leader.fixture.receive(first, &create("/e", "", EPHEMERAL).frame(1));
    let second = returns(&mut leader, session);
    assert!(leader.fixture.greeting(second).is_some());
    leader.fixture.submit(late);
    assert_eq!((leader.proposed().len(), counts(&leader)), (0, (1, 0)));
    assert_eq!((leader.fixture.submitted, leader.fixture.answered), (1, 1));
}

#[test]
fn a_connection_that_left_before_its_answer_leaves_a_session_to_expire() {
    let mut leader = leader(WithUpgrade);
    let connection = leader.fixture.open();
    leader.fixture.disconnect(connection);
    leader.fixture.connect(connection, hello(TIMEOUT_MS));
    assert_eq!(counts(&leader), (1, 0));
    leader.pass(i64::from(TIMEOUT_MS) + TICK_MS);
    assert_eq!(counts(&leader), (0, 0));
}

#[test]
fn the_first_ephemeral_node_makes_it_global() {
    let asks = [
        create("/e", "", EPHEMERAL),
        multi(&[multi_create(CreateOp::Create, "/p", 0), multi_create(CreateOp::Create2, "/e", EPHEMERAL)]),
    ];
    for ask in asks {
        let (mut leader, connection, session) = leader_and_local(WithUpgrade);
        leader.fixture.send_as(connection, 1, &create("/first", "", PERSISTENT));
        leader.fixture.send_as(connection, 2, &ask);
        leader.fixture.send_as(connection, 3, &get("/e"));
        leader.fixture.send_as(connection, 4, &create("/f", "", EPHEMERAL));
        assert_eq!(counts(&leader), (0, 1));
        let entries = leader.decide_all();
        assert_eq!(entries[1].txn, Txn::CreateSession { timeout_ms: TIMEOUT_MS });
        let order: Vec<_> = entries.iter().map(|entry| (entry.header.session, entry.header.cxid)).collect();
        assert_eq!(order, [1, 0, 2, 4].map(|cxid| (session, cxid)));
        assert_eq!(leader.fixture.xids(connection), [1, 2, 3, 4]);
        assert_eq!(leader.fixture.replica.tree().ephemerals_of(session), ["/e".into(), "/f".into()]);
        assert!(is_valid(&mut leader, session), "now it can go anywhere");
        assert_eq!(leader.fixture.node.digest_mismatches(), 0);
    }
}

#[test]
fn an_upgraded_session_ends_by_a_transaction() {
    for leaves in ["by farewell", "silently"] {
        let (mut leader, connection, session) = leader_and_local(WithUpgrade);
        leader.fixture.send_as(connection, 1, &create("/e", "", EPHEMERAL));
        if leaves == "by farewell" {
            leader.fixture.send_as(connection, 2, &close_session());
        } else {
            leader.fixture.disconnect(connection);
            leader.decide_all();
            leader.pass(i64::from(TIMEOUT_MS) + TICK_MS);
        }
        let last = leader.decide_all().pop().unwrap();
        assert_eq!(last.txn, Txn::CloseSession(Some(vec!["/e".into()])), "{leaves}");
        assert!(leader.fixture.replica.tree().sessions().is_empty());
        assert!(!is_valid(&mut leader, session));
    }
}

/// The request waits behind a sync, and the disconnect event overtakes both.
#[test]
fn a_session_that_becomes_global_after_its_connection_closed_expires() {
    let (mut leader, connection, session) = leader_and_local(WithUpgrade);
    leader.script().answered = Some(0);
    leader.fixture.send_as(connection, 1, &sync("/"));
    leader.fixture.send_as(connection, 2, &create("/e", "", EPHEMERAL));
    leader.fixture.disconnect(connection);
    assert_eq!(counts(&leader), (1, 0), "the upgrade waits");
    leader.script().answered = Some(1);
    leader.want([]);
    assert_eq!((leader.decide_all().len(), counts(&leader)), (2, (0, 1)));
    leader.pass(i64::from(TIMEOUT_MS) + TICK_MS);
    let closed: Vec<_> =
        leader.decide_all().into_iter().map(|entry| (entry.header.session, entry.txn)).collect();
    assert_eq!(closed, [(session, Txn::CloseSession(Some(vec!["/e".into()])))]);
    assert_eq!(counts(&leader), (0, 0));
}

#[test]
fn without_upgrade_an_ephemeral_node_is_refused() {
    let (mut leader, connection, session) = leader_and_local(WithoutUpgrade);
    leader.fixture.send_as(connection, 1, &create("/e", "", EPHEMERAL));
    leader.fixture.send_as(connection, 2, &create("/none/e", "", EPHEMERAL));
    let ops = [multi_create(CreateOp::Create, "/p", 0), multi_create(CreateOp::Create, "/e", EPHEMERAL)];
    leader.fixture.send_as(connection, 3, &multi(&ops));
    leader.decide_all();
    let replies = leader.fixture.replies(connection);
    for reply in &replies[..2] {
        assert_eq!(reply.error, Some(ErrorCode::EphemeralOnLocalSession));
    }
    assert_eq!(part_errors(&replies[2]), [None, Some(ErrorCode::EphemeralOnLocalSession)]);
    assert_eq!(counts(&leader), (1, 0));
    assert!(leader.fixture.replica.tree().ephemerals_of(session).is_empty());
}

#[test]
fn a_learner_vouches_for_its_local_sessions() {
    let mut leader = leader(WithUpgrade);
    let write = create("/p", "", PERSISTENT);
    assert!(matches!(decided(&mut leader, [request(AWAY, 1, &write)])[..], [Txn::Create(_)]));
    assert_eq!(
        decided(&mut leader, [request(AWAY, 2, &create("/e", "", EPHEMERAL))]),
        [Txn::error(ErrorCode::SessionExpired)],
        "but not for ephemeral nodes: nobody would remove them"
    );
    assert_eq!(
        decided(&mut leader, [request(MINE, 1, &set("/p", "1"))]),
        [Txn::error(ErrorCode::SessionExpired)],
        "this server knows its own"
    );
    let touched = vec![Touch { session: AWAY, timeout_ms: TIMEOUT_MS }];
    leader.hear_learner(LINK, Packet::PingReply { zxid: crate::scripted_peer::zxid(1), touched, room: None });
    assert!(!is_valid(&mut leader, AWAY));
    assert_eq!(counts(&leader), (0, 0), "a learner's local sessions are not kept here");
}

#[test]
fn without_local_sessions_nobody_vouches_for_anything() {
    let mut leader = leader(Off);
    let asked = [request(AWAY, 1, &create("/p", "", PERSISTENT))];
    assert_eq!(decided(&mut leader, asked), [Txn::error(ErrorCode::SessionExpired)]);
    assert_eq!(leader.fixture.node.local_session_report(), None);
}

#[test]
fn a_learner_has_its_local_session_made_global() {
    let mut leader = leader(WithUpgrade);
    decided(&mut leader, [request(AWAY, 1, &create("/p", "", PERSISTENT))]);
    let upgrade = [
        create_session(AWAY),
        request(AWAY, 2, &create("/e", "", EPHEMERAL)),
        request(AWAY, 3, &set("/p", "2")),
    ];
    let txns = decided(&mut leader, upgrade);
    assert_eq!(txns[0], Txn::CreateSession { timeout_ms: TIMEOUT_MS });
    assert!(matches!(txns[1..], [Txn::Create(_), Txn::SetData(_)]), "{txns:?}");
    assert_eq!((counts(&leader), is_valid(&mut leader, AWAY)), ((0, 1), true));
    let moved = [request(AWAY, 4, &set("/p", "3"))];
    assert_eq!(decided(&mut leader, moved), [Txn::error(ErrorCode::SessionMoved)], "as any global one");
}

#[test]
fn a_session_that_has_ended_is_not_taken_for_a_local_one() {
    let mut leader = leader(WithUpgrade);
    decided(&mut leader, [create_session(AWAY)]);
    leader.hear_learner(LINK, request(AWAY, 5, &close_session()));
    let asked = [request(AWAY, 6, &create("/late", "", PERSISTENT))];
    let txns = decided(&mut leader, asked);
    assert_eq!(txns[1], Txn::error(ErrorCode::SessionExpired), "while it closes");
    let asked = [request(AWAY, 7, &create("/later", "", PERSISTENT))];
    assert_eq!(decided(&mut leader, asked), [Txn::error(ErrorCode::SessionExpired)], "and when it is gone");
}

#[test]
fn local_sessions_end_with_the_role() {
    let (mut leader, connection, session) = leader_and_local(WithUpgrade);
    leader.want([Action::StopServing]);
    assert_eq!(leader.fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::NotServing));
    leader.fixture.disconnect(connection);
    assert_eq!(leader.fixture.node.local_session_report(), None);
    leader.lead();
    let again = returns(&mut leader, session);
    assert_eq!(leader.fixture.greeting(again).unwrap().session_id, 0);
}

#[test]
fn a_local_session_costs_what_a_local_one_costs() {
    let throttle = ThrottleSettings {
        tokens: 3,
        fill_time_ms: i64::MAX,
        cost_new: 3,
        cost_new_local: 1,
        cost_resume: 2,
        ..ThrottleSettings::default()
    };
    let admitted = |local_sessions| {
        let settings = NodeSettings { local_sessions, throttle: throttle.clone(), ..settings() };
        let mut member = Member::with(settings, Policy::default());
        member.lead();
        let connections: Vec<ConnectionId> = (0..5).map(|_| member.fixture.open()).collect();
        connections.iter().for_each(|&connection| member.fixture.connect(connection, hello(TIMEOUT_MS)));
        let refused = ConnectionPhase::Closed(DisconnectReason::Throttled);
        connections.iter().filter(|&&connection| member.fixture.phase(connection) != refused).count()
    };
    assert_eq!((admitted(WithUpgrade), admitted(Off)), (3, 1));
}

#[test]
fn a_standalone_server_has_global_sessions_only() {
    let mut fixture = NodeFixture::with(NodeSettings { local_sessions: WithoutUpgrade, ..settings() });
    let connection = fixture.client();
    assert_eq!(fixture.history.len(), 1);
    assert_eq!(fixture.call(connection, create("/e", "", EPHEMERAL)).path(), "/e");
    assert_eq!(fixture.node.local_session_report(), None);
}
