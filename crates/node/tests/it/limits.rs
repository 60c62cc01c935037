//! What one client may cost, and that the room of its requests always comes back.

use zebu_node::limits::{
    OUTBOX_CLOSE_BYTES, OUTBOX_PAUSE_BYTES, SLOTS_BYTES_MAX, SLOTS_MAX, WAITING_READS_MAX,
};
use zebu_node::{ConnectionPhase, DisconnectReason, NodeSettings, UNCHARGED_BYTES_MAX};
use zebu_proto::{ErrorCode, OpCode};

use crate::client::{
    Ask, Frame, add_watch, auth, close_session, create, get, multi, multi_check, ping, set, set_watches, sync,
};
use crate::world::{World, settings};

#[test]
fn writes_that_wait_are_bounded() {
    let mut world = World::new();
    let lane = world.client();
    world.call(lane, create("/a", "", 0));
    for number in 0..SLOTS_MAX {
        assert!(world.lane(lane).has_room(), "{number}");
        world.send(lane, set("/a", ""));
    }
    assert!(!world.lane(lane).has_room());
    world.persist_one();
    assert!(world.lane(lane).has_room());
    world.persist();
    assert_eq!(world.replies(lane).len(), SLOTS_MAX);
}

#[test]
fn only_long_requests_are_charged_by_their_bytes() {
    let mut world = World::new();
    let lane = world.client();
    let empty = create("/a", "", 0).frame(1).len();
    for (xid, length) in
        [(1, empty), (2, UNCHARGED_BYTES_MAX as usize), (3, UNCHARGED_BYTES_MAX as usize + 1)]
    {
        let frame = create("/a", &"x".repeat(length - empty), 0).frame(xid);
        let submission = world.receive(lane, &frame).unwrap();
        let charged_bytes = if xid == 3 { length as u32 } else { 0 };
        assert_eq!((frame.len(), submission.charged_bytes), (length, charged_bytes));
    }
}

#[test]
fn reads_that_wait_are_bounded() {
    let mut world = World::new();
    let lane = world.client();
    world.send(lane, create("/a", "", 0));
    for _ in 0..WAITING_READS_MAX {
        assert!(world.lane(lane).has_room());
        world.send(lane, get("/a"));
    }
    assert!(!world.lane(lane).has_room());
    assert_eq!(world.lane(lane).queued_requests(), WAITING_READS_MAX + 1);
    world.persist();
    assert!(world.lane(lane).has_room());
    assert_eq!(world.xids(lane).len(), WAITING_READS_MAX + 1);
    // The count starts again: it does not add up over time.
    world.send(lane, set("/a", ""));
    for _ in 0..WAITING_READS_MAX {
        assert!(world.lane(lane).has_room());
        world.send(lane, get("/a"));
    }
    world.persist();
}

/// Few requests, each of them long: reads behind a write, and writes.
#[test]
fn the_bytes_of_requests_that_wait_are_bounded() {
    let long = "x".repeat(1_000_000);
    for ask in [|long: &str| get(&format!("/{long}")), |long: &str| set("/a", long)] {
        let mut world = World::new();
        let lane = world.client();
        world.send(lane, create("/a", "", 0));
        let mut sent = 0;
        while world.lane(lane).has_room() {
            world.send(lane, ask(&long));
            sent += 1;
            assert!(sent <= SLOTS_BYTES_MAX / 1_000_000 + 1, "{sent}");
        }
        assert!(sent > 10, "{sent}");
        world.persist();
        assert!(world.lane(lane).has_room());
        assert_eq!(world.xids(lane).len(), sent + 1);
        // Nothing is left of them in the account.
        world.send(lane, create("/b", "", 0));
        for _ in 0..sent {
            assert!(world.lane(lane).has_room());
            world.send(lane, ask(&long));
        }
        assert!(!world.lane(lane).has_room());
    }
}

#[test]
fn a_client_that_does_not_read_is_not_served_further() {
    let mut world = World::new();
    let lane = world.client();
    world.call(lane, create("/big", &"x".repeat(300_000), 0));
    let mut asked = 0;
    while world.lane(lane).has_room() {
        world.send(lane, get("/big"));
        asked += 1;
        assert!(asked < 100);
    }
    assert!(world.lane(lane).outbox_len() >= OUTBOX_PAUSE_BYTES);
    assert_eq!(world.phase(lane), ConnectionPhase::Serving);
    assert_eq!(world.replies(lane).len(), asked);
    assert!(world.lane(lane).has_room(), "reading makes room");
}

#[test]
fn events_that_nobody_reads_close_the_connection() {
    let mut world = World::new();
    let (watcher, writer) = (world.client(), world.client());
    let long = format!("/{}", "n".repeat(500_000));
    world.call(writer, create(&long, "", 0));
    world.call(watcher, add_watch("/", 1));
    let mut changes = 0;
    while world.phase(watcher) == ConnectionPhase::Serving {
        world.call(writer, set(&long, ""));
        changes += 1;
        assert!(changes < 100);
    }
    assert_eq!(world.phase(watcher), ConnectionPhase::Closed(DisconnectReason::OutboxFull));
    assert!(changes * 500_000 >= OUTBOX_CLOSE_BYTES && world.lane(watcher).outbox_len() == 0);
    world.disconnect(watcher);
    assert!(world.replica.watches().is_empty());
}

