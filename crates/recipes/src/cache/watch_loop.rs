//! The watch loop of a cache: it watches the tree by one persistent watch or one watch per node. Every event
//! triggers a read.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use zebu_client::{
    Client, Compression, Error, ErrorCode, ErrorKind, EventKind, NodeData, OneshotWatcher, Retry,
    SessionState, WatchEvent, WatchMode, WatchStream, path,
};

use super::changes::CacheChange;
use super::handle::{CacheScope, CacheState, CacheWatchMode};
use super::store::{CachedNode, below, put, remove};
use crate::error::RecipeError;
use crate::retry::{none_if_missing, retry_until_answered};

/// The limit of concurrent reads.
const BATCH: usize = 128;

/// The limit of nodes in one cache.
const NODES_MAX: usize = 1_000_000;

/// The settings of a watch loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct WatchLoopConfig {
    pub(super) scope: CacheScope,
    pub(super) watch_mode: CacheWatchMode,
    /// The compression of reads; the client's own by default.
    pub(super) compression: Option<Compression>,
}

pub(super) struct WatchLoop {
    client: Client,
    root: String,
    scope: CacheScope,
    watch_mode: CacheWatchMode,
    compression: Option<Compression>,
    shared: Arc<CacheState>,
    synced: watch::Sender<bool>,
}

/// The source of watch events.
enum WatchSource {
    Persistent(WatchStream),
    PerNode(NodeWatches),
}

/// The watches of single nodes: one task per node, whose result is its path.
#[derive(Default)]
struct NodeWatches {
    tasks: JoinSet<String>,
    of: BTreeMap<String, AbortHandle>,
}

impl NodeWatches {
    /// Watches a node; an older watch of it is dropped.
    fn set(&mut self, path: &str, changed: impl Future<Output = ()> + Send + 'static) {
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

/// Which children of a node are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChildReads {
    All,
    /// Children that the cache does not have: the others have their own events.
    New,
}

/// Whether a read registers watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadMode {
    Watched,
    Plain,
}

/// The result of a read.
struct NodeRead {
    node: NodeData,
    children: Vec<String>,
    watchers: Vec<OneshotWatcher>,
}

/// The options of a read.
#[derive(Clone, Copy, Debug)]
struct ReadOptions {
    needs_children: bool,
    mode: ReadMode,
    compression: Option<Compression>,
}

type NodeReadResult = Result<Option<NodeRead>, Error>;

impl WatchLoop {
    pub(super) fn new(
        client: &Client,
        root: &str,
        config: WatchLoopConfig,
        shared: Arc<CacheState>,
        synced: watch::Sender<bool>,
    ) -> WatchLoop {
        let WatchLoopConfig { scope, watch_mode, compression } = config;
        WatchLoop {
            client: client.clone(),
            root: root.to_owned(),
            scope,
            watch_mode,
            compression,
            shared,
            synced,
        }
    }

    pub(super) async fn run(&self) -> Result<Infallible, RecipeError> {
        loop {
            let mut source = self.open().await?;
            self.read_from(&mut source, vec![self.root.clone()], ChildReads::All).await?;
            self.mark_synced();
            self.handle_events(&mut source).await?;
        }
    }

    /// Handles events until the watches are lost.
    async fn handle_events(&self, source: &mut WatchSource) -> Result<(), RecipeError> {
        let mut states = self.client.states();
        let mut epoch = self.client.session().epoch;
        loop {
            let invalidation = tokio::select! {
                invalidation = next(source) => invalidation,
                changed = states.changed() => {
                    if changed.is_err() {
                        self.client.ready().await?;
                    }
                    let status = states.borrow_and_update().clone();
                    if !status.state.is_connected() {
                        self.mark_stale();
                        continue;
                    }
                    // One-shot watches survive a reconnect and report missed changes, but they do not survive
                    // a new session.
                    let renewed = std::mem::replace(&mut epoch, status.session.epoch) != status.session.epoch;
                    match source {
                        WatchSource::PerNode(_) if renewed => return Ok(()),
                        WatchSource::PerNode(_) => Invalidation::All,
                        WatchSource::Persistent(_) => continue,
                    }
                }
            };
            match invalidation {
                Invalidation::None => {}
                Invalidation::Deleted(path) if self.is_in_scope(&path) => self.remove(&path),
                Invalidation::Node(path) if self.is_in_scope(&path) => {
                    self.read_from(source, vec![path], ChildReads::New).await?
                }
                Invalidation::Deleted(_) | Invalidation::Node(_) => {}
                Invalidation::All => {
                    self.mark_stale();
                    if !skip_pending(source).await {
                        return Ok(());
                    }
                    self.read_from(source, vec![self.root.clone()], ChildReads::All).await?;
                    self.mark_synced();
                }
                Invalidation::WatchLost => {
                    self.mark_stale();
                    return Ok(());
                }
            }
        }
    }

    fn mark_stale(&self) {
        if self.synced.send_replace(false) {
            self.shared.publish(CacheChange::Stale);
        }
    }

