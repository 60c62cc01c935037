//! Log batches: without gaps, with a snapshot request when one is due.

use std::collections::BTreeSet;

use zebu_node::{AfterAppend, ConnectionId, NodeSettings};
use zebu_proto::Zxid;

use crate::client::{create, get, ping, set};
use crate::node_fixture::{NodeFixture, settings, take_batch};

fn with(change: impl FnOnce(&mut NodeSettings)) -> (NodeFixture, ConnectionId) {
    let mut settings = settings();
    change(&mut settings);
    let mut fixture = NodeFixture::with(settings);
    let connection = fixture.client();
    fixture.call(connection, create("/a", "", 0));
    (fixture, connection)
}

#[test]
fn a_batch_holds_everything_since_the_last_one() {
    let (mut fixture, connection) = with(|_| ());
    let frames = [set("/a", "1"), get("/a"), set("/missing", ""), ping(), set("/a", "2")];
    for (ask, xid) in frames.iter().zip(1..) {
        if let Some(submission) = fixture.receive(connection, &ask.frame(xid)) {
            let event = zebu_node::ClientEvent::Request(submission);
            let NodeFixture { node, replica, connections, now, .. } = &mut fixture;
            node.handle(event, &mut zebu_node::ServeContext { replica, connections, now: *now });
        }
    }
    let batch = take_batch(&mut fixture.node).unwrap();
    assert_eq!((batch.first, batch.last, batch.after), (Zxid(3), Zxid(5), AfterAppend::Continue));
    assert_eq!(take_batch(&mut fixture.node), None);
    assert_eq!(fixture.node.in_flight(), 3);

    assert_eq!(fixture.commit(Zxid(2)), 0);
    assert_eq!(fixture.commit(Zxid(4)), 2);
    assert_eq!((fixture.node.in_flight(), fixture.replica.last_zxid()), (1, Zxid(4)));
    assert_eq!(fixture.commit(Zxid(99)), 1);
    assert_eq!(fixture.commit(Zxid(99)), 0);
    assert_eq!(fixture.node.take_completed().requests, 3);
    assert_eq!(fixture.node.take_completed().requests, 0);
    assert_eq!(fixture.xids(connection), [1, 2, 3, -2, 5]);
}

#[test]
fn reads_log_nothing() {
    let (mut fixture, connection) = with(|_| ());
    let before = fixture.history.len();
    fixture.call(connection, get("/a"));
    fixture.send_as(connection, -2, &ping());
    fixture.tick();
    assert_eq!((fixture.history.len(), fixture.node.in_flight()), (before, 0));
}

/// Numbers of transactions between snapshots.
fn distances(fixture: &mut NodeFixture, connection: ConnectionId, count: usize) -> Vec<usize> {
    let mut distances = Vec::new();
    let mut since = fixture.after.len();
    while distances.len() < count {
        fixture.call(connection, set("/a", &"x".repeat(1000)));
        if fixture.after.last() == Some(&AfterAppend::RollAndSnapshot) {
            distances.push(fixture.after.len() - since);
            since = fixture.after.len();
        }
        assert!(fixture.after.len() < 100_000);
    }
    distances
}

#[test]
fn snapshots_are_due_between_half_and_the_whole_count() {
    let (mut fixture, connection) = with(|settings| settings.snap_count = 40);
    let distances = distances(&mut fixture, connection, 60);
    // The first one began with the session and the node.
    assert!(distances[1..].iter().all(|distance| (21..=40).contains(distance)), "{distances:?}");
    let different: BTreeSet<_> = distances.iter().collect();
    assert!(different.len() > 8, "members do not take them together: {distances:?}");
}

#[test]
fn snapshots_are_due_between_half_and_the_whole_size() {
    let (mut fixture, connection) = with(|settings| settings.snap_bytes = Some(40_000));
    let length = {
        fixture.send(connection, set("/a", &"x".repeat(1000)));
        let length = fixture.disk[0].bytes.len();
        fixture.persist();
        fixture.received(connection);
        length
    };
    let distances = distances(&mut fixture, connection, 40);
    let bounds = 20_000 / length..=40_000 / length + 1;
    assert!(distances[1..].iter().all(|distance| bounds.contains(distance)), "{distances:?} {bounds:?}");
    assert!(distances.iter().collect::<BTreeSet<_>>().len() > 4);
}

#[test]
fn seeds_decide_when_snapshots_are_due() {
    let of = |seed| {
        let (mut fixture, connection) = with(|settings| {
            settings.snap_count = 40;
            settings.seed = seed;
        });
        distances(&mut fixture, connection, 10)
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[test]
fn digests_of_the_past_are_kept_for_every_128th_transaction() {
    let (mut fixture, connection) = with(|_| ());
    while fixture.replica.last_zxid().0 < 300 {
        fixture.call(connection, set("/a", ""));
    }
    let history: Vec<_> = fixture.replica.digest_history().collect();
    let expected = |zxid: i64| {
        let entry = fixture.history.iter().find(|entry| entry.header.zxid.0 == zxid).unwrap();
        (Zxid(zxid), entry.digest.unwrap().tree_digest)
    };
    assert_eq!(history, [expected(128), expected(256)]);
}
