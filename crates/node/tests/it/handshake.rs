//! The connect request: new sessions, sessions taken up again, and those that are turned away.

use std::sync::Arc;

use zebu_node::{ConnectionPhase, ConnectionSession, DisconnectReason, NodeSettings, ThrottleSettings};
use zebu_proto::SessionId;
use zebu_proto::client::ConnectRequest;
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::password::session_password;
use zebu_proto::txn::Txn;

use crate::client::{close_session, create, get, hello, ping, sync};
use crate::world::{TICK_MS, World, settings};

#[test]
fn a_new_session_is_answered_when_it_is_durable() {
    let mut world = World::new();
    let lane = world.open();
    world.connect(lane, hello(30_000));
    assert_eq!(world.greeting(lane), None, "the disk does not have it yet");
    assert_eq!(world.phase(lane), ConnectionPhase::Handshake);
    assert!(world.replica.tree().sessions().is_empty());

    world.persist();
    let greeting = world.greeting(lane).unwrap();
    let session = SessionId(greeting.session_id);
    assert_eq!((greeting.timeout_ms, session.0 >> 56), (30_000, 1));
    assert_eq!(greeting.password, session_password(session));
    assert_eq!(greeting.read_only, ReadOnlyField::Present(false));
    assert_eq!(world.phase(lane), ConnectionPhase::Serving);
    assert_eq!(world.lane(lane).session, Some(ConnectionSession { id: session, timeout_ms: 30_000 }));
    assert_eq!(world.replica.tree().sessions()[&session], 30_000);
    let entry = &world.history[0];
    assert_eq!((entry.header.session, entry.header.cxid), (session, 0));
    assert_eq!(entry.txn, Txn::CreateSession { timeout_ms: 30_000 });
}

#[test]
fn session_ids_count_up() {
    let mut world = World::new();
    let (first, second) = (world.client(), world.client());
    assert_eq!(world.session(second).0, world.session(first).0 + 1);
}

#[test]
fn the_timeout_is_clamped() {
    for (asked, given) in
        [(0, 4000), (-5, 4000), (3999, 4000), (4001, 4001), (40_001, 40_000), (i32::MAX, 40_000)]
    {
        let mut world = World::new();
        let lane = world.open();
        world.connect(lane, hello(asked));
        world.persist();
        assert_eq!(world.greeting(lane).unwrap().timeout_ms, given, "{asked}");
    }
}

#[test]
fn a_client_without_the_read_only_byte_gets_none() {
    let mut world = World::new();
    for field in [ReadOnlyField::Absent, ReadOnlyField::Present(true)] {
        let expected = match field {
            ReadOnlyField::Absent => ReadOnlyField::Absent,
            ReadOnlyField::Present(_) => ReadOnlyField::Present(false),
        };
        let lane = world.open();
        world.connect(lane, ConnectRequest { read_only: field, ..hello(9000) });
        world.persist();
        assert_eq!(world.greeting(lane).unwrap().read_only, expected);

        let stranger = world.open();
        world.connect(stranger, ConnectRequest { read_only: field, session_id: 77, ..hello(9000) });
        let rejected = world.greeting(stranger).unwrap();
        assert_eq!((rejected.session_id, rejected.timeout_ms, rejected.password), (0, 0, [0; 16]));
        assert_eq!(rejected.read_only, expected);
        assert_eq!(world.phase(stranger), ConnectionPhase::Draining, "closed once the rejection is sent");
    }
}

#[test]
fn a_session_is_taken_up_again_with_its_password() {
    let mut world = World::new();
    let first = world.client();
    let session = world.session(first);
    world.call(first, create("/mine", "", 1));
    let again = world.hello_again(first);
    world.disconnect(first);

    let second = world.open();
    world.connect(second, ConnectRequest { timeout_ms: 12_000, ..again });
    let greeting = world.greeting(second).unwrap();
    assert_eq!((greeting.session_id, greeting.timeout_ms), (session.0, 12_000));
    assert!(world.replica.tree().node("/mine").is_some());
    assert_eq!(world.call(second, get("/mine")).data(), "");
    assert_eq!(world.history.len(), 2, "taking up a session again is no transaction");
}

