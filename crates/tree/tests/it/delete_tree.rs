//! deltree: many deletes in one transaction that every server can apply.

use zebu_proto::client::{
    DeleteTreeReply, DeleteTreeRequest, KeeperWrite, RemoveRecursiveRequest, WriteRequest,
};
use zebu_proto::txn::{SubTxn, Txn};
use zebu_proto::{Acl, ErrorCode};
use zebu_tree::{TxnOutcome, delete_tree_reply};

use crate::support::*;

fn request(root: &str, max: i32) -> DeleteTreeRequest {
    DeleteTreeRequest { root: root.into(), max, keep_root: false, leave_ephemerals: false }
}

fn reply(txn: &Txn) -> DeleteTreeReply {
    delete_tree_reply(txn).unwrap_or_else(|| panic!("{txn:?} is no deltree"))
}

/// Prepares and applies one request.
fn run(world: &mut World, request: DeleteTreeRequest) -> DeleteTreeReply {
    let txn = world.prepare(WriteRequest::DeleteTree(request));
    let outcome = world.apply_pending().unwrap();
    let TxnOutcome::Multi(outcomes) = outcome else { panic!("{outcome:?}") };
    assert!(outcomes.iter().all(|outcome| matches!(outcome, TxnOutcome::Deleted | TxnOutcome::Checked)));
    reply(&txn)
}

fn sample() -> World {
    let mut world = World::new();
    for path in ["/a", "/a/b", "/a/b/c", "/a/d", "/a/e", "/a/e/f", "/a/e/g", "/ab"] {
        world.create(path);
    }
    world
}

fn deleted_paths(txn: &Txn) -> Vec<&str> {
    let Txn::Multi(parts) = txn else { panic!("{txn:?}") };
    parts
        .iter()
        .filter_map(|SubTxn(part)| if let Txn::Delete(path) = part { Some(&**path) } else { None })
        .collect()
}

#[test]
fn leaves_come_before_their_parents() {
    let mut world = sample();
    let txn = world.prepare(WriteRequest::DeleteTree(request("/a", 100)));
    assert_eq!(deleted_paths(&txn), ["/a/b/c", "/a/b", "/a/d", "/a/e/f", "/a/e/g", "/a/e", "/a"]);
    assert_eq!(reply(&txn), DeleteTreeReply { deleted: 7, more: false });
    world.apply_pending();
    assert!(!world.exists("/a") && world.exists("/ab"));
}

/// The whole transaction must fit, not only its deletes: otherwise each attempt is refused, for ever.
#[test]
fn short_transactions_need_more_requests_and_are_never_too_long() {
    for bytes_max in 120..300 {
        let mut world = sample();
        world.policy.transaction_bytes_max = bytes_max;
        let mut rounds = 0;
        while run(&mut world, request("/a", 100)).more {
            rounds += 1;
            assert!(rounds < 7, "{bytes_max}");
        }
        assert!(!world.exists("/a"), "{bytes_max}");
    }
}

#[test]
fn a_small_maximum_needs_more_requests() {
    let mut world = sample();
    let mut sizes = Vec::new();
    loop {
        let DeleteTreeReply { deleted, more } = run(&mut world, request("/a", 3));
        sizes.push(deleted);
        if !more {
            break;
        }
    }
    assert_eq!(sizes, [3, 3, 1]);
    assert_eq!(world.error(WriteRequest::DeleteTree(request("/a", 3))), ErrorCode::NoNode);
}

#[test]
fn the_root_and_ephemeral_nodes_may_stay() {
    let mut world = sample();
    world.ok(ephemeral("/a/e/own"));
    let keep = DeleteTreeRequest { keep_root: true, leave_ephemerals: true, ..request("/a", 100) };
    assert_eq!(run(&mut world, keep.clone()), DeleteTreeReply { deleted: 5, more: false });
    assert!(world.exists("/a/e/own") && !world.exists("/a/b"));
    // Nothing is left to do, and the transaction changes nothing.
    let before = world.tree.digest();
    assert_eq!(run(&mut world, keep), DeleteTreeReply { deleted: 0, more: false });
    assert_eq!(world.tree.digest(), before);
    let with_root = DeleteTreeRequest { leave_ephemerals: true, ..request("/a", 100) };
    assert_eq!(run(&mut world, with_root), DeleteTreeReply { deleted: 0, more: false });
    assert_eq!(run(&mut world, request("/a", 100)), DeleteTreeReply { deleted: 3, more: false });
    assert!(!world.exists("/a"));
}

#[test]
fn pending_requests_are_seen() {
    let mut world = sample();
    let first = world.prepare(WriteRequest::DeleteTree(request("/a", 4)));
    let second = world.prepare(WriteRequest::DeleteTree(request("/a", 4)));
    let third = world.prepare(WriteRequest::DeleteTree(request("/a", 4)));
    assert_eq!(deleted_paths(&first).len() + deleted_paths(&second).len(), 7);
    assert!(reply(&first).more && !reply(&second).more);
    assert_eq!(third, Txn::error(ErrorCode::NoNode));
    world.apply_pending();
    // A node that is created meanwhile is for the next request.
    world.create("/a");
    world.create("/a/b");
    world.prepare(create("/a/b/new"));
    let txn = world.prepare(WriteRequest::DeleteTree(request("/a", 9)));
    assert_eq!(reply(&txn), DeleteTreeReply { deleted: 0, more: true });
    world.apply_pending();
    assert_eq!(run(&mut world, request("/a", 9)), DeleteTreeReply { deleted: 3, more: false });
    // So is a root whose creation is pending.
    world.prepare(create("/fresh"));
    let txn = world.prepare(WriteRequest::DeleteTree(request("/fresh", 9)));
    assert_eq!(deleted_paths(&txn), ["/fresh"]);
    world.apply_pending();
}

