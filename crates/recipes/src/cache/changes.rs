//! What happens to a cache, as a stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::store::CachedNode;

/// Changes that wait for one reader; one that falls behind is told.
pub(super) const WAITING_MAX: usize = 4096;

/// Something that happened to a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A node has come.
    Created(Arc<CachedNode>),
    /// A node's data was set.
    Updated {
        /// What it was.
        old: Arc<CachedNode>,
        /// What it is.
        new: Arc<CachedNode>,
    },
    /// A node has gone. One that was deleted and made again is told as both.
    Deleted(Arc<CachedNode>),
    /// The connection is lost: the cache is as it was, and may be old.
    Stale,
    /// The cache is complete, up to the moment when it was last asked for. After the start, and after every
    /// [`Stale`](Change::Stale) when all that was missed has been told.
    Synced,
    /// This reader was too slow and has missed so many changes: look at the whole cache.
    Missed(u64),
}

/// The changes of a cache from the moment when it was asked for; see [`Cache::changes`](super::Cache::changes).
pub struct Changes {
    next: Pin<Box<dyn Future<Output = Received> + Send>>,
}

/// A change, and the way to the next one.
type Received = (Option<Change>, broadcast::Receiver<Change>);

async fn receive(mut receiver: broadcast::Receiver<Change>) -> Received {
    let change = match receiver.recv().await {
        Ok(change) => Some(change),
        Err(RecvError::Lagged(count)) => Some(Change::Missed(count)),
        Err(RecvError::Closed) => None,
    };
    (change, receiver)
}

impl Changes {
    pub(super) fn new(receiver: broadcast::Receiver<Change>) -> Changes {
        Changes { next: Box::pin(receive(receiver)) }
    }

    /// The next change; `None` when nothing will follow. Dropping the future loses no change.
    pub async fn next(&mut self) -> Option<Change> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for Changes {
    type Item = Change;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Change>> {
        self.next.as_mut().poll(context).map(|(change, receiver)| {
            self.next = Box::pin(receive(receiver));
            change
        })
    }
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes").finish_non_exhaustive()
    }
}
