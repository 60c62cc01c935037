//! Clients between two leaders: those of the ended leader itself, reads that wait for a fresh state, and
//! connect requests.

use zebu_node::{
    AuthEnforcement, ConnectionId, ConnectionPhase, DisconnectReason, KeeperSettings, LocalSessionSupport,
    NodeSettings, Replica,
};
use zebu_proto::client::{ConnectRequest, Freshness};
use zebu_proto::quorum::{Packet, PeerAnnouncement};
use zebu_proto::txn::Txn;
use zebu_proto::{ErrorCode, Jute, OpCode, ServerId, SessionId, Zxid};
use zebu_tree::{Policy, Tree};
use zebu_zab::{Action, DiskCommand, EncodedTxn, IoId, ServingRole};

use crate::client::{Ask, ask, create, get, hello, set, sync};
use crate::keeper::parts;
use crate::learner::created;
use crate::node_fixture::{settings, tree_options};
use crate::scripted_peer::{EPOCH, Member, zxid};

const GRACE_MS: i64 = 4000;
const ELSEWHERE: SessionId = SessionId(0x0300_0000_0000_0001);
const NOT_SERVING: ConnectionPhase = ConnectionPhase::Closed(DisconnectReason::NotServing);

fn following(epoch: u32) -> Action {
    Action::Serve(ServingRole::Following { leader: ServerId(3), epoch })
}

fn member() -> Member {
    member_with(NodeSettings { election_grace_ms: GRACE_MS, ..settings() })
}

fn member_with(settings: NodeSettings) -> Member {
    let member = Member::with(settings, Policy::default());
    member.script().goes_on = true;
    member.script().announcement = Some(PeerAnnouncement::CURRENT);
    member
}

/// A leader with a client and the node `/a`.
fn leader() -> (Member, ConnectionId, SessionId) {
    let mut leader = member();
    leader.lead();
    let connection = leader.fixture.open();
    leader.fixture.connect(connection, hello(30_000));
    leader.decide_all();
    leader.fixture.greeting(connection).unwrap();
    leader.fixture.send_as(connection, 1, &create("/a", "old", 0));
    leader.decide_all();
    assert_eq!(leader.fixture.xids(connection), [1]);
    let session = leader.fixture.session(connection);
    (leader, connection, session)
}

/// A learner whose leader records moves, and a client.
fn learner() -> (Member, ConnectionId, SessionId) {
    let mut learner = member();
    follow(&mut learner);
    let (connection, session) = connecting(&mut learner);
    learner.deliver(session, 0, Txn::CreateSession { timeout_ms: 30_000 });
    learner.fixture.greeting(connection).unwrap();
    (learner, connection, session)
}

/// The learner follows, and its leader says that it records moves.
fn follow(learner: &mut Member) {
    learner.follow();
    let Some(Packet::Revalidate { session, .. }) = learner.said().pop() else { panic!("no question") };
    learner.hear_leader(Packet::Revalidated { session, valid: true });
}

/// A connection whose createSession is on its way to the leader.
fn connecting(learner: &mut Member) -> (ConnectionId, SessionId) {
    let connection = learner.fixture.open();
    learner.fixture.connect(connection, hello(30_000));
    (connection, session_asked_for(learner))
}

fn session_asked_for(learner: &mut Member) -> SessionId {
    match learner.said().pop() {
        Some(Packet::Request { session, op, .. }) if op == OpCode::CreateSession.wire() => session,
        other => panic!("a new session was expected, found {other:?}"),
    }
}

fn linear(read: Ask) -> Ask {
    ask(OpCode::With, |out| {
        Freshness::LINEARIZABLE.encode(out);
        read.op.encode(out);
        out.extend_from_slice(&read.body);
    })
}

/// The requests that the next leader got: the xids of writes, and zero for a sync of this server.
fn sent(member: &mut Member) -> Vec<(i32, bool)> {
    let request = |packet| match packet {
        Packet::Request { cxid, op, .. } => Some((cxid, op == OpCode::Sync.wire())),
        _ => None,
    };
    member.said().into_iter().filter_map(request).collect()
}

fn proposals(member: &mut Member) -> Vec<EncodedTxn> {
    std::mem::take(&mut member.script().proposed)
}

