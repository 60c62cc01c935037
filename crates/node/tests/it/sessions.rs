//! How sessions end, and what they leave.

use zebu_node::{ConnectionId, ConnectionPhase, DisconnectReason};
use zebu_proto::client::ConnectRequest;
use zebu_proto::client::EventType::NodeDeleted;
use zebu_proto::txn::Txn;
use zebu_proto::{ErrorCode, SessionId};

use crate::client::{
    EPHEMERAL, Frame, close_session, create, delete, exists_watch, get, get_ephemerals, ping, set, sync,
};
use crate::world::{TICK_MS, World};

fn exists(world: &World, path: &str) -> bool {
    world.replica.tree().node(path).is_some()
}

/// When the session of a silent client ends, by the clock of the server.
fn expires_ms(touched_ms: i64, timeout_ms: i64) -> i64 {
    ((touched_ms + timeout_ms) / TICK_MS + 1) * TICK_MS
}

#[test]
fn a_silent_session_expires_at_the_end_of_its_tick() {
    let mut world = World::new();
    world.pass(700);
    let lane = world.client_with(5000);
    let session = world.session(lane);
    world.call(lane, create("/e", "", EPHEMERAL));
    let end_ms = expires_ms(world.now.monotonic_ms, 5000);
    world.run_until(end_ms - 1);
    assert_eq!(world.phase(lane), ConnectionPhase::Serving);
    assert!(exists(&world, "/e"));
    world.pass(1);
    world.tick();
    assert!(exists(&world, "/e"), "the close is not durable yet");
    assert_eq!(world.phase(lane), ConnectionPhase::Serving);
    world.persist();
    assert!(!exists(&world, "/e"));
    assert_eq!(world.phase(lane), ConnectionPhase::Closed(DisconnectReason::SessionEnded));
    assert!(world.replica.tree().sessions().is_empty());
    let entry = world.history.last().unwrap();
    assert_eq!((entry.header.session, entry.header.cxid), (session, 0));
    assert_eq!(entry.txn, Txn::CloseSession(Some(vec!["/e".into()])));
}

#[test]
fn every_kind_of_request_touches_the_session() {
    for ask in [ping(), sync("/"), get("/none"), create("/x", "", 0), crate::client::Ask::raw(4, &[])] {
        let mut world = World::new();
        let lane = world.client_with(5000);
        for _ in 0..10 {
            world.run_until(world.now.monotonic_ms + 4999);
            world.send_as(lane, 1, &ask);
            world.persist();
        }
        assert_eq!(world.phase(lane), ConnectionPhase::Serving, "{ask:?}");
        let end_ms = expires_ms(world.now.monotonic_ms, 5000);
        world.run_until(end_ms);
        assert_eq!(world.phase(lane), ConnectionPhase::Closed(DisconnectReason::SessionEnded));
    }
}

#[test]
fn a_request_behind_a_write_that_waits_for_the_disk_touches_too() {
    let mut world = World::new();
    let lane = world.client_with(5000);
    world.send(lane, create("/slow", "", 0));
    for _ in 0..10 {
        world.pass(3000);
        world.send_as(lane, -2, &ping());
        world.tick();
    }
    assert_eq!(world.history.len(), 2, "the session did not expire while the disk was slow");
    world.persist();
    assert_eq!(world.received(lane).len(), 11);
}

#[test]
fn a_session_without_a_connection_lives_for_its_timeout() {
    let mut world = World::new();
    let lane = world.client_with(5000);
    world.call(lane, create("/e", "", EPHEMERAL));
    world.pass(1500);
    world.send_as(lane, -2, &ping());
    let end_ms = expires_ms(world.now.monotonic_ms, 5000);
    world.pass(1000);
    world.disconnect(lane);
    world.run_until(end_ms - 1);
    assert!(exists(&world, "/e"), "counted from the last request");
    world.run_until(end_ms);
    assert!(!exists(&world, "/e"));
}

