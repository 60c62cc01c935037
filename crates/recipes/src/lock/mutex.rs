//! The fair mutex: one ephemeral sequential node per contender, each watching its predecessor.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex, MutexGuard as StdGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use zebu_client::{Client, Compression, ErrorCode, Retry, path};

use super::layout::LockLayout;
use super::revocation::{RevocationMessage, Revoked, request_revocation, revoke};
use crate::error::RecipeError;
use crate::ownership::OwnedNode;
use crate::ownership::{Fenced, LeasePolicy, Ownership, OwnershipState};
use crate::retry::{none_if_missing, retry_until_answered};
use crate::wait_queue::{LockMode, WaitLimit, WaitQueue};

/// A lock with one holder at a time, first come first served.
///
/// ```text
/// /locks/report                                  container, deleted without contenders
///   _c_53345f98-…-lock-0000000007                ephemeral: the holder
///   _c_0d1c2a55-…-lock-0000000008                ephemeral: waits for 7
///   _c_b7a80a0e-…-lock-0000000009                ephemeral: waits for 8
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// # client.ensure_path("/report").await?;
/// use std::time::Duration;
/// use zebu_client::Version;
/// use zebu_recipes::{Fenced, Ownership, Mutex};
///
/// let mutex = Mutex::new(&client, "/locks/report");
/// let guard = mutex.acquire().await?;
/// // Commits only if the lock is still owned.
/// let mut transaction = guard.transaction();
/// transaction.set("/report", "page 1", Version::Any);
/// transaction.await?;
/// // For writes to other systems: the token is greater than that of every earlier holder.
/// println!("token {}", guard.token());
/// assert!(mutex.try_acquire().await?.is_none());
/// assert!(mutex.acquire_within(Duration::from_millis(10)).await?.is_none());
/// guard.release().await?;
/// # Ok(()) });
/// ```
///
/// **Fairness and load.** A release wakes one waiter. Waiting costs no requests.
///
/// **Re-entrance.** Tasks have no identity. [`MutexGuard::reenter`] returns another guard of the same
/// ownership, and [`Mutex::acquire_as`] does so for callers with an [`Owner`]. The lock is released with the
/// last guard.
///
/// **Connection lost.** The wait continues; the position in the queue is kept. A create without a reply is
/// searched for, not repeated blindly. A holder keeps the lock until the end of its lease (see
/// [`LeasePolicy`]).
///
/// **Session lost.** A waiter enters the queue again at its end. A holder has lost the lock:
/// [`Ownership::lost`] completes and [`Ownership::cancellation`] is cancelled. By the holder's clock this
/// happens before the ensemble can grant the lock to another client. Writes through [`Fenced::transaction`],
/// or with the token, do not depend on clocks.
///
/// **Crash.** The node is deleted when the session expires.
///
/// **Dropped.** A dropped guard or waiting future deletes its node in the background, also if its create is
/// still in flight.
#[derive(Clone, Debug)]
pub struct Mutex {
    queue: WaitQueue,
    owners: Arc<ReentrantOwners>,
}

/// The identity of a caller that may acquire the same lock more than once; clones are the same caller.
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::{Mutex, Owner};
///
/// let (mutex, me) = (Mutex::new(&client, "/locks/a"), Owner::new());
/// let outer = mutex.acquire_as(&me).await?;
/// let inner = mutex.acquire_as(&me).await?; // does not wait
/// outer.release().await?;
/// assert!(mutex.try_acquire().await?.is_none()); // still held by the inner one
/// inner.release().await?;
/// assert!(mutex.try_acquire().await?.is_some());
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner(u64);

