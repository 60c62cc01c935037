//! A server that stops sends its clients away: which it asks, which it closes, and when.

use zebu_node::{ConnectionId, ConnectionPhase, DisconnectReason};
use zebu_proto::client::{ClientHello, FEATURE_FEED, FEATURE_MOVE, MovePush, PUSH_MOVE, ServerHello};
use zebu_proto::{Jute, OpCode, Reader, Xid};

use crate::client::{Ask, Frame, ask, create, get, hello, ping, sync};
use crate::node_fixture::NodeFixture;
use crate::scripted_peer::Member;

const TIME_MS: i64 = 5000;
const DRAINED: ConnectionPhase = ConnectionPhase::Closed(DisconnectReason::Drained);

fn client_hello(features: i32) -> Ask {
    ask(OpCode::Hello, |out| ClientHello { features }.encode(out))
}

/// A leader, which confirms its own leadership, with this many clients.
fn leader(clients: usize) -> (Member, Vec<ConnectionId>) {
    let mut leader = Member::leader();
    let connections = (0..clients).map(|_| {
        let connection = leader.fixture.open();
        leader.fixture.connect(connection, hello(8000));
        leader.decide_all();
        leader.fixture.greeting(connection).unwrap();
        connection
    });
    let connections = connections.collect();
    (leader, connections)
}

fn begin(member: &mut Member, open: &[ConnectionId], time_ms: i64) {
    let NodeFixture { node, replica, connections, now, .. } = &mut member.fixture;
    node.begin_drain(open, time_ms, &mut zebu_node::ServeContext { replica, connections, now: *now });
    member.collect();
}

/// The pushes that a client got.
fn pushes(member: &mut Member, connection: ConnectionId) -> Vec<MovePush> {
    let push = |frame| match frame {
        Frame::Reply(reply) if reply.xid == Xid::PUSH.0 => {
            assert_eq!(reply.error, None);
            Some(MovePush::decode(&mut Reader::new(&reply.body)).unwrap())
        }
        _ => None,
    };
    member.fixture.received(connection).into_iter().filter_map(push).collect()
}

/// Closes as the edge does if nothing is on its way.
fn leave(member: &mut Member, connection: ConnectionId) -> bool {
    member.fixture.connections.0.get_mut(&connection).unwrap().leave_if_quiet()
}

fn has_drained(member: &Member) -> bool {
    member.fixture.node.has_drained(member.fixture.now.monotonic_ms)
}

fn counts(member: &Member) -> (u64, u64) {
    let metrics = member.fixture.replica.metrics();
    (metrics.connections_drained.total(), metrics.clients_moved.total())
}

#[test]
fn a_client_that_said_hello_is_asked_and_no_other() {
    let (mut leader, clients) = leader(3);
    let [moves, silent, other] = clients[..] else { unreachable!() };
    leader.fixture.send_as(moves, 1, &client_hello(FEATURE_MOVE));
    leader.fixture.send_as(other, 1, &client_hello(FEATURE_MOVE << 1));
    let answer = leader.fixture.replies(moves).remove(0);
    let answer = ServerHello::decode(&mut Reader::new(&answer.body)).unwrap();
    assert_eq!(answer.features, FEATURE_MOVE | FEATURE_FEED);
    leader.fixture.take_bytes(other);
    begin(&mut leader, &clients, TIME_MS);
    leader.pass(TIME_MS / 2);
    let pushed = pushes(&mut leader, moves);
    assert_eq!(pushed, [MovePush { kind: PUSH_MOVE, time_ms: TIME_MS as i32 }]);
    for connection in [silent, other] {
        assert!(leader.fixture.take_bytes(connection).is_empty(), "it would not understand a push");
        assert!(leave(&mut leader, connection));
        assert_eq!(leader.fixture.phase(connection), DRAINED);
        leader.fixture.disconnect(connection);
    }
    assert!(!leave(&mut leader, moves), "it goes by itself");
    assert!(!has_drained(&leader));
    leader.fixture.disconnect(moves);
    assert!(has_drained(&leader));
    assert_eq!(counts(&leader), (2, 1));
}

#[test]
fn a_connection_is_closed_only_when_nothing_is_outstanding() {
    let (mut leader, clients) = leader(1);
    let client = clients[0];
    leader.fixture.send_as(client, 1, &create("/a", "x", 0));
    leader.fixture.send_as(client, 2, &get("/a"));
    begin(&mut leader, &clients, TIME_MS);
    assert!(leader.fixture.connection(client).leaves_when_quiet());
    assert!(!leave(&mut leader, client), "two requests wait");
    leader.decide_all();
    assert!(!leave(&mut leader, client), "their answers are not sent");
    assert_eq!(leader.fixture.xids(client), [1, 2]);
    leader.fixture.send_as(client, 3, &ping());
    assert!(!leave(&mut leader, client), "it is served to the last moment");
    leader.fixture.take_bytes(client);
    assert!(leave(&mut leader, client));
    assert!(!leave(&mut leader, client), "once");
}

