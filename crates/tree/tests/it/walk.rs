//! Walks that are interrupted by transactions.

use std::collections::BTreeSet;

use proptest::prelude::*;
use zebu_proto::SessionId;
use zebu_proto::client::WriteRequest;
use zebu_tree::{TreeLoader, WalkProgress};

use crate::random::steps;
use crate::support::*;

#[test]
fn slices_cover_the_tree_parents_first() {
    let mut world = World::new();
    for top in 0..20 {
        world.create(&format!("/{top}"));
        for child in 0..20 {
            world.create(&format!("/{top}/{child}"));
        }
    }
    for slice in [1, 7, 1000] {
        let mut walker = world.tree.walker();
        let mut seen = BTreeSet::new();
        let mut slices = 0;
        loop {
            slices += 1;
            let progress = walker.next_slice(&world.tree, slice, &mut |path, _, _, _| {
                let parent = path.rsplit_once('/').map(|(parent, _)| parent.to_owned());
                assert!(parent.is_none_or(|parent| seen.contains(&parent)), "{path} before its parent");
                assert!(seen.insert(path.to_owned()));
            });
            if progress == WalkProgress::Done {
                break;
            }
        }
        assert_eq!(seen.len(), world.tree.node_count());
        assert!(slices >= world.tree.node_count() / slice);
    }
}

#[test]
fn a_child_in_front_of_its_parent_waits() {
    let mut world = World::new();
    world.create("/first");
    world.create("/parent");
    world.ok(delete("/first"));
    // It takes the slot of the deleted node.
    world.create("/parent/child");
    let mut seen = Vec::new();
    world.tree.walker().next_slice(&world.tree, 100, &mut |path, _, _, _| seen.push(path.to_owned()));
    let position = |path: &str| seen.iter().position(|seen| seen == path).unwrap();
    assert!(position("/parent") < position("/parent/child"));
    assert_eq!(seen.len(), world.tree.node_count());
}

#[test]
fn a_reused_slot_is_not_mistaken() {
    let mut world = World::new();
    world.create("/a");
    world.create("/a/x");
    let mut walker = world.tree.walker();
    walker.next_slice(&world.tree, 1, &mut |_, _, _, _| {});
    world.ok(delete("/a/x"));
    world.ok(delete("/a"));
    // The new nodes live where the old ones lived, children where parents were.
    world.create("/b");
    world.create("/b/y");
    world.create("/a");
    let mut seen = Vec::new();
    while walker.next_slice(&world.tree, 1, &mut |path, _, _, _| seen.push(path.to_owned()))
        == WalkProgress::More
    {}
    seen.sort();
    assert_eq!(
        seen,
        ["/zookeeper", "/zookeeper/config", "/zookeeper/quota"],
        "what is new comes with the replay"
    );
}

/// The parent was seen before the end of the session, its nodes would be behind it: no replay could tell that
/// they went.
#[test]
fn a_walk_is_void_when_a_session_ends_without_a_list() {
    let mut world = World::new();
    world.create("/p");
    world.ok(ephemeral("/p/e"));
    world.policy.transaction_bytes_max = 40;
    let mut walker = world.tree.walker();
    let mut next = |world: &World| walker.next_slice(&world.tree, 1, &mut |_, _, _, _| {});
    assert_eq!(next(&world), WalkProgress::More);
    world.session = SessionId(5);
    world.ok(WriteRequest::CloseSession);
    assert_eq!(next(&world), WalkProgress::More, "that session had no nodes");
    world.session = SESSION;
    world.ok(WriteRequest::CloseSession);
    assert_eq!(next(&world), WalkProgress::Void);
    let mut walker = world.tree.walker();
    assert_eq!(walker.next_slice(&world.tree, 100, &mut |_, _, _, _| {}), WalkProgress::Done);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_fuzzy_walk_and_the_replay_give_the_tree(
        before in steps(60),
        during in steps(60),
        slice in 1..6_usize,
        with_quota in any::<bool>(),
        listed in any::<bool>(),
    ) {
        let mut world = World::new();
        if with_quota {
            world.create("/zookeeper/quota/a");
            world.ok(create_data("/zookeeper/quota/a/zookeeper_limits", "count=9,bytes=9"));
            world.ok(create_data("/zookeeper/quota/a/zookeeper_stats", ""));
        }
        let policy = world.policy.clone();
        let run = |world: &mut World, request, session| {
            world.session = SessionId(session);
            world.time_ms += 700;
            world.policy = policy.clone();
            if !listed && request == WriteRequest::CloseSession {
                // No list has room.
                world.policy.transaction_bytes_max = 40;
            }
            world.run(request);
        };
        for (request, session, _) in before {
            run(&mut world, request, session);
        }
        let mut loader = TreeLoader::new(options());
        let (start, covered) = (world.tree.last_zxid(), world.log.len());
        world.tree.sessions().iter().for_each(|(&session, &timeout)| loader.session(session, timeout));
        world.tree.acl_table().for_each(|(id, list)| loader.acl(id, list.to_vec()));
        let mut walker = world.tree.walker();
        for (request, session, pause) in during {
            run(&mut world, request, session);
            if pause == 0 {
                walker.next_slice(&world.tree, slice, &mut |path, data, acl, stat| {
                    loader.node(path, data, acl, stat).unwrap();
                });
            }
        }
        let progress = walker.next_slice(&world.tree, usize::MAX, &mut |path, data, acl, stat| {
            loader.node(path, data, acl, stat).unwrap();
        });
        if progress == WalkProgress::Void {
            // The caller starts a new walk.
            assert!(!listed);
            return Ok(());
        }
        let mut restored = loader.finish(start);
        for (header, txn) in &world.log[covered..] {
            restored.apply(header, txn, &mut |_| {});
        }
        assert_same(&world.tree, &restored);
    }
}