impl Owner {
    /// A new identity within this process.
    pub fn new() -> Owner {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Owner(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Default for Owner {
    fn default() -> Owner {
        Owner::new()
    }
}

/// The owners in this process by identity.
#[derive(Debug, Default)]
struct ReentrantOwners(StdMutex<BTreeMap<Owner, Weak<OwnedNode>>>);

impl ReentrantOwners {
    fn lock(&self) -> StdGuard<'_, BTreeMap<Owner, Weak<OwnedNode>>> {
        // Every change is one statement; a panic cannot leave it incomplete.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ownership of a caller, if it is still valid.
    fn current(&self, owner: &Owner) -> Option<Arc<OwnedNode>> {
        let owned = self.lock().get(owner)?.upgrade()?;
        owned.ownership_state().check().is_ok().then_some(owned)
    }

    fn set(&self, owner: &Owner, owned: &Arc<OwnedNode>) {
        let mut owners = self.lock();
        owners.retain(|_, owned| owned.strong_count() > 0);
        owners.insert(owner.clone(), Arc::downgrade(owned));
    }
}

/// A contender in the queue of a lock; the first is the holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// Its node.
    pub path: String,
    /// Its sequence number.
    pub sequence: i32,
    /// Its data; see [`Mutex::identity`]. Empty if it is unreadable.
    pub identity: Bytes,
}

impl Mutex {
    /// A lock in this directory, which is created on demand. Nothing is sent yet.
    pub fn new(client: &Client, path: &str) -> Mutex {
        let queue = WaitQueue {
            client: client.clone(),
            directory: path.to_owned(),
            naming: LockLayout::default().naming(),
            data: Bytes::new(),
            lease_policy: LeasePolicy::default(),
        };
        Mutex { queue, owners: Arc::default() }
    }

    /// The layout of the lock.
    pub fn layout(mut self, layout: LockLayout) -> Mutex {
        self.queue.naming = layout.naming();
        self
    }

    /// The data of the own node, which other clients see in [`Mutex::contenders`], such as a host name.
    pub fn identity(mut self, identity: impl Into<Bytes>) -> Mutex {
        self.queue.data = identity.into();
        self
    }

    /// The lease policy.
    pub fn lease_policy(mut self, lease_policy: LeasePolicy) -> Mutex {
        self.queue.lease_policy = lease_policy;
        self
    }

    /// The directory.
    pub fn path(&self) -> &str {
        &self.queue.directory
    }

    pub(crate) fn queue(&self) -> &WaitQueue {
        &self.queue
    }

    /// Waits for the lock. Dropping the future removes its node, so that any timeout can wrap it.
    pub async fn acquire(&self) -> Result<MutexGuard, RecipeError> {
        loop {
            // Without a limit the result is never `None`; the loop satisfies the type.
            if let Some(guard) = self.acquire_by(WaitLimit::Unlimited).await? {
                return Ok(guard);
            }
        }
    }

    /// Acquires the lock if there is no other contender. Fails with [`Unreachable`](RecipeError::Unreachable)
    /// if no server answers within the client's connection timeout.
    pub async fn try_acquire(&self) -> Result<Option<MutexGuard>, RecipeError> {
        self.acquire_by(WaitLimit::no_wait(&self.queue.client)).await
    }

    /// Waits for the lock up to the timeout; `None` if it was not acquired.
    pub async fn acquire_within(&self, timeout: Duration) -> Result<Option<MutexGuard>, RecipeError> {
        self.acquire_by(WaitLimit::within(timeout)).await
    }

    /// Like [`Mutex::acquire`], but a caller that already owns the lock gets another guard at once.
    pub async fn acquire_as(&self, owner: &Owner) -> Result<MutexGuard, RecipeError> {
        if let Some(owned) = self.owners.current(owner) {
            return Ok(MutexGuard { owned });
        }
        let guard = self.acquire().await?;
        self.owners.set(owner, &guard.owned);
        Ok(guard)
    }

    pub(crate) async fn acquire_by(&self, limit: WaitLimit) -> Result<Option<MutexGuard>, RecipeError> {
        let node = self.queue.enter(LockMode::Exclusive, limit).await?;
        Ok(node.map(|node| MutexGuard { owned: Arc::new(OwnedNode::new(node, self.queue.lease_policy)) }))
    }

    /// Runs work under the lock. When the lock is lost, the work is dropped at its next await.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// let mutex = zebu_recipes::Mutex::new(&client, "/locks/a");
    /// let sum = mutex.scope(async |_guard| 1 + 1).await?;
    /// assert_eq!(sum, 2);
    /// # Ok(()) });
    /// ```
    pub async fn scope<R>(&self, work: impl AsyncFnOnce(&MutexGuard) -> R) -> Result<R, RecipeError> {
        let guard = self.acquire().await?;
        let result = crate::ownership::run_while_held(&guard, work(&guard)).await;
        let path = guard.path().to_owned();
        match result {
            Ok(output) => guard.release().await.map(|()| output),
            Err(reason) => Err(RecipeError::Lost { path, reason }),
        }
    }

    /// The holder and the waiters, in the order of the queue.
    pub async fn contenders(&self) -> Result<Vec<Contender>, RecipeError> {
        contenders(&self.queue).await
    }

    /// Asks a contender to release the lock: its [`MutexGuard::revoked`] completes, and Curator calls its
    /// revocation listeners. The contender decides. A contender that has left is no error.
    pub async fn request_revocation(&self, contender: &Contender) -> Result<(), RecipeError> {
        request_revocation(&self.queue.client, contender, RevocationMessage::Curator).await
    }

    /// Asks a contender to release the lock, and deletes its node after the grace period. A holder of another
    /// library may not notice that: protect the resource by fencing tokens.
    pub async fn revoke(&self, contender: &Contender, grace: Duration) -> Result<Revoked, RecipeError> {
        revoke(&self.queue.client, contender, RevocationMessage::Curator, grace).await
    }
}

/// The contenders of a queue with their data, in order.
pub(crate) async fn contenders(queue: &WaitQueue) -> Result<Vec<Contender>, RecipeError> {
    let client = &queue.client;
    let listed = retry_until_answered(client, || client.children(&queue.directory).retry(Retry::Never)).await;
    let names = none_if_missing(listed)?.map_or_else(Vec::new, |list| list.names);
    let mut numbered: Vec<_> = names.iter().filter_map(|name| queue.naming.parse(name)).collect();
    // Sorted by the distance from one of them, because numbers wrap.
    let base = numbered.first().map_or(0, |one| one.sequence);
    numbered.sort_by_key(|one| one.sequence.wrapping_sub(base));
    let mut contenders = Vec::with_capacity(numbered.len());
    for one in numbered {
        let path = path::join(&queue.directory, one.name);
        let read = retry_until_answered(client, || {
            client.get(&path).compression(Compression::None).retry(Retry::Never)
        });
        let identity = match none_if_missing(read.await) {
            Ok(Some(node)) => node.data,
            Ok(None) => continue,
            // A contender with unreadable data still counts.
            Err(error) if error.code() == Some(ErrorCode::NoAuth) => Bytes::new(),
            Err(error) => return Err(error.into()),
        };
        contenders.push(Contender { path, sequence: one.sequence, identity });
    }
    Ok(contenders)
}

/// Ownership of a [`Mutex`]. [`release`](MutexGuard::release) it; dropping the guard releases it in the
/// background.
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub struct MutexGuard {
    owned: Arc<OwnedNode>,
}

impl MutexGuard {
    /// Another guard of the same ownership. The lock is released with the last guard.
    pub fn reenter(&self) -> MutexGuard {
        MutexGuard { owned: self.owned.clone() }
    }

    /// Releases the lock, if this is the last guard, and waits for the reply of the ensemble. If the future
    /// is dropped, the background does it.
    pub async fn release(self) -> Result<(), RecipeError> {
        OwnedNode::release_if_last(self.owned).await
    }

    /// Completes when another client [requests](Mutex::request_revocation) the lock.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// let mutex = zebu_recipes::Mutex::new(&client, "/locks/a");
    /// let guard = mutex.acquire().await?;
    /// mutex.request_revocation(&mutex.contenders().await?[0]).await?;
    /// guard.revoked().await;
    /// guard.release().await?;
    /// # Ok(()) });
    /// ```
    pub async fn revoked(&self) {
        self.owned.ownership_state().revoked().await;
    }
}

impl Ownership for MutexGuard {
    fn ownership_state(&self) -> &OwnershipState {
        self.owned.ownership_state()
    }
}

impl Fenced for MutexGuard {}