#[test]
fn a_pending_root_with_pending_children_is_for_the_next_request() {
    let mut world = sample();
    world.prepare(create("/n"));
    world.prepare(create("/n/m"));
    let txn = world.prepare(WriteRequest::DeleteTree(request("/n", 9)));
    assert_eq!(reply(&txn), DeleteTreeReply { deleted: 0, more: true });
    world.apply_pending();
    assert_eq!(run(&mut world, request("/n", 9)), DeleteTreeReply { deleted: 2, more: false });
    assert!(!world.exists("/n"));
}

#[test]
fn permissions_and_special_nodes_are_checked() {
    let mut world = sample();
    world.ok(set_acl("/a/e", vec![Acl::new(31 & !8, "world", "anyone")], -1));
    let before = dump(&world.tree);
    assert_eq!(world.error(WriteRequest::DeleteTree(request("/a", 100))), ErrorCode::NoAuth);
    assert_eq!(dump(&world.tree), before, "all or nothing");
    for (root, error) in [
        ("/", ErrorCode::BadArguments),
        ("/a/", ErrorCode::BadArguments),
        ("/zookeeper", ErrorCode::BadArguments),
        ("/zookeeper/zebu", ErrorCode::BadArguments),
        ("/missing", ErrorCode::NoNode),
    ] {
        assert_eq!(world.error(WriteRequest::DeleteTree(request(root, 100))), error, "{root}");
    }
    world.session_check = Err(ErrorCode::SessionExpired);
    assert_eq!(world.error(WriteRequest::DeleteTree(request("/ab", 1))), ErrorCode::SessionExpired);
}

/// The longest transaction fits the default `jute.maxbuffer` of servers of every release.
#[test]
fn a_transaction_stays_below_the_packet_limit() {
    let mut world = World::new();
    world.create("/a");
    let long = "x".repeat(500);
    for number in 0..2500 {
        world.create(&format!("/a/{number}{long}"));
    }
    let txn = world.prepare(WriteRequest::DeleteTree(request("/a", i32::MAX)));
    assert!(txn.entry_length(None) < 0xf_ffff, "{}", txn.entry_length(None));
    assert!(txn.entry_length(None) > 900_000 && reply(&txn).more);
    world.apply_pending();
    assert!(!run(&mut world, request("/a", i32::MAX)).more);
}

#[test]
fn other_transactions_are_no_deltree() {
    assert_eq!(delete_tree_reply(&Txn::error(ErrorCode::NoAuth)), None);
    assert_eq!(delete_tree_reply(&Txn::Delete("/a".into())), None);
    let mixed = vec![part(Txn::Delete("/a".into())), part(Txn::error(ErrorCode::NoAuth))];
    assert_eq!(delete_tree_reply(&Txn::Multi(mixed)), None);
}

/// A flat subtree with many nodes.
fn large(count: usize) -> World {
    let mut world = World::new();
    world.create("/a");
    for number in 0..count {
        world.create(&format!("/a/{number}"));
    }
    world
}

/// Each request walks over the nodes that earlier ones delete, before any of them is applied.
#[test]
fn requests_that_are_prepared_together_visit_a_bounded_number_of_nodes() {
    let mut world = large(30_000);
    let replies: Vec<DeleteTreeReply> =
        (0..100).map(|_| reply(&world.prepare(WriteRequest::DeleteTree(request("/a", 1_000))))).collect();
    let working = replies.iter().take_while(|reply| reply.deleted > 0).count();
    // The visits of nodes that are gone: 0, 1,000, 2,000 and so on, up to 200,000 together.
    assert!((15..25).contains(&working), "{working}");
    assert!(replies.iter().all(|reply| reply.more));
    assert!(replies[working..].iter().all(|reply| reply.deleted == 0));
    world.apply_pending();
    assert_eq!(run(&mut world, request("/a", 1_000)).deleted, 1_000, "the next ones go on");
}

#[test]
fn atomic_deletes_that_are_prepared_together_visit_a_bounded_number_of_nodes() {
    let mut world = large(21_000);
    world.prepare(WriteRequest::DeleteTree(request("/a", 20_000)));
    let remove = || {
        let request = RemoveRecursiveRequest { path: Some("/a".into()), limit: 5 };
        WriteRequest::Keeper(Box::new(KeeperWrite::RemoveRecursive(request)))
    };
    let errors: Vec<Txn> = (0..100).map(|_| world.prepare(remove())).collect();
    let working = errors.iter().take_while(|txn| **txn == Txn::error(ErrorCode::NotEmpty)).count();
    assert!((5..15).contains(&working), "{working}");
    assert!(errors[working..].iter().all(|txn| *txn == Txn::error(ErrorCode::OperationTimeout)));
    world.apply_pending();
    assert_eq!(world.prepare(remove()), Txn::error(ErrorCode::NotEmpty));
    world.apply_pending();
}
