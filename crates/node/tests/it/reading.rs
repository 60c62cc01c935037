//! A member that is cut off serves reads to those who asked for it, and nothing else.

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
use crate::scripted::Member;
use crate::trio::{READ_ONLY_AFTER_MS, Trio};
use crate::world::{World, settings};

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
fn connect(world: &mut World, request: ConnectRequest) -> ConnectionId {
    let lane = world.open();
    world.connect(lane, request);
    let greeting = world.greeting(lane).unwrap();
    assert_ne!(greeting.session_id, 0);
    assert_eq!(greeting.read_only, ReadOnlyField::Present(true));
    lane
}

/// The answer of a server that needs nobody for it.
fn answer(world: &mut World, lane: ConnectionId, ask: Ask) -> crate::client::Reply {
    let xid = world.send(lane, ask);
    let mut frames = world.received(lane);
    let reply = frames.pop().expect("an answer").reply();
    assert_eq!(reply.xid, xid);
    reply
}

#[test]
fn a_member_without_a_leader_serves_reads_after_a_while() {
    let mut member = cut_off();
    assert_eq!(member.world.node.next_deadline(), member.world.now.monotonic_ms + AFTER_MS);
    member.pass(AFTER_MS - 1);
    assert!(member.take_effects().is_empty());
    let early = member.world.open();
    member.world.connect(early, reading_hello());
    assert_eq!(member.world.phase(early), ConnectionPhase::Closed(DisconnectReason::NotServing));
    member.pass(1);
    assert_eq!(member.take_effects(), [Effect::Serve(ServeEffect::ServeReadOnly)]);
    let lane = connect(&mut member.world, reading_hello());
    assert_eq!(answer(&mut member.world, lane, get("/a")).data(), "x");
    assert_eq!(member.world.node.in_flight(), 0);
}

#[test]
fn a_search_that_ends_in_time_starts_the_wait_anew() {
    let mut member = cut_off();
    member.pass(AFTER_MS - 1);
    member.script().is_cut_off = false;
    member.want([]);
    assert_eq!(member.world.node.next_deadline(), i64::MAX);
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
    assert_eq!(member.world.node.next_deadline(), i64::MAX);
}

#[test]
fn who_did_not_ask_for_it_is_closed_without_a_word() {
    let mut member = reader();
    for field in [ReadOnlyField::Absent, ReadOnlyField::Present(false)] {
        for request in [hello(30_000), reading_again(SESSION)] {
            let lane = member.world.open();
            member.world.connect(lane, ConnectRequest { read_only: field, ..request });
            assert_eq!(member.world.phase(lane), ConnectionPhase::Closed(DisconnectReason::ReadOnly));
            assert!(member.world.take_bytes(lane).is_empty());
        }
    }
}

#[test]
fn who_has_seen_more_is_closed_without_a_word() {
    let mut member = reader();
    let seen = member.world.replica.last_zxid().0;
    connect(&mut member.world, ConnectRequest { last_zxid_seen: seen, ..reading_hello() });
    let ahead = member.world.open();
    member.world.connect(ahead, ConnectRequest { last_zxid_seen: seen + 1, ..reading_hello() });
    assert_eq!(member.world.phase(ahead), ConnectionPhase::Closed(DisconnectReason::AheadOfServer));
}

#[test]
fn every_write_is_refused_in_its_turn_whatever_follows_the_header() {
    let mut member = reader();
    let world = &mut member.world;
    let lane = connect(world, reading_hello());
    let applied = world.replica.last_zxid().0;
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
        let reply = answer(world, lane, write);
        assert_eq!(reply.error, Some(ErrorCode::NotReadOnly), "{number}");
        assert_eq!(reply.zxid, applied);
    }
    for op in writes().map(|write| write.op) {
        assert_eq!(answer(world, lane, Ask::raw(op, &[9])).error, Some(ErrorCode::NotReadOnly), "{op}");
    }
    let asks = [set("/a", "y"), get("/a"), create("/b", "", 0), exists("/b")];
    let xids: Vec<i32> = asks.into_iter().map(|ask| world.send(lane, ask)).collect();
    let replies = world.replies(lane);
    assert_eq!(replies.iter().map(|reply| reply.xid).collect::<Vec<_>>(), xids);
    let errors: Vec<_> = replies.iter().map(|reply| reply.error).collect();
    let (refused, missing) = (Some(ErrorCode::NotReadOnly), Some(ErrorCode::NoNode));
    assert_eq!(errors, [refused, None, refused, missing]);
    assert_eq!(world.submitted, 0, "nobody but the connection was bothered");
    assert!(member.take_effects().is_empty());
}