#[test]
fn requests_to_an_ended_leader_are_found_or_sent_to_the_next_one() {
    let (mut member, connection, session) = leader();
    for (xid, ask) in [(2, set("/a", "1")), (3, sync("/a")), (4, set("/a", "2")), (5, set("/a", "3"))] {
        member.fixture.send_as(connection, xid, &ask);
    }
    let proposed = proposals(&mut member);
    assert_eq!(proposed.len(), 3);
    // The first one is committed, but not applied before the role ends.
    member.want([Action::Deliver(proposed[0].clone()), Action::StopServing]);
    member.fixture.send_as(connection, 6, &set("/a", "4"));
    member.fixture.send_as(connection, 7, &get("/a"));
    member.apply();
    assert_eq!(member.fixture.xids(connection), [2]);
    // The next leader's history has the second one, and the sync before it is complete.
    member.want([Action::Deliver(proposed[1].clone())]);
    member.apply();
    assert_eq!(member.fixture.xids(connection), [3, 4]);
    member.want([following(EPOCH + 1)]);
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Serving);
    assert_eq!(sent(&mut member), [(5, false), (6, false)]);
    let of_next = |counter, xid, data: &str, version| {
        let txn = Txn::SetData(zebu_proto::txn::SetDataTxn {
            path: "/a".into(),
            data: Some(data.as_bytes().into()),
            version,
        });
        let zxid = Zxid::new(EPOCH + 1, counter);
        let header = zebu_proto::txn::TxnHeader { session, cxid: xid, zxid, time_ms: 0 };
        let mut bytes = Vec::new();
        zebu_proto::txn::TxnEntry { header, txn, digest: None }.encode(&mut bytes);
        Action::Deliver(EncodedTxn { zxid, bytes: bytes.into() })
    };
    member.want([of_next(1, 5, "3", 3), of_next(2, 6, "4", 4)]);
    member.apply();
    assert_eq!(member.fixture.xids(connection), [5, 6, 7]);
    assert_eq!((member.fixture.node.in_flight(), member.fixture.answered), (0, 6));
}

#[test]
fn a_leader_that_leads_again_finds_its_own_proposals() {
    let (mut member, connection, _) = leader();
    member.fixture.send_as(connection, 2, &set("/a", "1"));
    let proposed = proposals(&mut member);
    member.want([Action::StopServing]);
    member.fixture.send_as(connection, 3, &set("/a", "2"));
    member.script().last = Zxid::new(EPOCH + 1, 0);
    member.want([
        Action::Deliver(proposed[0].clone()),
        Action::Serve(ServingRole::Leading { epoch: EPOCH + 1 }),
    ]);
    member.apply();
    assert_eq!(member.fixture.xids(connection), [2]);
    let again: Vec<_> = member.decide_all().iter().map(|entry| entry.header.cxid).collect();
    assert_eq!((again, member.fixture.xids(connection)), (vec![3], vec![3]));
}

#[test]
fn what_comes_during_a_hand_over_waits_for_the_next_leader() {
    let (mut member, connection, _) = leader();
    let resumed = member.fixture.hello_again(connection);
    member.script().is_exhausted = true;
    member.fixture.send_as(connection, 2, &set("/a", "1"));
    member.fixture.send_as(connection, 3, &linear(get("/a")));
    member.fixture.send_as(connection, 4, &sync("/a"));
    member.fixture.tick();
    let (late, again) = (member.fixture.open(), member.fixture.open());
    member.fixture.connect(late, hello(30_000));
    member.want([Action::StopServing]);
    assert_eq!(
        [connection, late].map(|id| member.fixture.phase(id)),
        [ConnectionPhase::Serving, ConnectionPhase::Handshake]
    );
    member.want([following(EPOCH + 1)]);
    member.fixture.tick();
    // Writes of the former leader go first, then the check of the read and the new session. The sync waits
    // behind the read.
    let sent = sent(&mut member);
    assert_eq!(sent[0], (2, false));
    assert!(sent[1..].contains(&(0, false)) && sent[1..].contains(&(3, true)), "{sent:?}");
    member.fixture.connect(again, resumed);
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::Replaced));
}

#[test]
fn an_ended_leader_truncates_proposals_without_closing_its_clients() {
    let (mut member, connection, _) = leader();
    member.fixture.send_as(connection, 2, &set("/a", "1"));
    member.want([Action::StopServing]);
    let applied = member.fixture.replica.last_zxid();
    member.want([Action::Disk(DiskCommand::Truncate { io: IoId(9), to: applied })]);
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Serving);
    member.want([following(EPOCH + 1)]);
    assert_eq!(sent(&mut member), [(2, false)]);
}

