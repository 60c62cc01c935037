//! The watches of a cache: one persistent watch, or one watch per node.

use std::collections::BTreeMap;

use tokio::task::{AbortHandle, JoinSet};
use zebu_client::{EventKind, OneshotWatcher, WatchEvent, WatchStream};

/// The source of watch events.
pub(super) enum WatchSource {
    /// No watches: a change feed shows the changes.
    None,
    Persistent(WatchStream),
    PerNode(NodeWatches),
}

/// The watches of single nodes: one task per node, whose result is its path.
#[derive(Default)]
pub(super) struct NodeWatches {
    tasks: JoinSet<String>,
    of: BTreeMap<String, AbortHandle>,
}

impl NodeWatches {
    /// Watches a node; an older watch of it is dropped.
    pub(super) fn set(&mut self, path: &str, changed: impl Future<Output = ()> + Send + 'static) {
        let own = path.to_owned();
        let task = self.tasks.spawn(async move {
            changed.await;
            own
        });
        if let Some(old) = self.of.insert(path.to_owned(), task) {
            old.abort();
        }
    }

    async fn next(&mut self) -> Invalidation {
        match self.tasks.join_next().await {
            Some(Ok(path)) => {
                self.of.remove(&path);
                Invalidation::Node(path)
            }
            // A replaced watch.
            Some(Err(error)) if error.is_cancelled() => Invalidation::None,
            // There is always a watch, at least of the root.
            Some(Err(_)) | None => Invalidation::WatchLost,
        }
    }
}

/// The effect of a watch event on the cache.
pub(super) enum Invalidation {
    None,
    Node(String),
    Deleted(String),
    All,
    WatchLost,
}

/// Drops all pending events before a complete read, which covers them. Without this, frequent disconnects
/// would cause an endless series of reads. Returns `false` if the watches are lost.
pub(super) async fn skip_pending(source: &mut WatchSource) -> bool {
    loop {
        tokio::select! {
            biased;
            invalidation = next(source) => if matches!(invalidation, Invalidation::WatchLost) { return false },
            () = std::future::ready(()) => return true,
        }
    }
}

pub(super) async fn next(source: &mut WatchSource) -> Invalidation {
    match source {
        WatchSource::Persistent(stream) => match stream.next().await {
            Some(event) => invalidation_of(event),
            None => Invalidation::WatchLost,
        },
        WatchSource::PerNode(watches) => watches.next().await,
        WatchSource::None => Invalidation::WatchLost,
    }
}

fn invalidation_of(event: WatchEvent) -> Invalidation {
    match event.kind {
        EventKind::NodeCreated | EventKind::NodeDataChanged => Invalidation::Node(event.path.to_string()),
        EventKind::NodeDeleted => Invalidation::Deleted(event.path.to_string()),
        // The child has its own event, or is out of scope.
        EventKind::NodeChildrenChanged => Invalidation::None,
        EventKind::Resynced => Invalidation::All,
        EventKind::WatchLost => Invalidation::WatchLost,
    }
}

pub(super) fn watch_all(source: &mut WatchSource, path: &str, watchers: Vec<OneshotWatcher>) {
    let WatchSource::PerNode(watches) = source else { return };
    let mut watchers = watchers.into_iter();
    let Some(data) = watchers.next() else { return };
    // One read registers all watches of a node again: the first that fires ends the other.
    match watchers.next() {
        Some(children) => watches.set(path, async move {
            tokio::select! {
                _ = data => {}
                _ = children => {}
            }
        }),
        None => watches.set(path, async move { drop(data.await) }),
    }
}