#[test]
fn what_no_client_may_send_is_refused_as_anywhere() {
    let mut member = reader();
    for op in [OpCode::CreateSession, OpCode::Check, OpCode::DeleteContainer, OpCode::Error] {
        let lane = connect(&mut member.world, reading_hello());
        let reply = answer(&mut member.world, lane, Ask::raw(op.wire(), &[]));
        assert_eq!((reply.error, reply.zxid), (Some(ErrorCode::Unimplemented), -1));
        assert_eq!(member.world.phase(lane), ConnectionPhase::Draining);
    }
}

#[test]
fn every_read_is_answered() {
    let mut member = reader();
    let world = &mut member.world;
    let lane = connect(world, reading_hello());
    assert_eq!(answer(world, lane, get_watch("/a")).data(), "x");
    let mut names = answer(world, lane, children_watch("/")).names();
    names.sort();
    assert_eq!(names, ["a", "zookeeper"]);
    assert_eq!(answer(world, lane, exists("/none")).error, Some(ErrorCode::NoNode));
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
        assert_eq!(answer(world, lane, read).error, None, "{op}");
    }
    world.send_as(lane, -2, &ping());
    assert_eq!(world.xids(lane), [-2]);
    world.send_as(lane, -4, &auth("digest", "a:b"));
    assert_eq!(world.xids(lane), [-4]);
}

#[test]
fn a_session_of_its_own_lives_here_only() {
    let mut member = reader();
    let world = &mut member.world;
    let lane = connect(world, reading_hello());
    let session = world.session(lane);
    assert!(!world.replica.tree().sessions().contains_key(&session));
    // It can be taken up again, from another connection too.
    let second = connect(world, reading_again(session));
    assert_eq!(world.session(second), session);
    assert_eq!(world.phase(lane), ConnectionPhase::Closed(DisconnectReason::Replaced));
    world.disconnect(lane);
    world.disconnect(second);
    let third = connect(world, reading_again(session));
    let reply = answer(world, third, close_session());
    assert_eq!((reply.error, reply.zxid), (None, world.replica.last_zxid().0));
    assert_eq!(world.phase(third), ConnectionPhase::Draining);
    assert_eq!(world.submitted, world.answered);
    let stale = world.open();
    world.connect(stale, reading_again(session));
    let rejected = world.greeting(stale).unwrap();
    assert_eq!((rejected.session_id, rejected.read_only), (0, ReadOnlyField::Present(true)));
    assert_eq!(world.phase(stale), ConnectionPhase::Draining);
    assert!(member.take_effects().is_empty(), "no disk and no member hears of it");
}

#[test]
fn a_session_of_the_ensemble_may_read_and_stays_one() {
    let mut member = reader();
    let world = &mut member.world;
    let lane = connect(world, reading_again(SESSION));
    assert_eq!(world.session(lane), SESSION);
    assert_eq!(answer(world, lane, get("/a")).data(), "x");
    assert_eq!(answer(world, lane, close_session()).error, Some(ErrorCode::NotReadOnly));
    assert_eq!(
        world.phase(lane),
        ConnectionPhase::Serving,
        "it is not closed, and its connection is not either"
    );
    assert_eq!(answer(world, lane, exists("/a")).error, None);
    // Silence ends the connection, and nothing else.
    world.run_until(world.now.monotonic_ms + 40_000);
    assert_eq!(world.phase(lane), ConnectionPhase::Closed(DisconnectReason::SessionEnded));
    world.disconnect(lane);
    assert!(world.replica.tree().sessions().contains_key(&SESSION));
    connect(world, reading_again(SESSION));
}

