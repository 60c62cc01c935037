//! Reads of a cache, node by node and many at a time.

use tokio::task::JoinSet;
use zebu_client::{Client, Compression, Error, ErrorCode, ErrorKind, NodeData, OneshotWatcher, Retry};

use super::copy::{CacheCopy, ChildReads};
use super::store::CachedNode;
use super::watch_source::{WatchSource, watch_all};
use crate::error::RecipeError;
use crate::retry::{none_if_missing, retry_until_answered};

/// The limit of concurrent reads.
pub(super) const BATCH: usize = 128;

/// Names on a page of children.
const PAGE_NAMES: usize = 10_000;

/// How a read gets children, and whether it registers watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadMode {
    Watched,
    Plain,
    /// In pages, so that a list of any length comes through.
    Paged,
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
    compression: Compression,
}

type NodeReadResult = Result<Option<NodeRead>, Error>;

impl CacheCopy {
    /// Reads these nodes and their descendants, and removes missing ones.
    pub(super) async fn read_from(
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
            self.check_size(todo.len())?;
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
            WatchSource::None => ReadMode::Paged,
        };
        let mut reads: JoinSet<(usize, NodeReadResult)> = JoinSet::new();
        for (index, path) in paths.iter().enumerate() {
            let (client, path) = (self.client.clone(), path.clone());
            let needs_children = self.area.has_children_of(&path);
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
                    let NodeData { data, stat, .. } = found.node;
                    let node = CachedNode { path: path.clone(), data, stat };
                    next.append(&mut self.store_node(node, &found.children, child_reads));
                }
                Ok(None) => {
                    self.remove(path);
                    if *path == self.area.root {
                        self.watch_missing_root(source).await?;
                    }
                }
                Err(error) if *path != self.area.root && is_unreadable(&error) => {
                    self.mark_unreadable(path, &error);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(next)
    }

    /// Watches for the creation of the root, which a watch per node cannot report.
    async fn watch_missing_root(&self, source: &mut WatchSource) -> Result<(), RecipeError> {
        let WatchSource::PerNode(watches) = source else { return Ok(()) };
        let ask = || self.client.exists(&self.area.root).retry(Retry::Never).watched();
        let (stat, changed) = retry_until_answered(&self.client, ask).await?;
        watches.set(&self.area.root, async move {
            if stat.is_none() {
                changed.await;
            }
        });
        Ok(())
    }
}

/// Whether an error concerns this node alone: no permission to read it, or damaged data.
pub(super) fn is_unreadable(error: &Error) -> bool {
    error.code() == Some(ErrorCode::NoAuth) || matches!(error.kind(), ErrorKind::BadCompression(_))
}

/// Reads a node and, if needed, the names of its children; `None` if the node is missing.
async fn read(client: &Client, path: &str, options: ReadOptions) -> NodeReadResult {
    let result = retry_until_answered(client, || async {
        let mut watchers = Vec::new();
        let get = client.get(path).compression(options.compression).retry(Retry::Never);
        let node = match options.mode {
            ReadMode::Plain | ReadMode::Paged => get.await?,
            ReadMode::Watched => {
                let (node, watcher) = get.watched().await?;
                watchers.push(watcher);
                node
            }
        };
        let children = match options.mode {
            _ if !options.needs_children => Vec::new(),
            ReadMode::Plain => client.children(path).retry(Retry::Never).await?.names,
            ReadMode::Paged => names_in_pages(client, path).await?,
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

async fn names_in_pages(client: &Client, path: &str) -> Result<Vec<String>, Error> {
    let mut pages = client.children(path).retry(Retry::Never).pages(PAGE_NAMES);
    let mut names = Vec::new();
    while let Some(page) = pages.next().await {
        names.extend(page?.children.into_iter().map(|child| child.name));
    }
    Ok(names)
}
