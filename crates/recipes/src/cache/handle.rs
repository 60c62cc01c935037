//! The cache as its users see it.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use zebu_client::{Client, Compression, path};

use super::changes::{CacheChange, CacheChanges, WAITING_MAX};
use super::store::{CachedNode, Nodes, children};
use super::watch_loop::{WatchLoop, WatchLoopConfig};
use crate::error::RecipeError;

/// The scope of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheScope {
    /// One node; Curator's `NodeCache`.
    Node,
    /// A node and its children; Curator's `PathChildrenCache`.
    Children,
    /// A node and all descendants; Curator's `CuratorCache` and `TreeCache`.
    Tree,
}

/// How a cache learns of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CacheWatchMode {
    /// A change feed of the server: after a reconnect the cache gets what it has missed and reads nothing
    /// again. [`Persistent`](CacheWatchMode::Persistent) with servers that have no feed for this client,
    /// until the next connection, and for [`CacheScope::Node`].
    #[default]
    Feed,
    /// One persistent watch; with servers before 3.6 one watch per node.
    Persistent,
    /// One watch per node.
    PerNode,
}

/// A local copy of a part of the tree, kept up to date by a change feed or by watches.
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::{Cache, CacheChange, CacheScope};
///
/// client.ensure_path("/apps/shop").await?;
/// let cache = Cache::start(&client, "/apps", CacheScope::Tree);
/// cache.synced().await?;
/// assert!(cache.get("/apps/shop").is_some());
/// let mut changes = cache.changes();
/// client.create("/apps/blog").data("v1").await?;
/// match changes.next().await {
///     Some(CacheChange::Created(node)) => {
///         assert_eq!((&*node.path, &node.data[..]), ("/apps/blog", &b"v1"[..]));
///     }
///     other => panic!("{other:?}"),
/// }
/// # Ok(()) });
/// ```
///
/// It creates no nodes; a missing root yields an empty cache until the root is created. Changes appear in the
/// order of the transactions with a feed, and in the order of the cache's reads with watches, slightly later
/// than in the ensemble.
///
/// - **Connection lost.** The copy stays unchanged and [`CacheChange::Stale`] is published. After the
///   reconnect a feed shows what was missed. Without a feed, or if the log no longer reaches back, all nodes
///   are compared by czxid and mzxid, so that a node that was deleted and created again yields both changes.
///   [`CacheChange::Synced`] follows.
/// - **Session lost.** The same.
/// - **Read-only server.** The cache shows its data and stays stale.
/// - **Closed client, unreadable root.** [`changes`](Cache::changes) ends, and [`failure`](Cache::failure)
///   returns the reason.
/// - **Unreadable node.** The node and its descendants are left out, see [`unreadable`](Cache::unreadable). A
///   change of its ACL is noticed at once with a feed, and otherwise with its next change or after a
///   reconnect.
/// - **Dropped.** The watches are removed, and the feed is closed.
#[derive(Debug)]
pub struct Cache {
    shared: Arc<CacheState>,
    synced: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

/// The state that the cache and its watch loop share.
#[derive(Debug)]
pub(super) struct CacheState {
    nodes: RwLock<Nodes>,
    /// Paths of existing nodes that are left out, because the client cannot read them.
    unreadable: RwLock<BTreeSet<String>>,
    changes: RwLock<Option<broadcast::Sender<CacheChange>>>,
    failure: OnceLock<RecipeError>,
}

impl CacheState {
    pub(super) fn nodes(&self) -> RwLockReadGuard<'_, Nodes> {
        // Every change is complete before the lock is released.
        self.nodes.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the nodes and publishes the changes.
    pub(super) fn change(&self, change: impl FnOnce(&mut Nodes) -> Vec<CacheChange>) {
        let mut nodes: RwLockWriteGuard<'_, Nodes> =
            self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        // Published under the lock, so that a snapshot and its later changes have no gap.
        change(&mut nodes).into_iter().for_each(|change| self.publish(change));
    }

    pub(super) fn publish(&self, change: CacheChange) {
        if let Some(changes) = &*self.changes.read().unwrap_or_else(PoisonError::into_inner) {
            // There may be no reader.
            let _ = changes.send(change);
        }
    }

    /// Records an unreadable node; `true` if it is new.
    pub(super) fn mark_unreadable(&self, path: &str) -> bool {
        self.unreadable.write().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned())
    }

    /// Removes the unreadable nodes for which the predicate holds.
    pub(super) fn unmark_unreadable(&self, mut gone: impl FnMut(&str) -> bool) {
        self.unreadable.write().unwrap_or_else(PoisonError::into_inner).retain(|path| !gone(path));
    }

