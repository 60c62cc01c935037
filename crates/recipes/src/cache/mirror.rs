//! The cache: what its users see of it.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use zebu_client::{Client, Compression};

use super::changes::{Change, Changes, WAITING_MAX};
use super::follow::{Followed, Follower};
use super::store::{CachedNode, Nodes, children};
use crate::error::RecipeError;

/// How far a cache reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// One node; Curator's `NodeCache`.
    Node,
    /// A node and its children; Curator's `PathChildrenCache`.
    Children,
    /// A node and all below it; Curator's `CuratorCache` and `TreeCache`.
    Tree,
}

/// How a cache learns of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CacheWatching {
    /// By one persistent watch, and by a watch per node with servers before 3.6.
    #[default]
    Persistent,
    /// By a watch per node.
    PerNode,
}

/// A copy of a part of the tree that follows it.
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::{Cache, Change, Reach};
///
/// client.ensure_path("/apps/shop").await?;
/// let cache = Cache::start(&client, "/apps", Reach::Tree);
/// cache.synced().await?;
/// assert!(cache.get("/apps/shop").is_some());
/// let mut changes = cache.changes();
/// client.create("/apps/blog").data("v1").await?;
/// match changes.next().await {
///     Some(Change::Created(node)) => assert_eq!((&*node.path, &node.data[..]), ("/apps/blog", &b"v1"[..])),
///     other => panic!("{other:?}"),
/// }
/// # Ok(()) });
/// ```
///
/// It makes no nodes; a root that is missing is an empty cache until it comes. What it shows was there, in the
/// order in which it shows it; it is a little later than the ensemble.
///
/// **Connection lost.** The copy stays as it is and [`Change::Stale`] is told. When a server is reached again,
/// all is compared, by the transactions that made and wrote each node, so that one that was deleted and made
/// again meanwhile is told as such; then [`Change::Synced`] follows. **Session lost.** The same. **Read-only
/// server.** What it has is shown and stays stale. **Closed client, no permission to read the root.**
/// [`changes`](Cache::changes) ends, and [`failure`](Cache::failure) says why. **No permission to read a node below
/// it.** That node and all below it are left out, see [`unreadable`](Cache::unreadable); the others are followed. A
/// change of its ACL is noticed with its next change or after a reconnect. **Dropped.** The watches go.
#[derive(Debug)]
pub struct Cache {
    shared: Arc<Shared>,
    synced: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

/// What the cache and its follower share.
#[derive(Debug)]
pub(super) struct Shared {
    nodes: RwLock<Nodes>,
    /// Paths of nodes that are there and left out, because they may not be read.
    unreadable: RwLock<BTreeSet<String>>,
    changes: RwLock<Option<broadcast::Sender<Change>>>,
    failure: OnceLock<RecipeError>,
}

impl Shared {
    pub(super) fn nodes(&self) -> RwLockReadGuard<'_, Nodes> {
        // Every change of it is a whole one.
        self.nodes.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the nodes and tells it.
    pub(super) fn change(&self, change: impl FnOnce(&mut Nodes) -> Vec<Change>) {
        let mut nodes: RwLockWriteGuard<'_, Nodes> =
            self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        // Told under the lock: whoever looks and then listens misses nothing.
        change(&mut nodes).into_iter().for_each(|change| self.tell(change));
    }

    pub(super) fn tell(&self, change: Change) {
        if let Some(changes) = &*self.changes.read().unwrap_or_else(PoisonError::into_inner) {
            // Nobody has to listen.
            let _ = changes.send(change);
        }
    }

    /// Notes that a node is there and cannot be read; `true` if that is new.
    pub(super) fn leave_out(&self, path: &str) -> bool {
        self.unreadable.write().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned())
    }

    /// Forgets those of the nodes that were left out for which this holds.
    pub(super) fn forget_left_out(&self, mut gone: impl FnMut(&str) -> bool) {
        self.unreadable.write().unwrap_or_else(PoisonError::into_inner).retain(|path| !gone(path));
    }

