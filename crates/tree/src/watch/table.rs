//! The two tables of watches, data and child, by path and by watcher.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;

use foldhash::quality::FixedState;
use hashbrown::HashTable;
use zebu_proto::client::{EventType, WatcherType};

use crate::path;
use crate::watch::WatcherId;
use crate::watch::modes::{Modes, WatchKind};
use crate::watch::watchers::Watchers;

/// The data table or the child table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchSide {
    Data,
    Child,
}

/// A watched path. An unused entry has an empty path and is reused.
#[derive(Debug, Default)]
pub(super) struct WatchEntry {
    pub(super) path: Box<str>,
    pub(super) data: Watchers,
    pub(super) child: Watchers,
}

/// All watches of a server.
#[derive(Debug)]
pub struct WatchTable {
    pub(super) entries: Vec<WatchEntry>,
    free: Vec<u32>,
    by_path: HashTable<u32>,
    /// The entries of each watcher.
    pub(super) by_watcher: BTreeMap<WatcherId, BTreeSet<u32>>,
    hash: FixedState,
    /// Pairs of path and watcher in each table.
    data_count: usize,
    child_count: usize,
    /// How many recursive watches there are; with none, no ancestor is looked up.
    recursive_count: usize,
    /// Watchers of the current event; kept to save the allocation.
    collected: Vec<WatcherId>,
}

impl WatchTable {
    /// An empty table.
    pub fn new(hash_seed: u64) -> WatchTable {
        WatchTable {
            entries: Vec::new(),
            free: Vec::new(),
            by_path: HashTable::new(),
            by_watcher: BTreeMap::new(),
            hash: FixedState::with_seed(hash_seed),
            data_count: 0,
            child_count: 0,
            recursive_count: 0,
            collected: Vec::new(),
        }
    }

    /// Registers a watch. The path need not exist.
    pub fn add(&mut self, path: &str, watcher: WatcherId, kind: WatchKind) {
        let entry = self.find(path).unwrap_or_else(|| self.insert(path));
        let mut add = |side, mode| {
            let modes = self.side(entry, side).modes_of(watcher).with(mode);
            self.set(entry, side, watcher, modes);
        };
        match kind {
            WatchKind::Data => add(WatchSide::Data, Modes::STANDARD),
            WatchKind::Child => add(WatchSide::Child, Modes::STANDARD),
            WatchKind::Persistent => {
                add(WatchSide::Child, Modes::PERSISTENT);
                add(WatchSide::Data, Modes::PERSISTENT);
            }
            WatchKind::PersistentRecursive => add(WatchSide::Data, Modes::RECURSIVE),
        }
        self.by_watcher.entry(watcher).or_default().insert(entry);
    }

    /// Whether a watcher has a watch of this type on the path.
    pub fn check(&self, path: &str, watcher: WatcherId, kind: WatcherType) -> bool {
        let Some(entry) = self.find(path) else {
            return false;
        };
        let data = self.side(entry, WatchSide::Data).modes_of(watcher);
        let child = self.side(entry, WatchSide::Child).modes_of(watcher);
        match kind {
            WatcherType::Children => child.intersects(Modes::STANDARD),
            WatcherType::Data => data.intersects(Modes::STANDARD),
            WatcherType::Any => !data.is_empty() || !child.is_empty(),
            WatcherType::Persistent => data.intersects(Modes::PERSISTENT),
            WatcherType::PersistentRecursive => data.intersects(Modes::RECURSIVE),
        }
    }

    /// Removes the watches of this type that a watcher has on the path. Returns whether there was one.
    pub fn remove(&mut self, path: &str, watcher: WatcherId, kind: WatcherType) -> bool {
        let Some(entry) = self.find(path) else {
            return false;
        };
        let (data, child) = match kind {
            WatcherType::Children => (Modes::NONE, Modes::STANDARD),
            WatcherType::Data => (Modes::STANDARD, Modes::NONE),
            WatcherType::Any => (Modes::ALL, Modes::ALL),
            WatcherType::Persistent => (Modes::PERSISTENT, Modes::PERSISTENT),
            WatcherType::PersistentRecursive => (Modes::RECURSIVE, Modes::NONE),
        };
        let mut found = false;
        for (side, gone) in [(WatchSide::Data, data), (WatchSide::Child, child)] {
            let modes = self.side(entry, side).modes_of(watcher);
            if modes.intersects(gone) {
                found = true;
                self.set(entry, side, watcher, modes.without(gone));
            }
        }
        self.tidy(entry, watcher);
        found
    }

    /// Removes all watches of a closed connection.
    pub fn remove_watcher(&mut self, watcher: WatcherId) {
        for entry in self.by_watcher.remove(&watcher).unwrap_or_default() {
            self.set(entry, WatchSide::Data, watcher, Modes::NONE);
            self.set(entry, WatchSide::Child, watcher, Modes::NONE);
            self.release_if_unused(entry);
        }
    }

