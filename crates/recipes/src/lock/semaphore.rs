//! The counting semaphore: a lease node per permit, and a wait queue of which only the first contender
//! watches the leases.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OnceCell;
use zebu_client::{Client, Compression, ErrorCode, Parents, ProtectionStyle, Retry, path};

use super::layout::{LockLayout, SemaphoreLayout};
use crate::error::RecipeError;
use crate::ownership::OwnedNode;
use crate::ownership::{Fenced, LeasePolicy, Ownership, OwnershipState, has_lease, wait_for_lease};
use crate::retry::{none_if_missing, retry_until_answered, with_deadline};
use crate::wait_queue::{ContenderNaming, LockMode, QueueNode, WaitLimit, WaitQueue, leave_queue_all};

/// The leases of Curator's layout.
const CURATOR: ContenderNaming =
    ContenderNaming { style: ProtectionStyle::Curator, exclusive: "lease-", shared: "" };

/// The leases of Kazoo's layout, whose name is the id alone.
const KAZOO: ContenderNaming = ContenderNaming { style: ProtectionStyle::Kazoo, exclusive: "", shared: "" };

/// A number of permits, granted first come first served.
///
/// ```text
/// /limits/uploads                                container
///   locks                                        container: the wait queue, as that of a Mutex
///     _c_91fe0c11-…-lock-0000000005              its first waits for a lease
///   leases                                       container
///     _c_53345f98-…-lease-0000000003             ephemeral: a permit
///     _c_0d1c2a55-…-lease-0000000004             ephemeral: a permit
/// ```
///
/// This is the layout of Curator's `InterProcessSemaphoreV2`. As there, all clients must use the same number
/// of permits, which no node has. Other children of `leases` are ignored here, but Curator counts them.
/// [`SemaphoreLayout::Kazoo`] is the layout of Kazoo's `Semaphore`:
///
/// ```text
/// /limits/uploads                                persistent: "2", the number of permits
///   53345f9894234e0ca7b59f819e3ec2e1             ephemeral: a permit
/// /limits/uploads-__lock__                       the wait queue, as that of a Mutex in Kazoo's layout
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::Semaphore;
///
/// let uploads = Semaphore::new(&client, "/limits/uploads", 2);
/// let first = uploads.acquire().await?;
/// let second = uploads.acquire().await?;
/// assert!(uploads.try_acquire().await?.is_none());
/// first.release().await?;
/// second.release().await?;
/// let both = uploads.acquire_many(2).await?; // all or nothing
/// # drop(both);
/// # Ok(()) });
/// ```
///
/// - **Connection lost.** The wait continues; a permit is owned until the end of the lease (see
///   [`LeasePolicy`]).
/// - **Session lost, crash.** The permits are released when the session expires; owners are notified as with
///   a [`Mutex`](super::Mutex).
/// - **Dropped.** The background releases dropped permits and removes dropped waiters.
#[derive(Clone, Debug)]
pub struct Semaphore {
    guard: WaitQueue,
    path: String,
    layout: SemaphoreLayout,
    permits: u32,
    data: Bytes,
    /// Set when the layout of the directory was checked.
    checked: Arc<OnceCell<()>>,
}

impl Semaphore {
    /// A semaphore in this directory, which is created on demand. Nothing is sent yet.
    pub fn new(client: &Client, path: &str, permits: u32) -> Semaphore {
        let guard = WaitQueue {
            client: client.clone(),
            directory: path::join(path, "locks"),
            naming: LockLayout::Curator.naming(),
            data: Bytes::new(),
            lease_policy: LeasePolicy::default(),
        };
        let (layout, checked) = (SemaphoreLayout::default(), Arc::default());
        Semaphore { guard, path: path.to_owned(), layout, permits, data: Bytes::new(), checked }
    }

    /// The layout of the semaphore.
    pub fn layout(mut self, layout: SemaphoreLayout) -> Semaphore {
        (self.guard.directory, self.guard.naming) = match layout {
            SemaphoreLayout::Curator => (path::join(&self.path, "locks"), LockLayout::Curator.naming()),
            SemaphoreLayout::Kazoo => (format!("{}-__lock__", self.path), LockLayout::Kazoo.naming()),
        };
        (self.layout, self.checked) = (layout, Arc::default());
        self
    }

    /// The data of the own lease nodes.
    pub fn identity(mut self, identity: impl Into<Bytes>) -> Semaphore {
        self.data = identity.into();
        self
    }