#[test]
fn a_session_taken_up_again_lives_by_the_timeout_negotiated_last() {
    for timeout_ms in [4000, 20_000] {
        let mut world = World::new();
        let first = world.client_with(9000);
        world.call(first, create("/e", "", EPHEMERAL));
        let again = ConnectRequest { timeout_ms, ..world.hello_again(first) };
        world.disconnect(first);
        world.pass(1000);
        let second = world.open();
        world.connect(second, again);
        let end_ms = expires_ms(world.now.monotonic_ms, i64::from(timeout_ms));
        world.run_until(end_ms - 1);
        assert!(exists(&world, "/e"), "{timeout_ms}");
        world.run_until(end_ms);
        assert!(!exists(&world, "/e"), "{timeout_ms}");
    }
}

#[test]
fn one_transaction_removes_all_ephemerals_pending_ones_included() {
    let mut world = World::new();
    let (mine, other) = (world.client_with(5000), world.client());
    world.call(mine, create("/dir", "", 0));
    for name in ["/dir/a", "/dir/b", "/dir/c"] {
        world.call(mine, create(name, "", EPHEMERAL));
    }
    world.call(other, exists_watch("/dir/a"));
    world.call(other, exists_watch("/dir/d"));
    world.send(mine, create("/dir/d", "", EPHEMERAL));
    world.send(mine, delete("/dir/b"));
    world.send(mine, close_session());
    world.persist_one();
    assert!(matches!(world.received(other)[..], [Frame::Event { .. }]), "/dir/d was created");
    world.persist();
    let entry = world.history.last().unwrap();
    let paths = ["/dir/a", "/dir/c", "/dir/d"].map(Box::from).to_vec();
    assert_eq!(entry.txn, Txn::CloseSession(Some(paths)));
    assert_eq!(world.replica.tree().node("/dir").unwrap().num_children(), 0);
    let zxid = entry.header.zxid.0;
    assert_eq!(world.received(other), [Frame::Event { zxid, kind: NodeDeleted, path: "/dir/a".into() }]);
}

