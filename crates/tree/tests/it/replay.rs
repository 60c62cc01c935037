//! Transactions over a tree that already holds some of their effects.

use zebu_proto::client::EventType;
use zebu_proto::txn::{CheckTxn, CreateContainerTxn, CreateTtlTxn, CreateTxn, SetAclTxn, SetDataTxn, Txn};
use zebu_proto::{Acl, ErrorCode};
use zebu_tree::{Tree, TxnOutcome};

use crate::support::*;

fn plain(path: &str, parent_cversion: i32) -> CreateTxn {
    CreateTxn {
        path: path.into(),
        data: text("new"),
        acl: Some(no_permissions().into()),
        ephemeral: false,
        parent_cversion,
    }
}

fn fresh() -> Tree {
    let mut tree = Tree::new(options());
    apply(&mut tree, 1, &Txn::Create(CreateTxn { acl: Some(Acl::open().into()), ..plain("/a", 1) }));
    apply(&mut tree, 2, &Txn::SetData(SetDataTxn { path: "/a".into(), data: text("old"), version: 3 }));
    tree
}

fn root(tree: &Tree) -> (i32, i64) {
    let stat = tree.node("/").unwrap().persisted();
    (stat.cversion, stat.pzxid)
}

#[test]
fn create_of_an_existing_node_takes_the_acl_and_advances_the_parent() {
    let mut tree = fresh();
    let before = tree.node("/a").unwrap().persisted();
    assert_eq!(apply(&mut tree, 10, &Txn::Create(plain("/a", 5))), TxnOutcome::error(ErrorCode::NodeExists));
    let node = tree.node("/a").unwrap();
    assert_eq!((node.data(), node.persisted()), (Some(&b"old"[..]), before));
    assert_eq!(**node.acl(), *no_permissions());
    assert_eq!(root(&tree), (5, 10));
    apply(&mut tree, 11, &Txn::Create(plain("/a", 5)));
    apply(&mut tree, 12, &Txn::Create(plain("/a", 4)));
    assert_eq!(root(&tree), (5, 10), "only upward");
    apply(&mut tree, 13, &Txn::Create(plain("/a", -1)));
    assert_eq!(root(&tree), (6, 13), "-1 is one more");
}

#[test]
fn the_other_creates_leave_the_parent_alone() {
    let container = CreateContainerTxn {
        path: "/a".into(),
        data: None,
        acl: Some(no_permissions().into()),
        parent_cversion: 9,
    };
    let ttl = CreateTtlTxn {
        path: "/a".into(),
        data: None,
        acl: Some(no_permissions().into()),
        parent_cversion: 9,
        ttl_ms: 5,
    };
    for txn in [Txn::Create2(plain("/a", 9)), Txn::CreateContainer(container), Txn::CreateTtl(ttl)] {
        let mut tree = fresh();
        let parent = root(&tree);
        assert_eq!(apply(&mut tree, 10, &txn), TxnOutcome::error(ErrorCode::NodeExists));
        assert_eq!((root(&tree), &**tree.node("/a").unwrap().acl()), (parent, &*no_permissions()), "{txn:?}");
    }
}

#[test]
fn create_moves_the_parent_only_upward() {
    let mut tree = fresh();
    apply(&mut tree, 10, &Txn::Create(plain("/b", 7)));
    assert_eq!(root(&tree), (7, 10));
    apply(&mut tree, 5, &Txn::Create(plain("/c", 7)));
    apply(&mut tree, 6, &Txn::Create2(plain("/d", 3)));
    assert_eq!(root(&tree), (7, 10));
    apply(&mut tree, 11, &Txn::Create(plain("/e", -1)));
    assert_eq!(root(&tree), (8, 11), "very old logs");
}

#[test]
fn delete_of_a_missing_node_raises_the_parent() {
    let mut tree = fresh();
    assert_eq!(apply(&mut tree, 10, &Txn::Delete("/gone".into())), TxnOutcome::error(ErrorCode::NoNode));
    assert_eq!(root(&tree), (1, 10));
    apply(&mut tree, 9, &Txn::DeleteContainer("/gone".into()));
    assert_eq!(root(&tree), (1, 10), "never downward");
    apply(&mut tree, 12, &Txn::CloseSession(Some(vec!["/gone".into()])));
    assert_eq!(root(&tree), (1, 12));
}

