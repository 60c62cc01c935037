//! Differences between trees, and the writes that turn a live subtree into that of a backup.

use std::collections::BTreeMap;

use zebu_backup::core::apply_plan::{ApplyStep, ExtraNodes, LiveNode, parents, path_of, plan_apply};
use zebu_backup::core::difference::{Difference, compare};
use zebu_backup::core::replay::tree_options;
use zebu_proto::txn::{CreateTxn, SetAclTxn, SetDataTxn, Txn, TxnHeader};
use zebu_proto::{Acl, SessionId, Zxid};
use zebu_tree::Tree;

fn tree(txns: Vec<Txn>) -> Tree {
    let mut tree = Tree::new(tree_options(1));
    for (index, txn) in txns.into_iter().enumerate() {
        let zxid = Zxid::new(1, index as u32 + 1);
        let header = TxnHeader { session: SessionId(9), cxid: 0, zxid, time_ms: 1000 };
        tree.apply(&header, &txn, &mut |_| ());
    }
    tree
}

fn create(path: &str, data: &str, ephemeral: bool) -> Txn {
    let (path, data) = (path.into(), Some(data.as_bytes().to_vec().into()));
    Txn::Create(CreateTxn {
        path,
        data,
        acl: Some(Acl::open().to_vec().into()),
        ephemeral,
        parent_cversion: -1,
    })
}

fn set(path: &str, data: &str) -> Txn {
    Txn::SetData(SetDataTxn { path: path.into(), data: Some(data.as_bytes().to_vec().into()), version: 1 })
}

fn read_only(path: &str) -> Txn {
    let acl = vec![Acl::new(1, "world", "anyone")];
    Txn::SetAcl(SetAclTxn { path: path.into(), acl: Some(acl.into()), version: 1 })
}

fn live(data: &str, is_ephemeral: bool) -> LiveNode {
    let data = Some(data.as_bytes().to_vec());
    LiveNode { data, acl: Acl::open().to_vec(), version: 4, aversion: 2, is_ephemeral }
}

#[test]
fn every_kind_of_difference() {
    let first = tree(vec![create("/a", "1", false), create("/a/b", "1", false), create("/c", "1", false)]);
    let mut second =
        tree(vec![create("/a", "1", false), create("/a/b", "1", false), create("/c", "1", false)]);
    let mut apply = |counter, txn: Txn| {
        let header = TxnHeader { session: SessionId(9), cxid: 0, zxid: Zxid::new(1, counter), time_ms: 1000 };
        second.apply(&header, &txn, &mut |_| ());
    };
    apply(4, set("/a/b", "2"));
    apply(5, read_only("/a"));
    apply(6, Txn::Delete("/c".into()));
    apply(7, create("/d", "1", false));
    let mut found = Vec::new();
    compare(&first, &second, "/", &mut |path, difference| found.push((path.to_owned(), difference)));
    let changed = |data, acl| Difference::Changed { data, acl, recreated: false };
    let expected = [
        ("/a".to_owned(), changed(false, true)),
        ("/a/b".to_owned(), changed(true, false)),
        ("/c".to_owned(), Difference::Removed),
        ("/d".to_owned(), Difference::Added),
    ];
    assert_eq!(found, expected);
    found.clear();
    compare(&first, &second, "/a/b", &mut |path, difference| found.push((path.to_owned(), difference)));
    assert_eq!(found, expected[1..2]);
    compare(&first, &first, "/", &mut |path, _| panic!("{path} differs from itself"));
}

#[test]
fn a_live_subtree_becomes_that_of_the_backup() {
    let wanted = tree(vec![
        create("/app", "", false),
        create("/app/new", "1", false),
        create("/app/new/child", "2", false),
        create("/app/set", "old", false),
        create("/app/same", "x", false),
        create("/app/lock", "", true),
        create("/app/acl", "", false),
        read_only("/app/acl"),
        create("/other", "", false),
    ]);
    let live: BTreeMap<String, LiveNode> = [
        ("/app", live("", false)),
        ("/app/set", live("new", false)),
        ("/app/same", live("x", false)),
        ("/app/acl", live("", false)),
        ("/app/extra", live("", false)),
        ("/app/extra/child", live("", false)),
        ("/app/members", live("", false)),
        ("/app/members/one", live("", true)),
    ]
    .map(|(path, node)| (path.to_owned(), node))
    .into();
    let plan = plan_apply(&wanted, "/app", &live, ExtraNodes::Delete);
    let shown: Vec<(char, &str)> = plan
        .steps
        .iter()
        .map(|step| match step {
            ApplyStep::Create { path, .. } => ('+', path.as_str()),
            ApplyStep::Set { path, version: 4, .. } => ('=', path.as_str()),
            ApplyStep::SetAcl { path, aversion: 2, .. } => ('a', path.as_str()),
            ApplyStep::Delete { path, version: 4 } => ('-', path.as_str()),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [
        ('+', "/app/new"),
        ('+', "/app/new/child"),
        ('=', "/app/set"),
        ('a', "/app/acl"),
        ('-', "/app/extra/child"),
        ('-', "/app/extra"),
    ];
    assert_eq!(shown, expected);
    // The parent of a living session's node stays too.
    assert_eq!(plan.extra, ["/app/members", "/app/members/one"]);
    assert_eq!(plan.ephemeral, ["/app/lock"]);

    let plan = plan_apply(&wanted, "/app", &live, ExtraNodes::Keep);
    assert!(!plan.steps.iter().any(|step| matches!(step, ApplyStep::Delete { .. })));
    assert_eq!(plan.extra, ["/app/extra", "/app/extra/child", "/app/members", "/app/members/one"]);
}

#[test]
fn missing_parents_are_created_and_present_ones_stay() {
    let wanted = tree(vec![
        create("/a", "old", false),
        create("/a/b", "parent", false),
        create("/a/b/c", "", false),
        create("/a/b/c/d", "1", false),
        create("/a/b/other", "", false),
    ]);
    let live: BTreeMap<String, LiveNode> = [("/a".to_owned(), live("new", false))].into();
    let plan = plan_apply(&wanted, "/a/b/c", &live, ExtraNodes::Delete);
    let created: Vec<_> =
        plan.steps.iter().map(|step| (matches!(step, ApplyStep::Create { .. }), path_of(step))).collect();
    assert_eq!(created, [(true, "/a/b"), (true, "/a/b/c"), (true, "/a/b/c/d")]);
    let ApplyStep::Create { data, .. } = &plan.steps[0] else { panic!("{plan:?}") };
    assert_eq!(data.as_deref(), Some(&b"parent"[..]));
    assert!(plan.extra.is_empty(), "{plan:?}");
    assert_eq!(parents("/a/b/c").collect::<Vec<_>>(), ["/a", "/a/b"]);
    assert_eq!(parents("/a").count() + parents("/").count(), 0);
}

#[test]
fn a_plan_for_everything_leaves_the_nodes_of_the_servers_out() {
    let wanted = tree(vec![
        create("/app", "1", false),
        create("/gone", "", false),
        create("/zookeeper/quota/app", "", false),
        create("/zookeeper2", "", false),
    ]);
    let live: BTreeMap<String, LiveNode> =
        [("/", live("root", false)), ("/app", live("2", false)), ("/extra", live("", false))]
            .map(|(path, node)| (path.to_owned(), node))
            .into();
    let plan = plan_apply(&wanted, "/", &live, ExtraNodes::Delete);
    let steps: Vec<_> = plan.steps.iter().map(path_of).collect();
    assert_eq!(steps, ["/gone", "/zookeeper2", "/", "/app", "/extra"]);
}
