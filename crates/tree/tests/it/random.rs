//! Random requests and random transactions.

use proptest::prelude::*;
use zebu_proto::client::{
    CheckRequest, CheckStatRequest, CreateOp, CreateRequest, DeleteRequest, KeeperCheck, KeeperPart,
    KeeperWrite, MultiOp, RemoveRecursiveRequest, WriteRequest,
};
use zebu_proto::txn::{
    CheckTxn, CreateContainerTxn, CreateTtlTxn, CreateTxn, SetAclTxn, SetDataTxn, SubTxn, Txn, TxnHeader,
};
use zebu_proto::{Acl, AclList, SessionId, Stat, Zxid};
use zebu_tree::Tree;

use crate::loader::reload;
use crate::support::*;

/// Paths of a small tree, so that requests meet each other.
pub(crate) fn paths() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "(/[abc]){1,3}",
        1 => Just("/".to_owned()),
        1 => prop::sample::select(vec!["", "x", "/a/", "//a", "/zookeeper", "/zookeeper/config", "/b/n-0000000000"])
            .prop_map(str::to_owned),
    ]
}

fn data() -> impl Strategy<Value = String> {
    "[xyz]{0,4}"
}

fn acls() -> impl Strategy<Value = AclList> {
    let lists = prop_oneof![
        6 => Just(Acl::open()),
        1 => Just(Acl::read_only()),
        1 => Just(vec![Acl::new(31, "digest", "bob:hash")]),
        1 => Just(vec![]),
    ];
    lists.prop_map(AclList::from)
}

fn create_op() -> impl Strategy<Value = CreateOp> {
    prop::sample::select(vec![CreateOp::Create, CreateOp::Create2, CreateOp::Container, CreateOp::Ttl])
}

fn part_of_multi() -> impl Strategy<Value = WriteRequest> {
    prop_oneof![
        6 => (create_op(), paths(), data(), acls(), 0..7).prop_map(|(op, path, data, acl, flags)| {
            let request = request(op, &path, flags);
            WriteRequest::Create(CreateRequest { data: text(&data), acl: Some(acl), ..request })
        }),
        2 => paths().prop_map(|path| create(&path)),
        4 => (paths(), -1..2).prop_map(|(path, version)| delete_version(&path, version)),
        3 => (paths(), data(), -1..2).prop_map(|(path, data, version)| set_version(&path, &data, version)),
        3 => keeper_write().prop_map(|write| WriteRequest::Keeper(Box::new(write))),
    ]
}

fn keeper_write() -> impl Strategy<Value = KeeperWrite> {
    prop_oneof![
        2 => (paths(), acls(), 0..4).prop_map(|(path, acl, flags)| {
            let request = request(CreateOp::Create, &path, flags);
            KeeperWrite::CreateIfNotExists(CreateRequest { acl: Some(acl), ..request })
        }),
        1 => (paths(), -1..2).prop_map(|(path, version)| {
            KeeperWrite::TryRemove(DeleteRequest { path: Some(path.into()), version })
        }),
        1 => (paths(), 0..6_u32).prop_map(|(path, limit)| {
            KeeperWrite::RemoveRecursive(RemoveRecursiveRequest { path: Some(path.into()), limit })
        }),
    ]
}

fn keeper_check() -> impl Strategy<Value = MultiOp> {
    let not_exists = (paths(), -1..2).prop_map(|(path, version)| {
        KeeperCheck::NotExists(CheckRequest { path: Some(path.into()), version })
    });
    let stat = (paths(), -1..2, 0..3).prop_map(|(path, version, num_children)| {
        let stat = Stat { num_children, ..crate::keeper::ANY_STAT };
        KeeperCheck::Stat(Box::new(CheckStatRequest { path: Some(path.into()), version, stat }))
    });
    prop_oneof![not_exists, stat].prop_map(|check| MultiOp::Keeper(Box::new(KeeperPart::Check(check))))
}

pub(crate) fn requests() -> impl Strategy<Value = WriteRequest> {
    let multi_op = prop_oneof![
        5 => part_of_multi().prop_map(op),
        1 => (paths(), -1..2).prop_map(|(path, version)| check(&path, version)),
        1 => keeper_check(),
    ];
    prop_oneof![
        10 => part_of_multi(),
        2 => (paths(), acls(), -1..2)
            .prop_map(|(path, acl, version)| set_acl(&path, acl.into_owned(), version)),
        3 => prop::collection::vec(multi_op, 0..5).prop_map(|ops: Vec<MultiOp>| multi(ops)),
        1 => Just(WriteRequest::CreateSession { timeout_ms: 1000 }),
        1 => Just(WriteRequest::CloseSession),
        1 => paths().prop_map(|path| WriteRequest::DeleteContainer { path: path.into() }),
    ]
}

