//! Producers and consumers of a queue.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use zebu_client::{
    Client, Compression, CreateMode, CreateSpec, Error, ErrorCode, OneshotWatcher, Retry, Version, path,
};

use super::delivery::{Claimed, Delivery, claim};
use super::entry::{Entry, frame, parts};
use super::order::{Form, QueueOrder, Rank};
use crate::connection::{before, persist, present};
use crate::error::RecipeError;
use crate::line::Patience;
use crate::once::{Once, Outcome};

/// Items that producers push and consumers take, by default in the order of their coming.
///
/// ```text
/// /jobs                                          persistent
///   qn-0000000007                                persistent: an item
///   qn-0000000008                                persistent: an item
/// /jobs-locks                                    persistent, if items are leased
///   qn-0000000007                                ephemeral: being processed
/// /jobs-writer-53345f9894234e0ca7b59f819e3ec2e1  ephemeral: the number of this handle's last change
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::{Queue, QueueOrder};
///
/// let jobs = Queue::new(&client, "/jobs", QueueOrder::Simple);
/// jobs.push("one").await?;
/// jobs.push("two").await?;
/// assert_eq!(jobs.pop().await?.data(), "one"); // taken for good
/// let delivery = jobs.lease().await?; // comes back if we do not finish
/// assert_eq!(delivery.entry().data(), "two");
/// delivery.finish().await?;
/// assert!(jobs.try_pop().await?.is_none());
///
/// let urgent = Queue::new(&client, "/urgent", QueueOrder::Priority);
/// urgent.push_with_priority("later", 5).await?;
/// urgent.push_with_priority("first", -1).await?;
/// assert_eq!(urgent.pop().await?.data(), "first");
/// # Ok(()) });
/// ```
///
/// **Once.** A push and a pop are carried out exactly once, also when an answer is lost: each also sets a node
/// of the handle's own, in one transaction. [`pop`](Queue::pop) hands an item out at most once: who crashes
/// after it has lost the item. [`lease`](Queue::lease) hands it out at least once: it comes back when the
/// session of whoever has it ends.
///
/// **Connection lost.** Calls go on afterwards. **Session lost.** If it ends together with the answer to a push
/// or a pop, the outcome is [`Unknown`](RecipeError::Unknown); leased items come back, see [`Delivery`].
/// **Dropped.** A dropped `pop` may have taken an item; lease items that must not get lost.
///
/// **Size.** All names are listed at once, and all waiting consumers look when an item comes: a queue is for
/// thousands of items and tens of consumers. [`bounded`](Queue::bounded) keeps producers back.
#[derive(Clone, Debug)]
pub struct Queue {
    pub(super) client: Client,
    pub(super) path: String,
    pub(super) locks: String,
    pub(super) order: QueueOrder,
    limit: Option<usize>,
    once: Arc<Once>,
}

impl Queue {
    /// A queue in this directory, which is made when needed. Nothing is sent yet.
    pub fn new(client: &Client, path: &str, order: QueueOrder) -> Queue {
        let (items, locks) = order.places(path);
        let once = Arc::new(Once::beside(client, path));
        Queue { client: client.clone(), path: items, locks, order, limit: None, once }
    }

    /// Keeps the writers' own nodes below this directory, as `writer-<32 digits>`, instead of beside the queue.
    pub fn writers_at(mut self, directory: &str) -> Queue {
        self.once = Arc::new(Once::below(&self.client, directory));
        self
    }

    /// Where the locks of leased items are: Curator's `lockPath`. `<path>-locks` unless told otherwise, and
    /// `<path>/taken` with [`QueueOrder::KazooLocking`].
    pub fn locks_at(mut self, path: &str) -> Queue {
        self.locks = path.to_owned();
        self
    }

    /// Producers wait while so many items are there. Several that wait at once may exceed it by their number.
    pub fn bounded(mut self, limit: usize) -> Queue {
        self.limit = Some(limit.max(1));
        self
    }

    /// Adds an item.
    pub async fn push(&self, item: impl Into<Bytes>) -> Result<(), RecipeError> {
        self.add(self.order.plain_name()?, &item.into()).await
    }

    /// Adds an item with a priority; the smallest leaves first.
    pub async fn push_with_priority(&self, item: impl Into<Bytes>, priority: i32) -> Result<(), RecipeError> {
        self.add(self.order.priority_name(priority)?, &item.into()).await
    }

