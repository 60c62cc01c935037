//! Requests that follow each other before anything is applied.

use zebu_proto::txn::Txn;
use zebu_proto::{Acl, ErrorCode, Permissions, Zxid};

use crate::support::*;

fn is_error(txn: &Txn, code: ErrorCode) -> bool {
    *txn == Txn::error(code)
}

#[test]
fn creates_and_deletes_are_seen() {
    let mut world = World::new();
    world.prepare(create("/a"));
    assert!(is_error(&world.prepare(create("/a")), ErrorCode::NodeExists));
    world.prepare(create("/a/b"));
    assert!(is_error(&world.prepare(delete("/a")), ErrorCode::NotEmpty));
    world.prepare(delete("/a/b"));
    assert!(is_error(&world.prepare(delete("/a/b")), ErrorCode::NoNode));
    assert!(is_error(&world.prepare(set("/a/b", "")), ErrorCode::NoNode));
    world.prepare(delete("/a"));
    assert!(is_error(&world.prepare(create("/a/c")), ErrorCode::NoNode));
    world.prepare(create("/a"));
    world.apply_pending();
    assert_eq!(world.stat("/a").num_children, 0);
}

#[test]
fn versions_and_counters_are_seen() {
    let mut world = World::new();
    world.create("/a");
    world.prepare(set_version("/a", "1", 0));
    world.prepare(set_version("/a", "2", 1));
    assert!(is_error(&world.prepare(set_version("/a", "3", 0)), ErrorCode::BadVersion));
    for number in 0..3 {
        let Txn::Create(txn) = world.prepare(sequential("/a/n")) else { panic!() };
        assert_eq!((&*txn.path, txn.parent_cversion), (format!("/a/n{number:010}").as_str(), number + 1));
    }
    world.apply_pending();
}

#[test]
fn a_new_acl_counts_at_once() {
    let mut world = World::new();
    world.create("/a");
    world.prepare(set_acl("/a", no_permissions(), -1));
    assert!(is_error(&world.prepare(set("/a", "")), ErrorCode::NoAuth));
    assert!(is_error(&world.prepare(create("/a/b")), ErrorCode::NoAuth));
    assert!(is_error(&world.prepare(set_acl("/a", Acl::open(), -1)), ErrorCode::NoAuth));
    world.apply_pending();
    world.ok(create_acl("/b", vec![Acl::new(Permissions::ADMIN, "world", "anyone")]));
    assert!(is_error(&world.prepare(set("/b", "")), ErrorCode::NoAuth));
    world.prepare(set_acl("/b", Acl::open(), -1));
    assert!(matches!(world.prepare(set("/b", "")), Txn::SetData(_)));
    world.apply_pending();
}

#[test]
fn the_root_is_one_node_under_both_names() {
    let mut world = World::new();
    world.prepare(create("/a"));
    world.prepare(set("/", "x"));
    world.prepare(set_acl("/", no_permissions(), -1));
    assert!(is_error(&world.prepare(create("/b")), ErrorCode::NoAuth));
    assert!(is_error(&world.prepare(delete("/a")), ErrorCode::NoAuth));
    world.apply_pending();
    assert_eq!(world.tree.node("/").unwrap().persisted().cversion, 1);
}

#[test]
fn a_pending_ephemeral_has_no_children() {
    let mut world = World::new();
    world.prepare(ephemeral("/e"));
    assert!(is_error(&world.prepare(create("/e/x")), ErrorCode::NoChildrenForEphemerals));
    world.apply_pending();
}

#[test]
fn applied_changes_leave_the_overlay() {
    let mut world = World::new();
    world.prepare(create("/a"));
    world.prepare(set("/a", "1"));
    world.prepare(set("/a", "2"));
    assert_eq!(world.overlay.len(), 4, "the parent, the node, and twice the node");
    world.apply_next();
    assert_eq!(world.overlay.len(), 2);
    // The record is the later one, not what was applied.
    assert!(is_error(&world.prepare(set_version("/a", "", 0)), ErrorCode::BadVersion));
    assert!(matches!(world.prepare(set_version("/a", "3", 2)), Txn::SetData(_)));
    world.apply_pending();
    assert_eq!(world.stat("/a").version, 3);
    world.prepare(create("/gone"));
    world.overlay.clear();
    world.pending.clear();
    assert!(matches!(world.prepare(create("/gone")), Txn::Create(_)));
    world.overlay.applied(Zxid(i64::MAX));
    assert!(world.overlay.is_empty());
}