#[test]
fn a_fresh_read_is_asked_again_of_the_next_leader() {
    let (mut member, connection, _) = learner();
    member.fixture.send_as(connection, 1, &linear(get("/")));
    member.fixture.tick();
    assert_eq!(sent(&mut member), [(1, true)]);
    member.want([Action::StopServing]);
    member.fixture.send_as(connection, 2, &set("/", "1"));
    member.fixture.send_as(connection, 3, &linear(get("/")));
    member.fixture.tick();
    assert_eq!((sent(&mut member), member.fixture.xids(connection)), (vec![], vec![]));
    member.want([following(EPOCH + 1)]);
    member.fixture.tick();
    assert_eq!(sent(&mut member), [(1, true)], "the write waits behind the read");
    member.hear_leader(Packet::Sync);
    assert_eq!(member.fixture.xids(connection), [1]);
    assert_eq!(sent(&mut member), [(2, false)]);
}

#[test]
fn a_fresh_read_ends_with_a_leader_that_proves_nothing() {
    let (mut member, connection, _) = learner();
    member.fixture.send_as(connection, 1, &linear(get("/")));
    member.want([Action::StopServing]);
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Serving);
    member.script().announcement = None;
    member.want([following(EPOCH + 1)]);
    assert_eq!(member.fixture.phase(connection), NOT_SERVING);
    assert_eq!(member.fixture.submitted, member.fixture.answered);
}

#[test]
fn a_fresh_read_ends_with_the_grace() {
    let (mut member, connection, _) = learner();
    member.fixture.send_as(connection, 1, &linear(get("/")));
    member.want([Action::StopServing]);
    member.pass(GRACE_MS);
    assert_eq!(member.fixture.phase(connection), NOT_SERVING);
    assert_eq!(member.fixture.submitted, member.fixture.answered);
}

#[test]
fn connect_requests_wait_for_the_next_leader() {
    for epoch in [EPOCH + 1, EPOCH + 2] {
        let (mut member, served, _) = learner();
        let (found, session) = connecting(&mut member);
        let (lost, of_lost) = connecting(&mut member);
        member.want([Action::StopServing]);
        let late = member.fixture.open();
        member.fixture.connect(late, hello(30_000));
        // The next history has one of the sessions.
        member.deliver(session, 0, Txn::CreateSession { timeout_ms: 30_000 });
        assert_eq!(member.fixture.greeting(found).unwrap().session_id, session.0);
        let phases = [lost, late].map(|id| member.fixture.phase(id));
        assert_eq!(phases, [ConnectionPhase::Handshake; 2]);
        assert!(member.said().is_empty());
        member.want([following(epoch)]);
        member.pass(0);
        let next = session_asked_for(&mut member);
        assert!(next != of_lost && next != session, "the lost session was never opened");
        let phases = [served, found].map(|id| member.fixture.phase(id));
        let expected = if epoch == EPOCH + 1 { ConnectionPhase::Serving } else { NOT_SERVING };
        assert_eq!(phases, [expected; 2], "epoch {epoch}: a connect request shows nothing of an epoch");
        assert_eq!(member.fixture.phase(late), ConnectionPhase::Handshake);
    }
}

#[test]
fn a_waiting_client_may_have_seen_what_is_committed_with_the_new_role() {
    let (mut member, _, _) = learner();
    member.want([Action::StopServing]);
    let late = member.fixture.open();
    member.fixture.connect(late, ConnectRequest { last_zxid_seen: zxid(3).0, ..hello(30_000) });
    member.deliver(ELSEWHERE, 0, Txn::Create(created("/seen", "0")));
    member.want([following(EPOCH)]);
    member.deliver(ELSEWHERE, 0, Txn::Create(created("/seen/too", "0")));
    member.pass(0);
    assert_eq!(member.fixture.phase(late), ConnectionPhase::Handshake);
    session_asked_for(&mut member);
}