#[test]
fn reads_behind_a_write_that_answer_too_much_close_the_connection() {
    let mut world = World::new();
    let lane = world.client();
    world.call(lane, create("/big", &"x".repeat(900_000), 0));
    world.send(lane, create("/a", "", 0));
    for _ in 0..30 {
        world.send(lane, get("/big"));
    }
    world.send(lane, set("/a", ""));
    world.send(lane, get("/a"));
    world.persist();
    assert_eq!(world.phase(lane), ConnectionPhase::Closed(DisconnectReason::OutboxFull));
    assert_eq!((world.lane(lane).outbox_len(), world.lane(lane).queued_requests()), (0, 0));
    assert_eq!(world.replica.tree().node("/a").unwrap().stat().version, 1, "what it wrote is carried out");
}

#[test]
fn a_set_watches_that_reports_too_much_closes_the_connection() {
    let mut world = World::new();
    let lane = world.client();
    let long = format!("/{}", "n".repeat(900_000));
    let lists: [&[&str]; 3] = [&[long.as_str(); 30], &[], &[]];
    world.send(lane, set_watches(0, &lists));
    assert_eq!(world.phase(lane), ConnectionPhase::Closed(DisconnectReason::OutboxFull));
    world.send(lane, ping());
    world.disconnect(lane);
    assert!(world.replica.watches().is_empty());
}

fn throttled() -> World {
    World::with(NodeSettings { throttled_op_wait_ms: 1000, ..settings() })
}

#[test]
fn a_write_that_waited_too_long_is_answered_in_turn_without_a_transaction() {
    let mut world = throttled();
    let lane = world.client();
    world.send_as(lane, 1, &create("/a", "", 0));
    let late = world.receive(lane, &create("/late", "", 0).frame(2));
    world.send_as(lane, 3, &get("/a"));
    let next = world.receive(lane, &create("/late/er", "", 0).frame(4));
    world.pass(1001);
    let fresh = world.receive(lane, &create("/b", "", 0).frame(5));
    let transactions = world.history.len();
    for submission in [late, next, fresh] {
        world.submit(submission);
    }
    assert_eq!(world.history.len(), transactions + 1, "only the fresh one");
    assert_eq!(world.received(lane), []);
    world.persist_one();
    let replies = world.replies(lane);
    let found: Vec<_> = replies.iter().map(|reply| (reply.xid, reply.error)).collect();
    let throttled = Some(ErrorCode::ThrottledOp);
    assert_eq!(found, [(1, None), (2, throttled), (3, None), (4, throttled)]);
    assert_eq!(replies[1].zxid, world.replica.last_zxid().0);
    world.persist();
    assert_eq!(world.xids(lane), [5]);
}

#[test]
fn a_throttled_write_without_predecessors_is_answered_at_once() {
    let mut world = throttled();
    let lane = world.client();
    let late = world.receive(lane, &create("/late", "", 0).frame(1));
    world.send_as(lane, 2, &sync("/"));
    world.pass(1001);
    world.submit(late);
    assert_eq!(world.xids(lane), [1, 2]);
    assert_eq!((world.submitted, world.answered), (1, 1));
}

#[test]
fn the_wait_must_be_longer_than_the_limit_and_goodbyes_are_never_throttled() {
    let mut world = throttled();
    let lane = world.client();
    let write = world.receive(lane, &create("/a", "", 0).frame(1));
    world.pass(1000);
    world.submit(write);
    let goodbye = world.receive(lane, &close_session().frame(2));
    world.pass(5000);
    world.submit(goodbye);
    world.persist();
    let found: Vec<_> = world.replies(lane).iter().map(|reply| (reply.xid, reply.error)).collect();
    assert_eq!(found, [(1, None), (2, None)]);
    assert!(world.replica.tree().sessions().is_empty());
}

