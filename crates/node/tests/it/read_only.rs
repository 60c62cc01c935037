//! A partitioned member serves reads to clients that accept read-only mode, and nothing else.

use zebu_node::{ConnectionId, ConnectionPhase, DisconnectReason, Effect, NodeSettings, ServeEffect};
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::client::{ConnectRequest, CreateOp};
use zebu_proto::password::session_password;
use zebu_proto::txn::Txn;
use zebu_proto::{Acl, ErrorCode, OpCode, ServerId, SessionId};
use zebu_tree::Policy;
use zebu_zab::HistoryLimits;

use crate::client::{
    Ask, EPHEMERAL, add_watch, all_children_number, ask, auth, check_watches, children_watch, children2,
    close_session, create, create_container, create_ttl, create2, delete, exists, get, get_acl,
    get_ephemerals, get_watch, hello, multi, multi_create, multi_set, ping, reconfig, remove_watches, set,
    set_acl, set_watches, sync, who_am_i,
};
use crate::learner::created;
use crate::node_fixture::{NodeFixture, settings};
use crate::scripted_peer::Member;
use crate::three_nodes::{READ_ONLY_AFTER_MS, ThreeNodes};

const AFTER_MS: i64 = 2000;
const SESSION: SessionId = SessionId(0x0200_0000_0000_0005);

/// A member that may serve reads, with one node and one session, and has just lost its leader.
fn cut_off() -> Member {
    let settings = NodeSettings { read_only_after_ms: Some(AFTER_MS), ..settings() };
    let mut member = Member::with(settings, Policy::default());
    member.follow();
    member.deliver(SESSION, 0, Txn::CreateSession { timeout_ms: 30_000 });
    member.deliver(SESSION, 1, Txn::Create(created("/a", "x")));
    lose_leader(&mut member);
    member
}

fn lose_leader(member: &mut Member) {
    member.script().is_cut_off = true;
    member.want([zebu_zab::Action::StopServing]);
    member.take_effects();
}

/// The same, when it serves reads.
fn reader() -> Member {
    let mut member = cut_off();
    member.pass(AFTER_MS);
    assert_eq!(member.take_effects(), [Effect::Serve(ServeEffect::ServeReadOnly)]);
    member
}

fn reading_hello() -> ConnectRequest {
    ConnectRequest { read_only: ReadOnlyField::Present(true), ..hello(30_000) }
}

fn reading_again(session: SessionId) -> ConnectRequest {
    let password = Some(session_password(session).into());
    ConnectRequest { session_id: session.0, password, ..reading_hello() }
}

/// A connection that was accepted.
fn connect(fixture: &mut NodeFixture, request: ConnectRequest) -> ConnectionId {
    let connection = fixture.open();
    fixture.connect(connection, request);
    let greeting = fixture.greeting(connection).unwrap();
    assert_ne!(greeting.session_id, 0);
    assert_eq!(greeting.read_only, ReadOnlyField::Present(true));
    connection
}

/// The reply of a server that needs no leader for it.
fn answer(fixture: &mut NodeFixture, connection: ConnectionId, ask: Ask) -> crate::client::Reply {
    let xid = fixture.send(connection, ask);
    let mut frames = fixture.received(connection);
    let reply = frames.pop().expect("an answer").reply();
    assert_eq!(reply.xid, xid);
    reply
}

#[test]
fn a_member_without_a_leader_serves_reads_after_a_while() {
    let mut member = cut_off();
    assert_eq!(member.fixture.node.next_deadline(), member.fixture.now.monotonic_ms + AFTER_MS);
    member.pass(AFTER_MS - 1);
    assert!(member.take_effects().is_empty());
    let early = member.fixture.open();
    member.fixture.connect(early, reading_hello());
    assert_eq!(member.fixture.phase(early), ConnectionPhase::Closed(DisconnectReason::NotServing));
    member.pass(1);
    assert_eq!(member.take_effects(), [Effect::Serve(ServeEffect::ServeReadOnly)]);
    let connection = connect(&mut member.fixture, reading_hello());
    assert_eq!(answer(&mut member.fixture, connection, get("/a")).data(), "x");
    assert_eq!(member.fixture.node.in_flight(), 0);
}

