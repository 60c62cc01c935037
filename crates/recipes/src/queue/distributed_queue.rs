//! Producers and consumers of a queue.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use zebu_client::{
    Client, Compression, CreateMode, CreateSpec, Error, ErrorCode, OneshotWatcher, Retry, Version, path,
};

use super::item::{QueueItem, frame, parts};
use super::leased_item::{LeasedItem, lease_item};
use super::order::{ItemFormat, ItemRank, QueueOrder};
use crate::error::RecipeError;
use crate::idempotent_txn::{IdempotentTxn, TxnOutcome};
use crate::retry::{none_if_missing, retry_until_answered, with_deadline};
use crate::wait_queue::WaitLimit;

/// A distributed queue of items, first in first out by default.
///
/// ```text
/// /jobs                                          persistent
///   qn-0000000007                                persistent: an item
///   qn-0000000008                                persistent: an item
/// /jobs-locks                                    persistent, if items are leased
///   qn-0000000007                                ephemeral: lock of a leased item
/// /jobs-writer-53345f9894234e0ca7b59f819e3ec2e1  ephemeral: the number of this handle's last write
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::{DistributedQueue, QueueOrder};
///
/// let jobs = DistributedQueue::new(&client, "/jobs", QueueOrder::Simple);
/// jobs.push("one").await?;
/// jobs.push("two").await?;
/// assert_eq!(jobs.pop().await?.data(), "one"); // removed
/// let delivery = jobs.lease().await?; // returns to the queue unless finished
/// assert_eq!(delivery.item().data(), "two");
/// delivery.finish().await?;
/// assert!(jobs.try_pop().await?.is_none());
///
/// let urgent = DistributedQueue::new(&client, "/urgent", QueueOrder::Priority);
/// urgent.push_with_priority("later", 5).await?;
/// urgent.push_with_priority("first", -1).await?;
/// assert_eq!(urgent.pop().await?.data(), "first");
/// # Ok(()) });
/// ```
///
/// **Delivery.** A push and a pop take effect exactly once, even after a lost reply: each also sets a node of
/// the writer in the same transaction. [`pop`](DistributedQueue::pop) delivers at most once: a consumer that
/// crashes afterwards has lost the item. [`lease`](DistributedQueue::lease) delivers at least once: the item
/// returns when the session of its consumer ends.
///
/// **Connection lost.** Calls continue afterwards. **Session lost.** If it ends together with the reply to a
/// push or a pop, the call fails with [`Unknown`](RecipeError::Unknown); leased items return, see
/// [`LeasedItem`]. **Dropped.** A dropped `pop` may have removed an item; lease items that must not be lost.
///
/// **Size.** A consumer lists all names at once, and a new item wakes all waiting consumers: a queue is for
/// thousands of items and tens of consumers. [`bounded`](DistributedQueue::bounded) limits the producers.
#[derive(Clone, Debug)]
pub struct DistributedQueue {
    pub(super) client: Client,
    pub(super) path: String,
    pub(super) locks: String,
    pub(super) order: QueueOrder,
    limit: Option<usize>,
    txn: Arc<IdempotentTxn>,
}

impl DistributedQueue {
    /// A queue in this directory, which is created on demand. Nothing is sent yet.
    pub fn new(client: &Client, path: &str, order: QueueOrder) -> DistributedQueue {
        let (items, locks) = order.paths(path);
        let txn = Arc::new(IdempotentTxn::beside(client, path));
        DistributedQueue { client: client.clone(), path: items, locks, order, limit: None, txn }
    }

    /// Moves the writer nodes below this directory, as `writer-<32 digits>`, instead of next to the queue.
    pub fn writers_at(mut self, directory: &str) -> DistributedQueue {
        self.txn = Arc::new(IdempotentTxn::below(&self.client, directory));
        self
    }

    /// The directory of the locks of leased items: Curator's `lockPath`. The default is `<path>-locks`, and
    /// `<path>/taken` with [`QueueOrder::KazooLocking`].
    pub fn locks_at(mut self, path: &str) -> DistributedQueue {
        self.locks = path.to_owned();
        self
    }

    /// Blocks producers while the queue has this many items. Concurrent producers may exceed it by their
    /// number.
    pub fn bounded(mut self, limit: usize) -> DistributedQueue {
        self.limit = Some(limit.max(1));
        self
    }

    /// Adds an item.
    pub async fn push(&self, item: impl Into<Bytes>) -> Result<(), RecipeError> {
        self.add(self.order.plain_name()?, &item.into()).await
    }

    /// Adds an item with a priority; the smallest is delivered first.
    pub async fn push_with_priority(&self, item: impl Into<Bytes>, priority: i32) -> Result<(), RecipeError> {
        self.add(self.order.priority_name(priority)?, &item.into()).await
    }

