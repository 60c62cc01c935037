//! The end of sessions and of their ephemeral nodes.

use zebu_node::{ConnectionId, ConnectionPhase, DisconnectReason};
use zebu_proto::client::ConnectRequest;
use zebu_proto::client::EventType::NodeDeleted;
use zebu_proto::txn::Txn;
use zebu_proto::{ErrorCode, SessionId};

use crate::client::{
    EPHEMERAL, Frame, close_session, create, delete, exists_watch, get, get_ephemerals, ping, set, sync,
};
use crate::node_fixture::{NodeFixture, TICK_MS};

fn exists(fixture: &NodeFixture, path: &str) -> bool {
    fixture.replica.tree().node(path).is_some()
}

/// When the session of a silent client ends, by the clock of the server.
fn expires_ms(touched_ms: i64, timeout_ms: i64) -> i64 {
    ((touched_ms + timeout_ms) / TICK_MS + 1) * TICK_MS
}

#[test]
fn a_silent_session_expires_at_the_end_of_its_tick() {
    let mut fixture = NodeFixture::new();
    fixture.pass(700);
    let connection = fixture.client_with(5000);
    let session = fixture.session(connection);
    fixture.call(connection, create("/e", "", EPHEMERAL));
    let end_ms = expires_ms(fixture.now.monotonic_ms, 5000);
    fixture.run_until(end_ms - 1);
    assert_eq!(fixture.phase(connection), ConnectionPhase::Serving);
    assert!(exists(&fixture, "/e"));
    fixture.pass(1);
    fixture.tick();
    assert!(exists(&fixture, "/e"), "the close is not durable yet");
    assert_eq!(fixture.phase(connection), ConnectionPhase::Serving);
    fixture.persist();
    assert!(!exists(&fixture, "/e"));
    assert_eq!(fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::SessionEnded));
    assert!(fixture.replica.tree().sessions().is_empty());
    let entry = fixture.history.last().unwrap();
    assert_eq!((entry.header.session, entry.header.cxid), (session, 0));
    assert_eq!(entry.txn, Txn::CloseSession(Some(vec!["/e".into()])));
}

#[test]
fn every_kind_of_request_touches_the_session() {
    for ask in [ping(), sync("/"), get("/none"), create("/x", "", 0), crate::client::Ask::raw(4, &[])] {
        let mut fixture = NodeFixture::new();
        let connection = fixture.client_with(5000);
        for _ in 0..10 {
            fixture.run_until(fixture.now.monotonic_ms + 4999);
            fixture.send_as(connection, 1, &ask);
            fixture.persist();
        }
        assert_eq!(fixture.phase(connection), ConnectionPhase::Serving, "{ask:?}");
        let end_ms = expires_ms(fixture.now.monotonic_ms, 5000);
        fixture.run_until(end_ms);
        assert_eq!(fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::SessionEnded));
    }
}

#[test]
fn a_request_behind_a_write_that_waits_for_the_disk_touches_too() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client_with(5000);
    fixture.send(connection, create("/slow", "", 0));
    for _ in 0..10 {
        fixture.pass(3000);
        fixture.send_as(connection, -2, &ping());
        fixture.tick();
    }
    assert_eq!(fixture.history.len(), 2, "the session did not expire while the disk was slow");
    fixture.persist();
    assert_eq!(fixture.received(connection).len(), 11);
}

#[test]
fn a_session_without_a_connection_lives_for_its_timeout() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client_with(5000);
    fixture.call(connection, create("/e", "", EPHEMERAL));
    fixture.pass(1500);
    fixture.send_as(connection, -2, &ping());
    let end_ms = expires_ms(fixture.now.monotonic_ms, 5000);
    fixture.pass(1000);
    fixture.disconnect(connection);
    fixture.run_until(end_ms - 1);
    assert!(exists(&fixture, "/e"), "counted from the last request");
    fixture.run_until(end_ms);
    assert!(!exists(&fixture, "/e"));
}

