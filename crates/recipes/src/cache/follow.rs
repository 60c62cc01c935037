//! How a cache follows the tree: by one persistent watch, or by a watch per node. Every event only means
//! "read this again".

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use zebu_client::{
    Client, Compression, Error, ErrorCode, ErrorKind, EventKind, NodeData, OneshotWatcher, Retry,
    SessionState, WatchEvent, WatchMode, WatchStream, path,
};

use super::changes::Change;
use super::mirror::{CacheWatching, Reach, Shared};
use super::store::{CachedNode, below, put, remove};
use crate::connection::{persist, present};
use crate::error::RecipeError;

/// Reads that are in flight at once.
const BATCH: usize = 128;

/// Nodes that one cache may hold.
const NODES_MAX: usize = 1_000_000;

/// What is followed, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Followed {
    pub(super) reach: Reach,
    pub(super) watching: CacheWatching,
    /// How data is read; the client's own compression if none is named.
    pub(super) compression: Option<Compression>,
}

pub(super) struct Follower {
    client: Client,
    root: String,
    reach: Reach,
    watching: CacheWatching,
    compression: Option<Compression>,
    shared: Arc<Shared>,
    synced: watch::Sender<bool>,
}

/// Where news comes from.
enum News {
    Persistent(WatchStream),
    PerNode(Watches),
}

/// The watches on single nodes: one task for each node, whose result is its path.
#[derive(Default)]
struct Watches {
    tasks: JoinSet<String>,
    of: BTreeMap<String, AbortHandle>,
}

impl Watches {
    /// Watches a node; an older watch on it goes.
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

    async fn next(&mut self) -> Dirty {
        match self.tasks.join_next().await {
            Some(Ok(path)) => {
                self.of.remove(&path);
                Dirty::Node(path)
            }
            // One that was replaced.
            Some(Err(error)) if error.is_cancelled() => Dirty::Nothing,
            // There is always a watch, on the root at least.
            Some(Err(_)) | None => Dirty::Lost,
        }
    }
}

/// Which children of a node that was read are read too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Descent {
    All,
    /// Those that the cache does not have: the others report themselves.
    New,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Data,
    DataAndChildren,
}

/// Whether watches are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leave {
    Watches,
    Nothing,
}

/// What was read of a node.
struct Read {
    node: NodeData,
    children: Vec<String>,
    watchers: Vec<OneshotWatcher>,
}

type ReadResult = Result<Option<Read>, Error>;

impl Follower {
    pub(super) fn new(
        client: &Client,
        root: &str,
        followed: Followed,
        shared: Arc<Shared>,
        synced: watch::Sender<bool>,
    ) -> Follower {
        let Followed { reach, watching, compression } = followed;
        Follower {
            client: client.clone(),
            root: root.to_owned(),
            reach,
            watching,
            compression,
            shared,
            synced,
        }
    }

    pub(super) async fn run(&self) -> Result<Infallible, RecipeError> {
        loop {
            let mut news = self.open().await?;
            self.read_from(&mut news, vec![self.root.clone()], Descent::All).await?;
            self.complete();
            self.follow(&mut news).await?;
        }
    }

    /// Until the watches are lost.
    async fn follow(&self, news: &mut News) -> Result<(), RecipeError> {
        let mut states = self.client.states();
        let mut epoch = self.client.session().epoch;
        loop {
            let dirty = tokio::select! {
                dirty = next(news) => dirty,
                changed = states.changed() => {
                    if changed.is_err() {
                        self.client.ready().await?;
                    }
                    let status = states.borrow_and_update().clone();
                    if !status.state.is_connected() {
                        self.stale();
                        continue;
                    }
                    // One-shot watches survive a reconnect and report what was missed, but not a new session.
                    let renewed = std::mem::replace(&mut epoch, status.session.epoch) != status.session.epoch;
                    match news {
                        News::PerNode(_) if renewed => return Ok(()),
                        News::PerNode(_) => Dirty::All,
                        News::Persistent(_) => continue,
                    }
                }
            };
            match dirty {
                Dirty::Nothing => {}
                Dirty::Gone(path) if self.is_inside(&path) => self.forget(&path),
                Dirty::Node(path) if self.is_inside(&path) => {
                    self.read_from(news, vec![path], Descent::New).await?
                }
                Dirty::Gone(_) | Dirty::Node(_) => {}
                Dirty::All => {
                    self.stale();
                    if skip(news).await == Skipped::ToTheEnd {
                        return Ok(());
                    }
                    self.read_from(news, vec![self.root.clone()], Descent::All).await?;
                    self.complete();
                }
                Dirty::Lost => {
                    self.stale();
                    return Ok(());
                }
            }
        }
    }

