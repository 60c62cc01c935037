//! A value with many concurrent writers: optimistic first, under a lock after too many conflicts.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zebu_client::{Client, Compression, Retry};

use super::writer::{NodeWriter, WriteCondition, WriteOutcome};
use crate::error::RecipeError;
use crate::lock::Mutex;
use crate::retry::{none_if_missing, retry_until_answered};

/// Optimistic attempts before the lock or the failure.
const ATTEMPTS: u32 = 30;

/// Attempts under the lock: other clients may still write without it.
const ATTEMPTS_UNDER_LOCK: u32 = 100;

/// The longest pause after a conflict.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// A change that was carried out exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Updated<T> {
    /// The value before.
    pub before: T,
    /// The value after.
    pub after: T,
}

/// Bytes that are changed by read, compute and conditional write; the base of Curator's
/// `DistributedAtomicValue`.
///
/// ```text
/// /state                                         persistent: the value
/// /state-writer-53345f9894234e0ca7b59f819e3ec2e1 ephemeral: the number of this handle's last write
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::AtomicValue;
///
/// let state = AtomicValue::new(&client, "/state");
/// let updated = state.update(|old| [&old[..], b"x"].concat().into()).await?;
/// assert_eq!((&updated.before[..], &updated.after[..]), (&b""[..], &b"x"[..]));
/// assert!(state.compare_and_set(b"x", "y").await?);
/// assert_eq!(&state.get().await?[..], b"y");
/// # Ok(()) });
/// ```
///
/// - **Connection lost.** Every write also sets a node of the writer in the same transaction. After a lost
///   reply that node tells the outcome, so that no change happens twice.
/// - **Session lost.** The writer node is deleted with the session. If a reply was lost with it, and the
///   value does not tell either, the call fails with [`Unknown`](RecipeError::Unknown).
/// - **Crash.** The value is the one written last.
///
/// A handle writes one change at a time; clones share the handle.
#[derive(Clone, Debug)]
pub struct AtomicValue {
    client: Client,
    path: String,
    writer: Arc<NodeWriter>,
    lock: Option<Mutex>,
    attempts: u32,
}

impl AtomicValue {
    /// A value in this node, which the first write creates. Nothing is sent yet.
    pub fn new(client: &Client, path: &str) -> AtomicValue {
        let writer = Arc::new(NodeWriter::new(client, path));
        AtomicValue { client: client.clone(), path: path.to_owned(), writer, lock: None, attempts: ATTEMPTS }
    }

    /// Moves the writer nodes below this directory, as `writer-<32 digits>`, instead of next to the value.
    /// Handles with different directories work together.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// use zebu_recipes::AtomicValue;
    ///
    /// let state = AtomicValue::new(&client, "/state").writers_at("/writers");
    /// state.set("x").await?;
    /// assert_eq!(client.children("/writers").await?.names.len(), 1);
    /// # Ok(()) });
    /// ```
    pub fn writers_at(mut self, directory: &str) -> AtomicValue {
        self.writer = Arc::new(NodeWriter::below(&self.client, &self.path, directory));
        self
    }

    /// Acquires this lock after a number of optimistic conflicts. Writers that share the lock then do not
    /// conflict.
    pub fn promote_to(mut self, lock: Mutex) -> AtomicValue {
        self.lock = Some(lock);
        self
    }

    /// The number of optimistic attempts; 30 by default.
    pub fn attempts(mut self, attempts: u32) -> AtomicValue {
        self.attempts = attempts.max(1);
        self
    }

    /// The value; empty if there is none. The server may lag; call `sync` before if that matters.
    pub async fn get(&self) -> Result<Bytes, RecipeError> {
        Ok(self.read().await?.1)
    }