#[test]
fn delete_of_a_node_that_has_children_already() {
    let mut tree = fresh();
    apply(&mut tree, 20, &Txn::Create(plain("/a/later", 1)));
    let ephemeral = CreateTxn { ephemeral: true, ..plain("/a/later/e", 1) };
    apply(&mut tree, 21, &Txn::Create(ephemeral));
    let mut events = Vec::new();
    tree.apply(&header(10), &Txn::Delete("/a".into()), &mut |event| {
        events.push((event.kind, event.path.to_owned()));
    });
    assert_eq!((tree.node_count(), tree.ephemerals_count()), (4, 0), "they will be created again");
    assert_eq!(events.len(), 2);
    assert_eq!(events[0], (EventType::NodeDeleted, "/a".to_owned()));
}

#[test]
fn what_concerns_missing_nodes_is_ignored() {
    let mut tree = fresh();
    let digest = tree.digest();
    let missing = TxnOutcome::error(ErrorCode::NoNode);
    let set = SetDataTxn { path: "/x".into(), data: None, version: 1 };
    let acl = SetAclTxn { path: "/x".into(), acl: None, version: 1 };
    assert_eq!(apply(&mut tree, 10, &Txn::SetData(set)), missing);
    assert_eq!(apply(&mut tree, 11, &Txn::SetAcl(acl)), missing);
    assert_eq!(apply(&mut tree, 12, &Txn::Create(plain("/x/y", 1))), missing);
    assert_eq!(apply(&mut tree, 13, &Txn::Delete("/x/y".into())), missing);
    let check = CheckTxn { path: "/x".into(), version: 1 };
    assert_eq!(apply(&mut tree, 14, &Txn::Check(check)), TxnOutcome::Checked);
    assert_eq!(apply(&mut tree, 15, &Txn::Error(-4711)), TxnOutcome::Error(-4711), "also codes nobody knows");
    assert_eq!(tree.digest(), digest);
}

#[test]
fn data_and_acls_are_absolute() {
    let mut tree = fresh();
    let set = |version| Txn::SetData(SetDataTxn { path: "/a".into(), data: text("x"), version });
    apply(&mut tree, 10, &set(8));
    apply(&mut tree, 5, &set(4));
    let stat = tree.node("/a").unwrap().persisted();
    assert_eq!(
        (stat.version, stat.mzxid, stat.mtime),
        (4, 5, START_MS + 5),
        "until the later one comes again"
    );
    apply(&mut tree, 6, &Txn::SetAcl(SetAclTxn { path: "/a".into(), acl: None, version: 2 }));
    assert_eq!(tree.node("/a").unwrap().stat().aversion, 2);
    assert_eq!(**tree.node("/a").unwrap().acl(), *Acl::open(), "null is the open list");
    assert_eq!(tree.last_zxid().0, 10, "the zxid never goes back");
}

#[test]
fn paths_that_cannot_be() {
    let mut tree = fresh();
    let before = dump(&tree);
    for path in ["", "/", "x", "x/y", "//x", "/a/", "//"] {
        apply(&mut tree, 3, &Txn::Create(plain(path, 9)));
        apply(&mut tree, 3, &Txn::Delete(path.into()));
    }
    assert_eq!(dump(&tree), before);
}

#[test]
fn parts_of_a_multi_follow_the_rows_one_by_one() {
    let mut tree = fresh();
    let parts = vec![
        part(Txn::Create(plain("/a", 3))),
        part(Txn::Delete("/x".into())),
        part(Txn::Create(plain("/b", 4))),
    ];
    let TxnOutcome::Multi(outcomes) = apply(&mut tree, 10, &Txn::Multi(parts)) else { panic!() };
    assert_eq!(
        outcomes[..2],
        [TxnOutcome::error(ErrorCode::NodeExists), TxnOutcome::error(ErrorCode::NoNode)]
    );
    assert!(matches!(outcomes[2], TxnOutcome::Created { .. }));
    assert_eq!(root(&tree), (4, 10));
    let nested = Txn::Multi(vec![part(Txn::Multi(vec![part(Txn::Delete("/a".into()))]))]);
    apply(&mut tree, 11, &nested);
    assert!(tree.node("/a").is_some());
}

/// The place of a node that has gone is given to the next one.
#[test]
fn a_parent_that_has_gone_is_not_taken_for_the_node_in_its_place() {
    let mut tree = fresh();
    assert!(matches!(apply(&mut tree, 3, &Txn::Create(plain("/a/b", 1))), TxnOutcome::Created { .. }));
    apply(&mut tree, 4, &Txn::Delete("/a/b".into()));
    apply(&mut tree, 5, &Txn::Delete("/a".into()));
    apply(&mut tree, 6, &Txn::Create(plain("/c", 3)));
    apply(&mut tree, 7, &Txn::Create(plain("/d", 4)));
    let missing = TxnOutcome::error(ErrorCode::NoNode);
    assert_eq!(apply(&mut tree, 8, &Txn::Create(plain("/a/x", 1))), missing);
    assert_eq!(tree.all_children_number("/c"), Some(0));
}
