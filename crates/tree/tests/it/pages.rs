//! Children in pages: each child that exists throughout a walk is on exactly one page, whatever happens
//! between the pages.

use std::collections::BTreeSet;

use zebu_tree::{ChildBound, SortLimits, Tree};

use crate::loader::reload;
use crate::support::*;

const LIMITS: SortLimits = SortLimits { at_once: 4, per_slice: 7 };

/// A small generator: the tests need many cheap choices.
struct Choices(u64);

impl Choices {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// One page of names; `None` if the order is not complete.
fn page(tree: &Tree, bound: ChildBound<'_>, max: usize, limits: SortLimits) -> Option<Vec<String>> {
    let parent = tree.node("/p").unwrap();
    let children = tree.children_after(&parent, bound, max, limits)?;
    Some(children.iter().map(|child| child.name().to_owned()).collect())
}

fn names(tree: &Tree) -> BTreeSet<String> {
    tree.node("/p").unwrap().children().map(str::to_owned).collect()
}

#[test]
fn pages_are_in_the_order_of_names_or_of_creation() {
    for at_once in [0, 100] {
        let limits = SortLimits { at_once, per_slice: 100 };
        let mut world = World::new();
        world.create("/p");
        // One transaction with two children: their names decide.
        world.ok(multi(["/p/d", "/p/a"].map(|path| op(create(path)))));
        ["/p/c", "/p/b", "/p/ab"].into_iter().for_each(|path| world.create(path));
        let by_name = |after, max| page(&world.tree, ChildBound::AfterName(after), max, limits).unwrap();
        assert_eq!(by_name("", 9), ["a", "ab", "b", "c", "d"]);
        assert_eq!(by_name("a", 2), ["ab", "b"]);
        assert_eq!(by_name("bb", 9), ["c", "d"]);
        assert!(by_name("d", 9).is_empty());
        let from = |czxid| page(&world.tree, ChildBound::FromCreation(czxid), 9, limits).unwrap();
        assert_eq!(from(0), ["a", "d", "c", "b", "ab"]);
        assert_eq!(from(world.stat("/p/c").czxid), ["c", "b", "ab"]);
        assert!(from(i64::MAX).is_empty());
        // The order does not depend on the links between siblings, which a load makes anew.
        let loaded = reload(&world.tree);
        let loaded_from = page(&loaded, ChildBound::FromCreation(0), 9, limits).unwrap();
        assert_eq!(loaded_from, ["a", "d", "c", "b", "ab"]);
    }
}

#[test]
fn an_order_is_prepared_in_slices() {
    let mut world = World::new();
    world.create("/p");
    (0..50).for_each(|number| world.create(&format!("/p/{:02}", number * 7 % 50)));
    let mut calls = 0;
    let first = loop {
        calls += 1;
        assert!(calls < 100, "the order is never complete");
        if let Some(first) = page(&world.tree, ChildBound::AfterName(""), 3, LIMITS) {
            break first;
        }
        // Changes do not set it back.
        world.create(&format!("/p/x{calls}"));
        world.ok(delete(&format!("/p/{:02}", calls * 3 % 50)));
    };
    assert!(calls > 5, "{calls} calls for 50 children in slices of 7");
    assert_eq!(first, names(&world.tree).into_iter().take(3).collect::<Vec<_>>());
}

/// Walks by name and by creation, with many changes between their pages.
#[test]
fn walks_find_each_child_that_stays_exactly_once() {
    for seed in 0..60 {
        let mut choices = Choices(seed);
        let mut world = World::new();
        world.create("/p");
        let children = 1 + choices.below(120);
        (0..children).for_each(|number| world.create(&format!("/p/{:04}", number * 37 % 1000)));
        let limits = SortLimits { at_once: choices.below(200) as usize, per_slice: 1 + seed as usize % 9 };
        let mut steady = names(&world.tree);
        let (mut by_name, mut by_creation): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        let (mut is_name_done, mut next_czxid, mut is_creation_done) = (false, 0, false);
        for step in 0..100_000 {
            assert!(step < 99_999, "the walks of seed {seed} do not end");
            if is_name_done && is_creation_done {
                break;
            }
            for _ in 0..choices.below(4) {
                let path = format!("/p/{:04}", choices.below(1500));
                if world.exists(&path) {
                    world.ok(delete(&path));
                    steady.remove(&path[3..]);
                } else {
                    world.create(&path);
                }
            }
            let max = 1 + choices.below(9) as usize;
            let after = by_name.last().cloned().unwrap_or_default();
            if !is_name_done
                && let Some(names) = page(&world.tree, ChildBound::AfterName(&after), max, limits)
            {
                is_name_done = names.is_empty();
                by_name.extend(names);
            }
            // Each child has a transaction of its own here, so no offset is needed.
            if !is_creation_done
                && let Some(names) = page(&world.tree, ChildBound::FromCreation(next_czxid), max, limits)
            {
                match names.last() {
                    Some(last) => next_czxid = world.stat(&format!("/p/{last}")).czxid + 1,
                    // A walk by creation also meets the children that are created meanwhile.
                    None => is_creation_done = true,
                }
                by_creation.extend(names);
            }
        }
        assert!(by_name.is_sorted_by(|one, other| one < other), "seed {seed}: by name, none twice");
        for name in &steady {
            assert!(by_name.contains(name), "seed {seed}: {name} is on no page");
            let found = by_creation.iter().filter(|found| *found == name).count();
            assert_eq!(found, 1, "seed {seed}: {name} by creation");
        }
    }
}

/// Orders of many nodes share few places: readers wait for each other, but all get their pages.
#[test]
fn more_readers_than_orders_make_progress() {
    let mut world = World::new();
    for parent in 0..40 {
        world.create(&format!("/{parent}"));
        (0..30).for_each(|child| world.create(&format!("/{parent}/{child}")));
    }
    let mut waiting: Vec<usize> = (0..40).collect();
    for round in 0.. {
        assert!(round < 20_000, "{} readers never get a page", waiting.len());
        waiting.retain(|parent| {
            let parent = world.tree.node(&format!("/{parent}")).unwrap();
            world.tree.children_after(&parent, ChildBound::AfterName(""), 5, LIMITS).is_none()
        });
        if waiting.is_empty() {
            break;
        }
    }
}

/// A node with the name of a deleted one is another parent.
#[test]
fn an_order_ends_with_its_parent() {
    let mut world = World::new();
    for round in 0..3 {
        world.create("/p");
        (0..30).for_each(|child| world.create(&format!("/p/{round}-{child}")));
        let mut found = None;
        for _ in 0..20 {
            found = found.or_else(|| page(&world.tree, ChildBound::AfterName(""), 50, LIMITS));
        }
        assert_eq!(found.unwrap().into_iter().collect::<BTreeSet<_>>(), names(&world.tree));
        names(&world.tree).iter().for_each(|name| drop(world.ok(delete(&format!("/p/{name}")))));
        world.ok(delete("/p"));
    }
}