#[test]
fn connect_requests_wait_no_longer_than_the_grace() {
    let mut member = member();
    member.follow();
    let Some(Packet::Revalidate { session, .. }) = member.said().pop() else { panic!("no question") };
    member.hear_leader(Packet::Revalidated { session, valid: true });
    member.want([Action::StopServing]);
    let [first, short, last, after] = [0; 4].map(|_| member.fixture.open());
    member.fixture.connect(first, hello(30_000));
    member.fixture.connect(short, hello(4000));
    member.pass(1000);
    assert_eq!(member.fixture.phase(short), NOT_SERVING, "a quarter of its timeout is over");
    member.pass(GRACE_MS - 1001);
    member.fixture.connect(last, hello(30_000));
    assert_eq!([first, last].map(|id| member.fixture.phase(id)), [ConnectionPhase::Handshake; 2]);
    member.pass(1);
    member.fixture.connect(after, hello(30_000));
    assert_eq!([first, last, after].map(|id| member.fixture.phase(id)), [NOT_SERVING; 3]);
}

#[test]
fn a_leader_without_grace_closes_its_clients() {
    // The fixture's settings have no grace.
    let mut member = Member::leader();
    member.script().goes_on = true;
    let connection = member.fixture.open();
    member.fixture.connect(connection, hello(30_000));
    member.decide_all();
    member.want([Action::StopServing]);
    assert_eq!(member.fixture.phase(connection), NOT_SERVING);
}

/// A client of a local session comes back over a second connection while its write has no answer, and goes.
/// Then the leader changes.
#[track_caller]
fn assert_expires_behind_a_write(mut member: Member) {
    const TIMEOUT_MS: i32 = 6000;
    let first = member.fixture.open();
    member.fixture.connect(first, hello(TIMEOUT_MS));
    let session = SessionId(member.fixture.greeting(first).unwrap().session_id);
    member.fixture.send_as(first, 1, &create("/b", "", 0));
    let second = member.fixture.open();
    let password = zebu_proto::password::session_password(session);
    let again =
        ConnectRequest { session_id: session.0, password: Some(password.into()), ..hello(TIMEOUT_MS) };
    member.fixture.connect(second, again);
    assert!(member.fixture.greeting(second).is_none(), "it waits for the answer of the create");
    member.fixture.disconnect(first);
    member.fixture.disconnect(second);
    member.want([Action::StopServing]);
    member.want([following(EPOCH + 1)]);
    member.pass(3 * i64::from(TIMEOUT_MS));
    assert!(member.fixture.node.local_session_report().unwrap().is_empty());
}

fn with_local_sessions() -> Member {
    member_with(NodeSettings {
        election_grace_ms: GRACE_MS,
        local_sessions: LocalSessionSupport::WithoutUpgrade,
        ..settings()
    })
}

#[test]
fn a_local_session_expires_if_the_connection_that_waited_for_it_was_closed() {
    let mut learner = with_local_sessions();
    follow(&mut learner);
    assert_expires_behind_a_write(learner);
}

#[test]
fn a_local_session_of_a_leader_expires_if_the_connection_that_waited_for_it_was_closed() {
    let mut leader = with_local_sessions();
    leader.lead();
    assert_expires_behind_a_write(leader);
}

/// The bytes of such a request decode under another key.
#[test]
fn a_request_that_was_refused_when_it_was_received_stays_refused_under_the_next_leader() {
    let keeper = KeeperSettings { extensions: false, ..KeeperSettings::default() };
    let replica = Replica::new(Tree::new(tree_options()), Policy::default(), AuthEnforcement::Off, 3);
    let settings = NodeSettings { election_grace_ms: GRACE_MS, ..settings() };
    let mut member = Member::around(replica.with_keeper(keeper), settings);
    member.script().goes_on = true;
    member.script().announcement = Some(PeerAnnouncement::CURRENT);
    member.lead();
    let connection = member.fixture.open();
    member.fixture.connect(connection, hello(30_000));
    member.decide_all();
    member.fixture.greeting(connection).unwrap();
    let try_remove = Ask::raw(505, &[&[0, 0, 0, 2, b'/', b'a'][..], &[255; 4]].concat());
    member.fixture.send_as(connection, 1, &parts(14, &[&try_remove]));
    proposals(&mut member);
    member.want([Action::StopServing]);
    member.fixture.tick();
    member.want([following(EPOCH + 1)]);
    assert!(sent(&mut member).is_empty(), "the next leader must not execute it");
    let answers: Vec<_> =
        member.fixture.replies(connection).iter().map(|reply| (reply.xid, reply.error)).collect();
    assert_eq!(answers, [(1, Some(ErrorCode::MarshallingError))]);
}