#[test]
fn unknown_sessions_and_wrong_passwords_are_rejected() {
    let mut member = reader();
    let world = &mut member.world;
    let wrong = ConnectRequest { password: Some(vec![7; 16].into()), ..reading_again(SESSION) };
    for request in [wrong, reading_again(SessionId(77))] {
        let kept = connect(world, reading_again(SESSION));
        let lane = world.open();
        world.connect(lane, request);
        assert_eq!(world.greeting(lane).unwrap().session_id, 0);
        assert_eq!(
            world.phase(kept),
            ConnectionPhase::Serving,
            "nothing happened to the session's own connection"
        );
    }
}

#[test]
fn silent_sessions_of_its_own_end() {
    let mut member = reader();
    let world = &mut member.world;
    let (silent, busy) = (connect(world, reading_hello()), connect(world, reading_hello()));
    for _ in 0..8 {
        world.run_until(world.now.monotonic_ms + 5000);
        world.send_as(busy, -2, &ping());
    }
    assert_eq!(world.phase(silent), ConnectionPhase::Closed(DisconnectReason::SessionEnded));
    assert_eq!(world.phase(busy), ConnectionPhase::Serving);
    assert_eq!(world.node.session_report().buckets.iter().map(|(_, ids)| ids.len()).sum::<usize>(), 1);
}

#[test]
fn when_a_leader_is_found_every_reader_is_closed_before_anything_changes() {
    let mut member = reader();
    let (own, real) =
        (connect(&mut member.world, reading_hello()), connect(&mut member.world, reading_again(SESSION)));
    let own_session = member.world.session(own);
    member.script().is_cut_off = false;
    member.want([]);
    assert_eq!(member.take_effects(), [Effect::Serve(ServeEffect::Stop)]);
    for lane in [own, real] {
        assert_eq!(member.world.phase(lane), ConnectionPhase::Closed(DisconnectReason::NotServing));
        member.world.disconnect(lane);
    }
    let between = member.world.open();
    member.world.connect(between, reading_hello());
    assert_eq!(member.world.phase(between), ConnectionPhase::Closed(DisconnectReason::NotServing));
    member.follow();
    let lane = member.world.open();
    member.world.connect(lane, reading_again(SESSION));
    let asked = member.said().pop().unwrap();
    assert!(matches!(asked, zebu_proto::quorum::Packet::Revalidate { session: SESSION, .. }), "{asked:?}");
    assert!(!member.world.replica.tree().sessions().contains_key(&own_session));
}

#[test]
fn a_farewell_that_comes_after_the_end_of_the_service_is_given_up() {
    let mut member = reader();
    let lane = connect(&mut member.world, reading_hello());
    let frame = close_session().frame(5);
    let late = member.world.receive(lane, &frame);
    member.script().is_cut_off = false;
    member.want([]);
    member.world.submit(late);
    assert_eq!(member.world.phase(lane), ConnectionPhase::Closed(DisconnectReason::NotServing));
    assert_eq!(member.world.submitted, member.world.answered);
}

/// Without the others, one of three serves what was decided, and what it has changes under it only when
/// nobody looks any more.
#[test]
fn a_member_of_three_is_cut_off_and_comes_back() {
    let mut trio = Trio::new();
    let leader = trio.leader().unwrap();
    let session = {
        let lane = trio.client(leader, 30_000);
        trio.call(leader, lane, create("/a", "decided", 0));
        trio.session(leader, lane)
    };
    // What the leader proposes alone is in its log, and not decided.
    let tail = trio.client(leader, 30_000);
    trio.cut_off(leader);
    trio.send(leader, tail, set("/a", "undecided"));
    trio.run(20_000);
    assert!(trio.server(leader).reads_alone);
    let lane = {
        let world = &mut trio.server(leader).world;
        let lane = connect(world, reading_again(session));
        assert_eq!(answer(world, lane, get_watch("/a")).data(), "decided");
        assert_eq!(answer(world, lane, set("/a", "mine")).error, Some(ErrorCode::NotReadOnly));
        lane
    };
    let next = trio.leader().unwrap();
    let other = trio.client(next, 30_000);
    trio.call(next, other, set("/a", "later"));
    trio.heal();
    trio.run(10_000);
    assert!(!trio.server(leader).reads_alone && trio.server(leader).serving.is_some());
    assert_eq!(trio.server(leader).world.phase(lane), ConnectionPhase::Closed(DisconnectReason::NotServing));
    assert!(trio.server(leader).world.received(lane).is_empty(), "no event of a state that it left");
    trio.server(leader).world.disconnect(lane);
    trio.assert_equal();
}