#[test]
fn a_session_taken_up_again_lives_by_the_timeout_negotiated_last() {
    for timeout_ms in [4000, 20_000] {
        let mut fixture = NodeFixture::new();
        let first = fixture.client_with(9000);
        fixture.call(first, create("/e", "", EPHEMERAL));
        let again = ConnectRequest { timeout_ms, ..fixture.hello_again(first) };
        fixture.disconnect(first);
        fixture.pass(1000);
        let second = fixture.open();
        fixture.connect(second, again);
        let end_ms = expires_ms(fixture.now.monotonic_ms, i64::from(timeout_ms));
        fixture.run_until(end_ms - 1);
        assert!(exists(&fixture, "/e"), "{timeout_ms}");
        fixture.run_until(end_ms);
        assert!(!exists(&fixture, "/e"), "{timeout_ms}");
    }
}

#[test]
fn one_transaction_removes_all_ephemerals_pending_ones_included() {
    let mut fixture = NodeFixture::new();
    let (mine, other) = (fixture.client_with(5000), fixture.client());
    fixture.call(mine, create("/dir", "", 0));
    for name in ["/dir/a", "/dir/b", "/dir/c"] {
        fixture.call(mine, create(name, "", EPHEMERAL));
    }
    fixture.call(other, exists_watch("/dir/a"));
    fixture.call(other, exists_watch("/dir/d"));
    fixture.send(mine, create("/dir/d", "", EPHEMERAL));
    fixture.send(mine, delete("/dir/b"));
    fixture.send(mine, close_session());
    fixture.persist_one();
    assert!(matches!(fixture.received(other)[..], [Frame::Event { .. }]), "/dir/d was created");
    fixture.persist();
    let entry = fixture.history.last().unwrap();
    let paths = ["/dir/a", "/dir/c", "/dir/d"].map(Box::from).to_vec();
    assert_eq!(entry.txn, Txn::CloseSession(Some(paths)));
    assert_eq!(fixture.replica.tree().node("/dir").unwrap().num_children(), 0);
    let zxid = entry.header.zxid.0;
    assert_eq!(fixture.received(other), [Frame::Event { zxid, kind: NodeDeleted, path: "/dir/a".into() }]);
}

#[test]
fn a_client_that_says_goodbye_is_answered_and_nothing_behind_it_is_looked_at() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    fixture.send_as(connection, 1, &create("/e", "", EPHEMERAL));
    fixture.send_as(connection, 2, &close_session());
    assert_eq!(fixture.phase(connection), ConnectionPhase::Draining);
    fixture.send_as(connection, 3, &create("/late", "", 0));
    fixture.send_as(connection, 4, &get("/"));
    fixture.persist();
    let replies = fixture.replies(connection);
    assert_eq!(replies.iter().map(|reply| reply.xid).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((replies[1].error, replies[1].body.len()), (None, 0));
    assert!(!exists(&fixture, "/e") && !exists(&fixture, "/late"));
    assert_eq!(fixture.phase(connection), ConnectionPhase::Draining);
    assert!(fixture.connection(connection).is_drained());
    fixture.disconnect(connection);
    assert!(fixture.node.session_report().buckets.is_empty());
}

#[test]
fn writes_of_a_session_that_is_closing_fail() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client_with(5000);
    fixture.call(connection, create("/before", "", 0));
    fixture.pass(20_000);
    fixture.tick();
    fixture.send_as(connection, 2, &create("/after", "", 0));
    fixture.send_as(connection, 3, &create("/after-e", "", EPHEMERAL));
    let entries: Vec<_> = fixture.history[2..].iter().map(|entry| entry.txn.clone()).collect();
    assert_eq!(entries[0], Txn::CloseSession(Some(vec![])));
    assert_eq!(entries[1], Txn::error(ErrorCode::SessionExpired));
    assert_eq!(entries[2], Txn::error(ErrorCode::SessionExpired));
    fixture.persist();
    assert_eq!(fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::SessionEnded));
    assert!(exists(&fixture, "/before") && !exists(&fixture, "/after") && !exists(&fixture, "/after-e"));
}

