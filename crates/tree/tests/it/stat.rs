//! What stats show, and the nodes that exist from the start.

use zebu_proto::client::EventType;
use zebu_proto::{Acl, Stat};
use zebu_tree::Tree;

use crate::support::*;

#[test]
fn system_nodes() {
    let tree = Tree::new(options());
    assert_eq!((tree.node_count(), tree.approximate_data_size()), (4, 44));
    let stat = |path: &str| tree.node(path).unwrap().stat();
    assert_eq!(stat("/"), Stat { cversion: -1, num_children: 1, ..Stat::default() });
    assert_eq!(stat("/zookeeper"), Stat { cversion: -2, num_children: 2, ..Stat::default() });
    assert_eq!(stat("/zookeeper/quota"), Stat::default());
    assert_eq!(stat("/zookeeper/config"), Stat { aversion: -1, ..Stat::default() });
    for path in ["/", "/zookeeper", "/zookeeper/quota"] {
        assert_eq!(**tree.node(path).unwrap().acl(), *Acl::open());
        assert_eq!(tree.node(path).unwrap().data(), Some(&[][..]));
    }
    assert_eq!(**tree.node("/zookeeper/config").unwrap().acl(), *Acl::read_only());
    assert_eq!(tree.acl_table().map(|(id, _)| id).collect::<Vec<_>>(), [1]);
    assert_eq!(tree.node("").unwrap().path(), "/");
    assert_eq!(tree.node("/zookeeper/quota").unwrap().path(), "/zookeeper/quota");
    assert_eq!(tree.node("/zookeeper/quota").unwrap().name(), "quota");
}

#[test]
fn a_new_node() {
    let mut world = World::new();
    world.create("/p");
    world.events.clear();
    world.create("/p/x");
    let zxid = world.zxid;
    let expected = Stat {
        czxid: zxid,
        mzxid: zxid,
        pzxid: zxid,
        ctime: START_MS,
        mtime: START_MS,
        data_length: 4,
        ..Stat::default()
    };
    assert_eq!(world.stat("/p/x"), expected);
    let parent = world.stat("/p");
    assert_eq!((parent.cversion, parent.pzxid, parent.num_children, parent.mzxid), (1, zxid, 1, zxid - 1));
    assert_eq!(
        world.events,
        [(EventType::NodeCreated, "/p/x".to_owned()), (EventType::NodeChildrenChanged, "/p".to_owned())]
    );
}

#[test]
fn the_visible_cversion_counts_creates_and_deletes() {
    let mut world = World::new();
    world.create("/p");
    for (step, request) in
        [create("/p/a"), create("/p/b"), delete("/p/a"), create("/p/a"), delete("/p/b"), delete("/p/a")]
            .into_iter()
            .enumerate()
    {
        world.ok(request);
        assert_eq!(world.stat("/p").cversion, step as i32 + 1);
    }
    assert_eq!(world.tree.node("/p").unwrap().persisted().cversion, 3);
}

#[test]
fn descendants_are_counted() {
    let mut world = World::new();
    let mut path = String::new();
    for _ in 0..500 {
        path.push_str("/d");
        world.prepare(create(&path));
        world.apply_next();
    }
    world.create("/d/d/side");
    assert_eq!(world.tree.all_children_number("/d"), Some(500));
    assert_eq!(world.tree.all_children_number("/d/d"), Some(499));
    assert_eq!(world.tree.all_children_number("/d/d/side"), Some(0));
    assert_eq!(world.tree.all_children_number("/"), Some(501 + 3));
    assert_eq!(world.tree.all_children_number(""), Some(501 + 4), "as ZooKeeper answers the empty path");
    assert_eq!(world.tree.all_children_number("/missing"), None);
}

#[test]
fn odd_paths_find_nothing() {
    let mut world = World::new();
    world.create("/a");
    for path in ["a", "/a/", "//a", "//", "/a//", "/./a", "a/", "/a/b"] {
        assert!(!world.exists(path), "{path:?}");
    }
}

#[test]
fn sizes_follow_the_data() {
    let mut world = World::new();
    let before = world.tree.approximate_data_size();
    world.ok(create_data("/abc", "12345"));
    assert_eq!(world.tree.approximate_data_size(), before + 4 + 5);
    world.ok(set("/abc", "1"));
    assert_eq!(world.tree.approximate_data_size(), before + 4 + 1);
    world.ok(delete("/abc"));
    assert_eq!((world.tree.approximate_data_size(), world.tree.node_count()), (before, 4));
}

#[test]
fn children_stay_in_the_order_of_creation() {
    let mut world = World::new();
    for name in ["/a", "/b", "/c", "/d"] {
        world.create(name);
    }
    let children =
        |world: &World| world.tree.node("/").unwrap().children().map(str::to_owned).collect::<Vec<_>>();
    for (gone, left) in [
        ("/d", vec!["zookeeper", "a", "b", "c"]),
        ("/b", vec!["zookeeper", "a", "c"]),
        ("/c", vec!["zookeeper", "a"]),
        ("/a", vec!["zookeeper"]),
    ] {
        world.ok(delete(gone));
        assert_eq!(children(&world), left);
    }
    world.create("/e");
    assert_eq!(children(&world), ["zookeeper", "e"]);
    assert_eq!(world.tree.node("/").unwrap().children().len(), 2);
}

#[test]
fn lists_are_shared() {
    let mut world = World::new();
    world.create("/a");
    world.create("/b");
    world.ok(create_acl("/c", no_permissions()));
    assert_eq!(world.tree.acl_table().count(), 3);
    world.ok(delete("/c"));
    assert_eq!(world.tree.acl_table().count(), 2);
    world.ok(delete("/a"));
    world.ok(set_acl("/b", no_permissions(), -1));
    assert_eq!(world.tree.acl_table().map(|(id, _)| id).collect::<Vec<_>>().len(), 2);
}
