//! Sessions: the table, and the ephemeral nodes that go with one.

use zebu_proto::client::{EventType, WriteRequest};
use zebu_proto::txn::Txn;
use zebu_proto::{ErrorCode, SessionId};
use zebu_tree::TxnOutcome;

use crate::support::*;

const OTHER: SessionId = SessionId(0x2000);

fn close(world: &mut World) -> Vec<Box<str>> {
    match world.prepare(WriteRequest::CloseSession) {
        Txn::CloseSession(Some(paths)) => paths,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_table() {
    let mut world = World::new();
    assert_eq!(world.ok(WriteRequest::CreateSession { timeout_ms: 4000 }), TxnOutcome::SessionCreated);
    assert_eq!(world.tree.sessions().get(&SESSION), Some(&4000));
    world.ok(ephemeral("/e"));
    assert_eq!((world.tree.ephemerals_count(), world.stat("/e").ephemeral_owner), (1, SESSION.0));
    assert_eq!(world.tree.sessions_with_ephemerals().collect::<Vec<_>>(), [SESSION]);
    world.session_check = Err(ErrorCode::SessionExpired);
    world.events.clear();
    assert_eq!(world.ok(WriteRequest::CloseSession), TxnOutcome::SessionClosed { session: SESSION });
    assert!(world.tree.sessions().is_empty() && !world.exists("/e"));
    assert_eq!((world.tree.ephemerals_count(), world.stat("/").pzxid), (0, world.zxid));
    assert_eq!(world.events[0], (EventType::NodeDeleted, "/e".to_owned()));
}

#[test]
fn pending_creates_and_deletes_are_included() {
    let mut world = World::new();
    world.create("/p");
    world.ok(ephemeral("/p/committed"));
    world.ok(ephemeral("/p/deleted"));
    world.ok(ephemeral("/p/taken"));
    world.prepare(delete("/p/deleted"));
    world.prepare(delete("/p/taken"));
    world.prepare(create("/p/taken"));
    world.prepare(ephemeral("/p/pending"));
    world.prepare(ephemeral("/p/brief"));
    world.prepare(delete("/p/brief"));
    world.session = OTHER;
    world.prepare(ephemeral("/p/foreign"));
    world.session = SESSION;
    assert_eq!(close(&mut world), ["/p/committed".into(), "/p/pending".into()]);
    assert_eq!(close(&mut world), [], "they are gone already");
    world.session = OTHER;
    assert_eq!(close(&mut world), ["/p/foreign".into()]);
    world.apply_pending();
    assert_eq!(world.tree.node("/p").unwrap().children().collect::<Vec<_>>(), ["taken"]);
    assert_eq!(world.tree.ephemerals_count(), 0);
}

#[test]
fn a_node_that_changes_its_session() {
    let mut world = World::new();
    world.ok(ephemeral("/e"));
    world.prepare(delete("/e"));
    world.session = OTHER;
    world.prepare(ephemeral("/e"));
    world.session = SESSION;
    assert_eq!(close(&mut world), []);
    world.apply_pending();
    assert_eq!(world.stat("/e").ephemeral_owner, OTHER.0);
}

#[test]
fn the_parent_is_empty_while_the_close_is_pending() {
    let mut world = World::new();
    world.create("/p");
    world.ok(ephemeral("/p/a"));
    world.ok(ephemeral("/p/b"));
    close(&mut world);
    assert!(matches!(world.prepare(delete("/p")), Txn::Delete(_)));
    world.apply_pending();
    assert!(!world.exists("/p"));
}

#[test]
fn listed_and_unlisted_nodes_go() {
    let mut world = World::new();
    world.ok(WriteRequest::CreateSession { timeout_ms: 1 });
    world.create("/p");
    world.ok(ephemeral("/p/listed"));
    world.ok(ephemeral("/p/unlisted"));
    let paths = vec!["/p/missing".into(), "/p/listed".into(), "/nowhere/x".into(), "/".into(), "x".into()];
    world.zxid += 1;
    apply(&mut world.tree, world.zxid, &Txn::CloseSession(Some(paths)));
    assert_eq!((world.stat("/p").num_children, world.stat("/p").pzxid), (0, world.zxid));
    world.ok(ephemeral("/p/old"));
    world.zxid += 1;
    apply(&mut world.tree, world.zxid, &Txn::CloseSession(None));
    assert!(!world.exists("/p/old"));
}

#[test]
fn ephemerals_of_a_session_are_sorted() {
    let mut world = World::new();
    for path in ["/c", "/a", "/b"] {
        world.ok(ephemeral(path));
    }
    assert_eq!(world.tree.ephemerals_of(SESSION), ["/a".into(), "/b".into(), "/c".into()]);
    assert_eq!(world.tree.ephemerals_of(OTHER), []);
}

/// The list of paths and the transaction around it have this many bytes.
const LISTED_BYTES: usize = 32 + 4 + 2 * (4 + "/p/a".len()) + 12;

#[test]
fn an_end_whose_list_is_too_long_has_none() {
    for (bytes_max, listed) in [(LISTED_BYTES, true), (LISTED_BYTES - 1, false)] {
        let mut world = World::new();
        world.ok(WriteRequest::CreateSession { timeout_ms: 1 });
        world.create("/p");
        world.ok(ephemeral("/p/a"));
        world.prepare(ephemeral("/p/b"));
        world.policy.transaction_bytes_max = bytes_max;
        let txn = world.prepare(WriteRequest::CloseSession);
        assert_eq!(matches!(txn, Txn::CloseSession(Some(_))), listed, "{txn:?}");
        // The next one carries a digest, which is compared.
        world.prepare(delete("/p"));
        world.apply_pending();
        assert!(world.tree.sessions().is_empty() && !world.exists("/p"));
        assert_eq!(world.tree.ephemerals_count(), 0);
    }
}

#[test]
fn what_is_too_long_changes_nothing() {
    let mut world = World::new();
    world.create("/p");
    world.policy.transaction_bytes_max = 200;
    let large = create_data("/p/large", &"x".repeat(200));
    assert_eq!(world.error(large.clone()), ErrorCode::MarshallingError);
    world.prepare(large);
    assert!(world.pending.back().unwrap().1.refused_bytes.is_some_and(|bytes| bytes > 200));
    world.prepare(delete("/p"));
    world.apply_pending();
    assert!(!world.exists("/p"), "nothing is pending below it");
}

#[test]
fn a_multi_that_is_too_long_is_refused_as_a_whole() {
    use zebu_proto::client::{CreateOp, CreateRequest, MultiOp};
    let op = |path: String| {
        let acl = Some(zebu_proto::Acl::open().into());
        let request = CreateRequest {
            op: CreateOp::Create,
            path: Some(path.into()),
            data: None,
            acl,
            flags: 0,
            ttl_ms: -1,
        };
        MultiOp::Create(request)
    };
    let mut world = World::new();
    world.policy.transaction_bytes_max = 400;
    let multi = |count| WriteRequest::Multi((0..count).map(|number| op(format!("/{number}"))).collect());
    assert_eq!(world.error(multi(100)), ErrorCode::MarshallingError);
    assert!(!world.exists("/0"));
    world.ok(multi(5));
}