    /// The lease policy.
    pub fn lease_policy(mut self, lease_policy: LeasePolicy) -> Semaphore {
        self.guard.lease_policy = lease_policy;
        self
    }

    /// Waits for a permit.
    pub async fn acquire(&self) -> Result<Permit, RecipeError> {
        loop {
            if let Some(permit) =
                self.acquire_by(1, WaitLimit::Unlimited).await?.and_then(|mut all| all.pop())
            {
                return Ok(permit);
            }
        }
    }

    /// Waits for several permits and acquires them together. During the wait no other client gets one, so
    /// that large requests neither starve nor deadlock.
    pub async fn acquire_many(&self, count: u32) -> Result<Vec<Permit>, RecipeError> {
        loop {
            if let Some(permits) = self.acquire_by(count, WaitLimit::Unlimited).await? {
                return Ok(permits);
            }
        }
    }

    /// Acquires a permit if one is free and there is no waiter. Fails with
    /// [`Unreachable`](RecipeError::Unreachable) if no server answers within the client's connection timeout.
    pub async fn try_acquire(&self) -> Result<Option<Permit>, RecipeError> {
        let limit = WaitLimit::no_wait(&self.guard.client);
        Ok(self.acquire_by(1, limit).await?.and_then(|mut all| all.pop()))
    }

    /// Waits for a permit, up to the timeout.
    pub async fn acquire_within(&self, timeout: Duration) -> Result<Option<Permit>, RecipeError> {
        Ok(self.acquire_by(1, WaitLimit::within(timeout)).await?.and_then(|mut all| all.pop()))
    }

    /// Waits for several permits, up to the timeout.
    pub async fn acquire_many_within(
        &self,
        count: u32,
        timeout: Duration,
    ) -> Result<Option<Vec<Permit>>, RecipeError> {
        self.acquire_by(count, WaitLimit::within(timeout)).await
    }

    /// The number of permits in use.
    pub async fn permits_in_use(&self) -> Result<usize, RecipeError> {
        let client = &self.guard.client;
        let leases = self.leases();
        let listed = retry_until_answered(client, || client.children(&leases).retry(Retry::Never)).await;
        let names = none_if_missing(listed)?.map_or_else(Vec::new, |list| list.names);
        Ok(names.iter().filter(|name| self.is_lease(name)).count())
    }

    fn leases(&self) -> String {
        match self.layout {
            SemaphoreLayout::Curator => path::join(&self.path, "leases"),
            SemaphoreLayout::Kazoo => self.path.clone(),
        }
    }

    fn is_lease(&self, name: &str) -> bool {
        match self.layout {
            SemaphoreLayout::Curator => CURATOR.parse(name).is_some(),
            SemaphoreLayout::Kazoo => is_kazoo_lease(name),
        }
    }

    /// Refuses a directory of the other layout, and another number of permits if a node has it.
    async fn check_layout(&self) -> Result<(), RecipeError> {
        let client = &self.guard.client;
        let listed = retry_until_answered(client, || client.children(&self.path).retry(Retry::Never)).await;
        let names = none_if_missing(listed)?.map_or_else(Vec::new, |list| list.names);
        let is_stranger = |name: &&String| match self.layout {
            SemaphoreLayout::Curator => is_kazoo_lease(name),
            SemaphoreLayout::Kazoo => matches!(&***name, "locks" | "leases"),
        };
        if let Some(child) = names.iter().find(is_stranger).cloned() {
            return Err(RecipeError::LayoutConflict { directory: self.path.clone(), child });
        }
        if self.layout == SemaphoreLayout::Kazoo { self.check_permits().await } else { Ok(()) }
    }