/// The two others are gone, so nobody has ended the session: it goes on when they are back.
#[test]
fn a_session_survives_a_time_of_reads_alone() {
    let mut trio = Trio::new();
    let ids: Vec<ServerId> = trio.servers.keys().copied().collect();
    let last = ids[0];
    let (session, path) = {
        let lane = trio.client(last, 30_000);
        trio.call(last, lane, create("/e", "", EPHEMERAL));
        (trio.session(last, lane), "/e")
    };
    trio.crash(ids[1]);
    trio.crash(ids[2]);
    trio.run(20_000);
    assert!(trio.server(last).reads_alone);
    for _ in 0..3 {
        // Started again, it has what it had.
        trio.crash(last);
        trio.start(last);
        trio.run(READ_ONLY_AFTER_MS - 1);
        assert!(!trio.server(last).reads_alone);
        trio.run(1);
        assert!(trio.server(last).reads_alone);
    }
    let world = &mut trio.server(last).world;
    let lane = connect(world, reading_again(session));
    assert_eq!(answer(world, lane, get_ephemerals("/")).names(), [path]);
    trio.start(ids[1]);
    trio.run(5000);
    assert_eq!(trio.server(last).world.phase(lane), ConnectionPhase::Closed(DisconnectReason::NotServing));
    trio.server(last).world.disconnect(lane);
    let again = trio.resume(ids[1], session, 30_000).unwrap();
    assert_eq!(trio.call(ids[1], again, get_ephemerals("/")).names(), [path]);
    assert_eq!(trio.call(ids[1], again, set("/e", "mine")).error, None);
}

#[test]
fn a_watch_set_while_reading_does_not_outlive_its_connection() {
    let mut member = reader();
    let lane = connect(&mut member.world, reading_hello());
    answer(&mut member.world, lane, get_watch("/a"));
    assert_eq!(member.world.replica.watches().len(), 1);
    member.script().is_cut_off = false;
    member.want([]);
    member.world.disconnect(lane);
    assert_eq!(member.world.replica.watches().len(), 0);
}

#[test]
fn an_observer_that_is_cut_off_serves_reads_too() {
    let mut trio = Trio::with(3, 1, HistoryLimits { entries: 1000, bytes: 1 << 20 });
    let observer = ServerId(4);
    let lane = trio.client(observer, 30_000);
    trio.call(observer, lane, create("/a", "x", 0));
    trio.cut_off(observer);
    trio.run(READ_ONLY_AFTER_MS + 100);
    assert!(trio.server(observer).reads_alone && trio.leader().is_some());
    let world = &mut trio.server(observer).world;
    world.disconnect(lane);
    let lane = connect(world, reading_hello());
    assert_eq!(answer(world, lane, get("/a")).data(), "x");
}

#[test]
fn what_may_be_lost_is_not_shown() {
    let mut trio = Trio::new();
    let ids: Vec<ServerId> = trio.servers.keys().copied().collect();
    ids.iter().for_each(|&id| trio.crash(id));
    trio.distrust(ids[0]);
    trio.start(ids[0]);
    trio.run(10 * READ_ONLY_AFTER_MS);
    assert!(!trio.server(ids[0]).reads_alone);
    trio.start(ids[1]);
    trio.start(ids[2]);
    trio.run(10_000);
    assert!(trio.server(ids[0]).serving.is_some());
}