/// Room that is not given back would stop the server for good. The lane may be gone in every way at every
/// moment; [`World::persist`] checks that nothing is missing.
#[test]
fn the_room_of_a_write_comes_back_whatever_became_of_its_connection() {
    for gone in ["vanished", "closed", "replaced", "expired", "throttled", "overflowed"] {
        for submitted_before in [true, false] {
            let mut world = throttled();
            let lane = world.client_with(5000);
            let mut late = Vec::new();
            for xid in 1..=3 {
                let submission = world.receive(lane, &create(&format!("/{xid}"), "", 0).frame(xid));
                if submitted_before {
                    world.submit(submission);
                } else {
                    late.push(submission);
                }
            }
            match gone {
                "vanished" => world.disconnect(lane),
                "closed" => world.lanes.0.get_mut(&lane).unwrap().close(DisconnectReason::BadFrame),
                "replaced" => {
                    let next = world.open();
                    world.connect(next, world.hello_again(lane));
                }
                "expired" => {
                    world.pass(100_000);
                    world.tick();
                    world.persist();
                }
                "throttled" => world.pass(1001),
                _ => {
                    let lane = world.lanes.0.get_mut(&lane).unwrap();
                    let path = "x".repeat(OUTBOX_CLOSE_BYTES);
                    lane.push_event(1, zebu_proto::client::EventType::NodeCreated, &path);
                    lane.push_event(1, zebu_proto::client::EventType::NodeCreated, &path);
                    assert_eq!(lane.phase, ConnectionPhase::Closed(DisconnectReason::OutboxFull));
                }
            }
            late.into_iter().for_each(|submission| world.submit(submission));
            world.persist();
            assert_eq!((world.submitted, world.answered), (3, 3), "{gone}");
            // And the server goes on.
            let next = world.client();
            world.call(next, create("/next", "", 0));
        }
    }
}

#[test]
fn the_servers_own_transactions_take_no_room() {
    let mut world = World::new();
    let lane = world.client_with(5000);
    assert_eq!((world.submitted, world.answered), (0, 0), "a session");
    world.pass(100_000);
    world.tick();
    world.persist();
    assert_eq!(world.phase(lane), ConnectionPhase::Closed(DisconnectReason::SessionEnded));
    assert_eq!((world.submitted, world.answered), (0, 0), "its expiry");
}

#[test]
fn bytes_that_are_no_request_close_the_connection() {
    for bytes in [&[][..], &[0; 7]] {
        let mut world = World::new();
        let lane = world.client();
        world.send(lane, create("/a", "", 0));
        assert!(world.receive(lane, bytes).is_none());
        assert_eq!(world.phase(lane), ConnectionPhase::Closed(DisconnectReason::BadFrame));
        world.persist();
        assert!(world.replica.tree().node("/a").is_some(), "what came before is carried out");
        assert_eq!(world.lane(lane).outbox_len(), 0);
    }
}

#[test]
fn a_connection_is_counted_by_what_it_did() {
    let mut world = World::new();
    let (lane, other) = (world.client(), world.client());
    world.call(lane, add_watch("/a", 0));
    world.send(lane, create("/a", "", 0));
    world.pass(30);
    world.persist();
    world.send_as(lane, -2, &ping());
    let stats = &world.lane(lane).stats;
    assert_eq!(stats.packets_received, 3);
    assert_eq!(stats.packets_sent, 5, "the greeting, three answers, one event");
    assert_eq!((stats.last_cxid, stats.last_zxid), (2, world.replica.last_zxid().0));
    assert_eq!(stats.last_op, Some(OpCode::Ping));
    assert_eq!((stats.latency.max_ms, stats.latency.count), (30, 3));
    assert_eq!(world.received(lane).iter().filter(|frame| matches!(frame, Frame::Event { .. })).count(), 1);
    assert_eq!(world.lane(other).stats.packets_sent, 1);
}

/// As operators know it from `cons`: a write that failed, or that was not carried out, shows no operation,
/// and what is answered without a look at the tree changes nothing but the number of packets.
#[test]
fn failed_writes_and_credentials_are_no_operations() {
    let mut world = throttled();
    let lane = world.client();
    world.call(lane, create("/a", "", 0));
    assert_eq!(world.lane(lane).stats.last_op, Some(OpCode::Create));
    world.call(lane, create("/a", "", 0));
    let stats = &world.lane(lane).stats;
    assert_eq!((stats.last_op, stats.last_cxid), (None, 2), "an error transaction");
    world.call(lane, multi(&[multi_check("/none", -1)]));
    assert_eq!(world.lane(lane).stats.last_op, Some(OpCode::Multi), "a failed multi is a multi");
    world.call(lane, get("/none"));
    assert_eq!(world.lane(lane).stats.last_op, Some(OpCode::GetData), "a failed read is a read");

    let before = world.lane(lane).stats.clone();
    world.send_as(lane, 99, &auth("digest", "me:pw"));
    world.send_as(lane, 100, &Ask::raw(OpCode::Sasl.wire(), &[0; 4]));
    world.send_as(lane, 101, &Ask::raw(4711, &[]));
    assert_eq!(world.xids(lane), [99, 100, 101]);
    let after = &world.lane(lane).stats;
    assert_eq!(
        (after.packets_sent, after.packets_received),
        (before.packets_sent + 3, before.packets_received + 3)
    );
    assert_eq!((after.last_op, after.last_cxid, after.last_zxid), (before.last_op, 4, before.last_zxid));
    assert_eq!(after.latency, before.latency);

    let lane = world.client();
    let late = world.receive(lane, &create("/late", "", 0).frame(1));
    world.pass(1001);
    world.submit(late);
    assert_eq!((world.lane(lane).stats.last_op, world.lane(lane).stats.last_cxid), (None, 1), "throttled");
}