#[test]
fn an_expired_session_with_an_ephemeral_on_its_way_leaves_nothing() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client_with(5000);
    fixture.send(connection, create("/e", "", EPHEMERAL));
    fixture.send(connection, set("/e", "1"));
    fixture.disconnect(connection);
    fixture.pass(20_000);
    fixture.tick();
    fixture.persist();
    assert!(!exists(&fixture, "/e"));
    assert_eq!(fixture.replica.tree().ephemerals_count(), 0);
    assert!(fixture.replica.tree().sessions().is_empty());
}

/// A client that waits for an answer is not silent; the disk may take as long as it likes.
#[test]
fn a_session_does_not_expire_while_the_server_owes_it_an_answer() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client_with(5000);
    fixture.send(connection, create("/e", "", EPHEMERAL));
    fixture.pass(60_000);
    fixture.tick();
    fixture.persist();
    assert!(exists(&fixture, "/e"));
    assert_eq!(fixture.xids(connection).len(), 1);
    fixture.pass(60_000);
    fixture.tick();
    fixture.persist();
    assert!(!exists(&fixture, "/e"), "with the answer the silence is its own");
}

#[test]
fn a_session_whose_connection_is_gone_ends_with_its_own_farewell_on_the_way() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    fixture.call(connection, create("/e", "", EPHEMERAL));
    fixture.send(connection, close_session());
    fixture.disconnect(connection);
    fixture.persist();
    assert!(!exists(&fixture, "/e"));
    assert!(fixture.replica.tree().sessions().is_empty());
    assert!(fixture.node.session_report().buckets.is_empty());
}

#[test]
fn sessions_get_a_full_timeout_after_a_restart() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client_with(5000);
    let session = fixture.session(connection);
    fixture.call(connection, create("/e", "", EPHEMERAL));
    fixture.pass(4000);
    let again = fixture.hello_again(connection);
    let mut fixture = fixture.restart();
    let end_ms = expires_ms(fixture.now.monotonic_ms, 5000);
    assert_eq!(fixture.node.session_report().buckets, [(end_ms, vec![session])]);
    fixture.run_until(end_ms - 1);
    assert!(exists(&fixture, "/e"));
    let connection = fixture.open();
    fixture.connect(connection, again);
    assert_eq!(fixture.greeting(connection).unwrap().session_id, session.0);
    assert_eq!(fixture.call(connection, get_ephemerals("/")).names(), ["/e"]);
    fixture.run_until(fixture.now.monotonic_ms + 4000);
    assert!(exists(&fixture, "/e"));
    fixture.run_until(fixture.now.monotonic_ms + 40_000);
    assert!(!exists(&fixture, "/e"));
}

#[test]
fn a_write_that_the_disk_did_not_have_is_gone_after_a_restart() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    fixture.call(connection, create("/a", "1", 0));
    fixture.send(connection, set("/a", "2"));
    let zxid = fixture.replica.last_zxid();
    let mut fixture = fixture.restart();
    assert_eq!(fixture.replica.last_zxid(), zxid);
    let connection = fixture.client();
    assert_eq!(fixture.call(connection, get("/a")).data(), "1");
}

/// The clock may stand still or go back between two starts.
#[test]
fn a_new_session_never_gets_the_id_of_a_living_one() {
    let mut fixture = NodeFixture::new();
    let connections: Vec<ConnectionId> = (0..3).map(|_| fixture.client()).collect();
    fixture.call(connections[0], create("/e", "", EPHEMERAL));
    let living: Vec<SessionId> = connections.iter().map(|&connection| fixture.session(connection)).collect();
    let mut fixture = fixture.restart();
    for _ in 0..3 {
        let connection = fixture.client();
        assert!(!living.contains(&fixture.session(connection)), "{:?} is taken", fixture.session(connection));
    }
    assert_eq!(fixture.replica.tree().sessions().len(), 6);
}