#[test]
fn a_search_that_ends_in_time_starts_the_wait_anew() {
    let mut member = cut_off();
    member.pass(AFTER_MS - 1);
    member.script().is_cut_off = false;
    member.want([]);
    assert_eq!(member.fixture.node.next_deadline(), i64::MAX);
    member.pass(AFTER_MS);
    member.script().is_cut_off = true;
    member.want([]);
    member.pass(AFTER_MS - 1);
    assert!(member.take_effects().is_empty());
    member.pass(1);
    assert_eq!(member.take_effects(), [Effect::Serve(ServeEffect::ServeReadOnly)]);
}

#[test]
fn without_the_setting_nobody_is_ever_served() {
    let mut member = Member::new();
    lose_leader(&mut member);
    member.pass(1_000_000);
    assert!(member.take_effects().is_empty());
    assert_eq!(member.fixture.node.next_deadline(), i64::MAX);
}

#[test]
fn who_did_not_ask_for_it_is_closed_without_a_word() {
    let mut member = reader();
    for field in [ReadOnlyField::Absent, ReadOnlyField::Present(false)] {
        for request in [hello(30_000), reading_again(SESSION)] {
            let connection = member.fixture.open();
            member.fixture.connect(connection, ConnectRequest { read_only: field, ..request });
            assert_eq!(member.fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::ReadOnly));
            assert!(member.fixture.take_bytes(connection).is_empty());
        }
    }
}

#[test]
fn who_has_seen_more_is_closed_without_a_word() {
    let mut member = reader();
    let seen = member.fixture.replica.last_zxid().0;
    connect(&mut member.fixture, ConnectRequest { last_zxid_seen: seen, ..reading_hello() });
    let ahead = member.fixture.open();
    member.fixture.connect(ahead, ConnectRequest { last_zxid_seen: seen + 1, ..reading_hello() });
    assert_eq!(member.fixture.phase(ahead), ConnectionPhase::Closed(DisconnectReason::AheadOfServer));
}

/// Without a leader nothing tells whether the state contains all transactions of earlier epochs.
#[test]
fn who_has_seen_more_of_an_earlier_epoch_is_closed_too() {
    let settings = NodeSettings { read_only_after_ms: Some(AFTER_MS), ..settings() };
    let mut member = Member::with(settings, Policy::default());
    member.follow();
    let hello = ConnectRequest { last_zxid_seen: 1, ..reading_hello() };
    let accepted = member.fixture.open();
    member.fixture.connect(accepted, hello.clone());
    assert_eq!(member.fixture.phase(accepted), ConnectionPhase::Handshake, "the leader's epoch is later");
    lose_leader(&mut member);
    member.pass(AFTER_MS);
    let ahead = member.fixture.open();
    member.fixture.connect(ahead, hello);
    assert_eq!(member.fixture.phase(ahead), ConnectionPhase::Closed(DisconnectReason::AheadOfServer));
}

#[test]
fn every_write_is_refused_in_its_turn_whatever_follows_the_header() {
    let mut member = reader();
    let fixture = &mut member.fixture;
    let connection = connect(fixture, reading_hello());
    let applied = fixture.replica.last_zxid().0;
    let writes = || {
        [
            create("/b", "", 0),
            create("/e", "", EPHEMERAL),
            create2("/b", "", 0),
            create_container("/b"),
            create_ttl("/b", 1000),
            delete("/a"),
            set("/a", "y"),
            set_acl("/a", Acl::open()),
            multi(&[multi_set("/a", "y"), multi_create(CreateOp::Create, "/b", 0)]),
            multi(&[]),
            reconfig(),
            sync("/a"),
        ]
    };
    for (number, write) in writes().into_iter().enumerate() {
        let reply = answer(fixture, connection, write);
        assert_eq!(reply.error, Some(ErrorCode::NotReadOnly), "{number}");
        assert_eq!(reply.zxid, applied);
    }
    for op in writes().map(|write| write.op) {
        assert_eq!(
            answer(fixture, connection, Ask::raw(op, &[9])).error,
            Some(ErrorCode::NotReadOnly),
            "{op}"
        );
    }
    let asks = [set("/a", "y"), get("/a"), create("/b", "", 0), exists("/b")];
    let xids: Vec<i32> = asks.into_iter().map(|ask| fixture.send(connection, ask)).collect();
    let replies = fixture.replies(connection);
    assert_eq!(replies.iter().map(|reply| reply.xid).collect::<Vec<_>>(), xids);
    let errors: Vec<_> = replies.iter().map(|reply| reply.error).collect();
    let (refused, missing) = (Some(ErrorCode::NotReadOnly), Some(ErrorCode::NoNode));
    assert_eq!(errors, [refused, None, refused, missing]);
    assert_eq!(fixture.submitted, 0, "nobody but the connection was bothered");
    assert!(member.take_effects().is_empty());
}

