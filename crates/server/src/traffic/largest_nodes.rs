//! The largest nodes and those with the most children, found by a walk over the tree on demand.
//!
//! The walk takes the replica shared for a slice of nodes at a time, as a snapshot does, and other tasks run
//! between the slices. One walk runs at a time, and its result serves all callers for a while.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use zebu_tree::WalkProgress;

use crate::core::context::ServerContext;

/// Nodes that one hold of the replica visits.
const SLICE_NODES: usize = 500;

/// Nodes that are listed.
pub(crate) const LISTED_MAX: usize = 50;

/// Longest walk. Beyond it the list is partial.
const WALK_TIME_MAX: Duration = Duration::from_secs(60);

/// Walks that begin again because the tree was replaced meanwhile.
const RESTARTS_MAX: usize = 3;

/// A result serves callers for this time.
const FRESH_MS: i64 = 10_000;

/// The largest nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LargestNodes {
    /// Whether all nodes were visited.
    pub is_complete: bool,
    /// Visited nodes.
    pub visited: u64,
    /// Bytes of data and path of the nodes with the most data, largest first.
    pub by_bytes: Vec<(u64, String)>,
    /// Children and path of the nodes with the most children, largest first.
    pub by_children: Vec<(u64, String)>,
}

/// The last result, and the lock of the one walk.
#[derive(Debug, Default)]
pub(crate) struct LargestNodesCache(tokio::sync::Mutex<Option<(i64, Arc<LargestNodes>)>>);

impl LargestNodesCache {
    /// The last result if it is fresh; otherwise walks.
    pub(crate) async fn get(&self, shared: &ServerContext) -> Arc<LargestNodes> {
        let mut last = self.0.lock().await;
        if let Some((at_ms, nodes)) = &*last
            && shared.clock.monotonic_ms() - at_ms < FRESH_MS
        {
            return nodes.clone();
        }
        let nodes = Arc::new(walk(shared).await);
        *last = Some((shared.clock.monotonic_ms(), nodes.clone()));
        nodes
    }
}

async fn walk(shared: &ServerContext) -> LargestNodes {
    let end_ms = shared.clock.monotonic_ms() + WALK_TIME_MAX.as_millis() as i64;
    let mut found = LargestNodes::default();
    for _ in 0..=RESTARTS_MAX {
        let (mut bytes, mut children) = (Heaviest::default(), Heaviest::default());
        let (generation, mut walker) = {
            let replica = shared.read_replica();
            (replica.generation(), replica.tree().walker())
        };
        let mut visited = 0;
        let progress = loop {
            let progress = {
                let replica = shared.read_replica();
                if replica.generation() != generation {
                    break WalkProgress::Void;
                }
                let tree = replica.tree();
                walker.next_slice(tree, SLICE_NODES, &mut |path, data, _, _| {
                    visited += 1;
                    bytes.add(data.map_or(0, <[u8]>::len) as u64, path);
                    let path = if path.is_empty() { "/" } else { path };
                    children.add(tree.node(path).map_or(0, |node| node.num_children()) as u64, path);
                })
            };
            if progress != WalkProgress::More || shared.clock.monotonic_ms() >= end_ms {
                break progress;
            }
            tokio::task::yield_now().await;
        };
        found = LargestNodes {
            is_complete: progress == WalkProgress::Done,
            visited,
            by_bytes: bytes.into_list(),
            by_children: children.into_list(),
        };
        if progress != WalkProgress::Void {
            break;
        }
    }
    found
}

/// The greatest numbers with their paths, a bounded number of them.
#[derive(Debug, Default)]
struct Heaviest(BinaryHeap<Reverse<(u64, Reverse<String>)>>);

impl Heaviest {
    fn add(&mut self, number: u64, path: &str) {
        if number == 0 {
            return;
        }
        if self.0.len() == LISTED_MAX {
            if self.0.peek().is_some_and(|Reverse((least, _))| number <= *least) {
                return;
            }
            self.0.pop();
        }
        let path = if path.is_empty() { "/" } else { path };
        self.0.push(Reverse((number, Reverse(path.to_owned()))));
    }

    fn into_list(self) -> Vec<(u64, String)> {
        let sorted = self.0.into_sorted_vec().into_iter();
        sorted.map(|Reverse((number, Reverse(path)))| (number, path)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaviest_are_kept_in_order() {
        let mut heaviest = Heaviest::default();
        for number in 0..1000 {
            heaviest.add(number * 7 % 1000, &format!("/n{number}"));
        }
        let list = heaviest.into_list();
        let numbers: Vec<u64> = list.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, (950..1000).rev().collect::<Vec<_>>());
        assert!(Heaviest::default().into_list().is_empty());
    }

    #[test]
    fn equal_numbers_are_in_the_order_of_their_paths() {
        let mut heaviest = Heaviest::default();
        for path in ["/b", "", "/a"] {
            heaviest.add(1, path);
        }
        let paths: Vec<String> = heaviest.into_list().into_iter().map(|(_, path)| path).collect();
        assert_eq!(paths, ["/", "/a", "/b"]);
    }
}
