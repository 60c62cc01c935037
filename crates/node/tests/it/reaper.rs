//! Containers and TTL nodes: when they are removed, and how fast.

use zebu_node::{AuthEnforcement, ConnectionId, NodeSettings};
use zebu_proto::SessionId;
use zebu_proto::txn::Txn;
use zebu_tree::{Policy, Tree};

use crate::client::{create, create_container, create_ttl, delete, set};
use crate::node_fixture::{NodeFixture, settings, tree_options};

fn exists(fixture: &NodeFixture, path: &str) -> bool {
    fixture.replica.tree().node(path).is_some()
}

/// The client's session outlives every test.
fn fixture(change: impl FnOnce(&mut NodeSettings)) -> (NodeFixture, ConnectionId) {
    let mut settings = NodeSettings { session_timeout_ms_max: i32::MAX, ..settings() };
    change(&mut settings);
    let policy = Policy { container_never_used_ms: settings.container_never_used_ms, ..Policy::default() };
    let mut fixture = NodeFixture::over(Tree::new(tree_options()), settings, policy, AuthEnforcement::Off);
    let connection = fixture.client_with(i32::MAX);
    (fixture, connection)
}

#[test]
fn a_used_container_goes_at_the_next_look_once_it_is_empty() {
    let (mut fixture, connection) = fixture(|_| ());
    let first_look_ms = fixture.now.monotonic_ms + 60_000;
    fixture.call(connection, create_container("/never"));
    fixture.call(connection, create_container("/full"));
    fixture.call(connection, create("/full/x", "", 0));
    fixture.call(connection, create_container("/used"));
    fixture.call(connection, create("/used/x", "", 0));
    fixture.call(connection, delete("/used/x"));
    assert_eq!(fixture.node.next_deadline(), first_look_ms);
    fixture.run_until(first_look_ms - 1);
    assert!(exists(&fixture, "/used"));
    fixture.run_until(first_look_ms);
    assert!(!exists(&fixture, "/used"));
    assert!(exists(&fixture, "/never") && exists(&fixture, "/full"));
    let entry = fixture.history.last().unwrap();
    assert_eq!((entry.header.session, entry.header.cxid), (SessionId::NONE, 0));
    assert_eq!(entry.txn, Txn::DeleteContainer("/used".into()));
    fixture.run_until(first_look_ms + 600_000);
    assert!(exists(&fixture, "/never"), "zero is never");
}

#[test]
fn a_container_that_is_never_used_goes_after_its_time() {
    let (mut fixture, connection) = fixture(|settings| settings.container_never_used_ms = 90_000);
    fixture.call(connection, create_container("/never"));
    fixture.run_until(fixture.now.monotonic_ms + 60_000);
    assert!(exists(&fixture, "/never"));
    fixture.run_until(fixture.now.monotonic_ms + 60_000);
    assert!(!exists(&fixture, "/never"));
}

#[test]
fn a_ttl_node_goes_when_it_was_not_changed_for_its_time() {
    let (mut fixture, connection) = fixture(|settings| settings.container_check_ms = 1000);
    fixture.call(connection, create_ttl("/t", 5000));
    fixture.call(connection, create_ttl("/parent", 5000));
    fixture.call(connection, create("/parent/x", "", 0));
    fixture.run_until(fixture.now.monotonic_ms + 4000);
    fixture.call(connection, set("/t", "again"));
    fixture.run_until(fixture.now.monotonic_ms + 5000);
    assert!(exists(&fixture, "/t"), "the time counts from the last change, and must be exceeded");
    fixture.run_until(fixture.now.monotonic_ms + 1000);
    assert!(!exists(&fixture, "/t"));
    assert!(exists(&fixture, "/parent"), "it has a child");
    fixture.call(connection, delete("/parent/x"));
    fixture.run_until(fixture.now.monotonic_ms + 1000);
    assert!(!exists(&fixture, "/parent"));
}

#[test]
fn removals_are_spaced() {
    let (mut fixture, connection) = fixture(|settings| settings.container_max_per_minute = 60);
    for number in 0..5 {
        fixture.call(connection, create_ttl(&format!("/t{number}"), 1));
    }
    let count =
        |fixture: &NodeFixture| (0..5).filter(|number| exists(fixture, &format!("/t{number}"))).count();
    let look_ms = fixture.now.monotonic_ms + 60_000;
    fixture.run_until(look_ms);
    assert_eq!(count(&fixture), 4);
    for left in (0..4).rev() {
        assert_eq!(fixture.node.next_deadline(), fixture.now.monotonic_ms + 1000);
        fixture.run_until(fixture.now.monotonic_ms + 999);
        assert_eq!(count(&fixture), left + 1);
        fixture.run_until(fixture.now.monotonic_ms + 1);
        assert_eq!(count(&fixture), left);
    }
    assert_eq!(fixture.node.next_deadline(), look_ms + 60_000);
}

#[test]
fn a_pace_beyond_one_per_millisecond_removes_all_at_once() {
    let (mut fixture, connection) = fixture(|settings| settings.container_max_per_minute = 1_000_000);
    for number in 0..20 {
        fixture.call(connection, create_ttl(&format!("/t{number}"), 1));
    }
    fixture.pass(60_000);
    fixture.tick();
    fixture.persist();
    assert_eq!(fixture.replica.tree().node("/").unwrap().num_children(), 1);
}

#[test]
fn a_candidate_that_is_used_again_stays() {
    let (mut fixture, connection) = fixture(|settings| settings.container_max_per_minute = 60);
    for name in ["/a", "/b", "/c"] {
        fixture.call(connection, create_ttl(name, 1000));
    }
    fixture.run_until(fixture.now.monotonic_ms + 60_000);
    assert!(!exists(&fixture, "/a"));
    fixture.send(connection, set("/b", "fresh"));
    fixture.send(connection, create("/c/child", "", 0));
    let transactions = fixture.history.len();
    fixture.run_until(fixture.now.monotonic_ms + 2000);
    assert!(exists(&fixture, "/b") && exists(&fixture, "/c"));
    assert!(fixture.history[transactions..].iter().all(|entry| matches!(entry.txn, Txn::Error(_))));
}

#[test]
fn a_slow_disk_does_not_make_one_removal_two() {
    let (mut fixture, connection) = fixture(|settings| settings.container_check_ms = 1000);
    fixture.call(connection, create_ttl("/t", 1));
    for _ in 0..3 {
        fixture.pass(1000);
        fixture.tick();
    }
    fixture.persist();
    assert!(!exists(&fixture, "/t"));
    let removals =
        fixture.history.iter().filter(|entry| matches!(entry.txn, Txn::DeleteContainer(_))).count();
    assert_eq!(removals, 1);
}
