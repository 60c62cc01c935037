//! Trees from snapshots.

use zebu_proto::txn::{CreateTxn, Txn, TxnHeader};
use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_tree::{LoadError, Tree, TreeLoader};

use crate::support::*;

/// Writes a tree out and reads it back.
pub(crate) fn reload(tree: &Tree) -> Tree {
    let mut loader = TreeLoader::new(*tree.options());
    tree.sessions().iter().for_each(|(&session, &timeout)| loader.session(session, timeout));
    tree.acl_table().for_each(|(id, list)| loader.acl(id, list.to_vec()));
    let mut walker = tree.walker();
    walker.next_slice(tree, usize::MAX, &mut |path, data, acl, stat| {
        loader.node(path, data, acl, stat).unwrap();
    });
    loader.finish(tree.last_zxid())
}

fn zero() -> StatPersisted {
    StatPersisted::default()
}

#[test]
fn what_is_refused() {
    let mut loader = TreeLoader::new(options());
    let missing = |path: &str| Err(LoadError::MissingParent { path: path.into() });
    assert_eq!(loader.node("/a/b", None, -1, &zero()), missing("/a/b"));
    loader.node("/a", None, -1, &zero()).unwrap();
    loader.node("/a/b", None, -1, &zero()).unwrap();
    assert_eq!(loader.node("/a", None, -1, &zero()), Err(LoadError::Duplicate { path: "/a".into() }));
    loader.node("", None, -1, &zero()).unwrap();
    assert_eq!(loader.node("", None, -1, &zero()), Err(LoadError::Duplicate { path: "".into() }));
    for path in ["/", "a", "/a/", "//a"] {
        assert_eq!(loader.node(path, None, -1, &zero()), Err(LoadError::BadPath { path: path.into() }));
    }
}

/// A session with the id -1 can own a node; a server must be able to load its own snapshot of it.
#[test]
fn an_owner_of_unknown_type_is_no_damage() {
    let mut tree = Tree::new(options());
    let header = TxnHeader { session: SessionId(-1), cxid: 0, zxid: Zxid(1), time_ms: 0 };
    let create = CreateTxn {
        path: "/a".into(),
        data: None,
        acl: Some(Acl::open().into()),
        ephemeral: true,
        parent_cversion: 1,
    };
    tree.apply(&header, &Txn::Create(create), &mut |_| {});
    let again = reload(&tree);
    assert_eq!(again.digest(), tree.digest());
    assert!(again.node("/a").is_some());
}

/// The next ACL gets the next id, in a transaction that is logged before it is applied.
#[test]
fn an_acl_id_without_room_above_it_is_refused() {
    for id in [i64::MAX, i64::MAX - 1] {
        let mut loader = TreeLoader::new(options());
        loader.acl(id, Acl::read_only());
        assert_eq!(loader.node("", Some(&[]), -1, &zero()), Err(LoadError::BadAclId { id }));
        let mut loader = TreeLoader::new(options());
        assert_eq!(loader.node("", Some(&[]), id, &zero()), Err(LoadError::BadAclId { id }));
    }
    let mut loader = TreeLoader::new(options());
    loader.acl(1 << 62, Acl::read_only());
    loader.node("", Some(&[]), -1, &zero()).unwrap();
    loader.node("/b", Some(&[]), 1 << 62, &zero()).unwrap();
    let mut world = World { tree: loader.finish(Zxid(0)), ..World::new() };
    world.ok(create_acl("/a", no_permissions()));
    assert!(world.exists("/a"));
}

#[test]
fn what_is_repaired() {
    let mut loader = TreeLoader::new(options());
    loader.acl(5, Acl::read_only());
    loader.acl(6, Acl::open());
    loader.session(SessionId(3), 4000);
    loader.node("", Some(&[]), -1, &zero()).unwrap();
    loader.node("/zookeeper", Some(&[]), -1, &zero()).unwrap();
    loader.node("/zookeeper/quota", None, -1, &zero()).unwrap();
    loader.node("/a", Some(b"1234"), 5, &zero()).unwrap();
    loader.node("/lost", None, 7, &zero()).unwrap();
    loader.node("/zookeeper/quota/a", None, -1, &zero()).unwrap();
    loader.node("/zookeeper/quota/a/zookeeper_limits", None, -1, &zero()).unwrap();
    loader.node("/zookeeper/quota/a/zookeeper_stats", Some(b"count=99,bytes=99"), -1, &zero()).unwrap();
    let mut tree = loader.finish(Zxid(9));
    assert_eq!((tree.last_zxid(), tree.sessions().get(&SessionId(3))), (Zxid(9), Some(&4000)));
    assert_eq!(**tree.node("/zookeeper/config").unwrap().acl(), *Acl::read_only(), "added");
    assert_eq!(tree.acl_table().map(|(id, _)| id).collect::<Vec<_>>(), [5, 7], "what nobody uses is dropped");
    assert_eq!(**tree.node("/lost").unwrap().acl(), *no_permissions(), "a missing list grants nothing");
    assert_eq!(
        tree.node("/zookeeper/quota/a/zookeeper_stats").unwrap().data(),
        Some(&b"count=1,bytes=4"[..])
    );
    let create = zebu_proto::txn::CreateTxn {
        path: "/lost".into(),
        data: None,
        acl: Some(Acl::open().into()),
        ephemeral: false,
        parent_cversion: 1,
    };
    apply(&mut tree, 10, &zebu_proto::txn::Txn::Create2(create));
    assert_eq!(**tree.node("/lost").unwrap().acl(), *Acl::open(), "the replay brings it back");
    assert_eq!(tree.acl_table().map(|(id, _)| id).collect::<Vec<_>>(), [5, 8]);
    apply(&mut tree, 11, &zebu_proto::txn::Txn::Delete("/a".into()));
    assert_eq!(
        tree.node("/zookeeper/quota/a/zookeeper_stats").unwrap().data(),
        Some(&b"count=0,bytes=0"[..])
    );
}

#[test]
fn a_tree_survives_the_round_trip() {
    let mut world = World::new();
    world.create("/a");
    world.ok(create_acl("/a/b", no_permissions()));
    world.ok(ephemeral("/a/e"));
    world.ok(create_with(zebu_proto::client::CreateOp::Container, "/c", 4));
    world.ok(set("/", "root"));
    world.ok(set_acl("/", Acl::open(), -1));
    assert_same(&world.tree, &reload(&world.tree));
    assert_eq!(TreeLoader::new(options()).finish(Zxid(0)).digest(), Tree::new(options()).digest());
}