    /// Marks the copy as complete. The data of a read-only server may be outdated, so that the next
    /// connection decides.
    fn mark_synced(&self) {
        if self.client.state() == SessionState::ReadOnly {
            return;
        }
        // In this order: a caller that waited for `synced` does not receive the change afterwards.
        if !*self.synced.borrow() {
            self.shared.publish(CacheChange::Synced);
            self.synced.send_replace(true);
        }
    }

    async fn open(&self) -> Result<WatchSource, RecipeError> {
        if self.watch_mode == CacheWatchMode::PerNode {
            return Ok(WatchSource::PerNode(NodeWatches::default()));
        }
        let mode = if self.scope == CacheScope::Node { WatchMode::Node } else { WatchMode::Tree };
        match retry_until_answered(&self.client, || self.client.watch(&self.root, mode).retry(Retry::Never))
            .await
        {
            Ok(stream) => Ok(WatchSource::Persistent(stream)),
            Err(error) if error.code() == Some(ErrorCode::Unimplemented) => {
                tracing::info!(root = %self.root, "no persistent watches; using one watch per node");
                Ok(WatchSource::PerNode(NodeWatches::default()))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn depth(&self, path: &str) -> Option<usize> {
        let rest = match &*self.root {
            "/" => path,
            root => path.strip_prefix(root)?,
        };
        match rest {
            "" | "/" => Some(0),
            rest if rest.starts_with('/') => Some(rest.matches('/').count()),
            _ => None,
        }
    }

    fn is_in_scope(&self, path: &str) -> bool {
        match (self.depth(path), self.scope) {
            (Some(0), _) | (Some(1), CacheScope::Children) | (Some(_), CacheScope::Tree) => true,
            (Some(_) | None, _) => false,
        }
    }

    fn needs_children(&self, path: &str) -> bool {
        match self.scope {
            CacheScope::Node => false,
            CacheScope::Children => self.depth(path) == Some(0),
            CacheScope::Tree => true,
        }
    }

    /// Reads these nodes and their descendants, and removes missing ones.
    async fn read_from(
        &self,
        source: &mut WatchSource,
        mut todo: Vec<String>,
        child_reads: ChildReads,
    ) -> Result<(), RecipeError> {
        while !todo.is_empty() {
            let rest = todo.split_off(todo.len().min(BATCH));
            let mut found = self.read_batch(source, &todo, child_reads).await?;
            todo = rest;
            todo.append(&mut found);
            let known = self.shared.len();
            if known + todo.len() > NODES_MAX {
                let root = &self.root;
                let what = format!("{root} has more than {NODES_MAX} nodes below it; follow a smaller part");
                return Err(RecipeError::Invalid(what));
            }
        }
        Ok(())
    }

    /// Reads nodes concurrently; returns the children to read next.
    async fn read_batch(
        &self,
        source: &mut WatchSource,
        paths: &[String],
        child_reads: ChildReads,
    ) -> Result<Vec<String>, RecipeError> {
        let mode = match source {
            WatchSource::Persistent(_) => ReadMode::Plain,
            WatchSource::PerNode(_) => ReadMode::Watched,
        };
        let mut reads: JoinSet<(usize, NodeReadResult)> = JoinSet::new();
        for (index, path) in paths.iter().enumerate() {
            let (client, path) = (self.client.clone(), path.clone());
            let needs_children = self.needs_children(&path);
            let options = ReadOptions { needs_children, mode, compression: self.compression };
            reads.spawn(async move { (index, read(&client, &path, options).await) });
        }
        let mut results: Vec<_> = paths.iter().map(|_| Ok(None)).collect();
        while let Some(done) = reads.join_next().await {
            let (index, result) =
                done.map_err(|error| RecipeError::Invalid(format!("a read ended: {error}")))?;
            results[index] = result;
        }
        let mut next = Vec::new();
        for (path, result) in paths.iter().zip(results) {
            match result {
                Ok(Some(mut found)) => {
                    self.shared.unmark_unreadable(|unreadable| unreadable == path);
                    watch_all(source, path, std::mem::take(&mut found.watchers));
                    next.append(&mut self.store_node(path, found, child_reads));
                }
                Ok(None) => {
                    self.remove(path);
                    if *path == self.root {
                        self.watch_missing_root(source).await?;
                    }
                }
                Err(error) if *path != self.root && is_unreadable(&error) => {
                    self.mark_unreadable(path, &error);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(next)
    }

    /// Removes a deleted node and its descendants.
    fn remove(&self, path: &str) {
        self.shared.change(|nodes| remove(nodes, path));
        self.shared
            .unmark_unreadable(|unreadable| unreadable == path || child_towards(path, unreadable).is_some());
    }

    /// Leaves out an existing node that cannot be read, with its descendants.
    fn mark_unreadable(&self, path: &str, error: &Error) {
        self.shared.change(|nodes| remove(nodes, path));
        self.shared.unmark_unreadable(|unreadable| child_towards(path, unreadable).is_some());
        if self.shared.mark_unreadable(path) {
            tracing::warn!(%path, root = %self.root, %error, "ignored an unreadable node");
        }
    }

    /// Stores a node that was read; returns the children to read.
    fn store_node(&self, path: &str, found: NodeRead, child_reads: ChildReads) -> Vec<String> {
        let NodeRead { node: NodeData { data, stat, .. }, children, .. } = found;
        let node = CachedNode { path: path.to_owned(), data, stat };
        let mut children: BTreeSet<String> = children.iter().map(|name| path::join(path, name)).collect();
        self.shared.change(|nodes| {
            let mut changes = put(nodes, node);
            if self.needs_children(path) {
                let stale = |child: &&String| path::parent(child) == Some(path) && !children.contains(*child);
                let gone: Vec<String> =
                    below(nodes, path).map(|(child, _)| child).filter(stale).cloned().collect();
                gone.iter().for_each(|child| changes.append(&mut remove(nodes, child)));
                self.shared.unmark_unreadable(|unreadable| {
                    child_towards(path, unreadable).is_some_and(|child| !children.contains(child))
                });
            }
            if child_reads == ChildReads::New {
                children.retain(|child| !nodes.contains_key(child));
            }
            changes
        });
        children.into_iter().collect()
    }

    /// Watches for the creation of the root, which a watch per node cannot report.
    async fn watch_missing_root(&self, source: &mut WatchSource) -> Result<(), RecipeError> {
        let WatchSource::PerNode(watches) = source else { return Ok(()) };
        let ask = || self.client.exists(&self.root).retry(Retry::Never).watched();
        let (stat, changed) = retry_until_answered(&self.client, ask).await?;
        watches.set(&self.root, async move {
            if stat.is_none() {
                changed.await;
            }
        });
        Ok(())
    }
}

/// Whether an error concerns this node alone: no permission to read it, or damaged data.
fn is_unreadable(error: &Error) -> bool {
    error.code() == Some(ErrorCode::NoAuth) || matches!(error.kind(), ErrorKind::BadCompression(_))
}

/// The child of a node on the path to a descendant; `None` if it is no descendant.
fn child_towards<'a>(node: &str, below: &'a str) -> Option<&'a str> {
    let from = if node == "/" { 0 } else { below.strip_prefix(node).map(|_| node.len())? };
    let rest = below[from..].strip_prefix('/').filter(|rest| !rest.is_empty())?;
    Some(&below[..from + 1 + rest.find('/').unwrap_or(rest.len())])
}

/// The effect of a watch event on the cache.
enum Invalidation {
    None,
    Node(String),
    Deleted(String),
    All,
    WatchLost,
}

/// Drops all pending events before a complete read, which covers them. Without this, frequent disconnects
/// would cause an endless series of reads. Returns `false` if the watches are lost.
async fn skip_pending(source: &mut WatchSource) -> bool {
    loop {
        tokio::select! {
            biased;
            invalidation = next(source) => if matches!(invalidation, Invalidation::WatchLost) { return false },
            () = std::future::ready(()) => return true,
        }
    }
}

async fn next(source: &mut WatchSource) -> Invalidation {
    match source {
        WatchSource::Persistent(stream) => match stream.next().await {
            Some(event) => invalidation_of(event),
            None => Invalidation::WatchLost,
        },
        WatchSource::PerNode(watches) => watches.next().await,
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

fn watch_all(source: &mut WatchSource, path: &str, watchers: Vec<OneshotWatcher>) {
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

/// Reads a node and, if needed, the names of its children; `None` if the node is missing.
async fn read(client: &Client, path: &str, options: ReadOptions) -> NodeReadResult {
    let result = retry_until_answered(client, || async {
        let mut watchers = Vec::new();
        let mut get = client.get(path).retry(Retry::Never);
        if let Some(compression) = options.compression {
            get = get.compression(compression);
        }
        let node = match options.mode {
            ReadMode::Plain => get.await?,
            ReadMode::Watched => {
                let (node, watcher) = get.watched().await?;
                watchers.push(watcher);
                node
            }
        };
        let children = match options.mode {
            _ if !options.needs_children => Vec::new(),
            ReadMode::Plain => client.children(path).retry(Retry::Never).await?.names,
            ReadMode::Watched => {
                let (list, watcher) = client.children(path).retry(Retry::Never).watched().await?;
                watchers.push(watcher);
                list.names
            }
        };
        Ok(NodeRead { node, children, watchers })
    });
    none_if_missing(result.await)
}

#[cfg(test)]
mod tests {
    use super::child_towards;

    #[test]
    fn the_way_to_a_node_begins_with_a_child() {
        assert_eq!(child_towards("/", "/a/b"), Some("/a"));
        assert_eq!(child_towards("/", "/a"), Some("/a"));
        assert_eq!(child_towards("/a", "/a/b/c"), Some("/a/b"));
        assert_eq!(child_towards("/a", "/a/b"), Some("/a/b"));
        for other in ["/a", "/ab", "/ab/c", "/"] {
            assert_eq!(child_towards("/a", other), None, "{other}");
        }
    }
}
