//! A mutex that is a semaphore of one permit: never re-entrant, not bound to whoever took it.

use std::time::Duration;

use bytes::Bytes;
use zebu_client::Client;

use super::semaphore::{Permit, Semaphore};
use crate::error::RecipeError;
use crate::hold::{Fenced, Held, Holding, Terms};

/// A lock that even its holder cannot take again; shared with Curator's `InterProcessSemaphoreMutex`.
///
/// ```text
/// /locks/import
///   locks                                        the line
///   leases
///     _c_53345f98-…-lease-0000000000             ephemeral: the holder
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::SemaphoreMutex;
///
/// let mutex = SemaphoreMutex::new(&client, "/locks/import");
/// let guard = mutex.acquire().await?;
/// assert!(mutex.try_acquire().await?.is_none());
/// guard.release().await?;
/// # Ok(()) });
/// ```
///
/// A lost connection, a lost session and a crash do what they do to a [`Semaphore`]. Prefer a
/// [`Mutex`](super::Mutex), which needs half of the requests, unless you share it with Curator.
#[derive(Clone, Debug)]
pub struct SemaphoreMutex {
    semaphore: Semaphore,
}

impl SemaphoreMutex {
    /// A lock in this directory, which is made when needed. Nothing is sent yet.
    pub fn new(client: &Client, path: &str) -> SemaphoreMutex {
        SemaphoreMutex { semaphore: Semaphore::new(client, path, 1) }
    }

    /// What others see of us in the lease.
    pub fn identity(mut self, identity: impl Into<Bytes>) -> SemaphoreMutex {
        self.semaphore = self.semaphore.identity(identity);
        self
    }

    /// When a loss is told.
    pub fn terms(mut self, terms: Terms) -> SemaphoreMutex {
        self.semaphore = self.semaphore.terms(terms);
        self
    }

    /// Waits for the lock.
    pub async fn acquire(&self) -> Result<SemaphoreMutexGuard, RecipeError> {
        Ok(SemaphoreMutexGuard { permit: self.semaphore.acquire().await? })
    }

    /// Takes the lock if it is free and nobody waits.
    pub async fn try_acquire(&self) -> Result<Option<SemaphoreMutexGuard>, RecipeError> {
        Ok(self.semaphore.try_acquire().await?.map(|permit| SemaphoreMutexGuard { permit }))
    }

    /// Waits for the lock, but not for longer than this.
    pub async fn acquire_within(
        &self,
        patience: Duration,
    ) -> Result<Option<SemaphoreMutexGuard>, RecipeError> {
        Ok(self.semaphore.acquire_within(patience).await?.map(|permit| SemaphoreMutexGuard { permit }))
    }
}

/// The lock is held.
#[derive(Debug)]
#[must_use = "dropping it gives the lock back"]
pub struct SemaphoreMutexGuard {
    permit: Permit,
}

impl SemaphoreMutexGuard {
    /// Gives the lock back and waits until the ensemble knows.
    pub async fn release(self) -> Result<(), RecipeError> {
        self.permit.release().await
    }
}

impl Held for SemaphoreMutexGuard {
    fn holding(&self) -> &Holding {
        self.permit.holding()
    }
}

impl Fenced for SemaphoreMutexGuard {}