#[test]
fn a_wrong_password_is_rejected_and_disturbs_nobody() {
    let mut world = World::new();
    let owner = world.client();
    let right = world.hello_again(owner);
    let wrong: [Option<Arc<[u8]>>; 5] = [
        None,
        Some(Arc::from([])),
        Some(Arc::from([0; 16])),
        right.password.clone().map(|password| Arc::from(&password[..15])),
        right.password.clone().map(|password| [&password[..], &[0]].concat().into()),
    ];
    for password in wrong {
        let thief = world.open();
        world.connect(thief, ConnectRequest { password, ..right.clone() });
        assert_eq!(world.greeting(thief).unwrap().session_id, 0);
        assert_eq!(world.phase(thief), ConnectionPhase::Draining);
        assert_eq!(world.phase(owner), ConnectionPhase::Serving, "the password is looked at first");
        world.call(owner, sync("/"));
    }
}

#[test]
fn the_older_connection_is_closed_once_the_newer_is_accepted() {
    let mut world = World::new();
    let first = world.client();
    let second = world.open();
    world.connect(second, world.hello_again(first));
    assert_eq!(world.phase(first), ConnectionPhase::Closed(DisconnectReason::Replaced));
    assert_eq!(world.phase(second), ConnectionPhase::Serving);
    // The older one says goodbye last; the session stays with the newer one.
    world.disconnect(first);
    let until = world.now.monotonic_ms + 100_000;
    for _ in 0..20 {
        world.run_until(world.now.monotonic_ms + 5000);
        world.send_as(second, -2, &ping());
    }
    assert_eq!(world.now.monotonic_ms, until);
    assert_eq!(world.phase(second), ConnectionPhase::Serving);
}

#[test]
fn a_session_that_is_gone_or_closing_is_rejected() {
    let mut world = World::new();
    let first = world.client();
    let again = world.hello_again(first);
    world.send(first, close_session());
    let second = world.open();
    world.connect(second, again.clone());
    assert_eq!(world.greeting(second).unwrap().session_id, 0, "its close is on the way");
    world.persist();
    let third = world.open();
    world.connect(third, again);
    assert_eq!(world.greeting(third).unwrap().session_id, 0, "it is closed");
}

#[test]
fn a_client_that_is_ahead_of_the_server_is_closed_without_a_word() {
    let mut world = World::new();
    let lane = world.client();
    world.call(lane, create("/a", "", 0));
    for (ahead, phase) in
        [(0, ConnectionPhase::Handshake), (1, ConnectionPhase::Closed(DisconnectReason::AheadOfServer))]
    {
        let seen = world.replica.last_zxid().0 + ahead;
        let other = world.open();
        world.connect(other, ConnectRequest { last_zxid_seen: seen, ..hello(9000) });
        assert_eq!(world.phase(other), phase);
        assert_eq!(world.lane(other).outbox_len(), 0);
        world.persist();
    }
    let resumed = world.open();
    let seen = world.replica.last_zxid().0 + 1;
    world.connect(resumed, ConnectRequest { last_zxid_seen: seen, ..world.hello_again(lane) });
    assert_eq!(world.phase(resumed), ConnectionPhase::Closed(DisconnectReason::AheadOfServer));
    assert_eq!(world.phase(lane), ConnectionPhase::Serving, "its session stays where it is");
}

#[test]
fn the_throttle_closes_without_a_word() {
    let throttle = ThrottleSettings { tokens: 2, fill_time_ms: 1000, ..Default::default() };
    let mut world = World::with(NodeSettings { throttle, ..settings() });
    world.client();
    world.client();
    let third = world.open();
    world.connect(third, hello(9000));
    assert_eq!(world.phase(third), ConnectionPhase::Closed(DisconnectReason::Throttled));
    assert_eq!((world.lane(third).outbox_len(), world.disk.len()), (0, 0));
    world.pass(1001);
    world.client();
}

#[test]
fn a_connection_that_leaves_during_the_handshake_leaves_a_session_that_expires() {
    let mut world = World::new();
    let lane = world.open();
    world.connect(lane, hello(5000));
    world.disconnect(lane);
    world.persist();
    assert_eq!(world.replica.tree().sessions().len(), 1);
    world.run_until(world.now.monotonic_ms + 5000 + 2 * TICK_MS);
    assert!(world.replica.tree().sessions().is_empty());
    assert!(world.node.session_report().buckets.is_empty());
}

#[test]
fn requests_before_the_handshake_are_not_looked_at() {
    let mut world = World::new();
    let lane = world.open();
    assert!(world.receive(lane, &create("/a", "", 0).frame(1)).is_none());
    assert_eq!((world.phase(lane), world.lane(lane).outbox_len()), (ConnectionPhase::Handshake, 0));
}
