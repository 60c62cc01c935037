//! The changes of a cache, as a stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::store::CachedNode;

/// The limit of pending changes per reader.
pub(super) const WAITING_MAX: usize = 4096;

/// A change of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheChange {
    /// A node was created.
    Created(Arc<CachedNode>),
    /// A node's data was set.
    Updated {
        /// The former state.
        old: Arc<CachedNode>,
        /// The new state.
        new: Arc<CachedNode>,
    },
    /// A node was deleted. A node that was deleted and created again yields both changes.
    Deleted(Arc<CachedNode>),
    /// The connection is lost: the cache is unchanged and may be outdated.
    Stale,
    /// The cache is complete: after the start, and after every [`Stale`](CacheChange::Stale) when all missed
    /// changes are published.
    Synced,
    /// This reader was too slow and has missed this many changes: read the whole cache.
    Missed(u64),
}

/// The changes of a cache after a moment; see [`Cache::changes`](super::Cache::changes).
pub struct CacheChanges {
    next: Pin<Box<dyn Future<Output = Received> + Send>>,
}

/// A change and the receiver of the next one.
type Received = (Option<CacheChange>, broadcast::Receiver<CacheChange>);

async fn receive(mut receiver: broadcast::Receiver<CacheChange>) -> Received {
    let change = match receiver.recv().await {
        Ok(change) => Some(change),
        Err(RecvError::Lagged(count)) => Some(CacheChange::Missed(count)),
        Err(RecvError::Closed) => None,
    };
    (change, receiver)
}

impl CacheChanges {
    pub(super) fn new(receiver: broadcast::Receiver<CacheChange>) -> CacheChanges {
        CacheChanges { next: Box::pin(receive(receiver)) }
    }

    /// The next change; `None` at the end. Dropping the future loses no change.
    pub async fn next(&mut self) -> Option<CacheChange> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for CacheChanges {
    type Item = CacheChange;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<CacheChange>> {
        self.next.as_mut().poll(context).map(|(change, receiver)| {
            self.next = Box::pin(receive(receiver));
            change
        })
    }
}

impl std::fmt::Debug for CacheChanges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacheChanges").finish_non_exhaustive()
    }
}
