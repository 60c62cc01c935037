//! The lock by one node: its creator is the holder. Scripts can share it; its delete wakes every waiter.

use std::time::Duration;

use bytes::Bytes;
use zebu_client::{
    Client, Compression, CreateMode, CreateSpec, Error, ErrorCode, ErrorKind, Retry, SessionId, Stat,
    Version, path,
};

use crate::error::RecipeError;
use crate::ownership::{
    Fenced, FencingToken, LeasePolicy, LossReason, Ownership, OwnershipMonitor, OwnershipState,
};
use crate::retry::{
    ReconnectRetry, is_transient, none_if_missing, retry_until_answered, uncompressed_transaction,
    with_deadline,
};
use crate::spawn_on_drop::SpawnOnDrop;
use crate::unique_id::UniqueId;
use crate::wait_queue::WaitLimit;

/// A lock that the creator of its node holds; for few contenders, and for programs that only know `create -e
/// /locks/nightly`.
///
/// ```text
/// /locks                                         persistent
///   nightly                                      ephemeral: held; the data is the holder's identity
///   nightly-53345f9894234e0ca7b59f819e3ec2e1     ephemeral: whose it is, made and deleted together with it
/// ```
///
/// The second node makes the lock safe. The node of the next holder has the same name and version, so that a
/// late delete could remove it. A transaction with the second node, whose name is unique, cannot. Contenders
/// without a second node are excluded too.
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::SimpleLock;
///
/// let lock = SimpleLock::new(&client, "/locks/nightly").identity("host-7");
/// let guard = lock.acquire().await?;
/// assert_eq!(lock.holder().await?.as_deref(), Some(&b"host-7"[..]));
/// assert!(lock.try_acquire().await?.is_none());
/// guard.release().await?;
/// # Ok(()) });
/// ```
///
/// **Fairness and load.** The lock is not fair, and all waiters retry at once when it is released: use a
/// [`Mutex`](super::Mutex) for more than a few.
///
/// **Connection lost.** The wait continues. The second node identifies a create without a reply. **Session
/// lost, crash, dropped.** As with a [`Mutex`](super::Mutex).
///
/// **Manual delete.** A delete of the first node takes the lock from its holder, which is notified. Until
/// then [`Fenced::transaction`] cannot distinguish the holder from the next one.
#[derive(Clone, Debug)]
pub struct SimpleLock {
    client: Client,
    path: String,
    data: Bytes,
    lease_policy: LeasePolicy,
}

impl SimpleLock {
    /// A lock at this path. Nothing is sent yet.
    pub fn new(client: &Client, path: &str) -> SimpleLock {
        let lease_policy = LeasePolicy::default();
        SimpleLock { client: client.clone(), path: path.to_owned(), data: Bytes::new(), lease_policy }
    }

    /// The data of the lock's node.
    pub fn identity(mut self, identity: impl Into<Bytes>) -> SimpleLock {
        self.data = identity.into();
        self
    }

    /// The lease policy.
    pub fn lease_policy(mut self, lease_policy: LeasePolicy) -> SimpleLock {
        self.lease_policy = lease_policy;
        self
    }

    /// Waits for the lock.
    pub async fn acquire(&self) -> Result<SimpleLockGuard, RecipeError> {
        loop {
            if let Some(guard) = self.acquire_by(WaitLimit::Unlimited).await? {
                return Ok(guard);
            }
        }
    }

    /// Acquires the lock if it is free. Fails with [`Unreachable`](RecipeError::Unreachable) if no server
    /// answers within the client's connection timeout.
    pub async fn try_acquire(&self) -> Result<Option<SimpleLockGuard>, RecipeError> {
        self.acquire_by(WaitLimit::no_wait(&self.client)).await
    }

    /// Waits for the lock, up to the timeout.
    pub async fn acquire_within(&self, timeout: Duration) -> Result<Option<SimpleLockGuard>, RecipeError> {
        self.acquire_by(WaitLimit::within(timeout)).await
    }

    /// The identity of the holder.
    pub async fn holder(&self) -> Result<Option<Bytes>, RecipeError> {
        let get = || self.client.get(&self.path).compression(Compression::None).retry(Retry::Never);
        let read = retry_until_answered(&self.client, get).await;
        Ok(none_if_missing(read)?.map(|node| node.data))
    }

    async fn acquire_by(&self, limit: WaitLimit) -> Result<Option<SimpleLockGuard>, RecipeError> {
        let deadline = limit.deadline();
        loop {
            let nodes = LockNodes::new(self);
            match with_deadline(deadline, nodes.create(self)).await {
                None => return limit.expired(&self.path),
                Some(Err(error)) => return Err(error.into()),
                Some(Ok(Some(stat))) => {
                    return Ok(Some(SimpleLockGuard::new(nodes, &stat, self.lease_policy)));
                }
                Some(Ok(None)) => nodes.disarm(),
            }
            if !limit.allows_waiting() {
                return Ok(None);
            }
            let deleted = async {
                let watch = || self.client.exists(&self.path).retry(Retry::Never).watched();
                let (stat, changed) = retry_until_answered(&self.client, watch).await?;
                if stat.is_some() {
                    changed.await;
                }
                Ok::<_, Error>(())
            };
            match with_deadline(deadline, deleted).await {
                Some(result) => result?,
                None => return limit.expired(&self.path),
            }
        }
    }
}

