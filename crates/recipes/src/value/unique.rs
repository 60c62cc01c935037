//! Unique numbers, allocated in blocks, so that most of them need no request.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::Mutex as TokioMutex;
use zebu_client::Client;

use super::atomic::AtomicLong;
use crate::error::RecipeError;

/// Unique numbers; compatible with Curator's `CachedAtomicLong`.
///
/// ```text
/// /ids                                           persistent: the first number that no block contains
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::UniqueIds;
///
/// let ids = UniqueIds::new(&client, "/ids", 100);
/// assert!(ids.next().await? < ids.next().await?); // one request for a hundred of them
/// # Ok(()) });
/// ```
///
/// Numbers rise within one handle. The rest of a block is lost with its handle, which leaves gaps.
/// [`AtomicLong`] describes a lost connection or session; numbers may be lost, but are never returned twice.
#[derive(Clone, Debug)]
pub struct UniqueIds {
    counter: AtomicLong,
    block: i64,
    rest: Arc<TokioMutex<Range<i64>>>,
}

impl UniqueIds {
    /// Numbers from the counter at this path, in blocks of this size, at least one.
    pub fn new(client: &Client, path: &str, block: u32) -> UniqueIds {
        let block = i64::from(block.max(1));
        UniqueIds { counter: AtomicLong::new(client, path), block, rest: Arc::new(TokioMutex::new(0..0)) }
    }

    /// See [`AtomicValue::writers_at`](super::AtomicValue::writers_at).
    pub fn writers_at(mut self, directory: &str) -> UniqueIds {
        self.counter = self.counter.writers_at(directory);
        self
    }

    /// The next number.
    pub async fn next(&self) -> Result<i64, RecipeError> {
        let mut rest = self.rest.lock().await;
        loop {
            if let Some(number) = rest.next() {
                return Ok(number);
            }
            *rest = match self.counter.add(self.block).await {
                Ok(block) => block.before..block.after,
                // The block may have been allocated; it stays unused.
                Err(RecipeError::Unknown { .. }) => 0..0,
                Err(error) => return Err(error),
            };
        }
    }
}
