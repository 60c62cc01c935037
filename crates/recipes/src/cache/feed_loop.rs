//! The feed loop of a cache: a scan reads the nodes, and a change feed that was opened before keeps them up
//! to date over lost connections. A feed tells no permissions, so created nodes are read.

use std::future::ready;

use tokio::task::JoinSet;
use zebu_client::{Compression, Error, Feed, FeedItem, FeedTransaction, Retry};

use super::copy::CacheCopy;
use super::feed_changes::{FeedPlan, FeedReads, PlannedAction, PlannedChange, delete, set_data};
use super::feed_scan::scan_subtree;
use super::handle::CacheScope;
use super::reads::{BATCH, is_unreadable};
use super::store::{CachedNode, put};
use crate::error::RecipeError;
use crate::retry::{none_if_missing, retry_until_answered};

/// Transactions that are applied together: what waits of a feed, up to this number.
const TXNS_MAX: usize = 1024;

/// Why a feed no longer updates a cache.
enum FeedEnding {
    /// The server has no feed for this client.
    Unavailable,
    /// The log no longer has all transactions.
    Purged,
}

pub(super) struct FeedLoop<'a> {
    copy: &'a CacheCopy,
}

impl FeedLoop<'_> {
    pub(super) fn new(copy: &CacheCopy) -> FeedLoop<'_> {
        FeedLoop { copy }
    }

    /// Keeps the copy up to date until the server has no feed for this client.
    pub(super) async fn run(&self) -> Result<(), RecipeError> {
        loop {
            let ending = self.follow().await?;
            self.copy.mark_stale();
            if let FeedEnding::Unavailable = ending {
                return Ok(());
            }
        }
    }

    fn open(&self) -> Feed {
        let feed = self.copy.client.feed(&self.copy.area.root);
        let feed = feed.with_openings().with_acl_changes().compression(Compression::None);
        match self.copy.area.scope {
            CacheScope::Tree => feed.with_data(),
            // The data of nodes below the children is of no use.
            CacheScope::Node | CacheScope::Children => feed,
        }
    }

    /// Reads everything once, and then what the feed shows.
    async fn follow(&self) -> Result<FeedEnding, RecipeError> {
        let mut states = self.copy.client.states();
        let mut feed = self.open();
        let opened = feed.next().await;
        let Some(FeedItem::Opened { after, .. }) = self.item_of(opened) else {
            return Ok(FeedEnding::Unavailable);
        };
        if !scan_subtree(self.copy, &self.copy.area.root, after).await? {
            return Ok(FeedEnding::Unavailable);
        }
        self.copy.mark_synced();
        // The transaction up to which a feed that was opened again must come.
        let mut target = None;
        loop {
            let item = tokio::select! {
                item = feed.next() => item,
                changed = states.changed() => {
                    if changed.is_err() {
                        self.copy.client.ready().await?;
                    }
                    if !states.borrow_and_update().state.is_connected() {
                        self.copy.mark_stale();
                    }
                    continue;
                }
            };
            let mut txns = Vec::new();
            let last = pending_changes(item, &mut feed, &mut txns).await;
            if !self.apply(txns).await? {
                return Ok(FeedEnding::Unavailable);
            }
            match last.map(|item| self.item_of(item)) {
                None | Some(Some(FeedItem::Change(_) | FeedItem::Progress(_))) => {}
                Some(Some(FeedItem::Opened { last, .. })) => {
                    self.copy.mark_stale();
                    target = Some(last);
                }
                Some(Some(FeedItem::Purged { .. })) => return Ok(FeedEnding::Purged),
                Some(None) => return Ok(FeedEnding::Unavailable),
            }
            if target.is_some_and(|target| feed.position() >= Some(target)) {
                target = None;
                // Items of a lost connection say nothing of the next one, which begins with `Opened`.
                if self.copy.client.state().is_connected() {
                    self.copy.mark_synced();
                }
            }
        }
    }

    /// The item; `None` if the server has no feed for this client.
    fn item_of(&self, item: Option<Result<FeedItem, Error>>) -> Option<FeedItem> {
        match item? {
            Ok(item) => Some(item),
            Err(error) => {
                tracing::info!(root = %self.copy.area.root, %error, "no change feed; using watches");
                None
            }
        }
    }

    /// Applies transactions. Returns `false` if the server can no longer answer the reads.
    async fn apply(&self, txns: Vec<FeedTransaction>) -> Result<bool, RecipeError> {
        let Some(last) = txns.last().map(|txn| txn.zxid) else { return Ok(true) };
        let (area, shared) = (&self.copy.area, &self.copy.shared);
        let plan = FeedPlan::new(txns, area, shared, self.copy.compression);
        let Some(reads) = self.read_nodes(plan.reads, last).await? else { return Ok(false) };
        let mut appeared = Vec::new();
        for txn in plan.txns {
            // Other tasks see a transaction as a whole.
            shared.change(|nodes| {
                let mut changes = Vec::new();
                for PlannedChange { path, action } in txn.changes {
                    // Something above may have become unreadable within these transactions.
                    if shared.is_below_unreadable(&path) {
                        continue;
                    }
                    let is_new = match action {
                        PlannedAction::Set(data) => {
                            changes.extend(set_data(nodes, &path, (txn.zxid, txn.time_ms), data));
                            continue;
                        }
                        PlannedAction::Delete => {
                            changes.append(&mut delete(nodes, &path, txn.zxid));
                            self.copy.forget_unreadable(&path);
                            continue;
                        }
                        PlannedAction::Create => true,
                        PlannedAction::Read => nodes.contains_key(&path),
                    };
                    match reads.get(&path) {
                        Some(Ok(Some(node))) if is_new => {
                            shared.unmark_unreadable(|unreadable| unreadable == path);
                            changes.append(&mut put(nodes, node.clone()));
                        }
                        // There may be nodes below it that the copy does not have.
                        Some(Ok(Some(_))) => appeared.push(path),
                        Some(Err(error)) => changes.append(&mut self.copy.leave_out(nodes, &path, error)),
                        // It was deleted meanwhile, which the feed shows later.
                        Some(Ok(None)) | None => {}
                    }
                }
                changes
            });
        }
        self.copy.check_size(0)?;
        for path in appeared {
            if !scan_subtree(self.copy, &path, last).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads nodes, many at a time. Fails if the root cannot be read. Returns `None` if the server can no
    /// longer answer.
    async fn read_nodes(
        &self,
        paths: impl IntoIterator<Item = String>,
        at_least: i64,
    ) -> Result<Option<FeedReads>, RecipeError> {
        let mut results = FeedReads::new();
        let mut paths = paths.into_iter().peekable();
        let mut reads = JoinSet::new();
        while paths.peek().is_some() || !reads.is_empty() {
            for path in paths.by_ref().take(BATCH - reads.len()) {
                let (client, compression) = (self.copy.client.clone(), self.copy.compression);
                reads.spawn(async move {
                    let read =
                        || client.get(&path).compression(compression).at_least(at_least).retry(Retry::Never);
                    let result = none_if_missing(retry_until_answered(&client, read).await);
                    (path, result)
                });
            }
            let Some(done) = reads.join_next().await else { break };
            let (path, result) =
                done.map_err(|error| RecipeError::Invalid(format!("a read ended: {error}")))?;
            let result = match result {
                Ok(node) => {
                    Ok(node.map(|node| CachedNode { path: path.clone(), data: node.data, stat: node.stat }))
                }
                Err(error) if error.is_unsupported_freshness() => return Ok(None),
                Err(error) if path != self.copy.area.root && is_unreadable(&error) => Err(error),
                Err(error) => return Err(error.into()),
            };
            results.insert(path, result);
        }
        Ok(Some(results))
    }
}

/// Takes the changes that the feed has ready, beginning with `item`. Returns what follows them and is no
/// change.
async fn pending_changes(
    mut item: Option<Result<FeedItem, Error>>,
    feed: &mut Feed,
    txns: &mut Vec<FeedTransaction>,
) -> Option<Option<Result<FeedItem, Error>>> {
    loop {
        match item {
            Some(Ok(FeedItem::Change(txn))) => txns.push(txn),
            other => return Some(other),
        }
        if txns.len() >= TXNS_MAX {
            return None;
        }
        item = tokio::select! {
            biased;
            item = feed.next() => item,
            () = ready(()) => return None,
        };
    }
}