    /// Writes the result of `change`, which is called again after each conflict.
    pub async fn update(
        &self,
        mut change: impl FnMut(&Bytes) -> Bytes + Send,
    ) -> Result<Updated<Bytes>, RecipeError> {
        let mut try_change = |old: &Bytes| Ok(Some(change(old)));
        match self.try_update(&mut try_change).await? {
            Some(updated) => Ok(updated),
            None => Err(RecipeError::Invalid("a change without a value".to_owned())),
        }
    }

    /// Writes if the value is the expected one; `false` if it is another.
    pub async fn compare_and_set(&self, expected: &[u8], new: impl Into<Bytes>) -> Result<bool, RecipeError> {
        let new = new.into();
        let mut change = |old: &Bytes| Ok((old == expected).then(|| new.clone()));
        Ok(self.try_update(&mut change).await?.is_some())
    }

    /// Writes the value unconditionally.
    pub async fn set(&self, new: impl Into<Bytes>) -> Result<Updated<Bytes>, RecipeError> {
        let new = new.into();
        self.update(move |_| new.clone()).await
    }

    async fn read(&self) -> Result<(WriteCondition, Bytes), RecipeError> {
        let get = || self.client.get(&self.path).compression(Compression::None).retry(Retry::Never);
        Ok(match none_if_missing(retry_until_answered(&self.client, get).await)? {
            Some(node) => (WriteCondition::Version(node.stat.version), node.data),
            None => (WriteCondition::Missing, Bytes::new()),
        })
    }

    /// Writes the result of `change`, or nothing if it is `None`.
    pub(super) async fn try_update(
        &self,
        change: &mut (dyn FnMut(&Bytes) -> Result<Option<Bytes>, RecipeError> + Send),
    ) -> Result<Option<Updated<Bytes>>, RecipeError> {
        if let Some(result) = self.try_attempts(self.attempts, change).await? {
            return Ok(result.into_value());
        }
        if let Some(lock) = &self.lock {
            let guard = lock.acquire().await?;
            let result = self.try_attempts(ATTEMPTS_UNDER_LOCK, change).await;
            guard.release().await?;
            if let Some(result) = result? {
                return Ok(result.into_value());
            }
        }
        Err(RecipeError::Contended { path: self.path.clone(), attempts: self.attempts })
    }

    /// `None` if every attempt met a conflict.
    async fn try_attempts(
        &self,
        attempts: u32,
        change: &mut (dyn FnMut(&Bytes) -> Result<Option<Bytes>, RecipeError> + Send),
    ) -> Result<Option<UpdateAttempt>, RecipeError> {
        for attempt in 0..attempts {
            if attempt > 0 {
                let random = (self.client.unique_bits() & 0xff) as u8;
                tokio::time::sleep(pause(attempt, random)).await;
            }
            let (condition, before) = self.read().await?;
            let Some(after) = change(&before)? else { return Ok(Some(UpdateAttempt::Unchanged)) };
            match self.writer.write(condition, &after).await? {
                WriteOutcome::Written => return Ok(Some(UpdateAttempt::Done(Updated { before, after }))),
                WriteOutcome::Conflict | WriteOutcome::NotSent => {}
            }
        }
        Ok(None)
    }
}

enum UpdateAttempt {
    Done(Updated<Bytes>),
    Unchanged,
}

impl UpdateAttempt {
    fn into_value(self) -> Option<Updated<Bytes>> {
        match self {
            UpdateAttempt::Done(updated) => Some(updated),
            UpdateAttempt::Unchanged => None,
        }
    }
}

/// The pause grows with the number of conflicts, with jitter.
fn pause(attempt: u32, random: u8) -> Duration {
    Duration::from_millis(1)
        .saturating_mul(1 << attempt.min(8))
        .min(PAUSE_MAX)
        .mul_f64(f64::from(random) / 255.0)
}

