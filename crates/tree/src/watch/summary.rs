//! What the four-letter words tell about watches. They show the data table only.

use crate::watch::{WatchTable, WatcherId};

/// The numbers of `wchs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataWatchSummary {
    /// Connections with at least one data watch.
    pub watchers: usize,
    /// Paths with at least one data watch.
    pub paths: usize,
    /// Pairs of both.
    pub watches: usize,
}

impl WatchTable {
    /// The numbers of `wchs`. Goes through all watches.
    pub fn data_summary(&self) -> DataWatchSummary {
        DataWatchSummary {
            watchers: self.data_by_watcher().count(),
            paths: self.data_by_path().count(),
            watches: self.data_len(),
        }
    }

    /// Every watched path with its watchers, for `wchp`. In no particular order of paths.
    pub fn data_by_path(&self) -> impl Iterator<Item = (&str, Vec<WatcherId>)> {
        let watched = self.entries.iter().filter(|entry| !entry.data.is_empty());
        watched.map(|entry| (&*entry.path, entry.data.iter().map(|(watcher, _)| watcher).collect()))
    }

    /// Every watcher with the paths that it watches, for `wchc`. In the order of their numbers.
    pub fn data_by_watcher(&self) -> impl Iterator<Item = (WatcherId, Vec<&str>)> {
        self.by_watcher.iter().filter_map(|(&watcher, entries)| {
            let paths: Vec<&str> = entries
                .iter()
                .map(|&entry| &self.entries[entry as usize])
                .filter(|entry| !entry.data.modes_of(watcher).is_empty())
                .map(|entry| &*entry.path)
                .collect();
            if paths.is_empty() { None } else { Some((watcher, paths)) }
        })
    }
}
