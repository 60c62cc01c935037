//! The read-write lock: shared readers, exclusive writers, first come first served.

use std::time::Duration;

use bytes::Bytes;
use zebu_client::{Client, CreateMode, CreateSpec, ErrorCode, Retry, SessionId, Stat, Version, path};

use super::layout::RwLockLayout;
use super::mutex::{Contender, contenders};
use super::revocation::{RevocationMessage, Revoked, request_revocation, revoke};
use crate::error::RecipeError;
use crate::latest_read::exists_latest;
use crate::ownership::OwnedNode;
use crate::ownership::{Fenced, LeasePolicy, LossReason, Ownership, OwnershipState};
use crate::retry::{ReconnectRetry, retry_until_answered, uncompressed_transaction};
use crate::wait_queue::{LockMode, QueueNode, WaitLimit, WaitQueue};

/// A lock with many readers or one writer.
///
/// ```text
/// /locks/catalog                                 container
///   _c_53345f98-…-__READ__0000000003             reads
///   _c_0d1c2a55-…-__READ__0000000004             reads
///   _c_b7a80a0e-…-__WRIT__0000000005             waits for 4, then for 3
///   _c_91fe0c11-…-__READ__0000000006             waits for 5: writers do not starve
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::RwLock;
///
/// let lock = RwLock::new(&client, "/locks/catalog");
/// let writer = lock.write().await?;
/// assert!(lock.try_read().await?.is_none());
/// let reader = writer.downgrade().await?; // without another writer in between
/// let another = lock.read().await?;
/// assert!(lock.try_write().await?.is_none());
/// reader.release().await?;
/// another.release().await?;
/// # Ok(()) });
/// ```
///
/// A reader watches the nearest writer before it, a writer watches its predecessor. The release of a writer
/// wakes all readers directly after it, because all of them then own the lock.
///
/// A reader cannot become a writer: two such readers would deadlock.
///
/// The effects of a lost connection, a lost session, a crash and a dropped future are those of a
/// [`Mutex`](super::Mutex). The fencing token of a reader is greater than that of every earlier writer and
/// smaller than that of every later writer. A downgraded writer keeps its token.
#[derive(Clone, Debug)]
pub struct RwLock {
    queue: WaitQueue,
}

impl RwLock {
    /// A lock in this directory, which is created on demand. Nothing is sent yet.
    pub fn new(client: &Client, path: &str) -> RwLock {
        let queue = WaitQueue {
            client: client.clone(),
            directory: path.to_owned(),
            naming: RwLockLayout::default().naming(),
            data: Bytes::new(),
            lease_policy: LeasePolicy::default(),
        };
        RwLock { queue }
    }

    /// The layout of the lock.
    pub fn layout(mut self, layout: RwLockLayout) -> RwLock {
        self.queue.naming = layout.naming();
        self
    }

    /// The data of the own node, which other clients see in [`RwLock::contenders`].
    pub fn identity(mut self, identity: impl Into<Bytes>) -> RwLock {
        self.queue.data = identity.into();
        self
    }

    /// The lease policy.
    pub fn lease_policy(mut self, lease_policy: LeasePolicy) -> RwLock {
        self.queue.lease_policy = lease_policy;
        self
    }

    /// Waits until no writer precedes.
    pub async fn read(&self) -> Result<ReadGuard, RecipeError> {
        loop {
            if let Some(owned) = self.acquire(LockMode::Shared, WaitLimit::Unlimited).await? {
                return Ok(ReadGuard { owned });
            }
        }
    }

    /// Acquires the lock for reading if no writer owns it or waits for it. Fails with
    /// [`Unreachable`](RecipeError::Unreachable) if no server answers within the client's connection timeout.
    pub async fn try_read(&self) -> Result<Option<ReadGuard>, RecipeError> {
        let limit = WaitLimit::no_wait(&self.queue.client);
        Ok(self.acquire(LockMode::Shared, limit).await?.map(|owned| ReadGuard { owned }))
    }