    fn stale(&self) {
        if self.synced.send_replace(false) {
            self.shared.tell(Change::Stale);
        }
    }

    /// Everything was read. What a read-only server shows may be old: the next connection tells.
    fn complete(&self) {
        if self.client.state() == SessionState::ReadOnly {
            return;
        }
        // In this order: who has waited for it and listens from then on does not hear of it again.
        if !*self.synced.borrow() {
            self.shared.tell(Change::Synced);
            self.synced.send_replace(true);
        }
    }

    async fn open(&self) -> Result<News, RecipeError> {
        if self.watching == CacheWatching::PerNode {
            return Ok(News::PerNode(Watches::default()));
        }
        let mode = if self.reach == Reach::Node { WatchMode::Node } else { WatchMode::Tree };
        match persist(&self.client, || self.client.watch(&self.root, mode).retry(Retry::Never)).await {
            Ok(stream) => Ok(News::Persistent(stream)),
            Err(error) if error.code() == Some(ErrorCode::Unimplemented) => {
                tracing::info!(root = %self.root, "the server has no persistent watches; one per node is used");
                Ok(News::PerNode(Watches::default()))
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

    fn is_inside(&self, path: &str) -> bool {
        match (self.depth(path), self.reach) {
            (Some(0), _) | (Some(1), Reach::Children) | (Some(_), Reach::Tree) => true,
            (Some(_) | None, _) => false,
        }
    }

    fn wanted(&self, path: &str) -> Wanted {
        match self.reach {
            Reach::Children if self.depth(path) == Some(0) => Wanted::DataAndChildren,
            Reach::Node | Reach::Children => Wanted::Data,
            Reach::Tree => Wanted::DataAndChildren,
        }
    }

    /// Reads these nodes and all below them, and forgets what is not there.
    async fn read_from(
        &self,
        news: &mut News,
        mut todo: Vec<String>,
        descent: Descent,
    ) -> Result<(), RecipeError> {
        while !todo.is_empty() {
            let rest = todo.split_off(todo.len().min(BATCH));
            let mut found = self.read_batch(news, &todo, descent).await?;
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

    /// Reads nodes together; the children that have to be read next.
    async fn read_batch(
        &self,
        news: &mut News,
        paths: &[String],
        descent: Descent,
    ) -> Result<Vec<String>, RecipeError> {
        let leave = match news {
            News::Persistent(_) => Leave::Nothing,
            News::PerNode(_) => Leave::Watches,
        };
        let mut reads: JoinSet<(usize, ReadResult)> = JoinSet::new();
        for (index, path) in paths.iter().enumerate() {
            let (client, path, wanted) = (self.client.clone(), path.clone(), self.wanted(path));
            let compression = self.compression;
            reads.spawn(async move { (index, read(&client, &path, wanted, leave, compression).await) });
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
                    self.shared.forget_left_out(|left_out| left_out == path);
                    watch_all(news, path, std::mem::take(&mut found.watchers));
                    next.append(&mut self.take(path, found, descent));
                }
                Ok(None) => {
                    self.forget(path);
                    if *path == self.root {
                        self.watch_for_root(news).await?;
                    }
                }
                Err(error) if *path != self.root && is_unreadable(&error) => {
                    self.leave_out(path, &error);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(next)
    }

    /// Forgets a node that is gone, and all below it.
    fn forget(&self, path: &str) {
        self.shared.change(|nodes| remove(nodes, path));
        self.shared.forget_left_out(|left_out| left_out == path || child_towards(path, left_out).is_some());
    }

    /// Leaves out a node that is there and cannot be read, with all below it.
    fn leave_out(&self, path: &str, error: &Error) {
        self.shared.change(|nodes| remove(nodes, path));
        self.shared.forget_left_out(|left_out| child_towards(path, left_out).is_some());
        if self.shared.leave_out(path) {
            tracing::warn!(%path, root = %self.root, %error, "left a node out of a cache; it cannot be read");
        }
    }

    /// Puts a node that was read into the cache; its children, as far as they have to be read.
    fn take(&self, path: &str, found: Read, descent: Descent) -> Vec<String> {
        let Read { node: NodeData { data, stat, .. }, children, .. } = found;
        let node = CachedNode { path: path.to_owned(), data, stat };
        let mut children: BTreeSet<String> = children.iter().map(|name| path::join(path, name)).collect();
        self.shared.change(|nodes| {
            let mut changes = put(nodes, node);
            if self.wanted(path) == Wanted::DataAndChildren {
                let stale = |child: &&String| path::parent(child) == Some(path) && !children.contains(*child);
                let gone: Vec<String> =
                    below(nodes, path).map(|(child, _)| child).filter(stale).cloned().collect();
                gone.iter().for_each(|child| changes.append(&mut remove(nodes, child)));
                self.shared.forget_left_out(|left_out| {
                    child_towards(path, left_out).is_some_and(|child| !children.contains(child))
                });
            }
            if descent == Descent::New {
                children.retain(|child| !nodes.contains_key(child));
            }
            changes
        });
        children.into_iter().collect()
    }

    /// A watch per node cannot see a root that is not there.
    async fn watch_for_root(&self, news: &mut News) -> Result<(), RecipeError> {
        let News::PerNode(watches) = news else { return Ok(()) };
        let ask = || self.client.exists(&self.root).retry(Retry::Never).watched();
        let (stat, changed) = persist(&self.client, ask).await?;
        watches.set(&self.root, async move {
            if stat.is_none() {
                changed.await;
            }
        });
        Ok(())
    }
}

/// Whether an error concerns this node alone: no permission to read it, or data that cannot be unpacked.
fn is_unreadable(error: &Error) -> bool {
    error.code() == Some(ErrorCode::NoAuth) || matches!(error.kind(), ErrorKind::BadCompression(_))
}

/// The child of a node on the way to one below it; none if the other one is not below it.
fn child_towards<'a>(node: &str, below: &'a str) -> Option<&'a str> {
    let from = if node == "/" { 0 } else { below.strip_prefix(node).map(|_| node.len())? };
    let rest = below[from..].strip_prefix('/').filter(|rest| !rest.is_empty())?;
    Some(&below[..from + 1 + rest.find('/').unwrap_or(rest.len())])
}

/// What an event means for the cache.
enum Dirty {
    Nothing,
    Node(String),
    Gone(String),
    All,
    Lost,
}

/// What was passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skipped {
    /// What had come so far.
    SoFar,
    /// Nothing more will come.
    ToTheEnd,
}

/// Passes over all that has come so far: whoever reads everything need not do so once for each of them. After a
/// time in which connections were lost faster than all could be read, that would have no end.
async fn skip(news: &mut News) -> Skipped {
    loop {
        tokio::select! {
            biased;
            dirty = next(news) => if matches!(dirty, Dirty::Lost) { return Skipped::ToTheEnd },
            () = std::future::ready(()) => return Skipped::SoFar,
        }
    }
}

async fn next(news: &mut News) -> Dirty {
    match news {
        News::Persistent(stream) => match stream.next().await {
            Some(event) => judge(event),
            None => Dirty::Lost,
        },
        News::PerNode(watches) => watches.next().await,
    }
}

fn judge(event: WatchEvent) -> Dirty {
    match event.kind {
        EventKind::NodeCreated | EventKind::NodeDataChanged => Dirty::Node(event.path.to_string()),
        EventKind::NodeDeleted => Dirty::Gone(event.path.to_string()),
        // The child's own event says it, or it is of no interest.
        EventKind::NodeChildrenChanged => Dirty::Nothing,
        EventKind::Resynced => Dirty::All,
        EventKind::WatchLost => Dirty::Lost,
    }
}

fn watch_all(news: &mut News, path: &str, watchers: Vec<OneshotWatcher>) {
    let News::PerNode(watches) = news else { return };
    let mut watchers = watchers.into_iter();
    let Some(data) = watchers.next() else { return };
    // One read sets all watches of a node again: the first that fires ends the other.
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

/// Reads a node and, if wanted, its children; `None` if it is not there.
async fn read(
    client: &Client,
    path: &str,
    wanted: Wanted,
    leave: Leave,
    compression: Option<Compression>,
) -> ReadResult {
    let result = persist(client, || async {
        let mut watchers = Vec::new();
        let mut get = client.get(path).retry(Retry::Never);
        if let Some(compression) = compression {
            get = get.compression(compression);
        }
        let node = match leave {
            Leave::Nothing => get.await?,
            Leave::Watches => {
                let (node, watcher) = get.watched().await?;
                watchers.push(watcher);
                node
            }
        };
        let children = match (wanted, leave) {
            (Wanted::Data, _) => Vec::new(),
            (Wanted::DataAndChildren, Leave::Nothing) => {
                client.children(path).retry(Retry::Never).await?.names
            }
            (Wanted::DataAndChildren, Leave::Watches) => {
                let (list, watcher) = client.children(path).retry(Retry::Never).watched().await?;
                watchers.push(watcher);
                list.names
            }
        };
        Ok(Read { node, children, watchers })
    });
    present(result.await)
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
