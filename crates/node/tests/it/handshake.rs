//! The connect request: new, resumed and rejected sessions.

use std::sync::Arc;

use zebu_node::{ConnectionPhase, ConnectionSession, DisconnectReason, NodeSettings, ThrottleSettings};
use zebu_proto::SessionId;
use zebu_proto::client::ConnectRequest;
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::password::session_password;
use zebu_proto::txn::Txn;

use crate::client::{close_session, create, get, hello, ping, sync};
use crate::node_fixture::{NodeFixture, TICK_MS, settings};

#[test]
fn a_new_session_is_answered_when_it_is_durable() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.open();
    fixture.connect(connection, hello(30_000));
    assert_eq!(fixture.greeting(connection), None, "the disk does not have it yet");
    assert_eq!(fixture.phase(connection), ConnectionPhase::Handshake);
    assert!(fixture.replica.tree().sessions().is_empty());

    fixture.persist();
    let greeting = fixture.greeting(connection).unwrap();
    let session = SessionId(greeting.session_id);
    assert_eq!((greeting.timeout_ms, session.0 >> 56), (30_000, 1));
    assert_eq!(greeting.password, session_password(session));
    assert_eq!(greeting.read_only, ReadOnlyField::Present(false));
    assert_eq!(fixture.phase(connection), ConnectionPhase::Serving);
    assert_eq!(
        fixture.connection(connection).session,
        Some(ConnectionSession { id: session, timeout_ms: 30_000 })
    );
    assert_eq!(fixture.replica.tree().sessions()[&session], 30_000);
    let entry = &fixture.history[0];
    assert_eq!((entry.header.session, entry.header.cxid), (session, 0));
    assert_eq!(entry.txn, Txn::CreateSession { timeout_ms: 30_000 });
}

#[test]
fn session_ids_count_up() {
    let mut fixture = NodeFixture::new();
    let (first, second) = (fixture.client(), fixture.client());
    assert_eq!(fixture.session(second).0, fixture.session(first).0 + 1);
}

#[test]
fn the_timeout_is_clamped() {
    for (asked, given) in
        [(0, 4000), (-5, 4000), (3999, 4000), (4001, 4001), (40_001, 40_000), (i32::MAX, 40_000)]
    {
        let mut fixture = NodeFixture::new();
        let connection = fixture.open();
        fixture.connect(connection, hello(asked));
        fixture.persist();
        assert_eq!(fixture.greeting(connection).unwrap().timeout_ms, given, "{asked}");
    }
}

#[test]
fn a_client_without_the_read_only_byte_gets_none() {
    let mut fixture = NodeFixture::new();
    for field in [ReadOnlyField::Absent, ReadOnlyField::Present(true)] {
        let expected = match field {
            ReadOnlyField::Absent => ReadOnlyField::Absent,
            ReadOnlyField::Present(_) => ReadOnlyField::Present(false),
        };
        let connection = fixture.open();
        fixture.connect(connection, ConnectRequest { read_only: field, ..hello(9000) });
        fixture.persist();
        assert_eq!(fixture.greeting(connection).unwrap().read_only, expected);

        let stranger = fixture.open();
        fixture.connect(stranger, ConnectRequest { read_only: field, session_id: 77, ..hello(9000) });
        let rejected = fixture.greeting(stranger).unwrap();
        assert_eq!((rejected.session_id, rejected.timeout_ms, rejected.password), (0, 0, [0; 16]));
        assert_eq!(rejected.read_only, expected);
        assert_eq!(fixture.phase(stranger), ConnectionPhase::Draining, "closed once the rejection is sent");
    }
}

#[test]
fn a_session_is_taken_up_again_with_its_password() {
    let mut fixture = NodeFixture::new();
    let first = fixture.client();
    let session = fixture.session(first);
    fixture.call(first, create("/mine", "", 1));
    let again = fixture.hello_again(first);
    fixture.disconnect(first);

    let second = fixture.open();
    fixture.connect(second, ConnectRequest { timeout_ms: 12_000, ..again });
    let greeting = fixture.greeting(second).unwrap();
    assert_eq!((greeting.session_id, greeting.timeout_ms), (session.0, 12_000));
    assert!(fixture.replica.tree().node("/mine").is_some());
    assert_eq!(fixture.call(second, get("/mine")).data(), "");
    assert_eq!(fixture.history.len(), 2, "taking up a session again is no transaction");
}