    /// How many nodes are known, those that were left out included.
    pub(super) fn len(&self) -> usize {
        self.nodes().len() + self.unreadable.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn end(&self, error: RecipeError) {
        let _ = self.failure.set(error);
        *self.changes.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Cache {
    /// Begins to follow a node, in the background.
    pub fn start(client: &Client, root: &str, reach: Reach) -> Cache {
        Cache::start_with(client, root, reach, CacheWatching::default())
    }

    /// Begins to follow a node with watches of this kind.
    pub fn start_with(client: &Client, root: &str, reach: Reach, watching: CacheWatching) -> Cache {
        Cache::follow(client, root, Followed { reach, watching, compression: None })
    }

    /// Begins to follow nodes of a recipe, whose data is never compressed.
    pub(crate) fn plain(client: &Client, root: &str, reach: Reach) -> Cache {
        let (watching, compression) = (CacheWatching::default(), Some(Compression::None));
        Cache::follow(client, root, Followed { reach, watching, compression })
    }

    fn follow(client: &Client, root: &str, followed: Followed) -> Cache {
        let shared = Arc::new(Shared {
            nodes: RwLock::default(),
            unreadable: RwLock::default(),
            changes: RwLock::new(Some(broadcast::channel(WAITING_MAX).0)),
            failure: OnceLock::new(),
        });
        let (sender, synced) = watch::channel(false);
        let follower = Follower::new(client, root, followed, shared.clone(), sender);
        let end = shared.clone();
        let task = tokio::spawn(async move {
            let Err(error) = follower.run().await;
            tracing::warn!(%error, "a cache is not kept up to date any more");
            end.end(error);
        });
        Cache { shared, synced, task }
    }

    /// Waits until the copy is complete for the first time, or again after a lost connection.
    pub async fn synced(&self) -> Result<(), RecipeError> {
        let mut synced = self.synced.clone();
        let waited = synced.wait_for(|synced| *synced).await.is_ok();
        match self.failure() {
            Some(error) => Err(error),
            None if waited => Ok(()),
            None => Err(RecipeError::Invalid("the cache has ended".into())),
        }
    }

    /// Whether the copy is complete and followed at this moment.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow() && self.failure().is_none()
    }

    /// A node; `None` if it is not there.
    pub fn get(&self, path: &str) -> Option<Arc<CachedNode>> {
        self.shared.nodes().get(path).cloned()
    }

    /// The children of a node, by name.
    pub fn children(&self, path: &str) -> Vec<Arc<CachedNode>> {
        children(&self.shared.nodes(), path).cloned().collect()
    }

    /// All nodes of one moment, by path.
    pub fn snapshot(&self) -> Vec<Arc<CachedNode>> {
        self.shared.nodes().values().cloned().collect()
    }

    /// The paths of nodes below the root that are there and not in the copy, because the client may not read them or
    /// their compressed data is damaged. Each is logged once. What is below them is not known.
    pub fn unreadable(&self) -> Vec<String> {
        self.shared.unreadable.read().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// All changes from now on.
    pub fn changes(&self) -> Changes {
        self.watch_from_here().1
    }

    /// All nodes of one moment and all changes after it: nothing is missed in between.
    pub fn watch_from_here(&self) -> (Vec<Arc<CachedNode>>, Changes) {
        let nodes = self.shared.nodes();
        let changes = self.shared.changes.read().unwrap_or_else(PoisonError::into_inner);
        // After the end there is nothing to hear: the channel is closed at once.
        let receiver = changes.as_ref().map_or_else(|| broadcast::channel(1).1, broadcast::Sender::subscribe);
        (nodes.values().cloned().collect(), Changes::new(receiver))
    }

    /// Why the cache is not kept up to date any more, if so.
    pub fn failure(&self) -> Option<RecipeError> {
        self.shared.failure.get().cloned()
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.task.abort();
    }
}
