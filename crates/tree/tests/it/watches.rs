//! The watch table: every row, and a model to compare with.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use zebu_proto::client::{EventType, WatcherType};
use zebu_tree::watch::{DataWatchSummary, WatchKind, WatchTable, WatcherId};

use EventType::{NodeChildrenChanged, NodeCreated, NodeDataChanged, NodeDeleted};
use WatchKind::{Child, Data, Persistent, PersistentRecursive};

const A: WatcherId = WatcherId(1);
const B: WatcherId = WatcherId(2);
const KINDS: [WatchKind; 4] = [Data, Child, Persistent, PersistentRecursive];
const EVENTS: [EventType; 4] = [NodeCreated, NodeDeleted, NodeDataChanged, NodeChildrenChanged];
const TYPES: [WatcherType; 5] = [
    WatcherType::Children,
    WatcherType::Data,
    WatcherType::Any,
    WatcherType::Persistent,
    WatcherType::PersistentRecursive,
];

fn fire(table: &mut WatchTable, kind: EventType, path: &str) -> Vec<WatcherId> {
    let mut told = Vec::new();
    table.fire(kind, path, &mut |watcher| told.push(watcher));
    told
}

#[test]
fn every_kind_and_every_event() {
    // Per kind: fires on created, deleted, data changed, children changed; survives.
    let rows = [
        (Data, [true, true, true, false], false),
        (Child, [false, true, false, true], false),
        (Persistent, [true, true, true, true], true),
        (PersistentRecursive, [true, true, true, false], true),
    ];
    for (kind, fires, survives) in rows {
        for (event, fires) in EVENTS.into_iter().zip(fires) {
            let mut table = WatchTable::new(1);
            table.add("/p", A, kind);
            assert_eq!(
                fire(&mut table, event, "/p"),
                if fires { vec![A] } else { vec![] },
                "{kind:?} {event:?}"
            );
            assert_eq!(table.is_empty(), fires && !survives, "{kind:?} {event:?}");
            assert_eq!(fire(&mut table, event, "/p").len(), usize::from(fires && survives));
            assert_eq!(fire(&mut table, event, "/other"), []);
        }
    }
}

#[test]
fn recursive_watches_see_what_is_below() {
    let mut table = WatchTable::new(1);
    table.add("/a", A, PersistentRecursive);
    table.add("/", B, PersistentRecursive);
    for event in [NodeCreated, NodeDeleted, NodeDataChanged] {
        assert_eq!(fire(&mut table, event, "/a/b/c"), [A, B]);
        assert_eq!(fire(&mut table, event, "/a"), [A, B]);
        assert_eq!(fire(&mut table, event, "/ab"), [B], "not a component of its own");
        assert_eq!(fire(&mut table, event, "/"), [B]);
    }
    assert_eq!(fire(&mut table, NodeChildrenChanged, "/a/b"), []);
    table.add("/a/b", A, Child);
    assert_eq!(fire(&mut table, NodeChildrenChanged, "/a/b"), [A], "because of the child watch");
}

#[test]
fn one_event_per_watcher() {
    let mut table = WatchTable::new(1);
    table.add("/p", A, Data);
    table.add("/p", A, Data);
    assert_eq!((table.len(), fire(&mut table, NodeDataChanged, "/p").len(), table.len()), (1, 1, 0));
    table.add("/p", A, Data);
    table.add("/p", A, Child);
    table.add("/p", B, Child);
    assert_eq!(fire(&mut table, NodeDeleted, "/p"), [A, B], "both of A are used up, and it is told once");
    assert!(table.is_empty());
    table.add("/p/x", A, Data);
    table.add("/p", A, PersistentRecursive);
    assert_eq!(fire(&mut table, NodeDataChanged, "/p/x"), [A]);
    assert_eq!(table.len(), 1, "the one-shot watch is used up");
}

#[test]
fn modes_hold_together() {
    let mut table = WatchTable::new(1);
    KINDS.into_iter().for_each(|kind| table.add("/p", A, kind));
    assert!(TYPES.into_iter().all(|kind| table.check("/p", A, kind)));
    assert!(!TYPES.into_iter().any(|kind| table.check("/p", B, kind) || table.check("/q", A, kind)));
    assert_eq!(table.len(), 2, "one pair in each table");
    fire(&mut table, NodeDataChanged, "/p");
    assert!(!table.check("/p", A, WatcherType::Data) && table.check("/p", A, WatcherType::Children));
    assert!(table.remove("/p", A, WatcherType::Persistent));
    assert!(!table.remove("/p", A, WatcherType::Persistent));
    assert!(table.check("/p", A, WatcherType::PersistentRecursive));
    assert!(!table.remove("/p", B, WatcherType::Any) && !table.remove("/q", A, WatcherType::Any));
    assert!(table.remove("/p", A, WatcherType::Any));
    assert!(table.is_empty());
}