/// A session that was there at the start may be over when the next client comes, and its client may still
/// come back.
#[test]
fn a_new_session_never_gets_the_id_of_one_that_has_ended() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client_with(5000);
    let former = fixture.session(connection);
    let mut fixture = fixture.restart();
    fixture.run_until(expires_ms(fixture.now.monotonic_ms, 5000));
    assert!(fixture.replica.tree().sessions().is_empty());
    let connection = fixture.client();
    assert_ne!(fixture.session(connection), former);
    // Sessions that ended before the start are not known, but the counter starts at another value.
    fixture.call(connection, close_session());
    let former = fixture.session(connection);
    fixture.settings.seed += 1;
    let mut fixture = fixture.restart();
    assert!(fixture.replica.tree().sessions().is_empty());
    let connection = fixture.client();
    assert_ne!(fixture.session(connection), former);
}

/// A connection's end is told to the core some time after the connection is gone.
#[test]
fn a_session_does_not_expire_because_its_connection_just_left() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client_with(5000);
    fixture.call(connection, create("/e", "", EPHEMERAL));
    let first_end_ms = expires_ms(fixture.now.monotonic_ms, 5000);
    fixture.run_until(first_end_ms - 1);
    fixture.send_as(connection, -2, &ping());
    let end_ms = expires_ms(fixture.now.monotonic_ms, 5000);
    let farewell = fixture.vanish(connection);
    fixture.pass(1);
    fixture.tick();
    fixture.persist();
    assert!(exists(&fixture, "/e"), "the client was heard of a moment ago");
    fixture.handle(farewell);
    fixture.run_until(end_ms - 1);
    assert!(exists(&fixture, "/e"));
    fixture.run_until(end_ms);
    assert!(!exists(&fixture, "/e"));
}

/// A client that lost its connection looks whether its last write was carried out. What it sees must not
/// change afterwards.
#[test]
fn a_session_taken_up_again_sees_the_writes_of_its_former_connection() {
    let mut fixture = NodeFixture::new();
    let first = fixture.client();
    fixture.send(first, create("/lock", "", EPHEMERAL));
    let again = fixture.hello_again(first);
    fixture.disconnect(first);
    let second = fixture.open();
    fixture.connect(second, again);
    assert_eq!(fixture.greeting(second), None, "what is on its way goes first");
    fixture.persist_one();
    assert!(fixture.greeting(second).is_some());
    fixture.send(second, get("/lock"));
    assert_eq!(fixture.replies(second)[0].data(), "");
}

/// The former connection's task may still hold writes that the core has not seen.
#[test]
fn a_write_of_a_former_connection_that_comes_too_late_is_given_up() {
    let mut fixture = NodeFixture::new();
    let first = fixture.client();
    let late = fixture.receive(first, &create("/late", "", 0).frame(1));
    let goodbye = fixture.receive(first, &close_session().frame(2));
    let second = fixture.open();
    fixture.connect(second, fixture.hello_again(first));
    assert!(fixture.greeting(second).is_some());
    assert_eq!(fixture.call(second, get("/late")).error, Some(ErrorCode::NoNode));
    fixture.submit(late);
    fixture.submit(goodbye);
    fixture.persist();
    assert!(!exists(&fixture, "/late"), "the client was told that it does not exist");
    assert_eq!(fixture.phase(second), ConnectionPhase::Serving, "and its session goes on");
}

#[test]
fn a_write_of_a_former_connection_is_given_up_even_when_the_newer_one_has_left_again() {
    let mut fixture = NodeFixture::new();
    let first = fixture.client();
    let late = fixture.receive(first, &create("/late", "", 0).frame(1));
    let second = fixture.open();
    fixture.connect(second, fixture.hello_again(first));
    fixture.disconnect(second);
    fixture.submit(late);
    fixture.persist();
    assert!(!exists(&fixture, "/late"));
}

/// No other connection has used the session since, so its earlier request is executed.
#[test]
fn a_write_of_a_connection_that_left_is_carried_out() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    let write = fixture.receive(connection, &create("/sent", "", 0).frame(1));
    fixture.disconnect(connection);
    fixture.submit(write);
    fixture.persist();
    assert!(exists(&fixture, "/sent"));
}