/// A 64-bit number with many concurrent writers; compatible with Curator's `DistributedAtomicLong`.
///
/// ```text
/// /counter                                       persistent: eight bytes, the highest first
/// /counter-writer-53345f9894234e0ca7b59f819e3e…  ephemeral: the number of this handle's last write
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::{AtomicLong, Mutex};
///
/// let counter = AtomicLong::new(&client, "/counter").promote_to(Mutex::new(&client, "/counter-lock"));
/// assert_eq!(counter.add(5).await?.after, 5);
/// assert_eq!(counter.subtract(2).await?.before, 5);
/// assert!(counter.compare_and_set(3, 10).await?);
/// assert_eq!(counter.get().await?, 10);
/// # Ok(()) });
/// ```
///
/// Every change happens exactly once; [`AtomicValue`] describes a lost connection or session. A change that
/// would overflow is refused.
#[derive(Clone, Debug)]
pub struct AtomicLong {
    value: AtomicValue,
}

impl AtomicLong {
    /// A number in this node; zero if there is none. Nothing is sent yet.
    pub fn new(client: &Client, path: &str) -> AtomicLong {
        AtomicLong { value: AtomicValue::new(client, path) }
    }

    /// See [`AtomicValue::writers_at`].
    pub fn writers_at(mut self, directory: &str) -> AtomicLong {
        self.value = self.value.writers_at(directory);
        self
    }

    /// See [`AtomicValue::promote_to`].
    pub fn promote_to(mut self, lock: Mutex) -> AtomicLong {
        self.value = self.value.promote_to(lock);
        self
    }

    /// See [`AtomicValue::attempts`].
    pub fn attempts(mut self, attempts: u32) -> AtomicLong {
        self.value = self.value.attempts(attempts);
        self
    }

    /// The number; see [`AtomicValue::get`].
    pub async fn get(&self) -> Result<i64, RecipeError> {
        self.decode(&self.value.get().await?)
    }

    /// Adds to the number.
    pub async fn add(&self, delta: i64) -> Result<Updated<i64>, RecipeError> {
        self.change(|old| old.checked_add(delta)).await
    }

    /// Subtracts from the number.
    pub async fn subtract(&self, delta: i64) -> Result<Updated<i64>, RecipeError> {
        self.change(|old| old.checked_sub(delta)).await
    }

    /// Adds one.
    pub async fn increment(&self) -> Result<Updated<i64>, RecipeError> {
        self.add(1).await
    }

    /// Subtracts one.
    pub async fn decrement(&self) -> Result<Updated<i64>, RecipeError> {
        self.subtract(1).await
    }

    /// Writes the number unconditionally.
    pub async fn set(&self, new: i64) -> Result<Updated<i64>, RecipeError> {
        self.change(|_| Some(new)).await
    }

    /// Writes the number if it is the expected one; `false` if it is another.
    pub async fn compare_and_set(&self, expected: i64, new: i64) -> Result<bool, RecipeError> {
        let mut change = |old: &Bytes| Ok((self.decode(old)? == expected).then(|| encode(new)));
        Ok(self.value.try_update(&mut change).await?.is_some())
    }

    async fn change(
        &self,
        mut change: impl FnMut(i64) -> Option<i64> + Send,
    ) -> Result<Updated<i64>, RecipeError> {
        let path = &self.value.path;
        let mut write = |old: &Bytes| {
            let old = self.decode(old)?;
            let overflow = || RecipeError::Invalid(format!("{path} is {old}; the change would overflow"));
            Ok(Some(encode(change(old).ok_or_else(overflow)?)))
        };
        let updated = self.value.try_update(&mut write).await?;
        let updated = updated.ok_or_else(|| RecipeError::Invalid("a change without a value".to_owned()))?;
        Ok(Updated { before: self.decode(&updated.before)?, after: self.decode(&updated.after)? })
    }

    fn decode(&self, data: &Bytes) -> Result<i64, RecipeError> {
        let wrong =
            || RecipeError::BadData { path: self.value.path.clone(), expected: "a number of eight bytes" };
        match data.len() {
            0 => Ok(0),
            _ => Ok(i64::from_be_bytes(data[..].try_into().map_err(|_| wrong())?)),
        }
    }
}

fn encode(number: i64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}
