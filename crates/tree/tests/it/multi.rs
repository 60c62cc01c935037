//! multi: all or nothing.

use zebu_proto::client::{CreateOp, CreateRequest, EventType, MultiOp, WriteRequest};
use zebu_proto::txn::Txn;
use zebu_proto::{Acl, ErrorCode, Id};
use zebu_tree::TxnOutcome;

use crate::support::*;

#[test]
fn parts_see_each_other() {
    let mut world = World::new();
    let outcome = world.ok(multi([
        op(create("/p")),
        op(sequential("/p/n-")),
        op(sequential("/p/n-")),
        op(set("/p", "x")),
        check("/p", 1),
        op(delete("/p/n-0000000000")),
    ]));
    let TxnOutcome::Multi(parts) = outcome else { panic!() };
    assert_eq!(parts.len(), 6);
    assert!(matches!(parts[1], TxnOutcome::Created { .. }) && matches!(parts[3], TxnOutcome::DataSet { .. }));
    assert_eq!((&parts[4], &parts[5]), (&TxnOutcome::Checked, &TxnOutcome::Deleted));
    assert_eq!(world.tree.node("/p").unwrap().children().collect::<Vec<_>>(), ["n-0000000001"]);
    assert_eq!(world.stat("/p").czxid, world.zxid);
    let kinds: Vec<EventType> = world.events.iter().map(|(kind, _)| *kind).collect();
    use EventType::{NodeChildrenChanged as Children, NodeCreated as Created, NodeDataChanged, NodeDeleted};
    assert_eq!(
        kinds,
        [Created, Children, Created, Children, Created, Children, NodeDataChanged, NodeDeleted, Children],
        "per part, in order"
    );
}

#[test]
fn one_failure_undoes_all() {
    let mut world = World::new();
    world.create("/a");
    world.prepare(set("/a", "pending"));
    let txn = world.prepare(multi([
        op(set("/a", "undone")),
        op(create("/b")),
        op(delete("/missing")),
        op(create("/c")),
        op(delete("/also-missing")),
    ]));
    let Txn::Multi(parts) = &txn else { panic!("{txn:?}") };
    let codes: Vec<Option<i32>> =
        parts.iter().map(|part| if let Txn::Error(code) = part.0 { Some(code) } else { None }).collect();
    assert_eq!(codes, [None, None, Some(-101), Some(-2), Some(-2)], "what was prepared stays in the list");
    // The pending change is the one before the multi, exactly.
    assert!(matches!(world.prepare(set_version("/a", "after", 1)), Txn::SetData(_)));
    world.apply_next();
    let codes = |outcome| match outcome {
        Some(TxnOutcome::Multi(parts)) => parts
            .into_iter()
            .map(|part| if let TxnOutcome::Error(code) = part { code } else { panic!("{part:?}") })
            .collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    world.events.clear();
    assert_eq!(codes(world.apply_next()), [0, 0, -101, -2, -2]);
    assert_eq!(world.events, []);
    world.apply_pending();
    assert_eq!(world.data("/a"), Some(&b"after"[..]));
    assert!(!world.exists("/b") && !world.exists("/c"));
}

#[test]
fn a_failed_multi_leaves_no_trace_in_the_overlay() {
    let mut world = World::new();
    world.prepare(create("/p"));
    world.prepare(ephemeral("/p/e"));
    let pending = world.overlay.len();
    world.prepare(multi([op(delete("/p/e")), op(delete("/p")), op(ephemeral("/p")), op(create("/nope/x"))]));
    assert_eq!(world.overlay.len(), pending);
    assert_eq!(world.prepare(WriteRequest::CloseSession), Txn::CloseSession(Some(vec!["/p/e".into()])));
    world.prepare(delete("/p"));
    world.apply_pending();
    assert!(!world.exists("/p"));
}

#[test]
fn the_empty_multi_and_the_check_only_multi_are_transactions() {
    let mut world = World::new();
    assert_eq!(world.ok(multi([])), TxnOutcome::Multi(vec![]));
    assert_eq!(world.ok(multi([check("/", -1)])), TxnOutcome::Multi(vec![TxnOutcome::Checked]));
}

#[test]
fn create2_travels_as_create() {
    let mut world = World::new();
    let txn = world.prepare(multi([
        op(create_with(CreateOp::Create2, "/a", 0)),
        op(create_with(CreateOp::Container, "/b", 4)),
        op(create_with(CreateOp::Ttl, "/c", 5)),
    ]));
    let Txn::Multi(parts) = &txn else { panic!() };
    assert!(matches!(parts[0].0, Txn::Create(_)));
    assert!(matches!(parts[1].0, Txn::CreateContainer(_)));
    assert!(matches!(parts[2].0, Txn::CreateTtl(_)));
    assert!(matches!(world.prepare(create_with(CreateOp::Create2, "/d", 0)), Txn::Create2(_)));
    world.apply_pending();
}

#[test]
fn what_no_client_sends_fails_the_whole() {
    let mut world = World::new();
    let null_id = vec![Acl { perms: 31, id: Id { scheme: Some("world".into()), id: None } }];
    let request = multi([op(create("/a")), op(create_acl("/b", null_id))]);
    assert_eq!(world.prepare(request), Txn::error(ErrorCode::MarshallingError));
    let null_path = CreateRequest { path: None, ..request_for("/c") };
    let request = multi([op(create("/missing/a")), MultiOp::Create(null_path)]);
    assert_eq!(world.prepare(request), Txn::error(ErrorCode::MarshallingError));
    assert!(world.overlay.is_empty());
    let no_acl = CreateRequest { acl: None, ..request_for("/c") };
    let Txn::Multi(parts) = world.prepare(multi([MultiOp::Create(no_acl)])) else { panic!() };
    assert_eq!(parts[0].0, Txn::error(ErrorCode::InvalidAcl));
    let refused = WriteRequest::Refused(ErrorCode::MarshallingError);
    assert_eq!(world.prepare(refused), Txn::error(ErrorCode::MarshallingError));
}

fn request_for(path: &str) -> CreateRequest {
    request(CreateOp::Create, path, 0)
}

#[test]
fn a_lost_session_fails_the_first_part() {
    let mut world = World::new();
    world.session_check = Err(ErrorCode::SessionExpired);
    let Txn::Multi(parts) = world.prepare(multi([op(create("/a")), op(create("/b"))])) else { panic!() };
    assert_eq!(parts[0].0, Txn::error(ErrorCode::SessionExpired));
    assert_eq!(parts[1].0, Txn::error(ErrorCode::RuntimeInconsistency));
    world.session_check = Ok(());
    world.ephemeral_check = Err(ErrorCode::EphemeralOnLocalSession);
    let Txn::Multi(parts) = world.prepare(multi([op(create("/a")), op(ephemeral("/b"))])) else { panic!() };
    assert_eq!(parts[1].0, Txn::error(ErrorCode::EphemeralOnLocalSession));
}
