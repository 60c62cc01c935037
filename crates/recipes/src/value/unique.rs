//! Numbers that are handed out once, in blocks, so that most of them cost no request.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::Mutex as TokioMutex;
use zebu_client::Client;

use super::atomic::AtomicLong;
use crate::error::RecipeError;

/// Numbers that nobody else gets; shared with Curator's `CachedAtomicLong`.
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
/// Numbers rise within one handle. What is left of a block is lost with its handle: there are gaps. A lost
/// connection or session is that of an [`AtomicLong`]; numbers may be lost, and are never handed out twice.
#[derive(Clone, Debug)]
pub struct UniqueIds {
    counter: AtomicLong,
    block: i64,
    rest: Arc<TokioMutex<Range<i64>>>,
}

impl UniqueIds {
    /// Numbers from the counter at this path, `block` of them at a time, at least one.
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
                // The block may have been taken; nobody will use it.
                Err(RecipeError::Unknown { .. }) => 0..0,
                Err(error) => return Err(error),
            };
        }
    }
}
