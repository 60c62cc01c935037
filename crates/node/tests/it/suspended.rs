//! Clients of a learner between two leaders.

use zebu_node::{ConnectionId, ConnectionPhase, DisconnectReason, NodeSettings};
use zebu_proto::client::EventType;
use zebu_proto::quorum::Packet;
use zebu_proto::txn::{Txn, TxnEntry};
use zebu_proto::{ErrorCode, OpCode, ServerId, SessionId};
use zebu_tree::Policy;
use zebu_zab::{Action, DiskCommand, IoId, ServingRole};

use crate::client::{Frame, get, get_watch, ping, set, sync};
use crate::learner::{client, created};
use crate::node_fixture::settings;
use crate::scripted_peer::{EPOCH, LINK, Member, OTHER_LINK, zxid};

const ELSEWHERE: SessionId = SessionId(0x0300_0000_0000_0001);
const GRACE_MS: i64 = 4000;
const CLOSED: ConnectionPhase = ConnectionPhase::Closed(DisconnectReason::NotServing);
const MOVE_CXID: i32 = -2_147_460_542;

fn following(epoch: u32) -> Action {
    Action::Serve(ServingRole::Following { leader: ServerId(3), epoch })
}

/// A learner whose leader has answered the question about moves, and a client.
fn learner(records_moves: bool) -> (Member, ConnectionId, SessionId) {
    let settings = NodeSettings { election_grace_ms: GRACE_MS, ..settings() };
    let mut member = Member::with(settings, Policy::default());
    member.script().goes_on = true;
    member.follow();
    let Some(Packet::Revalidate { session, .. }) = member.said().pop() else {
        panic!("the leader is asked whether it records moves");
    };
    member.hear_leader(Packet::Revalidated { session, valid: records_moves });
    let connection = client(&mut member);
    let session = member.fixture.session(connection);
    member.deliver(ELSEWHERE, 1, Txn::Create(created("/a", "0")));
    (member, connection, session)
}

/// The xids of the requests that the leader got, in order; syncs are negative.
fn sent(member: &mut Member) -> Vec<i32> {
    let xid = |packet| match packet {
        Packet::Request { cxid, op, .. } if op == OpCode::Sync.wire() => Some(-cxid),
        Packet::Request { cxid, .. } => Some(cxid),
        Packet::Revalidate { .. } => None,
        other => panic!("a request was expected, found {other:?}"),
    };
    member.said().into_iter().filter_map(xid).collect()
}

fn data_set(version: i32) -> Txn {
    Txn::SetData(zebu_proto::txn::SetDataTxn { path: "/a".into(), data: Some([b'1'].into()), version })
}

#[test]
fn an_idle_client_reads_and_watches_without_a_leader() {
    let (mut member, connection, _) = learner(true);
    member.fixture.send_as(connection, 1, &get_watch("/a"));
    member.want([Action::StopServing]);
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Serving);
    member.fixture.send_as(connection, 2, &get("/a"));
    member.fixture.send_as(connection, -2, &ping());
    assert_eq!(member.fixture.xids(connection), [1, 2, -2]);
    let late = member.fixture.open();
    member.fixture.connect(late, crate::client::hello(30_000));
    assert_eq!(member.fixture.phase(late), ConnectionPhase::Handshake, "new clients wait");
    member.deliver(ELSEWHERE, 2, data_set(1));
    member.want([following(EPOCH + 1)]);
    let frames = member.fixture.received(connection);
    assert!(matches!(&frames[..], [Frame::Event { kind: EventType::NodeDataChanged, .. }]), "{frames:?}");
    member.pass(10 * GRACE_MS);
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Serving);
    assert_eq!(member.fixture.replica.metrics().connections_continued.total(), 1);
}

#[test]
fn requests_are_answered_from_the_history_or_sent_again_in_order() {
    let (mut member, connection, session) = learner(true);
    let asks = [sync("/a"), set("/a", "1"), set("/a", "2"), sync("/a")];
    for (ask, xid) in asks.iter().zip(1..) {
        member.fixture.send_as(connection, xid, ask);
    }
    assert_eq!(sent(&mut member), [-1, 2, 3, -4]);
    member.want([Action::StopServing]);
    member.fixture.send_as(connection, 5, &set("/a", "3"));
    member.fixture.send_as(connection, 6, &get("/a"));
    assert_eq!((sent(&mut member), member.fixture.received(connection).len()), (vec![], 0));
    // The next leader has the second request in its history, so that the first one is complete too.
    member.deliver(session, 2, data_set(1));
    assert_eq!(member.fixture.xids(connection), [1, 2]);
    member.want([following(EPOCH + 1)]);
    assert_eq!(sent(&mut member), [3, -4, 5]);
    member.deliver(session, 3, data_set(2));
    member.hear_leader(Packet::Sync);
    member.deliver(session, 5, data_set(3));
    assert_eq!(member.fixture.xids(connection), [3, 4, 5, 6]);
    assert_eq!((member.fixture.node.in_flight(), member.fixture.answered), (0, 5));
}