    /// Adds an item that leaves when this much time has passed.
    pub async fn push_after(&self, item: impl Into<Bytes>, delay: Duration) -> Result<(), RecipeError> {
        let due = SystemTime::now().checked_add(delay);
        let due = due.ok_or_else(|| RecipeError::Invalid("a delay beyond all calendars".to_owned()))?;
        self.add(self.order.due_name(due)?, &item.into()).await
    }

    /// Adds an item that can be [removed](Queue::remove) by its id. `/` and `|` become `_`.
    pub async fn push_with_id(&self, item: impl Into<Bytes>, id: &str) -> Result<(), RecipeError> {
        self.add(self.order.id_name(id)?, &item.into()).await
    }

    /// Removes all items with this id; how many there were.
    pub async fn remove(&self, id: &str) -> Result<usize, RecipeError> {
        let wanted = self.order.id_name(id)?;
        let mut removed = 0;
        for (_, name) in self.list().await?.0 {
            if self.order.id(&name).is_some_and(|id| format!("queue-|{id}|") == wanted)
                && self.take(&[name], Patience::Endless).await? == Taken::All
            {
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// How many items there are.
    pub async fn len(&self) -> Result<usize, RecipeError> {
        Ok(self.list().await?.0.len())
    }

    /// Whether there are none.
    pub async fn is_empty(&self) -> Result<bool, RecipeError> {
        Ok(self.len().await? == 0)
    }

    /// Waits for an item and takes it for good.
    pub async fn pop(&self) -> Result<Entry, RecipeError> {
        loop {
            if let Some(mut entries) = self.pop_by(1, Patience::Endless).await?
                && let Some(entry) = entries.pop()
            {
                return Ok(entry);
            }
        }
    }

    /// Takes an item if there is one. Fails with [`Unreachable`](RecipeError::Unreachable) if no server answers
    /// within the client's connection timeout, and with [`Unknown`](RecipeError::Unknown) if an item may have been
    /// taken by then.
    pub async fn try_pop(&self) -> Result<Option<Entry>, RecipeError> {
        let patience = Patience::no_wait(&self.client);
        Ok(self.pop_by(1, patience).await?.and_then(|mut entries| entries.pop()))
    }

    /// Waits for an item, but not for longer than this. Fails with [`Unknown`](RecipeError::Unknown) if an item may
    /// have been taken by then and the server has not answered.
    pub async fn pop_within(&self, patience: Duration) -> Result<Option<Entry>, RecipeError> {
        Ok(self.pop_by(1, Patience::of(patience)).await?.and_then(|mut entries| entries.pop()))
    }

    /// Waits until so many items have gathered, and takes them all in one transaction: nobody else gets some
    /// of them.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// use zebu_recipes::{Queue, QueueOrder};
    ///
    /// let players = Queue::new(&client, "/players", QueueOrder::Simple);
    /// for name in ["ann", "ben", "cat", "dan"] {
    ///     players.push(name).await?;
    /// }
    /// assert_eq!(players.gather(3).await?.len(), 3);
    /// assert_eq!(players.len().await?, 1);
    /// # Ok(()) });
    /// ```
    pub async fn gather(&self, count: usize) -> Result<Vec<Entry>, RecipeError> {
        loop {
            if let Some(entries) = self.pop_by(count, Patience::Endless).await? {
                return Ok(entries);
            }
        }
    }

    /// Waits until so many items have gathered, but not for longer than this.
    pub async fn gather_within(
        &self,
        count: usize,
        patience: Duration,
    ) -> Result<Option<Vec<Entry>>, RecipeError> {
        self.pop_by(count, Patience::of(patience)).await
    }

    /// Waits for an item and locks it, until it is finished or given back; see [`Delivery`].
    pub async fn lease(&self) -> Result<Delivery, RecipeError> {
        loop {
            if let Some(delivery) = self.lease_by(Patience::Endless).await? {
                return Ok(delivery);
            }
        }
    }

    /// Waits for an item and locks it, but does not wait for longer than this.
    pub async fn lease_within(&self, patience: Duration) -> Result<Option<Delivery>, RecipeError> {
        self.lease_by(Patience::of(patience)).await
    }

    /// Locks an item if there is one that nobody else has. Fails with [`Unreachable`](RecipeError::Unreachable) if
    /// no server answers within the client's connection timeout.
    pub async fn try_lease(&self) -> Result<Option<Delivery>, RecipeError> {
        self.lease_by(Patience::no_wait(&self.client)).await
    }

    pub(super) fn spec(&self, item: &Bytes) -> Result<CreateSpec, RecipeError> {
        let data = match self.order.form() {
            Form::Plain => item.clone(),
            Form::Framed => {
                frame(item).ok_or_else(|| RecipeError::Invalid("an item of more than 2 GiB".to_owned()))?
            }
        };
        Ok(CreateSpec::new().data(data).mode(CreateMode::PersistentSequential))
    }

    async fn add(&self, name: String, item: &Bytes) -> Result<(), RecipeError> {
        let (path, spec) = (path::join(&self.path, &name), self.spec(item)?);
        self.wait_for_room().await?;
        loop {
            let outcome = self.once.carry_out(|transaction| {
                transaction.create(&path, spec.clone());
            });
            match outcome.await? {
                Outcome::Done => return Ok(()),
                Outcome::Refused(error) if error.code() == Some(ErrorCode::NoNode) => {
                    self.make_directory(&self.path).await?;
                }
                Outcome::Refused(error) => return Err(error.into()),
                Outcome::Unknown | Outcome::NotSent => return Err(self.unknown("a push")),
            }
        }
    }

    async fn wait_for_room(&self) -> Result<(), RecipeError> {
        let Some(limit) = self.limit else { return Ok(()) };
        loop {
            let (items, changed) = self.list().await?;
            match changed {
                Some(changed) if items.len() >= limit => drop(changed.await),
                Some(_) | None => return Ok(()),
            }
        }
    }

    pub(super) async fn make_directory(&self, path: &str) -> Result<(), Error> {
        persist(&self.client, || self.client.ensure_path(path)).await
    }

    pub(super) fn unknown(&self, what: &'static str) -> RecipeError {
        RecipeError::Unknown { what, path: self.path.clone() }
    }

    /// The items in their order, and what tells that they have changed; it is missing if the directory is.
    async fn list(&self) -> Result<(Vec<(Rank, String)>, Option<OneshotWatcher>), RecipeError> {
        let client = &self.client;
        let listed = persist(client, || client.children(&self.path).retry(Retry::Never).watched()).await;
        let Some((list, changed)) = present(listed)? else { return Ok((Vec::new(), None)) };
        let ranked = |name: String| Some((self.order.rank(&name)?, name));
        let mut items: Vec<_> = list.names.into_iter().filter_map(ranked).collect();
        // By the distance from one of them: numbers wrap.
        let base = items.first().map_or(0, |(rank, _)| rank.sequence);
        items.sort_unstable_by_key(|(rank, _)| (rank.class, rank.sequence.wrapping_sub(base)));
        Ok((items, Some(changed)))
    }

    /// The items that may leave now, what tells of changes, and when the next one may.
    pub(super) async fn due(&self) -> Result<Due, RecipeError> {
        loop {
            let (items, changed) = self.list().await?;
            let Some(changed) = changed else {
                self.make_directory(&self.path).await?;
                continue;
            };
            let now = SystemTime::now();
            let (mut names, mut next) = (Vec::new(), None);
            for (rank, name) in items {
                match self.order.remaining(rank, now) {
                    Duration::ZERO => names.push(name),
                    // They are in the order of their time: the first that stays is the next.
                    remaining => next = Some(next.unwrap_or(remaining).min(remaining)),
                }
            }
            return Ok(Due { names, changed, next });
        }
    }

    async fn pop_by(&self, count: usize, patience: Patience) -> Result<Option<Vec<Entry>>, RecipeError> {
        loop {
            let Some(looked) = before(patience.deadline(), self.takeable()).await else {
                return patience.expired(&self.path);
            };
            let (due, locks) = looked?;
            if due.names.len() >= count {
                let first = before(patience.deadline(), self.read_first(&due.names, count)).await;
                let Some(first) = first else { return patience.expired(&self.path) };
                let Some(entries) = first? else { continue };
                let names: Vec<String> = entries.iter().map(|entry| entry.name.clone()).collect();
                match self.take(&names, patience).await? {
                    Taken::All => return Ok(Some(entries)),
                    Taken::None => continue,
                    Taken::NotSent => return patience.expired(&self.path),
                }
            }
            if !patience.waits() || before(patience.deadline(), due.wait_with(locks)).await.is_none() {
                return Ok(None);
            }
        }
    }

    /// The items that can be taken for good now, and what tells that a lock has come or gone, if locks matter.
    async fn takeable(&self) -> Result<(Due, Option<OneshotWatcher>), RecipeError> {
        if self.order.respects_locks() {
            let (due, locks) = self.unlocked().await?;
            return Ok((due, Some(locks)));
        }
        Ok((self.due().await?, None))
    }

    /// The first of these items that are still there; `None` if there are not enough left.
    async fn read_first(&self, names: &[String], count: usize) -> Result<Option<Vec<Entry>>, RecipeError> {
        let mut entries = Vec::new();
        for name in names {
            if entries.len() == count {
                break;
            }
            if let Some(entry) = self.read(name).await? {
                entries.push(entry);
            }
        }
        Ok((entries.len() == count).then_some(entries))
    }

    pub(super) async fn read(&self, name: &str) -> Result<Option<Entry>, RecipeError> {
        let path = path::join(&self.path, name);
        let get = || self.client.get(&path).compression(Compression::None).retry(Retry::Never);
        let Some(node) = present(persist(&self.client, get).await)? else { return Ok(None) };
        let parts = match self.order.form() {
            Form::Plain => vec![node.data],
            Form::Framed => parts(node.data)
                .ok_or(RecipeError::BadData { path, expected: "a frame of a queue; remove the node" })?,
        };
        Ok(Some(Entry { name: name.to_owned(), parts }))
    }

    /// Deletes items, all or none.
    async fn take(&self, names: &[String], patience: Patience) -> Result<Taken, RecipeError> {
        let outcome = self.once.carry_out_by(patience.deadline(), |transaction| {
            for name in names {
                if self.order.respects_locks() {
                    // Fails if another consumer has the lock.
                    let lock = path::join(&self.locks, name);
                    transaction.create(&lock, CreateSpec::new());
                    transaction.delete(&lock, Version::Any);
                }
                transaction.delete(&path::join(&self.path, name), Version::Any);
            }
        });
        match outcome.await? {
            Outcome::Done => Ok(Taken::All),
            Outcome::Refused(error)
                if matches!(error.code(), Some(ErrorCode::NoNode | ErrorCode::NodeExists)) =>
            {
                Ok(Taken::None)
            }
            Outcome::Refused(error) => Err(error.into()),
            Outcome::Unknown => Err(self.unknown("a pop")),
            Outcome::NotSent => Ok(Taken::NotSent),
        }
    }

    async fn lease_by(&self, patience: Patience) -> Result<Option<Delivery>, RecipeError> {
        let deadline = patience.deadline();
        loop {
            let Some(looked) = before(deadline, self.unlocked()).await else {
                return patience.expired(&self.path);
            };
            let (due, locks) = looked?;
            for name in &due.names {
                match before(deadline, claim(self, name)).await {
                    None => return patience.expired(&self.path),
                    Some(Err(error)) => return Err(error),
                    Some(Ok(Claimed::Ours(delivery))) => return Ok(Some(*delivery)),
                    Some(Ok(Claimed::Taken)) => {}
                }
            }
            if !patience.waits() || before(deadline, due.wait_with(Some(locks))).await.is_none() {
                return Ok(None);
            }
        }
    }

    /// The items that nobody has locked, and what tells that a lock has come or gone.
    async fn unlocked(&self) -> Result<(Due, OneshotWatcher), RecipeError> {
        let client = &self.client;
        loop {
            let listed = persist(client, || client.children(&self.locks).retry(Retry::Never).watched()).await;
            let Some((locked, changed)) = present(listed)? else {
                self.make_directory(&self.locks).await?;
                continue;
            };
            let mut due = self.due().await?;
            due.names.retain(|name| !locked.names.contains(name));
            return Ok((due, changed));
        }
    }
}

/// What a look at a queue has shown.
pub(super) struct Due {
    pub(super) names: Vec<String>,
    changed: OneshotWatcher,
    next: Option<Duration>,
}

impl Due {
    /// Waits until another look makes sense.
    async fn wait(self) {
        match self.next {
            Some(next) => drop(tokio::time::timeout(next, self.changed).await),
            None => drop(self.changed.await),
        }
    }

    /// The same, or until this watch on the locks reports something.
    async fn wait_with(self, locks: Option<OneshotWatcher>) {
        let Some(locks) = locks else { return self.wait().await };
        tokio::select! {
            () = self.wait() => {}
            _ = locks => {}
        }
    }
}

/// What came of an attempt to take items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    All,
    /// One of them is gone or locked.
    None,
    /// The deadline passed before anything was sent.
    NotSent,
}