    /// Whether a node above this one cannot be read, so that this one is left out.
    pub(super) fn is_below_unreadable(&self, path: &str) -> bool {
        let unreadable = self.unreadable.read().unwrap_or_else(PoisonError::into_inner);
        !unreadable.is_empty()
            && std::iter::successors(path::parent(path), |above| path::parent(above))
                .any(|above| unreadable.contains(above))
    }

    /// Whether this node is known and cannot be read.
    pub(super) fn is_unreadable(&self, path: &str) -> bool {
        self.unreadable.read().unwrap_or_else(PoisonError::into_inner).contains(path)
    }

    /// The number of known nodes, including unreadable ones.
    pub(super) fn len(&self) -> usize {
        self.nodes().len() + self.unreadable.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn end(&self, error: RecipeError) {
        let _ = self.failure.set(error);
        *self.changes.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Cache {
    /// Starts a cache in the background.
    pub fn start(client: &Client, root: &str, scope: CacheScope) -> Cache {
        Cache::start_with(client, root, scope, CacheWatchMode::default())
    }

    /// Starts a cache that learns of changes in this way.
    pub fn start_with(client: &Client, root: &str, scope: CacheScope, watch_mode: CacheWatchMode) -> Cache {
        Cache::spawn(client, root, WatchLoopConfig { scope, watch_mode, compression: None })
    }

    /// Starts a cache of recipe nodes, which are never compressed.
    pub(crate) fn start_uncompressed(client: &Client, root: &str, scope: CacheScope) -> Cache {
        // Their directories are small, and the feeds of a server are few.
        let (watch_mode, compression) = (CacheWatchMode::Persistent, Some(Compression::None));
        Cache::spawn(client, root, WatchLoopConfig { scope, watch_mode, compression })
    }

    fn spawn(client: &Client, root: &str, config: WatchLoopConfig) -> Cache {
        let shared = Arc::new(CacheState {
            nodes: RwLock::default(),
            unreadable: RwLock::default(),
            changes: RwLock::new(Some(broadcast::channel(WAITING_MAX).0)),
            failure: OnceLock::new(),
        });
        let (sender, synced) = watch::channel(false);
        let watch_loop = WatchLoop::new(client, root, config, shared.clone(), sender);
        let end = shared.clone();
        let task = tokio::spawn(async move {
            let Err(error) = watch_loop.run().await;
            tracing::warn!(%error, "stopped updating a cache");
            end.end(error);
        });
        Cache { shared, synced, task }
    }

    /// Waits until the copy is complete, for the first time or after a lost connection.
    pub async fn synced(&self) -> Result<(), RecipeError> {
        let mut synced = self.synced.clone();
        let waited = synced.wait_for(|synced| *synced).await.is_ok();
        match self.failure() {
            Some(error) => Err(error),
            None if waited => Ok(()),
            None => Err(RecipeError::Invalid("the cache has ended".into())),
        }
    }

    /// Whether the copy is complete and up to date.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow() && self.failure().is_none()
    }

    /// A node; `None` if it is missing.
    pub fn get(&self, path: &str) -> Option<Arc<CachedNode>> {
        self.shared.nodes().get(path).cloned()
    }

    /// The children of a node, sorted by name.
    pub fn children(&self, path: &str) -> Vec<Arc<CachedNode>> {
        children(&self.shared.nodes(), path).cloned().collect()
    }

    /// All nodes at one moment, sorted by path.
    pub fn snapshot(&self) -> Vec<Arc<CachedNode>> {
        self.shared.nodes().values().cloned().collect()
    }

    /// The paths of existing nodes below the root that are not in the copy: the client may not read them, or
    /// their compressed data is damaged. Each is logged once. Their descendants are unknown.
    pub fn unreadable(&self) -> Vec<String> {
        self.shared.unreadable.read().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// All changes from now on.
    pub fn changes(&self) -> CacheChanges {
        self.snapshot_and_changes().1
    }

    /// All nodes at one moment and all later changes, without a gap.
    pub fn snapshot_and_changes(&self) -> (Vec<Arc<CachedNode>>, CacheChanges) {
        let nodes = self.shared.nodes();
        let changes = self.shared.changes.read().unwrap_or_else(PoisonError::into_inner);
        // After the end the channel is closed at once.
        let receiver = changes.as_ref().map_or_else(|| broadcast::channel(1).1, broadcast::Sender::subscribe);
        (nodes.values().cloned().collect(), CacheChanges::new(receiver))
    }

    /// The reason why the cache has ended.
    pub fn failure(&self) -> Option<RecipeError> {
        self.shared.failure.get().cloned()
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.task.abort();
    }
}
