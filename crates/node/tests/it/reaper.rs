//! Containers and TTL nodes: when they are removed, and how fast.

use zebu_node::{AuthEnforcement, ConnectionId, NodeSettings};
use zebu_proto::SessionId;
use zebu_proto::txn::Txn;
use zebu_tree::{Policy, Tree};

use crate::client::{create, create_container, create_ttl, delete, set};
use crate::world::{World, settings, tree_options};

fn exists(world: &World, path: &str) -> bool {
    world.replica.tree().node(path).is_some()
}

/// The client's session outlives every test.
fn world(change: impl FnOnce(&mut NodeSettings)) -> (World, ConnectionId) {
    let mut settings = NodeSettings { session_timeout_ms_max: i32::MAX, ..settings() };
    change(&mut settings);
    let policy = Policy { container_never_used_ms: settings.container_never_used_ms, ..Policy::default() };
    let mut world = World::over(Tree::new(tree_options()), settings, policy, AuthEnforcement::Off);
    let lane = world.client_with(i32::MAX);
    (world, lane)
}

#[test]
fn a_used_container_goes_at_the_next_look_once_it_is_empty() {
    let (mut world, lane) = world(|_| ());
    let first_look_ms = world.now.monotonic_ms + 60_000;
    world.call(lane, create_container("/never"));
    world.call(lane, create_container("/full"));
    world.call(lane, create("/full/x", "", 0));
    world.call(lane, create_container("/used"));
    world.call(lane, create("/used/x", "", 0));
    world.call(lane, delete("/used/x"));
    assert_eq!(world.node.next_deadline(), first_look_ms);
    world.run_until(first_look_ms - 1);
    assert!(exists(&world, "/used"));
    world.run_until(first_look_ms);
    assert!(!exists(&world, "/used"));
    assert!(exists(&world, "/never") && exists(&world, "/full"));
    let entry = world.history.last().unwrap();
    assert_eq!((entry.header.session, entry.header.cxid), (SessionId::NONE, 0));
    assert_eq!(entry.txn, Txn::DeleteContainer("/used".into()));
    world.run_until(first_look_ms + 600_000);
    assert!(exists(&world, "/never"), "zero is never");
}

#[test]
fn a_container_that_is_never_used_goes_after_its_time() {
    let (mut world, lane) = world(|settings| settings.container_never_used_ms = 90_000);
    world.call(lane, create_container("/never"));
    world.run_until(world.now.monotonic_ms + 60_000);
    assert!(exists(&world, "/never"));
    world.run_until(world.now.monotonic_ms + 60_000);
    assert!(!exists(&world, "/never"));
}

#[test]
fn a_ttl_node_goes_when_it_was_not_changed_for_its_time() {
    let (mut world, lane) = world(|settings| settings.container_check_ms = 1000);
    world.call(lane, create_ttl("/t", 5000));
    world.call(lane, create_ttl("/parent", 5000));
    world.call(lane, create("/parent/x", "", 0));
    world.run_until(world.now.monotonic_ms + 4000);
    world.call(lane, set("/t", "again"));
    world.run_until(world.now.monotonic_ms + 5000);
    assert!(exists(&world, "/t"), "the time counts from the last change, and must be exceeded");
    world.run_until(world.now.monotonic_ms + 1000);
    assert!(!exists(&world, "/t"));
    assert!(exists(&world, "/parent"), "it has a child");
    world.call(lane, delete("/parent/x"));
    world.run_until(world.now.monotonic_ms + 1000);
    assert!(!exists(&world, "/parent"));
}

#[test]
fn removals_are_spaced() {
    let (mut world, lane) = world(|settings| settings.container_max_per_minute = 60);
    for number in 0..5 {
        world.call(lane, create_ttl(&format!("/t{number}"), 1));
    }
    let count = |world: &World| (0..5).filter(|number| exists(world, &format!("/t{number}"))).count();
    let look_ms = world.now.monotonic_ms + 60_000;
    world.run_until(look_ms);
    assert_eq!(count(&world), 4);
    for left in (0..4).rev() {
        assert_eq!(world.node.next_deadline(), world.now.monotonic_ms + 1000);
        world.run_until(world.now.monotonic_ms + 999);
        assert_eq!(count(&world), left + 1);
        world.run_until(world.now.monotonic_ms + 1);
        assert_eq!(count(&world), left);
    }
    assert_eq!(world.node.next_deadline(), look_ms + 60_000);
}

#[test]
fn a_pace_beyond_one_per_millisecond_removes_all_at_once() {
    let (mut world, lane) = world(|settings| settings.container_max_per_minute = 1_000_000);
    for number in 0..20 {
        world.call(lane, create_ttl(&format!("/t{number}"), 1));
    }
    world.pass(60_000);
    world.tick();
    world.persist();
    assert_eq!(world.replica.tree().node("/").unwrap().num_children(), 1);
}

#[test]
fn a_candidate_that_is_used_again_stays() {
    let (mut world, lane) = world(|settings| settings.container_max_per_minute = 60);
    for name in ["/a", "/b", "/c"] {
        world.call(lane, create_ttl(name, 1000));
    }
    world.run_until(world.now.monotonic_ms + 60_000);
    assert!(!exists(&world, "/a"));
    world.send(lane, set("/b", "fresh"));
    world.send(lane, create("/c/child", "", 0));
    let transactions = world.history.len();
    world.run_until(world.now.monotonic_ms + 2000);
    assert!(exists(&world, "/b") && exists(&world, "/c"));
    assert!(world.history[transactions..].iter().all(|entry| matches!(entry.txn, Txn::Error(_))));
}

#[test]
fn a_slow_disk_does_not_make_one_removal_two() {
    let (mut world, lane) = world(|settings| settings.container_check_ms = 1000);
    world.call(lane, create_ttl("/t", 1));
    for _ in 0..3 {
        world.pass(1000);
        world.tick();
    }
    world.persist();
    assert!(!exists(&world, "/t"));
    let removals = world.history.iter().filter(|entry| matches!(entry.txn, Txn::DeleteContainer(_))).count();
    assert_eq!(removals, 1);
}