#[test]
fn a_wrong_password_is_rejected_and_disturbs_nobody() {
    let mut fixture = NodeFixture::new();
    let owner = fixture.client();
    let right = fixture.hello_again(owner);
    let wrong: [Option<Arc<[u8]>>; 5] = [
        None,
        Some(Arc::from([])),
        Some(Arc::from([0; 16])),
        right.password.clone().map(|password| Arc::from(&password[..15])),
        right.password.clone().map(|password| [&password[..], &[0]].concat().into()),
    ];
    for password in wrong {
        let thief = fixture.open();
        fixture.connect(thief, ConnectRequest { password, ..right.clone() });
        assert_eq!(fixture.greeting(thief).unwrap().session_id, 0);
        assert_eq!(fixture.phase(thief), ConnectionPhase::Draining);
        assert_eq!(fixture.phase(owner), ConnectionPhase::Serving, "the password is looked at first");
        fixture.call(owner, sync("/"));
    }
}

#[test]
fn the_older_connection_is_closed_once_the_newer_is_accepted() {
    let mut fixture = NodeFixture::new();
    let first = fixture.client();
    let second = fixture.open();
    fixture.connect(second, fixture.hello_again(first));
    assert_eq!(fixture.phase(first), ConnectionPhase::Closed(DisconnectReason::Replaced));
    assert_eq!(fixture.phase(second), ConnectionPhase::Serving);
    // The older one says goodbye last; the session stays with the newer one.
    fixture.disconnect(first);
    let until = fixture.now.monotonic_ms + 100_000;
    for _ in 0..20 {
        fixture.run_until(fixture.now.monotonic_ms + 5000);
        fixture.send_as(second, -2, &ping());
    }
    assert_eq!(fixture.now.monotonic_ms, until);
    assert_eq!(fixture.phase(second), ConnectionPhase::Serving);
}

#[test]
fn a_session_that_is_gone_or_closing_is_rejected() {
    let mut fixture = NodeFixture::new();
    let first = fixture.client();
    let again = fixture.hello_again(first);
    fixture.send(first, close_session());
    let second = fixture.open();
    fixture.connect(second, again.clone());
    assert_eq!(fixture.greeting(second).unwrap().session_id, 0, "its close is on the way");
    fixture.persist();
    let third = fixture.open();
    fixture.connect(third, again);
    assert_eq!(fixture.greeting(third).unwrap().session_id, 0, "it is closed");
}

#[test]
fn a_client_that_is_ahead_of_the_server_is_closed_without_a_word() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    fixture.call(connection, create("/a", "", 0));
    for (ahead, phase) in
        [(0, ConnectionPhase::Handshake), (1, ConnectionPhase::Closed(DisconnectReason::AheadOfServer))]
    {
        let seen = fixture.replica.last_zxid().0 + ahead;
        let other = fixture.open();
        fixture.connect(other, ConnectRequest { last_zxid_seen: seen, ..hello(9000) });
        assert_eq!(fixture.phase(other), phase);
        assert_eq!(fixture.connection(other).outbox_len(), 0);
        fixture.persist();
    }
    let resumed = fixture.open();
    let seen = fixture.replica.last_zxid().0 + 1;
    fixture.connect(resumed, ConnectRequest { last_zxid_seen: seen, ..fixture.hello_again(connection) });
    assert_eq!(fixture.phase(resumed), ConnectionPhase::Closed(DisconnectReason::AheadOfServer));
    assert_eq!(fixture.phase(connection), ConnectionPhase::Serving, "its session stays where it is");
}

#[test]
fn the_throttle_closes_without_a_word() {
    let throttle = ThrottleSettings { tokens: 2, fill_time_ms: 1000, ..Default::default() };
    let mut fixture = NodeFixture::with(NodeSettings { throttle, ..settings() });
    fixture.client();
    fixture.client();
    let third = fixture.open();
    fixture.connect(third, hello(9000));
    assert_eq!(fixture.phase(third), ConnectionPhase::Closed(DisconnectReason::Throttled));
    assert_eq!((fixture.connection(third).outbox_len(), fixture.disk.len()), (0, 0));
    fixture.pass(1001);
    fixture.client();
}

#[test]
fn a_connection_that_leaves_during_the_handshake_leaves_a_session_that_expires() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.open();
    fixture.connect(connection, hello(5000));
    fixture.disconnect(connection);
    fixture.persist();
    assert_eq!(fixture.replica.tree().sessions().len(), 1);
    fixture.run_until(fixture.now.monotonic_ms + 5000 + 2 * TICK_MS);
    assert!(fixture.replica.tree().sessions().is_empty());
    assert!(fixture.node.session_report().buckets.is_empty());
}

#[test]
fn requests_before_the_handshake_are_not_looked_at() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.open();
    assert!(fixture.receive(connection, &create("/a", "", 0).frame(1)).is_none());
    assert_eq!(
        (fixture.phase(connection), fixture.connection(connection).outbox_len()),
        (ConnectionPhase::Handshake, 0)
    );
}