#[test]
fn what_no_client_may_send_is_refused_as_anywhere() {
    let mut member = reader();
    for op in [OpCode::CreateSession, OpCode::Check, OpCode::DeleteContainer, OpCode::Error] {
        let connection = connect(&mut member.fixture, reading_hello());
        let reply = answer(&mut member.fixture, connection, Ask::raw(op.wire(), &[]));
        assert_eq!((reply.error, reply.zxid), (Some(ErrorCode::Unimplemented), -1));
        assert_eq!(member.fixture.phase(connection), ConnectionPhase::Draining);
    }
}

#[test]
fn every_read_is_answered() {
    let mut member = reader();
    let fixture = &mut member.fixture;
    let connection = connect(fixture, reading_hello());
    assert_eq!(answer(fixture, connection, get_watch("/a")).data(), "x");
    let mut names = answer(fixture, connection, children_watch("/")).names();
    names.sort();
    assert_eq!(names, ["a", "zookeeper"]);
    assert_eq!(answer(fixture, connection, exists("/none")).error, Some(ErrorCode::NoNode));
    let multi_read = ask(OpCode::MultiRead, |out| out.extend(multi(&[]).body));
    for read in [
        exists("/a"),
        get_acl("/a"),
        children2("/"),
        get_ephemerals("/"),
        all_children_number("/"),
        who_am_i(),
        add_watch("/", 1),
        set_watches(0, &[&["/a"], &[], &[]]),
        check_watches("/a", 2),
        remove_watches("/a", 2),
        multi_read,
    ] {
        let op = read.op;
        assert_eq!(answer(fixture, connection, read).error, None, "{op}");
    }
    fixture.send_as(connection, -2, &ping());
    assert_eq!(fixture.xids(connection), [-2]);
    fixture.send_as(connection, -4, &auth("digest", "a:b"));
    assert_eq!(fixture.xids(connection), [-4]);
}

#[test]
fn a_session_of_its_own_lives_here_only() {
    let mut member = reader();
    let fixture = &mut member.fixture;
    let connection = connect(fixture, reading_hello());
    let session = fixture.session(connection);
    assert!(!fixture.replica.tree().sessions().contains_key(&session));
    // It can be taken up again, from another connection too.
    let second = connect(fixture, reading_again(session));
    assert_eq!(fixture.session(second), session);
    assert_eq!(fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::Replaced));
    fixture.disconnect(connection);
    fixture.disconnect(second);
    let third = connect(fixture, reading_again(session));
    let reply = answer(fixture, third, close_session());
    assert_eq!((reply.error, reply.zxid), (None, fixture.replica.last_zxid().0));
    assert_eq!(fixture.phase(third), ConnectionPhase::Draining);
    assert_eq!(fixture.submitted, fixture.answered);
    let stale = fixture.open();
    fixture.connect(stale, reading_again(session));
    let rejected = fixture.greeting(stale).unwrap();
    assert_eq!((rejected.session_id, rejected.read_only), (0, ReadOnlyField::Present(true)));
    assert_eq!(fixture.phase(stale), ConnectionPhase::Draining);
    assert!(member.take_effects().is_empty(), "no disk and no member hears of it");
}

#[test]
fn a_session_of_the_ensemble_may_read_and_stays_one() {
    let mut member = reader();
    let fixture = &mut member.fixture;
    let connection = connect(fixture, reading_again(SESSION));
    assert_eq!(fixture.session(connection), SESSION);
    assert_eq!(answer(fixture, connection, get("/a")).data(), "x");
    assert_eq!(answer(fixture, connection, close_session()).error, Some(ErrorCode::NotReadOnly));
    assert_eq!(
        fixture.phase(connection),
        ConnectionPhase::Serving,
        "it is not closed, and its connection is not either"
    );
    assert_eq!(answer(fixture, connection, exists("/a")).error, None);
    // Silence ends the connection, and nothing else.
    fixture.run_until(fixture.now.monotonic_ms + 40_000);
    assert_eq!(fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::SessionEnded));
    fixture.disconnect(connection);
    assert!(fixture.replica.tree().sessions().contains_key(&SESSION));
    connect(fixture, reading_again(SESSION));
}

