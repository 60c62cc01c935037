//! Walks of subtrees in calls of bounded work.

use std::collections::BTreeSet;

use zebu_tree::{ScanBounds, ScanPlace, ScanVisit, SortLimits, Tree};

use crate::support::*;

fn bounds(work_max: usize) -> ScanBounds {
    ScanBounds { depth: None, work_max, sort: SortLimits { at_once: 3, per_slice: 2 } }
}

/// One call: the visited paths, except those at `hidden` and below.
fn call(
    tree: &Tree,
    root: &str,
    place: &str,
    bounds: ScanBounds,
    hidden: &str,
) -> (Vec<String>, Option<ScanPlace>) {
    let mut visited = Vec::new();
    let end = tree.scan_subtree(
        &tree.node(root).unwrap(),
        place,
        bounds,
        |path, node| {
            assert_eq!(node.path(), path);
            if path == hidden {
                return ScanVisit::Skip;
            }
            visited.push(path.to_owned());
            ScanVisit::Descend
        },
        |node| node.path() != hidden,
    );
    (visited, end)
}

/// A whole walk; `change` runs between its calls.
fn walk(
    world: &mut World,
    root: &str,
    bounds: ScanBounds,
    hidden: &str,
    mut change: impl FnMut(&mut World, usize),
) -> Vec<String> {
    let (mut place, mut all) = (String::new(), Vec::new());
    for round in 0..10_000 {
        let (visited, end) = call(&world.tree, root, &place, bounds, hidden);
        all.extend(visited);
        match end.unwrap() {
            ScanPlace::End => return all,
            ScanPlace::At(next) => {
                assert_ne!(next, place, "a call that moves says so");
                place = next;
            }
            ScanPlace::Preparing => {}
        }
        change(world, round);
    }
    panic!("the walk of {root} never ends: {place}");
}

fn sample() -> World {
    let mut world = World::new();
    for path in ["/a", "/a/b", "/a/b/c", "/a/b/c/d", "/a/b-", "/a/b/e", "/a/f", "/a/f/g", "/a-", "/z"] {
        world.create(path);
    }
    (0..40).for_each(|child| world.create(&format!("/a/f/g/{:02}", child * 7 % 40)));
    world
}

/// Parents first, siblings by name: the order of the paths as lists of names.
fn expected(tree: &Tree, root: &str) -> Vec<String> {
    let inside = |path: &String| {
        root == "/" || path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mut paths: Vec<String> = dump(tree).into_keys().filter(inside).collect();
    paths.sort_by(|one, other| one.split('/').cmp(other.split('/')));
    paths.iter().map(|path| if path.is_empty() { "/".to_owned() } else { path.clone() }).collect()
}

#[test]
fn a_walk_has_all_nodes_in_order() {
    let mut world = sample();
    for work_max in [1, 2, 3, 7, 1000] {
        for root in ["/", "/a", "/a/b", "/a/f/g", "/z"] {
            let expected = expected(&world.tree, root);
            assert_eq!(
                walk(&mut world, root, bounds(work_max), "", |_, _| ()),
                expected,
                "{root} {work_max}"
            );
        }
    }
}

#[test]
fn depth_and_hidden_nodes_limit_a_walk() {
    let mut world = sample();
    for work_max in [1, 5, 1000] {
        let shallow = ScanBounds { depth: Some(1), ..bounds(work_max) };
        assert_eq!(walk(&mut world, "/a", shallow, "", |_, _| ()), ["/a", "/a/b", "/a/b-", "/a/f"]);
        let root_only = ScanBounds { depth: Some(0), ..bounds(work_max) };
        assert_eq!(walk(&mut world, "/a", root_only, "", |_, _| ()), ["/a"]);
        let visible = walk(&mut world, "/a", bounds(work_max), "/a/f", |_, _| ());
        assert_eq!(visible, ["/a", "/a/b", "/a/b/c", "/a/b/c/d", "/a/b/e", "/a/b-"]);
        assert!(walk(&mut world, "/a", bounds(work_max), "/a", |_, _| ()).is_empty());
    }
}

#[test]
fn a_place_outside_of_the_subtree_is_refused() {
    let world = sample();
    for place in ["/", "/a-", "/ab", "/z", "x"] {
        assert_eq!(call(&world.tree, "/a", place, bounds(9), "").1, None, "{place}");
    }
    // A place inside may be gone: the walk goes on with what is behind it.
    let behind = ["/a/b-", "/a/f"];
    let shallow = ScanBounds { depth: Some(1), ..bounds(1000) };
    for place in ["/a/b/x/y/z", "/a/b,", "/a/b/", "/a/b/e"] {
        let mut world = sample();
        let found = loop {
            let (visited, end) = call(&world.tree, "/a", place, shallow, "");
            if end != Some(ScanPlace::Preparing) {
                break visited;
            }
            world.create(&format!("/y{}", world.zxid));
        };
        assert_eq!(found, behind, "{place}");
    }
    assert_eq!(call(&world.tree, "/a", "/a/", bounds(9), ""), (vec![], Some(ScanPlace::End)));
}

/// Each node that stays is visited exactly once, whatever else changes.
#[test]
fn a_walk_among_changes_has_each_node_that_stays_once() {
    for seed in 0..50u64 {
        let mut world = sample();
        let before: BTreeSet<String> = expected(&world.tree, "/a").into_iter().collect();
        let mut gone = BTreeSet::new();
        let mut state = seed;
        let visited = walk(&mut world, "/a", bounds(1 + seed as usize % 6), "", |world, _| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let paths = expected(&world.tree, "/a");
            let path = paths[(state >> 33) as usize % paths.len()].clone();
            if state >> 60 & 1 == 0 && path != "/a" && world.tree.node(&path).unwrap().num_children() == 0 {
                world.ok(delete(&path));
                gone.insert(path);
            } else if world.tree.node_count() < 90 {
                world.create(&format!("{path}/n{}", world.zxid));
            }
        });
        for path in before.difference(&gone) {
            let times = visited.iter().filter(|visited| *visited == path).count();
            assert_eq!(times, 1, "seed {seed}: {path} in {visited:?}");
        }
        let distinct: BTreeSet<&String> = visited.iter().collect();
        assert_eq!(distinct.len(), visited.len(), "seed {seed}: none twice");
    }
}