/// A request, by whom, and how many transactions are applied after it.
pub(crate) fn steps(count: usize) -> impl Strategy<Value = Vec<(WriteRequest, i64, usize)>> {
    prop::collection::vec((requests(), 1..3_i64, 0..4_usize), 1..count)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// `World` compares every digest of prepare with that of apply.
    #[test]
    fn prepare_and_apply_agree(steps in steps(60)) {
        let mut world = World::new();
        for (request, session, applied) in steps {
            world.session = SessionId(session);
            world.time_ms += 700;
            world.prepare(request);
            (0..applied).for_each(|_| drop(world.apply_next()));
        }
        world.apply_pending();
        assert_same(&world.tree, &reload(&world.tree));
        let mut again = Tree::new(options());
        for (header, txn) in &world.log {
            again.apply(header, txn, &mut |_| {});
        }
        assert_same(&world.tree, &again);
    }

    /// Preparing against pending changes gives the same transactions as preparing against applied ones.
    #[test]
    fn pending_or_applied_makes_no_difference(steps in steps(40)) {
        let (mut ahead, mut behind) = (World::new(), World::new());
        for (request, session, _) in steps {
            (ahead.session, behind.session) = (SessionId(session), SessionId(session));
            let prepared = ahead.prepare(request.clone());
            prop_assert_eq!(&prepared, &behind.prepare(request));
            behind.apply_pending();
        }
        ahead.apply_pending();
        assert_same(&ahead.tree, &behind.tree);
    }

    #[test]
    fn apply_is_total(txns in prop::collection::vec((any_header(), any_txn()), 1..60)) {
        let mut tree = Tree::new(options());
        for (header, txn) in &txns {
            tree.apply(header, txn, &mut |_| {});
        }
        let has_system_nodes =
            ["/zookeeper", "/zookeeper/quota", "/zookeeper/config"].iter().all(|path| tree.node(path).is_some());
        let again = reload(&tree);
        if has_system_nodes {
            prop_assert_eq!(again.digest(), tree.digest());
            prop_assert_eq!(again.node_count(), tree.node_count());
            prop_assert_eq!(again.ephemerals_count(), tree.ephemerals_count());
            prop_assert_eq!(again.removable(i64::MAX, 1), tree.removable(i64::MAX, 1));
        }
    }
}

fn any_header() -> impl Strategy<Value = TxnHeader> {
    let zxid = prop_oneof![3 => 0..50_i64, 1 => any::<i64>()];
    let session = prop_oneof![3 => 1..3_i64, 1 => any::<i64>()];
    (zxid, session, any::<i64>()).prop_map(|(zxid, session, time_ms)| TxnHeader {
        session: SessionId(session),
        cxid: 0,
        zxid: Zxid(zxid),
        time_ms,
    })
}

fn any_path() -> impl Strategy<Value = Box<str>> {
    let quota = prop::sample::select(vec![
        "/zookeeper/quota/zookeeper_limits",
        "/zookeeper/quota/zookeeper_stats",
        "/zookeeper/quota/a",
        "/zookeeper/quota/a/zookeeper_limits",
        "/zookeeper/quota/a/zookeeper_stats",
        "/zookeeper/quota",
        "/zookeeper_limits",
        "zookeeper_limits",
        "//",
        "/a//b",
        "/\0",
    ]);
    prop_oneof![4 => paths(), 2 => quota.prop_map(str::to_owned), 1 => ".{0,6}"]
        .prop_map(String::into_boxed_str)
}

fn any_txn() -> impl Strategy<Value = Txn> {
    let single = prop_oneof![
        any::<i32>().prop_map(Txn::Error),
        any::<i32>().prop_map(|timeout_ms| Txn::CreateSession { timeout_ms }),
        prop::option::of(prop::collection::vec(any_path(), 0..4)).prop_map(Txn::CloseSession),
        (any_create(), any::<bool>())
            .prop_map(|(create, first)| { if first { Txn::Create(create) } else { Txn::Create2(create) } }),
        any_create().prop_map(|CreateTxn { path, data, acl, parent_cversion, .. }| {
            Txn::CreateContainer(CreateContainerTxn { path, data, acl, parent_cversion })
        }),
        (any_create(), any::<i64>()).prop_map(
            |(CreateTxn { path, data, acl, parent_cversion, .. }, ttl_ms)| {
                Txn::CreateTtl(CreateTtlTxn { path, data, acl, parent_cversion, ttl_ms })
            }
        ),
        any_path().prop_map(Txn::Delete),
        any_path().prop_map(Txn::DeleteContainer),
        (any_path(), prop::option::of(data()), any::<i32>()).prop_map(|(path, data, version)| {
            Txn::SetData(SetDataTxn { path, data: data.and_then(|data| text(&data)), version })
        }),
        (any_path(), prop::option::of(acls()), any::<i32>())
            .prop_map(|(path, acl, version)| Txn::SetAcl(SetAclTxn { path, acl, version })),
        (any_path(), any::<i32>()).prop_map(|(path, version)| Txn::Check(CheckTxn { path, version })),
        (any_path(), any::<i32>())
            .prop_map(|(path, version)| { Txn::Reconfig(SetDataTxn { path, data: None, version }) }),
    ];
    single.prop_recursive(2, 12, 4, |inner| {
        prop::collection::vec(inner, 0..4)
            .prop_map(|parts| Txn::Multi(parts.into_iter().map(SubTxn).collect()))
    })
}

fn any_create() -> impl Strategy<Value = CreateTxn> {
    let cversion = prop_oneof![3 => -1..5_i32, 1 => any::<i32>()];
    (any_path(), prop::option::of(data()), prop::option::of(acls()), any::<bool>(), cversion).prop_map(
        |(path, data, acl, ephemeral, parent_cversion)| CreateTxn {
            path,
            data: data.and_then(|data| text(&data)),
            acl,
            ephemeral,
            parent_cversion,
        },
    )
}