#[test]
fn the_next_leader_may_be_this_server() {
    let (mut member, connection, session) = learner(true);
    member.fixture.send_as(connection, 1, &set("/a", "1"));
    member.want([Action::StopServing]);
    member.fixture.send_as(connection, 2, &set("/a", "2"));
    member.script().last = zebu_proto::Zxid::new(EPOCH + 1, 0);
    member.want([Action::Serve(ServingRole::Leading { epoch: EPOCH + 1 })]);
    let of = |entry: &TxnEntry| (entry.header.session, entry.header.cxid);
    assert_eq!(member.decide_all().iter().map(of).collect::<Vec<_>>(), [(session, 1), (session, 2)]);
    assert_eq!(member.fixture.xids(connection), [1, 2]);
    // The session is this server's: a request of another one is refused, and a move is recorded.
    member.hear_learner(LINK, Packet::Revalidate { session, timeout_ms: 30_000 });
    assert_eq!(
        member.fixture.phase(connection),
        ConnectionPhase::Closed(DisconnectReason::Replaced),
        "the session has another connection"
    );
    let moved = member.decide_all().pop().unwrap();
    assert_eq!((of(&moved), moved.txn), ((session, MOVE_CXID), Txn::error(ErrorCode::SessionMoved)));
}

#[test]
fn connections_that_cannot_continue_are_closed() {
    for epoch in [EPOCH, EPOCH + 2] {
        let (mut member, connection, _) = learner(true);
        member.fixture.send_as(connection, 1, &set("/a", "1"));
        member.want([Action::StopServing, following(epoch)]);
        assert_eq!(member.fixture.phase(connection), CLOSED, "epoch {epoch}");
        assert_eq!(member.fixture.answered, 1, "its share of the limits is free");
    }
    for command in [
        DiskCommand::Truncate { io: IoId(1), to: zebu_proto::Zxid::ZERO },
        DiskCommand::InstallSnapshot { io: IoId(1), link: LINK, tail: Vec::new(), zxid: zxid(9) },
        DiskCommand::Quarantine { io: IoId(1) },
    ] {
        let (mut member, connection, _) = learner(true);
        member.want([Action::StopServing]);
        member.want([Action::Disk(command)]);
        assert_eq!(member.fixture.phase(connection), CLOSED);
    }
    let (mut member, connection, _) = learner(true);
    let Action::Deliver(entry) = member.transaction(ELSEWHERE, 2, data_set(1)) else { panic!() };
    member.want([Action::StopServing, Action::Load(entry)]);
    assert_eq!(member.fixture.phase(connection), CLOSED, "an uncommitted transaction is loaded");
    let (mut member, connection, _) = learner(false);
    member.want([Action::StopServing]);
    assert_eq!(member.fixture.phase(connection), CLOSED, "the leader records no moves");
    let (mut member, connection, _) = learner(true);
    member.want([Action::StopServing]);
    member.pass(GRACE_MS);
    assert_eq!(member.fixture.phase(connection), CLOSED, "no leader was found in time");
    let (mut member, connection, _) = learner(true);
    member.script().goes_on = false;
    member.want([Action::StopServing]);
    assert_eq!(member.fixture.phase(connection), CLOSED, "the server stops");
}

#[test]
fn a_recorded_move_closes_a_kept_connection_and_drops_its_requests() {
    let (mut member, connection, session) = learner(true);
    member.fixture.send_as(connection, 1, &set("/a", "1"));
    sent(&mut member);
    member.want([Action::StopServing]);
    member.fixture.send_as(connection, 2, &set("/a", "2"));
    member.deliver(session, MOVE_CXID, Txn::error(ErrorCode::SessionMoved));
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::Replaced));
    member.want([following(EPOCH + 1)]);
    assert_eq!(sent(&mut member), [0; 0], "the client has given these requests up");
    assert_eq!((member.fixture.node.in_flight(), member.fixture.answered), (0, 2));
}

#[test]
fn a_leader_records_moves_between_servers_only() {
    let settings = NodeSettings { election_grace_ms: GRACE_MS, ..settings() };
    let mut member = Member::with(settings, Policy::default());
    member.lead();
    let session = SessionId(0x0200_0000_0000_0007);
    let timeout = 30_000i32.to_be_bytes();
    let payload = timeout[..].into();
    let op = OpCode::CreateSession.wire();
    member.hear_learner(LINK, Packet::Request { session, cxid: 0, op, payload, auth: None });
    member.decide_all();
    let mut records = |link| {
        member.hear_learner(link, Packet::Revalidate { session, timeout_ms: 30_000 });
        let proposed = member.decide_all().len();
        let (_, after, answer) = member.answers().pop().unwrap();
        assert_eq!(answer, Packet::Revalidated { session, valid: true });
        assert_eq!(after, member.script().last, "the session is confirmed behind the record");
        proposed
    };
    assert_eq!([LINK, OTHER_LINK, OTHER_LINK, LINK].map(&mut records), [0, 1, 0, 1]);
}
