//! Limits per client, and the return of permits.

use zebu_node::limits::{
    OUTBOX_CLOSE_BYTES, OUTBOX_PAUSE_BYTES, SLOTS_BYTES_MAX, SLOTS_MAX, WAITING_READS_MAX,
};
use zebu_node::{ConnectionPhase, DisconnectReason, NodeSettings, UNCHARGED_BYTES_MAX};
use zebu_proto::{ErrorCode, OpCode};

use crate::client::{
    Ask, Frame, add_watch, auth, close_session, create, get, multi, multi_check, ping, set, set_watches, sync,
};
use crate::node_fixture::{NodeFixture, settings};

#[test]
fn writes_that_wait_are_bounded() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    fixture.call(connection, create("/a", "", 0));
    for number in 0..SLOTS_MAX {
        assert!(fixture.connection(connection).has_room(), "{number}");
        fixture.send(connection, set("/a", ""));
    }
    assert!(!fixture.connection(connection).has_room());
    fixture.persist_one();
    assert!(fixture.connection(connection).has_room());
    fixture.persist();
    assert_eq!(fixture.replies(connection).len(), SLOTS_MAX);
}

#[test]
fn only_long_requests_are_charged_by_their_bytes() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    let empty = create("/a", "", 0).frame(1).len();
    for (xid, length) in
        [(1, empty), (2, UNCHARGED_BYTES_MAX as usize), (3, UNCHARGED_BYTES_MAX as usize + 1)]
    {
        let frame = create("/a", &"x".repeat(length - empty), 0).frame(xid);
        let submission = fixture.receive(connection, &frame).unwrap();
        let charged_bytes = if xid == 3 { length as u32 } else { 0 };
        assert_eq!((frame.len(), submission.charged_bytes), (length, charged_bytes));
    }
}

#[test]
fn reads_that_wait_are_bounded() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    fixture.send(connection, create("/a", "", 0));
    for _ in 0..WAITING_READS_MAX {
        assert!(fixture.connection(connection).has_room());
        fixture.send(connection, get("/a"));
    }
    assert!(!fixture.connection(connection).has_room());
    assert_eq!(fixture.connection(connection).queued_requests(), WAITING_READS_MAX + 1);
    fixture.persist();
    assert!(fixture.connection(connection).has_room());
    assert_eq!(fixture.xids(connection).len(), WAITING_READS_MAX + 1);
    // The count starts again: it does not add up over time.
    fixture.send(connection, set("/a", ""));
    for _ in 0..WAITING_READS_MAX {
        assert!(fixture.connection(connection).has_room());
        fixture.send(connection, get("/a"));
    }
    fixture.persist();
}

/// Few requests, each of them long: reads behind a write, and writes.
#[test]
fn the_bytes_of_requests_that_wait_are_bounded() {
    let long = "x".repeat(1_000_000);
    for ask in [|long: &str| get(&format!("/{long}")), |long: &str| set("/a", long)] {
        let mut fixture = NodeFixture::new();
        let connection = fixture.client();
        fixture.send(connection, create("/a", "", 0));
        let mut sent = 0;
        while fixture.connection(connection).has_room() {
            fixture.send(connection, ask(&long));
            sent += 1;
            assert!(sent <= SLOTS_BYTES_MAX / 1_000_000 + 1, "{sent}");
        }
        assert!(sent > 10, "{sent}");
        fixture.persist();
        assert!(fixture.connection(connection).has_room());
        assert_eq!(fixture.xids(connection).len(), sent + 1);
        // Nothing is left of them in the account.
        fixture.send(connection, create("/b", "", 0));
        for _ in 0..sent {
            assert!(fixture.connection(connection).has_room());
            fixture.send(connection, ask(&long));
        }
        assert!(!fixture.connection(connection).has_room());
    }
}

#[test]
fn a_client_that_does_not_read_is_not_served_further() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    fixture.call(connection, create("/big", &"x".repeat(300_000), 0));
    let mut asked = 0;
    while fixture.connection(connection).has_room() {
        fixture.send(connection, get("/big"));
        asked += 1;
        assert!(asked < 100);
    }
    assert!(fixture.connection(connection).outbox_len() >= OUTBOX_PAUSE_BYTES);
    assert_eq!(fixture.phase(connection), ConnectionPhase::Serving);
    assert_eq!(fixture.replies(connection).len(), asked);
    assert!(fixture.connection(connection).has_room(), "reading makes room");
}

#[test]
fn events_that_nobody_reads_close_the_connection() {
    let mut fixture = NodeFixture::new();
    let (watcher, writer) = (fixture.client(), fixture.client());
    let long = format!("/{}", "n".repeat(500_000));
    fixture.call(writer, create(&long, "", 0));
    fixture.call(watcher, add_watch("/", 1));
    let mut changes = 0;
    while fixture.phase(watcher) == ConnectionPhase::Serving {
        fixture.call(writer, set(&long, ""));
        changes += 1;
        assert!(changes < 100);
    }
    assert_eq!(fixture.phase(watcher), ConnectionPhase::Closed(DisconnectReason::OutboxFull));
    assert!(changes * 500_000 >= OUTBOX_CLOSE_BYTES && fixture.connection(watcher).outbox_len() == 0);
    fixture.disconnect(watcher);
    assert!(fixture.replica.watches().is_empty());
}