#[test]
fn a_client_that_says_goodbye_is_answered_and_nothing_behind_it_is_looked_at() {
    let mut world = World::new();
    let lane = world.client();
    world.send_as(lane, 1, &create("/e", "", EPHEMERAL));
    world.send_as(lane, 2, &close_session());
    assert_eq!(world.phase(lane), ConnectionPhase::Draining);
    world.send_as(lane, 3, &create("/late", "", 0));
    world.send_as(lane, 4, &get("/"));
    world.persist();
    let replies = world.replies(lane);
    assert_eq!(replies.iter().map(|reply| reply.xid).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((replies[1].error, replies[1].body.len()), (None, 0));
    assert!(!exists(&world, "/e") && !exists(&world, "/late"));
    assert_eq!(world.phase(lane), ConnectionPhase::Draining);
    assert!(world.lane(lane).is_drained());
    world.disconnect(lane);
    assert!(world.node.session_report().buckets.is_empty());
}

#[test]
fn writes_of_a_session_that_is_closing_fail() {
    let mut world = World::new();
    let lane = world.client_with(5000);
    world.call(lane, create("/before", "", 0));
    world.pass(20_000);
    world.tick();
    world.send_as(lane, 2, &create("/after", "", 0));
    world.send_as(lane, 3, &create("/after-e", "", EPHEMERAL));
    let entries: Vec<_> = world.history[2..].iter().map(|entry| entry.txn.clone()).collect();
    assert_eq!(entries[0], Txn::CloseSession(Some(vec![])));
    assert_eq!(entries[1], Txn::error(ErrorCode::SessionExpired));
    assert_eq!(entries[2], Txn::error(ErrorCode::SessionExpired));
    world.persist();
    assert_eq!(world.phase(lane), ConnectionPhase::Closed(DisconnectReason::SessionEnded));
    assert!(exists(&world, "/before") && !exists(&world, "/after") && !exists(&world, "/after-e"));
}

#[test]
fn an_expired_session_with_an_ephemeral_on_its_way_leaves_nothing() {
    let mut world = World::new();
    let lane = world.client_with(5000);
    world.send(lane, create("/e", "", EPHEMERAL));
    world.send(lane, set("/e", "1"));
    world.disconnect(lane);
    world.pass(20_000);
    world.tick();
    world.persist();
    assert!(!exists(&world, "/e"));
    assert_eq!(world.replica.tree().ephemerals_count(), 0);
    assert!(world.replica.tree().sessions().is_empty());
}

/// A client that waits for an answer is not silent; the disk may take as long as it likes.
#[test]
fn a_session_does_not_expire_while_the_server_owes_it_an_answer() {
    let mut world = World::new();
    let lane = world.client_with(5000);
    world.send(lane, create("/e", "", EPHEMERAL));
    world.pass(60_000);
    world.tick();
    world.persist();
    assert!(exists(&world, "/e"));
    assert_eq!(world.xids(lane).len(), 1);
    world.pass(60_000);
    world.tick();
    world.persist();
    assert!(!exists(&world, "/e"), "with the answer the silence is its own");
}

#[test]
fn a_session_whose_connection_is_gone_ends_with_its_own_farewell_on_the_way() {
    let mut world = World::new();
    let lane = world.client();
    world.call(lane, create("/e", "", EPHEMERAL));
    world.send(lane, close_session());
    world.disconnect(lane);
    world.persist();
    assert!(!exists(&world, "/e"));
    assert!(world.replica.tree().sessions().is_empty());
    assert!(world.node.session_report().buckets.is_empty());
}

#[test]
fn sessions_get_a_full_timeout_after_a_restart() {
    let mut world = World::new();
    let lane = world.client_with(5000);
    let session = world.session(lane);
    world.call(lane, create("/e", "", EPHEMERAL));
    world.pass(4000);
    let again = world.hello_again(lane);
    let mut world = world.restart();
    let end_ms = expires_ms(world.now.monotonic_ms, 5000);
    assert_eq!(world.node.session_report().buckets, [(end_ms, vec![session])]);
    world.run_until(end_ms - 1);
    assert!(exists(&world, "/e"));
    let lane = world.open();
    world.connect(lane, again);
    assert_eq!(world.greeting(lane).unwrap().session_id, session.0);
    assert_eq!(world.call(lane, get_ephemerals("/")).names(), ["/e"]);
    world.run_until(world.now.monotonic_ms + 4000);
    assert!(exists(&world, "/e"));
    world.run_until(world.now.monotonic_ms + 40_000);
    assert!(!exists(&world, "/e"));
}

#[test]
fn a_write_that_the_disk_did_not_have_is_gone_after_a_restart() {
    let mut world = World::new();
    let lane = world.client();
    world.call(lane, create("/a", "1", 0));
    world.send(lane, set("/a", "2"));
    let zxid = world.replica.last_zxid();
    let mut world = world.restart();
    assert_eq!(world.replica.last_zxid(), zxid);
    let lane = world.client();
    assert_eq!(world.call(lane, get("/a")).data(), "1");
}

/// The clock may stand still or go back between two starts.
#[test]
fn a_new_session_never_gets_the_id_of_a_living_one() {
    let mut world = World::new();
    let lanes: Vec<ConnectionId> = (0..3).map(|_| world.client()).collect();
    world.call(lanes[0], create("/e", "", EPHEMERAL));
    let living: Vec<SessionId> = lanes.iter().map(|&lane| world.session(lane)).collect();
    let mut world = world.restart();
    for _ in 0..3 {
        let lane = world.client();
        assert!(!living.contains(&world.session(lane)), "{:?} is taken", world.session(lane));
    }
    assert_eq!(world.replica.tree().sessions().len(), 6);
}

/// A session that was there at the start may be over when the next client comes, and its client may still
/// come back.
#[test]
fn a_new_session_never_gets_the_id_of_one_that_has_ended() {
    let mut world = World::new();
    let lane = world.client_with(5000);
    let former = world.session(lane);
    let mut world = world.restart();
    world.run_until(expires_ms(world.now.monotonic_ms, 5000));
    assert!(world.replica.tree().sessions().is_empty());
    let lane = world.client();
    assert_ne!(world.session(lane), former);
    // What is over at the start is not remembered, but the counter begins elsewhere.
    world.call(lane, close_session());
    let former = world.session(lane);
    world.settings.seed += 1;
    let mut world = world.restart();
    assert!(world.replica.tree().sessions().is_empty());
    let lane = world.client();
    assert_ne!(world.session(lane), former);
}

/// A connection's end is told to the core some time after the connection is gone.
#[test]
fn a_session_does_not_expire_because_its_connection_just_left() {
    let mut world = World::new();
    let lane = world.client_with(5000);
    world.call(lane, create("/e", "", EPHEMERAL));
    let first_end_ms = expires_ms(world.now.monotonic_ms, 5000);
    world.run_until(first_end_ms - 1);
    world.send_as(lane, -2, &ping());
    let end_ms = expires_ms(world.now.monotonic_ms, 5000);
    let farewell = world.vanish(lane);
    world.pass(1);
    world.tick();
    world.persist();
    assert!(exists(&world, "/e"), "the client was heard of a moment ago");
    world.handle(farewell);
    world.run_until(end_ms - 1);
    assert!(exists(&world, "/e"));
    world.run_until(end_ms);
    assert!(!exists(&world, "/e"));
}

/// A client that lost its connection looks whether its last write was carried out. What it sees must not
/// change afterwards.
#[test]
fn a_session_taken_up_again_sees_the_writes_of_its_former_connection() {
    let mut world = World::new();
    let first = world.client();
    world.send(first, create("/lock", "", EPHEMERAL));
    let again = world.hello_again(first);
    world.disconnect(first);
    let second = world.open();
    world.connect(second, again);
    assert_eq!(world.greeting(second), None, "what is on its way goes first");
    world.persist_one();
    assert!(world.greeting(second).is_some());
    world.send(second, get("/lock"));
    assert_eq!(world.replies(second)[0].data(), "");
}

/// The former connection's task may still hold writes that the core has not seen.
#[test]
fn a_write_of_a_former_connection_that_comes_too_late_is_given_up() {
    let mut world = World::new();
    let first = world.client();
    let late = world.receive(first, &create("/late", "", 0).frame(1));
    let goodbye = world.receive(first, &close_session().frame(2));
    let second = world.open();
    world.connect(second, world.hello_again(first));
    assert!(world.greeting(second).is_some());
    assert_eq!(world.call(second, get("/late")).error, Some(ErrorCode::NoNode));
    world.submit(late);
    world.submit(goodbye);
    world.persist();
    assert!(!exists(&world, "/late"), "the client was told that it does not exist");
    assert_eq!(world.phase(second), ConnectionPhase::Serving, "and its session goes on");
}

#[test]
fn a_write_of_a_former_connection_is_given_up_even_when_the_newer_one_has_left_again() {
    let mut world = World::new();
    let first = world.client();
    let late = world.receive(first, &create("/late", "", 0).frame(1));
    let second = world.open();
    world.connect(second, world.hello_again(first));
    world.disconnect(second);
    world.submit(late);
    world.persist();
    assert!(!exists(&world, "/late"));
}

/// Nobody else has spoken for the session since: what it sent before it left is carried out.
#[test]
fn a_write_of_a_connection_that_left_is_carried_out() {
    let mut world = World::new();
    let lane = world.client();
    let write = world.receive(lane, &create("/sent", "", 0).frame(1));
    world.disconnect(lane);
    world.submit(write);
    world.persist();
    assert!(exists(&world, "/sent"));
}