#[test]
fn unknown_sessions_and_wrong_passwords_are_rejected() {
    let mut member = reader();
    let fixture = &mut member.fixture;
    let wrong = ConnectRequest { password: Some(vec![7; 16].into()), ..reading_again(SESSION) };
    for request in [wrong, reading_again(SessionId(77))] {
        let kept = connect(fixture, reading_again(SESSION));
        let connection = fixture.open();
        fixture.connect(connection, request);
        assert_eq!(fixture.greeting(connection).unwrap().session_id, 0);
        assert_eq!(
            fixture.phase(kept),
            ConnectionPhase::Serving,
            "nothing happened to the session's own connection"
        );
    }
}

#[test]
fn silent_sessions_of_its_own_end() {
    let mut member = reader();
    let fixture = &mut member.fixture;
    let (silent, busy) = (connect(fixture, reading_hello()), connect(fixture, reading_hello()));
    for _ in 0..8 {
        fixture.run_until(fixture.now.monotonic_ms + 5000);
        fixture.send_as(busy, -2, &ping());
    }
    assert_eq!(fixture.phase(silent), ConnectionPhase::Closed(DisconnectReason::SessionEnded));
    assert_eq!(fixture.phase(busy), ConnectionPhase::Serving);
    assert_eq!(fixture.node.session_report().buckets.iter().map(|(_, ids)| ids.len()).sum::<usize>(), 1);
}

#[test]
fn when_a_leader_is_found_every_reader_is_closed_before_anything_changes() {
    let mut member = reader();
    let (own, real) =
        (connect(&mut member.fixture, reading_hello()), connect(&mut member.fixture, reading_again(SESSION)));
    let own_session = member.fixture.session(own);
    member.script().is_cut_off = false;
    member.want([]);
    assert_eq!(member.take_effects(), [Effect::Serve(ServeEffect::Stop)]);
    for connection in [own, real] {
        assert_eq!(member.fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::NotServing));
        member.fixture.disconnect(connection);
    }
    let between = member.fixture.open();
    member.fixture.connect(between, reading_hello());
    assert_eq!(member.fixture.phase(between), ConnectionPhase::Closed(DisconnectReason::NotServing));
    member.follow();
    let connection = member.fixture.open();
    member.fixture.connect(connection, reading_again(SESSION));
    let asked = member.said().pop().unwrap();
    assert!(matches!(asked, zebu_proto::quorum::Packet::Revalidate { session: SESSION, .. }), "{asked:?}");
    assert!(!member.fixture.replica.tree().sessions().contains_key(&own_session));
}

#[test]
fn a_farewell_that_comes_after_the_end_of_the_service_is_given_up() {
    let mut member = reader();
    let connection = connect(&mut member.fixture, reading_hello());
    let frame = close_session().frame(5);
    let late = member.fixture.receive(connection, &frame);
    member.script().is_cut_off = false;
    member.want([]);
    member.fixture.submit(late);
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::NotServing));
    assert_eq!(member.fixture.submitted, member.fixture.answered);
}

/// A partitioned server of three serves the committed state. Its tree changes only after its clients are
/// disconnected.
#[test]
fn a_member_of_three_is_cut_off_and_comes_back() {
    let mut ensemble = ThreeNodes::new();
    let leader = ensemble.leader().unwrap();
    let session = {
        let connection = ensemble.client(leader, 30_000);
        ensemble.call(leader, connection, create("/a", "decided", 0));
        ensemble.session(leader, connection)
    };
    // A proposal of the leader alone is in its log and not committed.
    let tail = ensemble.client(leader, 30_000);
    ensemble.cut_off(leader);
    ensemble.send(leader, tail, set("/a", "undecided"));
    ensemble.run(20_000);
    assert!(ensemble.server(leader).reads_alone);
    let connection = {
        let fixture = &mut ensemble.server(leader).fixture;
        let connection = connect(fixture, reading_again(session));
        assert_eq!(answer(fixture, connection, get_watch("/a")).data(), "decided");
        assert_eq!(answer(fixture, connection, set("/a", "mine")).error, Some(ErrorCode::NotReadOnly));
        connection
    };
    let next = ensemble.leader().unwrap();
    let other = ensemble.client(next, 30_000);
    ensemble.call(next, other, set("/a", "later"));
    ensemble.heal();
    ensemble.run(10_000);
    assert!(!ensemble.server(leader).reads_alone && ensemble.server(leader).serving.is_some());
    assert_eq!(
        ensemble.server(leader).fixture.phase(connection),
        ConnectionPhase::Closed(DisconnectReason::NotServing)
    );
    assert!(
        ensemble.server(leader).fixture.received(connection).is_empty(),
        "no event of a state that it left"
    );
    ensemble.server(leader).fixture.disconnect(connection);
    ensemble.assert_equal();
}