/// The two nodes of one attempt. Dropping it deletes them in the background, if the current session owns
/// them.
#[derive(Debug)]
struct LockNodes {
    client: Client,
    path: String,
    companion: String,
    cleanup: SpawnOnDrop,
}

impl LockNodes {
    fn new(lock: &SimpleLock) -> LockNodes {
        let (client, path) = (lock.client.clone(), lock.path.clone());
        let companion = format!("{path}-{}", UniqueId::new(&client).hex());
        let cleanup = {
            let (client, path, companion) = (client.clone(), path.clone(), companion.clone());
            // An error means that the client is closed, and the nodes gone with it.
            SpawnOnDrop::new(async move { drop(delete_both(&client, &path, &companion).await) })
        };
        LockNodes { client, path, companion, cleanup }
    }

    /// Creates both nodes or neither. Returns the stat of the lock's node, or `None` if another holder has
    /// the lock.
    async fn create(&self, lock: &SimpleLock) -> Result<Option<Stat>, Error> {
        let client = &self.client;
        let mut retry = ReconnectRetry::default();
        loop {
            let spec = || CreateSpec::new().mode(CreateMode::Ephemeral);
            let own = if lock.data.is_empty() { spec() } else { spec().data(lock.data.clone()) };
            let mut transaction = uncompressed_transaction(client);
            transaction.create(&self.path, own);
            transaction.create(&self.companion, spec());
            match transaction.retry(Retry::Never).await {
                Ok(_) => return self.owned_stat().await,
                Err(error) if error.code() == Some(ErrorCode::NodeExists) => return self.owned_stat().await,
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                    let parent = path::parent(&self.path).unwrap_or("/");
                    retry_until_answered(client, || client.ensure_path(parent)).await?;
                }
                Err(error) if is_transient(&error) => {
                    let unknown = error.is_ambiguous();
                    retry.after(client, error).await?;
                    if unknown && let Some(stat) = self.owned_stat().await? {
                        return Ok(Some(stat));
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The stat of the lock's node, if both nodes exist and the current session owns them.
    async fn owned_stat(&self) -> Result<Option<Stat>, Error> {
        let client = &self.client;
        let (companion, own) = retry_until_answered(client, || async {
            client.sync(&self.path).retry(Retry::Never).await?;
            let companion = client.exists(&self.companion).retry(Retry::Never).send();
            let own = client.exists(&self.path).retry(Retry::Never).send();
            Ok((companion.await?, own.await?))
        })
        .await?;
        let session = client.session().id;
        Ok(own.filter(|own| {
            companion.is_some_and(|companion| companion.czxid == own.czxid)
                && SessionId(own.ephemeral_owner) == session
        }))
    }

    fn disarm(self) {
        self.cleanup.disarm();
    }

    /// Deletes both nodes and waits for the reply. If the future is dropped, the background does it.
    async fn delete(self) -> Result<(), Error> {
        delete_both(&self.client, &self.path, &self.companion).await?;
        self.cleanup.disarm();
        Ok(())
    }
}

/// Deletes both nodes in one transaction. The companion makes sure that the node of another holder is not
/// deleted.
async fn delete_both(client: &Client, path: &str, companion: &str) -> Result<(), Error> {
    // The nodes of an earlier session have gone with it.
    let session = client.session().id;
    let mut retry = ReconnectRetry::default();
    while client.session().id == session {
        let mut transaction = uncompressed_transaction(client);
        let fence = transaction.delete(companion, Version::Any);
        transaction.delete(path, Version::Any);
        match transaction.retry(Retry::Never).await {
            Ok(_) => return Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                let is_fence = matches!(error.kind(), ErrorKind::Transaction { index, .. }
                    if *index == fence.index());
                if is_fence {
                    return Ok(());
                }
                // Another client has deleted the lock's node.
                let delete = || client.delete(companion).quiet().retry(Retry::Never);
                retry_until_answered(client, delete).await?;
            }
            Err(error) => retry.after(client, error).await?,
        }
    }
    Ok(())
}

/// Ownership of a [`SimpleLock`].
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub struct SimpleLockGuard {
    // Dropped in this order: the end of ownership is reported before the nodes are deleted.
    monitor: OwnershipMonitor,
    nodes: LockNodes,
}

impl SimpleLockGuard {
    fn new(nodes: LockNodes, stat: &Stat, lease_policy: LeasePolicy) -> SimpleLockGuard {
        let token = FencingToken(stat.czxid);
        let monitor = OwnershipMonitor::start(&nodes.client, &nodes.path, stat, token, lease_policy);
        SimpleLockGuard { monitor, nodes }
    }

    /// Releases the lock and waits for the reply of the ensemble.
    pub async fn release(self) -> Result<(), RecipeError> {
        self.monitor.ownership_state().end(LossReason::Released);
        self.nodes.delete().await?;
        Ok(())
    }
}

impl Ownership for SimpleLockGuard {
    fn ownership_state(&self) -> &OwnershipState {
        self.monitor.ownership_state()
    }
}

impl Fenced for SimpleLockGuard {
    fn fence(&self, transaction: &mut zebu_client::Transaction) -> zebu_client::OpRef<()> {
        transaction.check(&self.nodes.companion, Version::Any)
    }
}