    /// Calls `sink` for each watcher of an event, once. One-shot watches are removed.
    pub fn fire(&mut self, kind: EventType, path: &str, sink: &mut dyn FnMut(WatcherId)) {
        if self.by_watcher.is_empty() {
            return;
        }
        let mut collected = std::mem::take(&mut self.collected);
        collected.clear();
        let entry = self.find(path);
        match kind {
            EventType::NodeCreated | EventType::NodeDataChanged => {
                self.collect_data(entry, path, &mut collected)
            }
            EventType::NodeChildrenChanged => self.collect(entry, WatchSide::Child, &mut collected),
            EventType::NodeDeleted => {
                self.collect_data(entry, path, &mut collected);
                // A watcher in the data table is not notified again, but its child watch is used up.
                self.collect(entry, WatchSide::Child, &mut collected);
            }
        }
        collected.sort_unstable();
        collected.dedup();
        // Watchers are notified first: the cleanup after thousands takes a while.
        collected.iter().copied().for_each(sink);
        if let Some(entry) = entry {
            for &watcher in &collected {
                self.tidy(entry, watcher);
            }
        }
        self.collected = collected;
    }

    /// The number of paths that a watcher watches.
    pub fn watched_paths(&self, watcher: WatcherId) -> usize {
        self.by_watcher.get(&watcher).map_or(0, BTreeSet::len)
    }

    /// Whether a watcher watches this path.
    pub fn is_watching(&self, watcher: WatcherId, path: &str) -> bool {
        let entry = self.find(path);
        entry.is_some_and(|entry| self.by_watcher.get(&watcher).is_some_and(|paths| paths.contains(&entry)))
    }

    /// How many watches there are: pairs of path and watcher in either table.
    pub fn len(&self) -> usize {
        self.data_count + self.child_count
    }

    /// Whether there are no watches.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pairs of path and watcher in the data table.
    pub(super) fn data_len(&self) -> usize {
        self.data_count
    }

    /// Watchers of exactly this path, and recursive ones of its ancestors.
    fn collect_data(&mut self, entry: Option<u32>, path: &str, collected: &mut Vec<WatcherId>) {
        self.collect(entry, WatchSide::Data, collected);
        if self.recursive_count == 0 {
            return;
        }
        for ancestor in path::self_and_ancestors(path).skip(1).chain(["/"]) {
            let Some(entry) = self.find(ancestor) else {
                continue;
            };
            let watchers = self.side(entry, WatchSide::Data).iter();
            collected
                .extend(watchers.filter(|(_, modes)| modes.intersects(Modes::RECURSIVE)).map(|(id, _)| id));
        }
    }

    fn collect(&mut self, entry: Option<u32>, side: WatchSide, collected: &mut Vec<WatcherId>) {
        let Some(entry) = entry else {
            return;
        };
        // All at once: there may be thousands. Recursive watches stay, and so does their number.
        let entry = &mut self.entries[entry as usize];
        let (watchers, count) = match side {
            WatchSide::Data => (&mut entry.data, &mut self.data_count),
            WatchSide::Child => (&mut entry.child, &mut self.child_count),
        };
        *count -= watchers.use_up(Modes::STANDARD, &mut |watcher| collected.push(watcher));
    }

    fn side(&self, entry: u32, side: WatchSide) -> &Watchers {
        let entry = &self.entries[entry as usize];
        match side {
            WatchSide::Data => &entry.data,
            WatchSide::Child => &entry.child,
        }
    }

    /// Replaces modes and updates the counts. The caller cleans up the indexes.
    fn set(&mut self, entry: u32, side: WatchSide, watcher: WatcherId, modes: Modes) {
        let entry = &mut self.entries[entry as usize];
        let (watchers, count) = match side {
            WatchSide::Data => (&mut entry.data, &mut self.data_count),
            WatchSide::Child => (&mut entry.child, &mut self.child_count),
        };
        let before = watchers.modes_of(watcher);
        *count = *count + usize::from(!modes.is_empty()) - usize::from(!before.is_empty());
        self.recursive_count = self.recursive_count + usize::from(modes.intersects(Modes::RECURSIVE))
            - usize::from(before.intersects(Modes::RECURSIVE));
        watchers.set(watcher, modes);
    }

    /// Removes empty records: the watcher's mark, then the entry.
    fn tidy(&mut self, entry: u32, watcher: WatcherId) {
        let holds_something = !self.side(entry, WatchSide::Data).modes_of(watcher).is_empty()
            || !self.side(entry, WatchSide::Child).modes_of(watcher).is_empty();
        if holds_something {
            return;
        }
        if let Some(entries) = self.by_watcher.get_mut(&watcher) {
            entries.remove(&entry);
            if entries.is_empty() {
                self.by_watcher.remove(&watcher);
            }
        }
        self.release_if_unused(entry);
    }

    fn release_if_unused(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        if !entry.data.is_empty() || !entry.child.is_empty() {
            return;
        }
        let hash = self.hash.hash_one(&*entry.path);
        // An entry that was released before is not in the table.
        if let Ok(found) = self.by_path.find_entry(hash, |&other| other == index) {
            found.remove();
            *entry = WatchEntry::default();
            self.free.push(index);
        }
    }

    fn find(&self, path: &str) -> Option<u32> {
        if self.by_path.is_empty() {
            return None;
        }
        self.by_path
            .find(self.hash.hash_one(path), |&entry| *self.entries[entry as usize].path == *path)
            .copied()
    }

    fn insert(&mut self, path: &str) -> u32 {
        let new = WatchEntry { path: path.into(), ..WatchEntry::default() };
        let index = match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = new;
                index
            }
            None => {
                self.entries.push(new);
                u32::try_from(self.entries.len() - 1)
                    .expect("four billion watched paths do not fit in memory")
            }
        };
        let (entries, hash) = (&self.entries, &self.hash);
        let hash_of = |&entry: &u32| hash.hash_one(&*entries[entry as usize].path);
        self.by_path.insert_unique(hash_of(&index), index, hash_of);
        index
    }
}