    /// Waits until no writer precedes, up to the timeout.
    pub async fn read_within(&self, timeout: Duration) -> Result<Option<ReadGuard>, RecipeError> {
        Ok(self.acquire(LockMode::Shared, WaitLimit::within(timeout)).await?.map(|owned| ReadGuard { owned }))
    }

    /// Waits until no contender precedes.
    pub async fn write(&self) -> Result<WriteGuard, RecipeError> {
        loop {
            if let Some(owned) = self.acquire(LockMode::Exclusive, WaitLimit::Unlimited).await? {
                return Ok(WriteGuard { queue: self.queue.clone(), owned });
            }
        }
    }

    /// Acquires the lock for writing if there is no other contender. Fails with
    /// [`Unreachable`](RecipeError::Unreachable) if no server answers within the client's connection timeout.
    pub async fn try_write(&self) -> Result<Option<WriteGuard>, RecipeError> {
        let owned = self.acquire(LockMode::Exclusive, WaitLimit::no_wait(&self.queue.client)).await?;
        Ok(owned.map(|owned| WriteGuard { queue: self.queue.clone(), owned }))
    }

    /// Waits until no contender precedes, up to the timeout.
    pub async fn write_within(&self, timeout: Duration) -> Result<Option<WriteGuard>, RecipeError> {
        let owned = self.acquire(LockMode::Exclusive, WaitLimit::within(timeout)).await?;
        Ok(owned.map(|owned| WriteGuard { queue: self.queue.clone(), owned }))
    }

    /// All contenders, in the order of the queue.
    pub async fn contenders(&self) -> Result<Vec<Contender>, RecipeError> {
        contenders(&self.queue).await
    }

    /// Asks a contender to release the lock: its [`ReadGuard::revoked`] or [`WriteGuard::revoked`] completes.
    /// The contender decides. A contender that has left is no error.
    pub async fn request_revocation(
        &self,
        contender: &Contender,
        message: RevocationMessage,
    ) -> Result<(), RecipeError> {
        request_revocation(&self.queue.client, contender, message).await
    }

    /// Asks a contender to release the lock, and deletes its node after the grace period.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// use std::time::Duration;
    /// use zebu_recipes::{Ownership, LossReason, RevocationMessage, Revoked, RwLock};
    ///
    /// let lock = RwLock::new(&client, "/locks/catalog");
    /// let stubborn = lock.read().await?;
    /// let grace = Duration::from_millis(10);
    /// let reader = &lock.contenders().await?[0];
    /// assert_eq!(lock.revoke(reader, RevocationMessage::Unlock, grace).await?, Revoked::Forced);
    /// assert_eq!(stubborn.lost().await, LossReason::NodeDeleted);
    /// lock.write().await?.release().await?;
    /// # Ok(()) });
    /// ```
    pub async fn revoke(
        &self,
        contender: &Contender,
        message: RevocationMessage,
        grace: Duration,
    ) -> Result<Revoked, RecipeError> {
        revoke(&self.queue.client, contender, message, grace).await
    }

    async fn acquire(&self, kind: LockMode, limit: WaitLimit) -> Result<Option<OwnedNode>, RecipeError> {
        let node = self.queue.enter(kind, limit).await?;
        Ok(node.map(|node| OwnedNode::new(node, self.queue.lease_policy)))
    }
}

/// Shared ownership of a [`RwLock`].
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub struct ReadGuard {
    owned: OwnedNode,
}

impl ReadGuard {
    /// Releases the lock and waits for the reply of the ensemble.
    pub async fn release(self) -> Result<(), RecipeError> {
        self.owned.release().await
    }

    /// Completes when another client [requests](RwLock::request_revocation) the lock.
    pub async fn revoked(&self) {
        self.owned.ownership_state().revoked().await;
    }
}

impl Ownership for ReadGuard {
    fn ownership_state(&self) -> &OwnershipState {
        self.owned.ownership_state()
    }
}

