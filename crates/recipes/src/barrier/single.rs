//! The barrier that exists with its node.

use std::time::Duration;

use zebu_client::{Client, Compression, ErrorCode, Parents, Retry};

use crate::error::RecipeError;
use crate::retry::{retry_until_answered, with_deadline};
use crate::wait_queue::WaitLimit;

/// A barrier that blocks all waiters until it is removed; compatible with Curator's `DistributedBarrier` and
/// Kazoo's `Barrier`.
///
/// ```text
/// /maintenance                                   persistent: all clients wait while it exists
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use std::time::Duration;
/// use zebu_recipes::Barrier;
///
/// let barrier = Barrier::new(&client, "/maintenance");
/// barrier.set().await?;
/// assert!(!barrier.wait_within(Duration::from_millis(10)).await?);
/// barrier.remove().await?;
/// barrier.wait().await?;
/// # Ok(()) });
/// ```
///
/// Removing the barrier wakes all waiters at once. A lost connection or session does not end a wait. The node
/// is persistent: it survives a crash of its creator, and any client can remove it.
#[derive(Clone, Debug)]
pub struct Barrier {
    client: Client,
    path: String,
}

impl Barrier {
    /// A barrier at this path. Nothing is sent yet.
    pub fn new(client: &Client, path: &str) -> Barrier {
        Barrier { client: client.clone(), path: path.to_owned() }
    }

    /// Sets the barrier. An existing barrier is no error.
    pub async fn set(&self) -> Result<(), RecipeError> {
        let client = &self.client;
        let create = || client.create(&self.path).parents(Parents::Containers).compression(Compression::None);
        match retry_until_answered(client, || create().retry(Retry::Never)).await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the barrier. A missing barrier is no error.
    pub async fn remove(&self) -> Result<(), RecipeError> {
        let delete = || self.client.delete(&self.path).quiet().retry(Retry::Never);
        Ok(retry_until_answered(&self.client, delete).await?)
    }

    /// Whether the barrier is set.
    pub async fn is_set(&self) -> Result<bool, RecipeError> {
        Ok(retry_until_answered(&self.client, || self.client.exists(&self.path).retry(Retry::Never))
            .await?
            .is_some())
    }

    /// Waits until the barrier is removed.
    pub async fn wait(&self) -> Result<(), RecipeError> {
        loop {
            let ask = || self.client.exists(&self.path).retry(Retry::Never).watched();
            let (stat, changed) = retry_until_answered(&self.client, ask).await?;
            if stat.is_none() {
                return Ok(());
            }
            // Any event triggers another check.
            changed.await;
        }
    }

    /// Waits until the barrier is removed, up to the timeout; `false` if it is still set then.
    pub async fn wait_within(&self, timeout: Duration) -> Result<bool, RecipeError> {
        match with_deadline(WaitLimit::within(timeout).deadline(), self.wait()).await {
            Some(result) => result.map(|()| true),
            None => Ok(false),
        }
    }
}
