//! A mutex built from a semaphore with one permit: never re-entrant.

use std::time::Duration;

use bytes::Bytes;
use zebu_client::Client;

use super::semaphore::{Permit, Semaphore};
use crate::error::RecipeError;
use crate::ownership::{Fenced, LeasePolicy, Ownership, OwnershipState};

/// A lock that is never re-entrant; compatible with Curator's `InterProcessSemaphoreMutex`.
///
/// ```text
/// /locks/import
///   locks                                        the wait queue
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
/// The effects of a lost connection, a lost session and a crash are those of a [`Semaphore`]. Prefer a
/// [`Mutex`](super::Mutex), which needs half of the requests, unless Curator shares the lock.
#[derive(Clone, Debug)]
pub struct SemaphoreMutex {
    semaphore: Semaphore,
}

impl SemaphoreMutex {
    /// A lock in this directory, which is created on demand. Nothing is sent yet.
    pub fn new(client: &Client, path: &str) -> SemaphoreMutex {
        SemaphoreMutex { semaphore: Semaphore::new(client, path, 1) }
    }

    /// The data of the own lease node.
    pub fn identity(mut self, identity: impl Into<Bytes>) -> SemaphoreMutex {
        self.semaphore = self.semaphore.identity(identity);
        self
    }

    /// The lease policy.
    pub fn lease_policy(mut self, lease_policy: LeasePolicy) -> SemaphoreMutex {
        self.semaphore = self.semaphore.lease_policy(lease_policy);
        self
    }

    /// Waits for the lock.
    pub async fn acquire(&self) -> Result<SemaphoreMutexGuard, RecipeError> {
        Ok(SemaphoreMutexGuard { permit: self.semaphore.acquire().await? })
    }

    /// Acquires the lock if there is no other contender.
    pub async fn try_acquire(&self) -> Result<Option<SemaphoreMutexGuard>, RecipeError> {
        Ok(self.semaphore.try_acquire().await?.map(|permit| SemaphoreMutexGuard { permit }))
    }

    /// Waits for the lock, up to the timeout.
    pub async fn acquire_within(
        &self,
        timeout: Duration,
    ) -> Result<Option<SemaphoreMutexGuard>, RecipeError> {
        Ok(self.semaphore.acquire_within(timeout).await?.map(|permit| SemaphoreMutexGuard { permit }))
    }
}

/// Ownership of a [`SemaphoreMutex`].
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub struct SemaphoreMutexGuard {
    permit: Permit,
}

impl SemaphoreMutexGuard {
    /// Releases the lock and waits for the reply of the ensemble.
    pub async fn release(self) -> Result<(), RecipeError> {
        self.permit.release().await
    }
}

impl Ownership for SemaphoreMutexGuard {
    fn ownership_state(&self) -> &OwnershipState {
        self.permit.ownership_state()
    }
}

impl Fenced for SemaphoreMutexGuard {}