#[test]
fn a_client_that_says_hello_before_it_is_closed_is_asked() {
    let (mut leader, clients) = leader(1);
    begin(&mut leader, &clients, TIME_MS);
    assert!(leader.fixture.connection(clients[0]).leaves_when_quiet());
    leader.fixture.send_as(clients[0], 1, &client_hello(FEATURE_MOVE));
    assert_eq!(pushes(&mut leader, clients[0]).len(), 1);
    assert!(!leave(&mut leader, clients[0]));
}

#[test]
fn the_clients_leave_one_by_one() {
    let (mut leader, clients) = leader(10);
    let leaving = |leader: &Member| {
        clients.iter().filter(|client| leader.fixture.connection(**client).leaves_when_quiet()).count()
    };
    begin(&mut leader, &clients, 1000);
    assert_eq!(leaving(&leader), 1);
    let began_ms = leader.fixture.now.monotonic_ms;
    for turn in 1..10 {
        let at_ms = began_ms + turn * 80;
        assert_eq!(leader.fixture.node.next_deadline().min(at_ms), at_ms, "turn {turn}");
        leader.pass(at_ms - leader.fixture.now.monotonic_ms);
        assert_eq!(leaving(&leader), turn as usize + 1);
    }
}

#[test]
fn few_clients_do_not_need_the_whole_time() {
    let (mut leader, clients) = leader(2);
    begin(&mut leader, &clients, 60_000);
    leader.pass(100);
    for client in clients {
        assert!(leave(&mut leader, client));
        leader.fixture.disconnect(client);
    }
    assert!(has_drained(&leader));
}

#[test]
fn the_time_ends_for_clients_that_stay() {
    let (mut leader, clients) = leader(1);
    leader.fixture.send_as(clients[0], 1, &client_hello(FEATURE_MOVE));
    begin(&mut leader, &clients, TIME_MS);
    leader.pass(TIME_MS - 1);
    assert!(!has_drained(&leader));
    leader.pass(1);
    assert!(has_drained(&leader));
    let deadline = leader.fixture.node.next_deadline();
    assert!(deadline > leader.fixture.now.monotonic_ms, "a drain that has ended wants no turn");
}

#[test]
fn no_client_is_accepted_during_a_drain_and_a_session_that_begins_leaves() {
    let (mut leader, mut clients) = leader(1);
    let (connecting, idle) = (leader.fixture.open(), leader.fixture.open());
    leader.fixture.connect(connecting, hello(8000));
    clients.extend([connecting, idle]);
    begin(&mut leader, &clients, TIME_MS);
    leader.pass(300);
    let late = leader.fixture.open();
    leader.fixture.connect(late, hello(8000));
    assert_eq!(leader.fixture.phase(late), DRAINED);
    leader.decide_all();
    leader.fixture.greeting(connecting).unwrap();
    leader.pass(1000);
    for client in [clients[0], connecting] {
        assert!(leave(&mut leader, client));
        leader.fixture.disconnect(client);
    }
    assert!(has_drained(&leader), "a connection without a connect request is not waited for");
}

#[test]
fn a_server_without_another_has_no_place_for_its_clients() {
    let mut alone = NodeFixture::new();
    let client = alone.client();
    alone.call(client, client_hello(FEATURE_MOVE));
    let NodeFixture { node, replica, connections, now, .. } = &mut alone;
    node.begin_drain(&[client], TIME_MS, &mut zebu_node::ServeContext { replica, connections, now: *now });
    assert!(alone.node.has_drained(alone.now.monotonic_ms) && !alone.node.is_draining());
    assert!(alone.take_bytes(client).is_empty());
    let mut member = Member::new();
    let open = member.fixture.open();
    begin(&mut member, &[open], TIME_MS);
    assert!(has_drained(&member), "it has no leader");
}

#[test]
fn a_learner_sends_its_clients_away_too() {
    let mut learner = Member::learner();
    let client = crate::learner::client(&mut learner);
    learner.said();
    learner.fixture.send_as(client, 1, &sync("/"));
    begin(&mut learner, &[client], TIME_MS);
    learner.pass(1000);
    assert!(!leave(&mut learner, client));
    learner.hear_leader(zebu_proto::quorum::Packet::Sync);
    assert_eq!(learner.fixture.xids(client), [1]);
    assert!(leave(&mut learner, client));
}