#[test]
fn reads_behind_a_write_that_answer_too_much_close_the_connection() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    fixture.call(connection, create("/big", &"x".repeat(900_000), 0));
    fixture.send(connection, create("/a", "", 0));
    for _ in 0..30 {
        fixture.send(connection, get("/big"));
    }
    fixture.send(connection, set("/a", ""));
    fixture.send(connection, get("/a"));
    fixture.persist();
    assert_eq!(fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::OutboxFull));
    assert_eq!(
        (fixture.connection(connection).outbox_len(), fixture.connection(connection).queued_requests()),
        (0, 0)
    );
    assert_eq!(fixture.replica.tree().node("/a").unwrap().stat().version, 1, "what it wrote is carried out");
}

#[test]
fn a_set_watches_that_reports_too_much_closes_the_connection() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    let long = format!("/{}", "n".repeat(900_000));
    let lists: [&[&str]; 3] = [&[long.as_str(); 30], &[], &[]];
    fixture.send(connection, set_watches(0, &lists));
    assert_eq!(fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::OutboxFull));
    fixture.send(connection, ping());
    fixture.disconnect(connection);
    assert!(fixture.replica.watches().is_empty());
}

fn throttled() -> NodeFixture {
    NodeFixture::with(NodeSettings { throttled_op_wait_ms: 1000, ..settings() })
}

#[test]
fn a_write_that_waited_too_long_is_answered_in_turn_without_a_transaction() {
    let mut fixture = throttled();
    let connection = fixture.client();
    fixture.send_as(connection, 1, &create("/a", "", 0));
    let late = fixture.receive(connection, &create("/late", "", 0).frame(2));
    fixture.send_as(connection, 3, &get("/a"));
    let next = fixture.receive(connection, &create("/late/er", "", 0).frame(4));
    fixture.pass(1001);
    let fresh = fixture.receive(connection, &create("/b", "", 0).frame(5));
    let transactions = fixture.history.len();
    for submission in [late, next, fresh] {
        fixture.submit(submission);
    }
    assert_eq!(fixture.history.len(), transactions + 1, "only the fresh one");
    assert_eq!(fixture.received(connection), []);
    fixture.persist_one();
    let replies = fixture.replies(connection);
    let found: Vec<_> = replies.iter().map(|reply| (reply.xid, reply.error)).collect();
    let throttled = Some(ErrorCode::ThrottledOp);
    assert_eq!(found, [(1, None), (2, throttled), (3, None), (4, throttled)]);
    assert_eq!(replies[1].zxid, fixture.replica.last_zxid().0);
    fixture.persist();
    assert_eq!(fixture.xids(connection), [5]);
}

#[test]
fn a_throttled_write_without_predecessors_is_answered_at_once() {
    let mut fixture = throttled();
    let connection = fixture.client();
    let late = fixture.receive(connection, &create("/late", "", 0).frame(1));
    fixture.send_as(connection, 2, &sync("/"));
    fixture.pass(1001);
    fixture.submit(late);
    assert_eq!(fixture.xids(connection), [1, 2]);
    assert_eq!((fixture.submitted, fixture.answered), (1, 1));
}

#[test]
fn the_wait_must_be_longer_than_the_limit_and_goodbyes_are_never_throttled() {
    let mut fixture = throttled();
    let connection = fixture.client();
    let write = fixture.receive(connection, &create("/a", "", 0).frame(1));
    fixture.pass(1000);
    fixture.submit(write);
    let goodbye = fixture.receive(connection, &close_session().frame(2));
    fixture.pass(5000);
    fixture.submit(goodbye);
    fixture.persist();
    let found: Vec<_> = fixture.replies(connection).iter().map(|reply| (reply.xid, reply.error)).collect();
    assert_eq!(found, [(1, None), (2, None)]);
    assert!(fixture.replica.tree().sessions().is_empty());
}

