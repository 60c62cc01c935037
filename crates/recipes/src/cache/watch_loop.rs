//! The update loop of a cache: a change feed if the server has one for this client, and otherwise watches,
//! where every event triggers a read.

use std::convert::Infallible;
use std::sync::Arc;

use tokio::sync::watch;
use zebu_client::{Client, Compression, ErrorCode, Retry, WatchMode};

use super::area::CacheArea;
use super::copy::{CacheCopy, ChildReads};
use super::feed_loop::FeedLoop;
use super::handle::{CacheScope, CacheState, CacheWatchMode};
use super::watch_source::{Invalidation, NodeWatches, WatchSource, next, skip_pending};
use crate::error::RecipeError;
use crate::retry::retry_until_answered;

/// The settings of a watch loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct WatchLoopConfig {
    pub(super) scope: CacheScope,
    pub(super) watch_mode: CacheWatchMode,
    /// The compression of reads; the client's own by default.
    pub(super) compression: Option<Compression>,
}

pub(super) struct WatchLoop {
    copy: CacheCopy,
    watch_mode: CacheWatchMode,
    /// Whether a feed is tried on each connection. For one node a watch is cheaper.
    has_feed: bool,
}

impl WatchLoop {
    pub(super) fn new(
        client: &Client,
        root: &str,
        config: WatchLoopConfig,
        shared: Arc<CacheState>,
        synced: watch::Sender<bool>,
    ) -> WatchLoop {
        let WatchLoopConfig { scope, watch_mode, compression } = config;
        let copy = CacheCopy {
            client: client.clone(),
            area: CacheArea { root: root.to_owned(), scope },
            compression: compression.unwrap_or(client.compression()),
            shared,
            synced,
        };
        let has_feed = watch_mode == CacheWatchMode::Feed && scope != CacheScope::Node;
        WatchLoop { copy, watch_mode, has_feed }
    }

    pub(super) async fn run(&self) -> Result<Infallible, RecipeError> {
        loop {
            if self.has_feed {
                FeedLoop::new(&self.copy).run().await?;
            }
            let mut source = self.open().await?;
            self.copy.read_from(&mut source, vec![self.copy.area.root.clone()], ChildReads::All).await?;
            self.copy.mark_synced();
            self.handle_events(&mut source).await?;
        }
    }

    /// Handles events until the watches are lost.
    async fn handle_events(&self, source: &mut WatchSource) -> Result<(), RecipeError> {
        let mut states = self.copy.client.states();
        let mut epoch = self.copy.client.session().epoch;
        loop {
            let invalidation = tokio::select! {
                invalidation = next(source) => invalidation,
                changed = states.changed() => {
                    if changed.is_err() {
                        self.copy.client.ready().await?;
                    }
                    let status = states.borrow_and_update().clone();
                    if !status.state.is_connected() {
                        self.copy.mark_stale();
                        continue;
                    }
                    // One-shot watches survive a reconnect and report missed changes, but they do not survive
                    // a new session.
                    let renewed = std::mem::replace(&mut epoch, status.session.epoch) != status.session.epoch;
                    match source {
                        WatchSource::PerNode(_) if renewed => return Ok(()),
                        WatchSource::PerNode(_) => Invalidation::All,
                        WatchSource::Persistent(_) | WatchSource::None => continue,
                    }
                }
            };
            match invalidation {
                Invalidation::None => {}
                Invalidation::Deleted(path) if self.copy.area.contains(&path) => self.copy.remove(&path),
                Invalidation::Node(path) if self.copy.area.contains(&path) => {
                    self.copy.read_from(source, vec![path], ChildReads::New).await?
                }
                Invalidation::Deleted(_) | Invalidation::Node(_) => {}
                Invalidation::All => {
                    self.copy.mark_stale();
                    // The server of the new connection may have feeds.
                    if self.has_feed {
                        return Ok(());
                    }
                    if !skip_pending(source).await {
                        return Ok(());
                    }
                    self.copy.read_from(source, vec![self.copy.area.root.clone()], ChildReads::All).await?;
                    self.copy.mark_synced();
                }
                Invalidation::WatchLost => {
                    self.copy.mark_stale();
                    return Ok(());
                }
            }
        }
    }

    async fn open(&self) -> Result<WatchSource, RecipeError> {
        if self.watch_mode == CacheWatchMode::PerNode {
            return Ok(WatchSource::PerNode(NodeWatches::default()));
        }
        let mode = if self.copy.area.scope == CacheScope::Node { WatchMode::Node } else { WatchMode::Tree };
        match retry_until_answered(&self.copy.client, || {
            self.copy.client.watch(&self.copy.area.root, mode).retry(Retry::Never)
        })
        .await
        {
            Ok(stream) => Ok(WatchSource::Persistent(stream)),
            Err(error) if error.code() == Some(ErrorCode::Unimplemented) => {
                tracing::info!(root = %self.copy.area.root, "no persistent watches; using one watch per node");
                Ok(WatchSource::PerNode(NodeWatches::default()))
            }
            Err(error) => Err(error.into()),
        }
    }
}