impl Fenced for ReadGuard {}

/// Exclusive ownership of a [`RwLock`].
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub struct WriteGuard {
    queue: WaitQueue,
    owned: OwnedNode,
}

impl WriteGuard {
    /// Releases the lock and waits for the reply of the ensemble.
    pub async fn release(self) -> Result<(), RecipeError> {
        self.owned.release().await
    }

    /// Completes when another client [requests](RwLock::request_revocation) the lock.
    pub async fn revoked(&self) {
        self.owned.ownership_state().revoked().await;
    }

    /// Becomes a reader at the same position of the queue, without another writer in between. The ownership
    /// of this guard ends, with its cancellation token, and that of the reader starts. One transaction
    /// replaces the node.
    ///
    /// If it fails, the lock is released.
    pub async fn downgrade(self) -> Result<ReadGuard, RecipeError> {
        let WriteGuard { queue, owned } = self;
        let writer = owned.ownership_state().clone();
        let lost = |reason| RecipeError::Lost { path: writer.path().to_owned(), reason };
        writer.check().map_err(lost)?;
        // Now, because the monitor will see the delete of the node.
        writer.end(LossReason::Released);
        let id_prefix = queue.client.unique_prefix(queue.naming.style);
        let number = writer.path().rsplit_once(queue.naming.exclusive).map_or("", |(_, number)| number);
        let reader = path::join(&queue.directory, &format!("{id_prefix}{}{number}", queue.naming.shared));
        let cleanup = queue.client.cleanup_guard(&queue.directory, &id_prefix);
        let stat = replace(&queue, writer.path(), &reader, writer.session()).await?.map_err(lost)?;
        let node = QueueNode::adopt(&queue.client, reader, id_prefix, stat);
        cleanup.disarm();
        owned.disarm();
        Ok(ReadGuard { owned: OwnedNode::with_token(node, writer.token(), queue.lease_policy) })
    }
}

impl Ownership for WriteGuard {
    fn ownership_state(&self) -> &OwnershipState {
        self.owned.ownership_state()
    }
}

impl Fenced for WriteGuard {}

/// Replaces the writer's node by the reader's, once.
async fn replace(
    queue: &WaitQueue,
    writer: &str,
    reader: &str,
    session: SessionId,
) -> Result<Result<Stat, LossReason>, RecipeError> {
    let client = &queue.client;
    let mut retry = ReconnectRetry::default();
    loop {
        if client.session().id != session {
            return Ok(Err(LossReason::SessionExpired));
        }
        let mut transaction = uncompressed_transaction(client);
        let spec = CreateSpec::new().mode(CreateMode::Ephemeral);
        let spec = if queue.data.is_empty() { spec } else { spec.data(queue.data.clone()) };
        // The delete is first: in a new session it fails before anything is created.
        transaction.delete(writer, Version::Any);
        transaction.create(reader, spec);
        let done = match transaction.retry(Retry::Never).await {
            Ok(_) => true,
            Err(error) if error.code() == Some(ErrorCode::NoNode) => false,
            Err(error) => {
                let unknown = error.is_ambiguous();
                retry.after(client, error).await?;
                if !unknown {
                    continue;
                }
                false
            }
        };
        // After a lost reply, or a missing node because a lost attempt was carried out.
        let found = retry_until_answered(client, || Box::pin(exists_latest(client, reader)));
        match found.await? {
            Some(stat) if SessionId(stat.ephemeral_owner) == client.session().id => return Ok(Ok(stat)),
            Some(_) => return Ok(Err(LossReason::SessionExpired)),
            None if done => return Ok(Err(LossReason::NodeDeleted)),
            None => {}
        }
        let remains = retry_until_answered(client, || client.exists(writer).retry(Retry::Never)).await?;
        if remains.is_none() {
            return Ok(Err(LossReason::NodeDeleted));
        }
    }
}
