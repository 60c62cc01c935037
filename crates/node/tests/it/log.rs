//! What the disk is given: whole batches without holes, and a snapshot now and then.

use std::collections::BTreeSet;

use zebu_node::{AfterAppend, ConnectionId, NodeSettings};
use zebu_proto::Zxid;

use crate::client::{create, get, ping, set};
use crate::world::{World, settings, take_batch};

fn with(change: impl FnOnce(&mut NodeSettings)) -> (World, ConnectionId) {
    let mut settings = settings();
    change(&mut settings);
    let mut world = World::with(settings);
    let lane = world.client();
    world.call(lane, create("/a", "", 0));
    (world, lane)
}

#[test]
fn a_batch_holds_everything_since_the_last_one() {
    let (mut world, lane) = with(|_| ());
    let frames = [set("/a", "1"), get("/a"), set("/missing", ""), ping(), set("/a", "2")];
    for (ask, xid) in frames.iter().zip(1..) {
        if let Some(submission) = world.receive(lane, &ask.frame(xid)) {
            let event = zebu_node::ClientEvent::Request(submission);
            let World { node, replica, lanes, now, .. } = &mut world;
            node.handle(event, &mut zebu_node::ServeContext { replica, connections: lanes, now: *now });
        }
    }
    let batch = take_batch(&mut world.node).unwrap();
    assert_eq!((batch.first, batch.last, batch.after), (Zxid(3), Zxid(5), AfterAppend::Continue));
    assert_eq!(take_batch(&mut world.node), None);
    assert_eq!(world.node.in_flight(), 3);

    assert_eq!(world.commit(Zxid(2)), 0);
    assert_eq!(world.commit(Zxid(4)), 2);
    assert_eq!((world.node.in_flight(), world.replica.last_zxid()), (1, Zxid(4)));
    assert_eq!(world.commit(Zxid(99)), 1);
    assert_eq!(world.commit(Zxid(99)), 0);
    assert_eq!(world.node.take_completed().requests, 3);
    assert_eq!(world.node.take_completed().requests, 0);
    assert_eq!(world.xids(lane), [1, 2, 3, -2, 5]);
}

#[test]
fn reads_log_nothing() {
    let (mut world, lane) = with(|_| ());
    let before = world.history.len();
    world.call(lane, get("/a"));
    world.send_as(lane, -2, &ping());
    world.tick();
    assert_eq!((world.history.len(), world.node.in_flight()), (before, 0));
}

/// Numbers of transactions between snapshots.
fn distances(world: &mut World, lane: ConnectionId, count: usize) -> Vec<usize> {
    let mut distances = Vec::new();
    let mut since = world.after.len();
    while distances.len() < count {
        world.call(lane, set("/a", &"x".repeat(1000)));
        if world.after.last() == Some(&AfterAppend::RollAndSnapshot) {
            distances.push(world.after.len() - since);
            since = world.after.len();
        }
        assert!(world.after.len() < 100_000);
    }
    distances
}

#[test]
fn snapshots_are_due_between_half_and_the_whole_count() {
    let (mut world, lane) = with(|settings| settings.snap_count = 40);
    let distances = distances(&mut world, lane, 60);
    // The first one began with the session and the node.
    assert!(distances[1..].iter().all(|distance| (21..=40).contains(distance)), "{distances:?}");
    let different: BTreeSet<_> = distances.iter().collect();
    assert!(different.len() > 8, "members do not take them together: {distances:?}");
}

#[test]
fn snapshots_are_due_between_half_and_the_whole_size() {
    let (mut world, lane) = with(|settings| settings.snap_bytes = Some(40_000));
    let length = {
        world.send(lane, set("/a", &"x".repeat(1000)));
        let length = world.disk[0].bytes.len();
        world.persist();
        world.received(lane);
        length
    };
    let distances = distances(&mut world, lane, 40);
    let bounds = 20_000 / length..=40_000 / length + 1;
    assert!(distances[1..].iter().all(|distance| bounds.contains(distance)), "{distances:?} {bounds:?}");
    assert!(distances.iter().collect::<BTreeSet<_>>().len() > 4);
}

#[test]
fn seeds_decide_when_snapshots_are_due() {
    let of = |seed| {
        let (mut world, lane) = with(|settings| {
            settings.snap_count = 40;
            settings.seed = seed;
        });
        distances(&mut world, lane, 10)
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[test]
fn digests_of_the_past_are_kept_for_every_128th_transaction() {
    let (mut world, lane) = with(|_| ());
    while world.replica.last_zxid().0 < 300 {
        world.call(lane, set("/a", ""));
    }
    let history: Vec<_> = world.replica.digest_history().collect();
    let expected = |zxid: i64| {
        let entry = world.history.iter().find(|entry| entry.header.zxid.0 == zxid).unwrap();
        (Zxid(zxid), entry.digest.unwrap().tree_digest)
    };
    assert_eq!(history, [expected(128), expected(256)]);
}