    /// The number of permits in Kazoo's layout, written by the creator of the node.
    async fn check_permits(&self) -> Result<(), RecipeError> {
        let (client, path) = (&self.guard.client, &self.path);
        let create = || {
            let create = client.create(path).data(self.permits.to_string()).compression(Compression::None);
            create.parents(Parents::Persistent).retry(Retry::Never)
        };
        match retry_until_answered(client, create).await {
            Ok(_) => return Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => {}
            Err(error) => return Err(error.into()),
        }
        let read = retry_until_answered(client, || {
            client.get(path).compression(Compression::None).retry(Retry::Never)
        });
        let node = none_if_missing(read.await)?;
        // Other data is ignored, as by Kazoo.
        let written = node.and_then(|node| std::str::from_utf8(&node.data).ok()?.trim().parse::<u32>().ok());
        match written {
            Some(written) if written != self.permits => {
                let permits = self.permits;
                Err(RecipeError::Invalid(format!("{path} has {written} permits, not {permits}")))
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(super) async fn acquire_by(
        &self,
        count: u32,
        limit: WaitLimit,
    ) -> Result<Option<Vec<Permit>>, RecipeError> {
        if count > self.permits {
            let permits = self.permits;
            return Err(RecipeError::Invalid(format!(
                "{count} permits exceed the {permits} of the semaphore"
            )));
        }
        let check = self.checked.get_or_try_init(|| self.check_layout());
        match with_deadline(limit.deadline(), check).await {
            Some(checked) => drop(checked?),
            None => return limit.expired(&self.path),
        }
        loop {
            let Some(guard) = self.guard.enter(LockMode::Exclusive, limit).await? else { return Ok(None) };
            let mut leases = Vec::new();
            let outcome =
                with_deadline(limit.deadline(), self.acquire_leases(&guard, &mut leases, count, limit)).await;
            let outcome = outcome.unwrap_or(Ok(LeaseOutcome::TimedOut));
            let mut unneeded = vec![guard];
            if !matches!(outcome, Ok(LeaseOutcome::Acquired)) {
                unneeded.append(&mut leases);
            }
            leave_queue_all(unneeded).await;
            match outcome? {
                LeaseOutcome::Acquired => {
                    let owned = |lease| Permit { owned: OwnedNode::new(lease, self.guard.lease_policy) };
                    return Ok(Some(leases.into_iter().map(owned).collect()));
                }
                LeaseOutcome::NotAvailable => return Ok(None),
                LeaseOutcome::TimedOut => return limit.expired(&self.path),
                LeaseOutcome::StartOver => {}
            }
        }
    }

    /// Creates leases and waits until there are not too many.
    async fn acquire_leases(
        &self,
        guard: &QueueNode,
        leases: &mut Vec<QueueNode>,
        count: u32,
        limit: WaitLimit,
    ) -> Result<LeaseOutcome, RecipeError> {
        let (client, directory) = (&self.guard.client, self.leases());
        let naming = match self.layout {
            SemaphoreLayout::Curator => CURATOR,
            SemaphoreLayout::Kazoo => KAZOO,
        };
        for _ in 0..count {
            leases
                .push(QueueNode::create(client, &directory, &naming, LockMode::Exclusive, &self.data).await?);
        }
        loop {
            let list =
                retry_until_answered(client, || client.children(&directory).retry(Retry::Never).watched())
                    .await;
            let Some((list, changed)) = none_if_missing(list)? else { return Ok(LeaseOutcome::StartOver) };
            let is_present = |lease: &QueueNode| {
                lease.is_owned_by_session() && list.names.iter().any(|name| name == lease.name())
            };
            if !guard.is_owned_by_session() || !leases.iter().all(is_present) {
                return Ok(LeaseOutcome::StartOver);
            }
            let taken = list.names.iter().filter(|name| self.is_lease(name)).count();
            if u32::try_from(taken).is_ok_and(|taken| taken <= self.permits) {
                if has_lease(client, self.guard.lease_policy) {
                    return Ok(LeaseOutcome::Acquired);
                }
                wait_for_lease(client, self.guard.lease_policy).await?;
                continue;
            }
            if !limit.allows_waiting() {
                return Ok(LeaseOutcome::NotAvailable);
            }
            changed.await;
        }
    }
}

fn is_kazoo_lease(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

enum LeaseOutcome {
    Acquired,
    /// There are too many leases, and the caller does not wait.
    NotAvailable,
    TimedOut,
    /// The session or a node was lost.
    StartOver,
}

/// Ownership of one permit.
#[derive(Debug)]
#[must_use = "dropping it releases the permit"]
pub struct Permit {
    owned: OwnedNode,
}

impl Permit {
    /// Releases the permit and waits for the reply of the ensemble.
    pub async fn release(self) -> Result<(), RecipeError> {
        self.owned.release().await
    }
}

impl Ownership for Permit {
    fn ownership_state(&self) -> &OwnershipState {
        self.owned.ownership_state()
    }
}

impl Fenced for Permit {}
