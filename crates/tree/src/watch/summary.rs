//! The watch statistics of the four-letter words. They show the data table only.

use crate::watch::{WatchTable, WatcherId};

/// The numbers of `wchs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataWatchSummary {
    /// Connections with at least one data watch.
    pub watchers: usize,
    /// Paths with at least one data watch.
    pub paths: usize,
    /// Pairs of path and watcher.
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
        self.data_by_path_from(0).map(|(_, path, watchers)| (path, watchers))
    }

    /// The same from a position on, which is 0 for all. A reader that releases the table continues after the
    /// last position that it got: a watch that stays keeps its position.
    pub fn data_by_path_from(&self, position: usize) -> impl Iterator<Item = (usize, &str, Vec<WatcherId>)> {
        let entries = self.entries.iter().enumerate().skip(position);
        entries.filter(|(_, entry)| !entry.data.is_empty()).map(|(position, entry)| {
            (position, &*entry.path, entry.data.iter().map(|(watcher, _)| watcher).collect())
        })
    }

    /// The paths that a watcher watches, with their positions, from a position on.
    pub fn data_paths_of(&self, watcher: WatcherId, position: usize) -> impl Iterator<Item = (usize, &str)> {
        let first = u32::try_from(position).unwrap_or(u32::MAX);
        let entries =
            self.by_watcher.get(&watcher).into_iter().flat_map(move |entries| entries.range(first..));
        entries
            .map(|&entry| (entry as usize, &self.entries[entry as usize]))
            .filter(move |(_, entry)| !entry.data.modes_of(watcher).is_empty())
            .map(|(position, entry)| (position, &*entry.path))
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