#[test]
fn a_closed_connection_takes_its_watches_along() {
    let mut table = WatchTable::new(1);
    for number in 0..100 {
        KINDS.into_iter().for_each(|kind| table.add(&format!("/{number}"), A, kind));
        table.add(&format!("/{number}"), B, Child);
    }
    table.remove_watcher(A);
    assert_eq!(table.len(), 100);
    assert_eq!(fire(&mut table, NodeDeleted, "/7"), [B]);
    table.remove_watcher(B);
    table.remove_watcher(B);
    assert!(table.is_empty());
}

#[test]
fn numbers_for_the_words() {
    let mut table = WatchTable::new(1);
    table.add("/a", A, Data);
    table.add("/a", B, PersistentRecursive);
    table.add("/b", A, Persistent);
    table.add("/c", B, Child);
    assert_eq!(table.data_summary(), DataWatchSummary { watchers: 2, paths: 2, watches: 3 });
    assert_eq!(table.len(), 5);
    let by_path: BTreeMap<_, _> = table.data_by_path().collect();
    assert_eq!(by_path, BTreeMap::from([("/a", vec![A, B]), ("/b", vec![A])]));
    let by_watcher: Vec<_> = table.data_by_watcher().collect();
    assert_eq!(by_watcher, [(A, vec!["/a", "/b"]), (B, vec!["/a"])]);
}

/// The tables as the rules describe them: (is it the data table, path, watcher) to modes.
#[derive(Default)]
struct Model(BTreeMap<(bool, String, WatcherId), BTreeSet<u8>>);

impl Model {
    fn add(&mut self, data: bool, path: &str, watcher: WatcherId, mode: u8) {
        self.0.entry((data, path.to_owned(), watcher)).or_default().insert(mode);
    }

    fn trigger(&mut self, data: bool, path: &str) -> BTreeSet<WatcherId> {
        let mut told = BTreeSet::new();
        for ((table, watched, watcher), modes) in &mut self.0 {
            let below = watched == "/" || path.starts_with(&format!("{watched}/"));
            if *table == data && (watched == path || (below && modes.contains(&2))) {
                told.insert(*watcher);
            }
            if *table == data && watched == path {
                modes.remove(&0);
            }
        }
        self.0.retain(|_, modes| !modes.is_empty());
        told
    }
}

proptest! {
    #[test]
    fn the_table_is_the_model(steps in prop::collection::vec((0..8_usize, 0..5_usize, 0..3_u64, 0..5_usize), 1..120)) {
        let paths = ["/", "/a", "/a/b", "/a/b/c", "/ab"];
        let (mut table, mut model) = (WatchTable::new(1), Model::default());
        for (step, path, watcher, choice) in steps {
            let (path, watcher) = (paths[path], WatcherId(watcher));
            match step {
                0..=3 => {
                    table.add(path, watcher, KINDS[step]);
                    match KINDS[step] {
                        Data => model.add(true, path, watcher, 0),
                        Child => model.add(false, path, watcher, 0),
                        Persistent => {
                            model.add(true, path, watcher, 1);
                            model.add(false, path, watcher, 1);
                        }
                        PersistentRecursive => model.add(true, path, watcher, 2),
                    }
                }
                4 | 5 => {
                    let event = EVENTS[choice % 4];
                    let mut expected = BTreeSet::new();
                    if event != NodeChildrenChanged {
                        expected.append(&mut model.trigger(true, path));
                    }
                    if matches!(event, NodeChildrenChanged | NodeDeleted) {
                        expected.append(&mut model.trigger(false, path));
                    }
                    prop_assert_eq!(fire(&mut table, event, path), expected.into_iter().collect::<Vec<_>>());
                }
                6 => {
                    let modes: [&[u8]; 2] = match TYPES[choice] {
                        WatcherType::Children => [&[], &[0]],
                        WatcherType::Data => [&[0], &[]],
                        WatcherType::Any => [&[0, 1, 2], &[0, 1, 2]],
                        WatcherType::Persistent => [&[1], &[1]],
                        WatcherType::PersistentRecursive => [&[2], &[]],
                    };
                    let mut found = false;
                    for (data, modes) in [true, false].into_iter().zip(modes) {
                        if let Some(held) = model.0.get_mut(&(data, path.to_owned(), watcher)) {
                            modes.iter().for_each(|mode| found |= held.remove(mode));
                        }
                    }
                    model.0.retain(|_, modes| !modes.is_empty());
                    prop_assert_eq!(table.remove(path, watcher, TYPES[choice]), found);
                }
                _ => {
                    table.remove_watcher(watcher);
                    model.0.retain(|(_, _, other), _| *other != watcher);
                }
            }
            prop_assert_eq!(table.len(), model.0.len());
            let data = model.0.keys().filter(|(data, ..)| *data).count();
            prop_assert_eq!(table.data_summary().watches, data);
        }
    }
}