/// The two other servers are down, so no leader has expired the session. It continues when they are back.
#[test]
fn a_session_survives_a_time_of_reads_alone() {
    let mut ensemble = ThreeNodes::new();
    let ids: Vec<ServerId> = ensemble.servers.keys().copied().collect();
    let last = ids[0];
    let (session, path) = {
        let connection = ensemble.client(last, 30_000);
        ensemble.call(last, connection, create("/e", "", EPHEMERAL));
        (ensemble.session(last, connection), "/e")
    };
    ensemble.crash(ids[1]);
    ensemble.crash(ids[2]);
    ensemble.run(20_000);
    assert!(ensemble.server(last).reads_alone);
    for _ in 0..3 {
        // Started again, it has what it had.
        ensemble.crash(last);
        ensemble.start(last);
        ensemble.run(READ_ONLY_AFTER_MS - 1);
        assert!(!ensemble.server(last).reads_alone);
        ensemble.run(1);
        assert!(ensemble.server(last).reads_alone);
    }
    let fixture = &mut ensemble.server(last).fixture;
    let connection = connect(fixture, reading_again(session));
    assert_eq!(answer(fixture, connection, get_ephemerals("/")).names(), [path]);
    ensemble.start(ids[1]);
    ensemble.run(5000);
    assert_eq!(
        ensemble.server(last).fixture.phase(connection),
        ConnectionPhase::Closed(DisconnectReason::NotServing)
    );
    ensemble.server(last).fixture.disconnect(connection);
    let again = ensemble.resume(ids[1], session, 30_000).unwrap();
    assert_eq!(ensemble.call(ids[1], again, get_ephemerals("/")).names(), [path]);
    assert_eq!(ensemble.call(ids[1], again, set("/e", "mine")).error, None);
}

#[test]
fn a_watch_set_while_reading_does_not_outlive_its_connection() {
    let mut member = reader();
    let connection = connect(&mut member.fixture, reading_hello());
    answer(&mut member.fixture, connection, get_watch("/a"));
    assert_eq!(member.fixture.replica.watches().len(), 1);
    member.script().is_cut_off = false;
    member.want([]);
    member.fixture.disconnect(connection);
    assert_eq!(member.fixture.replica.watches().len(), 0);
}

#[test]
fn an_observer_that_is_cut_off_serves_reads_too() {
    let mut ensemble = ThreeNodes::with(3, 1, HistoryLimits { entries: 1000, bytes: 1 << 20 });
    let observer = ServerId(4);
    let connection = ensemble.client(observer, 30_000);
    ensemble.call(observer, connection, create("/a", "x", 0));
    ensemble.cut_off(observer);
    ensemble.run(READ_ONLY_AFTER_MS + 100);
    assert!(ensemble.server(observer).reads_alone && ensemble.leader().is_some());
    let fixture = &mut ensemble.server(observer).fixture;
    fixture.disconnect(connection);
    let connection = connect(fixture, reading_hello());
    assert_eq!(answer(fixture, connection, get("/a")).data(), "x");
}

#[test]
fn what_may_be_lost_is_not_shown() {
    let mut ensemble = ThreeNodes::new();
    let ids: Vec<ServerId> = ensemble.servers.keys().copied().collect();
    ids.iter().for_each(|&id| ensemble.crash(id));
    ensemble.distrust(ids[0]);
    ensemble.start(ids[0]);
    ensemble.run(10 * READ_ONLY_AFTER_MS);
    assert!(!ensemble.server(ids[0]).reads_alone);
    ensemble.start(ids[1]);
    ensemble.start(ids[2]);
    ensemble.run(10_000);
    assert!(ensemble.server(ids[0]).serving.is_some());
}