/// A lost permit would stop the server in the end. The connection may close in each way and at each moment;
/// [`NodeFixture::persist`] checks that no permit is missing.
#[test]
fn the_room_of_a_write_comes_back_whatever_became_of_its_connection() {
    for gone in ["vanished", "closed", "replaced", "expired", "throttled", "overflowed"] {
        for submitted_before in [true, false] {
            let mut fixture = throttled();
            let connection = fixture.client_with(5000);
            let mut late = Vec::new();
            for xid in 1..=3 {
                let submission = fixture.receive(connection, &create(&format!("/{xid}"), "", 0).frame(xid));
                if submitted_before {
                    fixture.submit(submission);
                } else {
                    late.push(submission);
                }
            }
            match gone {
                "vanished" => fixture.disconnect(connection),
                "closed" => {
                    fixture.connections.0.get_mut(&connection).unwrap().close(DisconnectReason::BadFrame)
                }
                "replaced" => {
                    let next = fixture.open();
                    fixture.connect(next, fixture.hello_again(connection));
                }
                "expired" => {
                    fixture.pass(100_000);
                    fixture.tick();
                    fixture.persist();
                }
                "throttled" => fixture.pass(1001),
                _ => {
                    let connection = fixture.connections.0.get_mut(&connection).unwrap();
                    let path = "x".repeat(OUTBOX_CLOSE_BYTES);
                    connection.push_event(1, zebu_proto::client::EventType::NodeCreated, &path);
                    connection.push_event(1, zebu_proto::client::EventType::NodeCreated, &path);
                    assert_eq!(connection.phase, ConnectionPhase::Closed(DisconnectReason::OutboxFull));
                }
            }
            late.into_iter().for_each(|submission| fixture.submit(submission));
            fixture.persist();
            assert_eq!((fixture.submitted, fixture.answered), (3, 3), "{gone}");
            // And the server goes on.
            let next = fixture.client();
            fixture.call(next, create("/next", "", 0));
        }
    }
}

#[test]
fn the_servers_own_transactions_take_no_room() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client_with(5000);
    assert_eq!((fixture.submitted, fixture.answered), (0, 0), "a session");
    fixture.pass(100_000);
    fixture.tick();
    fixture.persist();
    assert_eq!(fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::SessionEnded));
    assert_eq!((fixture.submitted, fixture.answered), (0, 0), "its expiry");
}

#[test]
fn bytes_that_are_no_request_close_the_connection() {
    for bytes in [&[][..], &[0; 7]] {
        let mut fixture = NodeFixture::new();
        let connection = fixture.client();
        fixture.send(connection, create("/a", "", 0));
        assert!(fixture.receive(connection, bytes).is_none());
        assert_eq!(fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::BadFrame));
        fixture.persist();
        assert!(fixture.replica.tree().node("/a").is_some(), "what came before is carried out");
        assert_eq!(fixture.connection(connection).outbox_len(), 0);
    }
}

#[test]
fn a_connection_is_counted_by_what_it_did() {
    let mut fixture = NodeFixture::new();
    let (connection, other) = (fixture.client(), fixture.client());
    fixture.call(connection, add_watch("/a", 0));
    fixture.send(connection, create("/a", "", 0));
    fixture.pass(30);
    fixture.persist();
    fixture.send_as(connection, -2, &ping());
    let stats = &fixture.connection(connection).stats;
    assert_eq!(stats.packets_received, 3);
    assert_eq!(stats.packets_sent, 5, "the greeting, three answers, one event");
    assert_eq!((stats.last_cxid, stats.last_zxid), (2, fixture.replica.last_zxid().0));
    assert_eq!(stats.last_op, Some(OpCode::Ping));
    assert_eq!((stats.latency.max_ms, stats.latency.count), (30, 3));
    assert_eq!(
        fixture.received(connection).iter().filter(|frame| matches!(frame, Frame::Event { .. })).count(),
        1
    );
    assert_eq!(fixture.connection(other).stats.packets_sent, 1);
}

/// As operators know it from `cons`: a write that failed, or that was not carried out, shows no operation,
/// and what is answered without a look at the tree changes nothing but the number of packets.
#[test]
fn failed_writes_and_credentials_are_no_operations() {
    let mut fixture = throttled();
    let connection = fixture.client();
    fixture.call(connection, create("/a", "", 0));
    assert_eq!(fixture.connection(connection).stats.last_op, Some(OpCode::Create));
    fixture.call(connection, create("/a", "", 0));
    let stats = &fixture.connection(connection).stats;
    assert_eq!((stats.last_op, stats.last_cxid), (None, 2), "an error transaction");
    fixture.call(connection, multi(&[multi_check("/none", -1)]));
    assert_eq!(
        fixture.connection(connection).stats.last_op,
        Some(OpCode::Multi),
        "a failed multi is a multi"
    );
    fixture.call(connection, get("/none"));
    assert_eq!(
        fixture.connection(connection).stats.last_op,
        Some(OpCode::GetData),
        "a failed read is a read"
    );

    let before = fixture.connection(connection).stats.clone();
    fixture.send_as(connection, 99, &auth("digest", "me:pw"));
    fixture.send_as(connection, 100, &Ask::raw(4711, &[]));
    assert_eq!(fixture.xids(connection), [99, 100]);
    let after = &fixture.connection(connection).stats;
    assert_eq!(
        (after.packets_sent, after.packets_received),
        (before.packets_sent + 2, before.packets_received + 2)
    );
    assert_eq!((after.last_op, after.last_cxid, after.last_zxid), (before.last_op, 4, before.last_zxid));
    assert_eq!(after.latency, before.latency);

    let connection = fixture.client();
    let late = fixture.receive(connection, &create("/late", "", 0).frame(1));
    fixture.pass(1001);
    fixture.submit(late);
    assert_eq!(
        (fixture.connection(connection).stats.last_op, fixture.connection(connection).stats.last_cxid),
        (None, 1),
        "throttled"
    );
}