    /// Adds an item that is delivered after this delay.
    pub async fn push_after(&self, item: impl Into<Bytes>, delay: Duration) -> Result<(), RecipeError> {
        let due = SystemTime::now().checked_add(delay);
        let due = due.ok_or_else(|| RecipeError::Invalid("the delay is too long".to_owned()))?;
        self.add(self.order.due_name(due)?, &item.into()).await
    }

    /// Adds an item that can be [removed](DistributedQueue::remove) by its id. `/` and `|` become `_`.
    pub async fn push_with_id(&self, item: impl Into<Bytes>, id: &str) -> Result<(), RecipeError> {
        self.add(self.order.id_name(id)?, &item.into()).await
    }

    /// Removes all items with this id; returns their number.
    pub async fn remove(&self, id: &str) -> Result<usize, RecipeError> {
        let wanted = self.order.id_name(id)?;
        let mut removed = 0;
        for (_, name) in self.list().await?.0 {
            if self.order.id(&name).is_some_and(|id| format!("queue-|{id}|") == wanted)
                && self.remove_items(&[name], WaitLimit::Unlimited).await? == PopOutcome::Removed
            {
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// The number of items.
    pub async fn len(&self) -> Result<usize, RecipeError> {
        Ok(self.list().await?.0.len())
    }

    /// Whether the queue is empty.
    pub async fn is_empty(&self) -> Result<bool, RecipeError> {
        Ok(self.len().await? == 0)
    }

    /// Waits for an item and removes it.
    pub async fn pop(&self) -> Result<QueueItem, RecipeError> {
        loop {
            if let Some(mut items) = self.pop_by(1, WaitLimit::Unlimited).await?
                && let Some(item) = items.pop()
            {
                return Ok(item);
            }
        }
    }

    /// Removes an item if there is one. Fails with [`Unreachable`](RecipeError::Unreachable) if no server
    /// answers within the client's connection timeout, and with [`Unknown`](RecipeError::Unknown) if the item
    /// may have been removed by then.
    pub async fn try_pop(&self) -> Result<Option<QueueItem>, RecipeError> {
        let limit = WaitLimit::no_wait(&self.client);
        Ok(self.pop_by(1, limit).await?.and_then(|mut items| items.pop()))
    }

    /// Waits for an item, up to the timeout. Fails with [`Unknown`](RecipeError::Unknown) if the item may
    /// have been removed by then and no reply came.
    pub async fn pop_within(&self, timeout: Duration) -> Result<Option<QueueItem>, RecipeError> {
        Ok(self.pop_by(1, WaitLimit::within(timeout)).await?.and_then(|mut items| items.pop()))
    }

    /// Waits for this many items and removes them in one transaction.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// use zebu_recipes::{DistributedQueue, QueueOrder};
    ///
    /// let players = DistributedQueue::new(&client, "/players", QueueOrder::Simple);
    /// for name in ["ann", "ben", "cat", "dan"] {
    ///     players.push(name).await?;
    /// }
    /// assert_eq!(players.pop_many(3).await?.len(), 3);
    /// assert_eq!(players.len().await?, 1);
    /// # Ok(()) });
    /// ```
    pub async fn pop_many(&self, count: usize) -> Result<Vec<QueueItem>, RecipeError> {
        loop {
            if let Some(items) = self.pop_by(count, WaitLimit::Unlimited).await? {
                return Ok(items);
            }
        }
    }

    /// Waits for this many items, up to the timeout.
    pub async fn pop_many_within(
        &self,
        count: usize,
        timeout: Duration,
    ) -> Result<Option<Vec<QueueItem>>, RecipeError> {
        self.pop_by(count, WaitLimit::within(timeout)).await
    }

    /// Waits for an item and locks it until it is finished or released; see [`LeasedItem`].
    pub async fn lease(&self) -> Result<LeasedItem, RecipeError> {
        loop {
            if let Some(delivery) = self.lease_by(WaitLimit::Unlimited).await? {
                return Ok(delivery);
            }
        }
    }

    /// Waits for an item and locks it, up to the timeout.
    pub async fn lease_within(&self, timeout: Duration) -> Result<Option<LeasedItem>, RecipeError> {
        self.lease_by(WaitLimit::within(timeout)).await
    }

    /// Locks an item if there is an unlocked one. Fails with [`Unreachable`](RecipeError::Unreachable) if no
    /// server answers within the client's connection timeout.
    pub async fn try_lease(&self) -> Result<Option<LeasedItem>, RecipeError> {
        self.lease_by(WaitLimit::no_wait(&self.client)).await
    }

    pub(super) fn spec(&self, item: &Bytes) -> Result<CreateSpec, RecipeError> {
        let data = match self.order.format() {
            ItemFormat::Plain => item.clone(),
            ItemFormat::Framed => {
                frame(item).ok_or_else(|| RecipeError::Invalid("an item is larger than 2 GiB".to_owned()))?
            }
        };
        Ok(CreateSpec::new().data(data).mode(CreateMode::PersistentSequential))
    }

    async fn add(&self, name: String, item: &Bytes) -> Result<(), RecipeError> {
        let (path, spec) = (path::join(&self.path, &name), self.spec(item)?);
        self.wait_for_capacity().await?;
        loop {
            let outcome = self.txn.run(|transaction| {
                transaction.create(&path, spec.clone());
            });
            match outcome.await? {
                TxnOutcome::Committed => return Ok(()),
                TxnOutcome::Rejected(error) if error.code() == Some(ErrorCode::NoNode) => {
                    self.create_directory(&self.path).await?;
                }
                TxnOutcome::Rejected(error) => return Err(error.into()),
                TxnOutcome::Unknown | TxnOutcome::NotSent => return Err(self.unknown("a push")),
            }
        }
    }

    async fn wait_for_capacity(&self) -> Result<(), RecipeError> {
        let Some(limit) = self.limit else { return Ok(()) };
        loop {
            let (items, changed) = self.list().await?;
            match changed {
                Some(changed) if items.len() >= limit => drop(changed.await),
                Some(_) | None => return Ok(()),
            }
        }
    }

    pub(super) async fn create_directory(&self, path: &str) -> Result<(), Error> {
        retry_until_answered(&self.client, || self.client.ensure_path(path)).await
    }

    pub(super) fn unknown(&self, what: &'static str) -> RecipeError {
        RecipeError::Unknown { what, path: self.path.clone() }
    }

    /// The items in order, and a watcher of their changes; `None` if the directory is missing.
    async fn list(&self) -> Result<(Vec<(ItemRank, String)>, Option<OneshotWatcher>), RecipeError> {
        let client = &self.client;
        let listed =
            retry_until_answered(client, || client.children(&self.path).retry(Retry::Never).watched()).await;
        let Some((list, changed)) = none_if_missing(listed)? else { return Ok((Vec::new(), None)) };
        let ranked = |name: String| Some((self.order.rank(&name)?, name));
        let mut items: Vec<_> = list.names.into_iter().filter_map(ranked).collect();
        // Sorted by the distance from one of them, because numbers wrap.
        let base = items.first().map_or(0, |(rank, _)| rank.sequence);
        items.sort_unstable_by_key(|(rank, _)| (rank.key, rank.sequence.wrapping_sub(base)));
        Ok((items, Some(changed)))
    }

    /// The items that are due, a watcher of changes, and the time until the next item is due.
    pub(super) async fn due(&self) -> Result<AvailableItems, RecipeError> {
        loop {
            let (items, changed) = self.list().await?;
            let Some(changed) = changed else {
                self.create_directory(&self.path).await?;
                continue;
            };
            let now = SystemTime::now();
            let (mut names, mut next) = (Vec::new(), None);
            for (rank, name) in items {
                match self.order.remaining(rank, now) {
                    Duration::ZERO => names.push(name),
                    // The items are sorted by due time: the first that is not due is the next.
                    remaining => next = Some(next.unwrap_or(remaining).min(remaining)),
                }
            }
            return Ok(AvailableItems { names, changed, next });
        }
    }

    async fn pop_by(&self, count: usize, limit: WaitLimit) -> Result<Option<Vec<QueueItem>>, RecipeError> {
        loop {
            let Some(found) = with_deadline(limit.deadline(), self.poppable()).await else {
                return limit.expired(&self.path);
            };
            let (due, locks) = found?;
            if due.names.len() >= count {
                let first = with_deadline(limit.deadline(), self.read_first(&due.names, count)).await;
                let Some(first) = first else { return limit.expired(&self.path) };
                let Some(items) = first? else { continue };
                let names: Vec<String> = items.iter().map(|item| item.name.clone()).collect();
                match self.remove_items(&names, limit).await? {
                    PopOutcome::Removed => return Ok(Some(items)),
                    PopOutcome::Conflict => continue,
                    PopOutcome::NotSent => return limit.expired(&self.path),
                }
            }
            if !limit.allows_waiting()
                || with_deadline(limit.deadline(), due.wait_with(locks)).await.is_none()
            {
                return Ok(None);
            }
        }
    }

    /// The items that `pop` may remove, and a watcher of their locks, if locks matter.
    async fn poppable(&self) -> Result<(AvailableItems, Option<OneshotWatcher>), RecipeError> {
        if self.order.respects_locks() {
            let (due, locks) = self.unlocked().await?;
            return Ok((due, Some(locks)));
        }
        Ok((self.due().await?, None))
    }

    /// The first of these items that still exist; `None` if there are too few.
    async fn read_first(
        &self,
        names: &[String],
        count: usize,
    ) -> Result<Option<Vec<QueueItem>>, RecipeError> {
        let mut items = Vec::new();
        for name in names {
            if items.len() == count {
                break;
            }
            if let Some(item) = self.read(name).await? {
                items.push(item);
            }
        }
        Ok((items.len() == count).then_some(items))
    }

    pub(super) async fn read(&self, name: &str) -> Result<Option<QueueItem>, RecipeError> {
        let path = path::join(&self.path, name);
        let get = || self.client.get(&path).compression(Compression::None).retry(Retry::Never);
        let Some(node) = none_if_missing(retry_until_answered(&self.client, get).await)? else {
            return Ok(None);
        };
        let parts = match self.order.format() {
            ItemFormat::Plain => vec![node.data],
            ItemFormat::Framed => parts(node.data)
                .ok_or(RecipeError::BadData { path, expected: "a frame of a queue; remove the node" })?,
        };
        Ok(Some(QueueItem { name: name.to_owned(), parts }))
    }

    /// Deletes items, all or none.
    async fn remove_items(&self, names: &[String], limit: WaitLimit) -> Result<PopOutcome, RecipeError> {
        let outcome = self.txn.run_by(limit.deadline(), |transaction| {
            for name in names {
                if self.order.respects_locks() {
                    // This create fails if another consumer owns the lock.
                    let lock = path::join(&self.locks, name);
                    transaction.create(&lock, CreateSpec::new());
                    transaction.delete(&lock, Version::Any);
                }
                transaction.delete(&path::join(&self.path, name), Version::Any);
            }
        });
        match outcome.await? {
            TxnOutcome::Committed => Ok(PopOutcome::Removed),
            TxnOutcome::Rejected(error)
                if matches!(error.code(), Some(ErrorCode::NoNode | ErrorCode::NodeExists)) =>
            {
                Ok(PopOutcome::Conflict)
            }
            TxnOutcome::Rejected(error) => Err(error.into()),
            TxnOutcome::Unknown => Err(self.unknown("a pop")),
            TxnOutcome::NotSent => Ok(PopOutcome::NotSent),
        }
    }

    async fn lease_by(&self, limit: WaitLimit) -> Result<Option<LeasedItem>, RecipeError> {
        let deadline = limit.deadline();
        loop {
            let Some(found) = with_deadline(deadline, self.unlocked()).await else {
                return limit.expired(&self.path);
            };
            let (due, locks) = found?;
            for name in &due.names {
                match with_deadline(deadline, lease_item(self, name)).await {
                    None => return limit.expired(&self.path),
                    Some(Err(error)) => return Err(error),
                    Some(Ok(Some(leased))) => return Ok(Some(leased)),
                    Some(Ok(None)) => {}
                }
            }
            if !limit.allows_waiting() || with_deadline(deadline, due.wait_with(Some(locks))).await.is_none()
            {
                return Ok(None);
            }
        }
    }

    /// The unlocked items, and a watcher of the locks.
    async fn unlocked(&self) -> Result<(AvailableItems, OneshotWatcher), RecipeError> {
        let client = &self.client;
        loop {
            let listed =
                retry_until_answered(client, || client.children(&self.locks).retry(Retry::Never).watched())
                    .await;
            let Some((locked, changed)) = none_if_missing(listed)? else {
                self.create_directory(&self.locks).await?;
                continue;
            };
            let mut due = self.due().await?;
            due.names.retain(|name| !locked.names.contains(name));
            return Ok((due, changed));
        }
    }
}

/// The items that are available at one moment.
pub(super) struct AvailableItems {
    pub(super) names: Vec<String>,
    changed: OneshotWatcher,
    next: Option<Duration>,
}

impl AvailableItems {
    /// Waits until another check is worthwhile.
    async fn wait(self) {
        match self.next {
            Some(next) => drop(tokio::time::timeout(next, self.changed).await),
            None => drop(self.changed.await),
        }
    }

    /// The same, or until the watcher of the locks fires.
    async fn wait_with(self, locks: Option<OneshotWatcher>) {
        let Some(locks) = locks else { return self.wait().await };
        tokio::select! {
            () = self.wait() => {}
            _ = locks => {}
        }
    }
}

/// The outcome of an attempt to remove items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PopOutcome {
    Removed,
    /// One of them is missing or locked.
    Conflict,
    /// The deadline passed before anything was sent.
    NotSent,
}
