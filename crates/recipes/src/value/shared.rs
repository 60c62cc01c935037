//! A value with change notification.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use zebu_client::{Client, Compression, ErrorCode, NodeData, OneshotWatcher, Parents, Retry};

use super::writer::{NodeWriter, WriteCondition, WriteOutcome};
use crate::error::RecipeError;
use crate::retry::{none_if_missing, retry_until_answered};
use crate::wait_queue::WaitLimit;

/// A value with its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedValue<T> {
    /// The value.
    pub value: T,
    /// The number of writes since the node was created.
    pub version: i32,
    /// The transaction that wrote it.
    pub zxid: i64,
}

/// A value that is kept up to date; compatible with Curator's `SharedValue`.
///
/// ```text
/// /setting                                       persistent: the value
/// /setting-writer-53345f9894234e0ca7b59f819e3e…  ephemeral, after the first write of a handle
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::SharedValue;
///
/// let setting = SharedValue::start(&client, "/setting", "off").await?;
/// let mut changes = setting.changes();
/// let before = setting.current();
/// assert_eq!(&before.value[..], b"off");
/// assert!(setting.try_set(&before, "on").await?);
/// assert!(!setting.try_set(&before, "other").await?); // another value by now
/// changes.wait_for(|now| &now.value[..] == b"on").await?;
/// # Ok(()) });
/// ```
///
/// - **Connection lost.** The value is the last one seen. It is read again afterwards, so that the newest is
///   never missed; values in between are.
/// - **Session lost.** The same.
/// - **Crash.** The node is persistent.
/// - **Deleted.** The last value stays until the node is created again.
///
/// [`set`](SharedValue::set) and [`try_set`](SharedValue::try_set) take effect exactly once; see
/// [`AtomicValue`](super::AtomicValue).
#[derive(Debug)]
pub struct SharedValue {
    client: Client,
    path: String,
    current: watch::Receiver<Arc<VersionedValue<Bytes>>>,
    failure: Arc<OnceLock<RecipeError>>,
    writer: NodeWriter,
    task: JoinHandle<()>,
}

impl SharedValue {
    /// Reads the value, or creates the node with the seed, and keeps it up to date.
    pub async fn start(
        client: &Client,
        path: &str,
        seed: impl Into<Bytes>,
    ) -> Result<SharedValue, RecipeError> {
        let seed = seed.into();
        let (node, changed) = loop {
            if let Some(found) = read(client, path).await? {
                break found;
            }
            let create = || {
                client
                    .create(path)
                    .data(seed.clone())
                    .compression(Compression::None)
                    .parents(Parents::Containers)
                    .retry(Retry::Never)
            };
            match retry_until_answered(client, create).await {
                Ok(_) => {}
                Err(error) if error.code() == Some(ErrorCode::NodeExists) => {}
                Err(error) => return Err(error.into()),
            }
        };
        let (sender, current) = watch::channel(Arc::new(versioned(node)));
        let failure = Arc::new(OnceLock::new());
        let watch_loop = ValueWatchLoop { client: client.clone(), path: path.to_owned(), current: sender };
        let end = failure.clone();
        let task = tokio::spawn(async move {
            let Err(error) = watch_loop.run(changed).await;
            // Set before the sender is dropped, so that readers of the end find the reason.
            let _ = end.set(error);
            drop(watch_loop);
        });
        let writer = NodeWriter::new(client, path);
        Ok(SharedValue { client: client.clone(), path: path.to_owned(), current, failure, writer, task })
    }

    /// The newest value that was seen.
    pub fn current(&self) -> Arc<VersionedValue<Bytes>> {
        self.current.borrow().clone()
    }

    /// The value and its changes. The newest is never lost. It ends when the value can no longer be watched;
    /// [`failure`](SharedValue::failure) returns the reason.
    pub fn changes(&self) -> watch::Receiver<Arc<VersionedValue<Bytes>>> {
        self.current.clone()
    }

    /// The reason why the value is no longer kept up to date: the client was closed, or may not read it.
    pub fn failure(&self) -> Option<RecipeError> {
        self.failure.get().cloned()
    }

    /// The node's path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Reads the value from a server now.
    pub async fn fetch(&self) -> Result<VersionedValue<Bytes>, RecipeError> {
        let read = || self.client.get(&self.path).compression(Compression::None).retry(Retry::Never);
        Ok(versioned(retry_until_answered(&self.client, read).await?))
    }

    /// Writes the value unconditionally and exactly once: a retry does not overwrite a newer value of another
    /// client. Fails with [`Unknown`](RecipeError::Unknown) if the session ended together with the reply and
    /// the value does not tell the outcome.
    pub async fn set(&self, value: impl Into<Bytes>) -> Result<(), RecipeError> {
        self.writer.write(WriteCondition::Exists, &value.into()).await.map(drop)
    }

    /// Moves the writer nodes below this directory; see
    /// [`AtomicValue::writers_at`](super::AtomicValue::writers_at).
    pub fn writers_at(mut self, directory: &str) -> SharedValue {
        self.keep_writers_at(directory);
        self
    }

    pub(crate) fn keep_writers_at(&mut self, directory: &str) {
        self.writer = NodeWriter::below(&self.client, &self.path, directory);
    }

    /// [`try_set`](SharedValue::try_set) for callers that wait for a server.
    pub(crate) async fn set_if(
        &self,
        previous: &VersionedValue<Bytes>,
        value: Bytes,
    ) -> Result<bool, RecipeError> {
        let written = self.writer.write(WriteCondition::Version(previous.version), &value).await?;
        Ok(written == WriteOutcome::Written)
    }

    /// Writes the value if the current one is `previous`; `false` if another client has changed it. Fails
    /// with [`Unreachable`](RecipeError::Unreachable) if no server answers within the client's connection
    /// timeout.
    pub async fn try_set(
        &self,
        previous: &VersionedValue<Bytes>,
        value: impl Into<Bytes>,
    ) -> Result<bool, RecipeError> {
        let limit = WaitLimit::no_wait(&self.client);
        let condition = WriteCondition::Version(previous.version);
        match self.writer.write_by(limit.deadline(), condition, &value.into()).await? {
            WriteOutcome::Written => Ok(true),
            WriteOutcome::Conflict => Ok(false),
            WriteOutcome::NotSent => limit.expired(&self.path).map(|_: Option<()>| false),
        }
    }
}

impl Drop for SharedValue {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct ValueWatchLoop {
    client: Client,
    path: String,
    current: watch::Sender<Arc<VersionedValue<Bytes>>>,
}

impl ValueWatchLoop {
    async fn run(&self, mut changed: OneshotWatcher) -> Result<std::convert::Infallible, RecipeError> {
        loop {
            changed.await;
            changed = self.refresh().await?;
        }
    }

    async fn refresh(&self) -> Result<OneshotWatcher, RecipeError> {
        loop {
            if let Some((node, changed)) = read(&self.client, &self.path).await? {
                let new = versioned(node);
                self.current.send_if_modified(|current| {
                    // A lagging server must not restore an old value.
                    let newer = new.zxid > current.zxid;
                    if newer {
                        *current = Arc::new(new.clone());
                    }
                    newer
                });
                return Ok(changed);
            }
            let ask = || self.client.exists(&self.path).retry(Retry::Never).watched();
            let (stat, appeared) = retry_until_answered(&self.client, ask).await?;
            if stat.is_none() {
                appeared.await;
            }
        }
    }
}

async fn read(client: &Client, path: &str) -> Result<Option<(NodeData, OneshotWatcher)>, RecipeError> {
    let get = || client.get(path).compression(Compression::None).retry(Retry::Never).watched();
    let read = retry_until_answered(client, get).await;
    Ok(none_if_missing(read)?)
}

fn versioned(node: NodeData) -> VersionedValue<Bytes> {
    VersionedValue { value: node.data, version: node.stat.version, zxid: node.stat.mzxid }
}

/// A number with change notification; compatible with Curator's `SharedCount` and with Kazoo's `Counter` with
/// `support_curator=True`.
///
/// ```text
/// /workers                                       persistent: four bytes, the highest first
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::SharedCount;
///
/// let workers = SharedCount::start(&client, "/workers", 4).await?;
/// let now = workers.current()?;
/// assert!(workers.try_set(&now, now.value + 1).await?);
/// # Ok(()) });
/// ```
///
/// It is a [`SharedValue`] of four bytes, with the same guarantees.
#[derive(Debug)]
pub struct SharedCount {
    value: SharedValue,
}

impl SharedCount {
    /// Reads the number, or creates the node with the seed, and keeps it up to date.
    pub async fn start(client: &Client, path: &str, seed: i32) -> Result<SharedCount, RecipeError> {
        let seed = seed.to_be_bytes().to_vec();
        Ok(SharedCount { value: SharedValue::start(client, path, seed).await? })
    }

    /// The newest number that was seen.
    pub fn current(&self) -> Result<VersionedValue<i32>, RecipeError> {
        self.decode(&self.value.current())
    }

    /// Waits until the number has changed, and returns it.
    pub async fn changed_from(
        &self,
        known: &VersionedValue<i32>,
    ) -> Result<VersionedValue<i32>, RecipeError> {
        let mut changes = self.value.changes();
        let found = changes.wait_for(|now| now.zxid != known.zxid).await.map(|now| now.clone());
        match found {
            Ok(now) => self.decode(&now),
            Err(_) => Err(self.value.failure().unwrap_or_else(|| {
                RecipeError::Invalid("the value is no longer kept up to date".to_owned())
            })),
        }
    }

    /// Moves the writer nodes below this directory; see
    /// [`AtomicValue::writers_at`](super::AtomicValue::writers_at).
    pub fn writers_at(mut self, directory: &str) -> SharedCount {
        self.value = self.value.writers_at(directory);
        self
    }

    /// Writes the number unconditionally; see [`SharedValue::set`].
    pub async fn set(&self, number: i32) -> Result<(), RecipeError> {
        self.value.set(number.to_be_bytes().to_vec()).await
    }

    /// Writes the number if the current one is `previous`; `false` if another client has changed it.
    pub async fn try_set(&self, previous: &VersionedValue<i32>, number: i32) -> Result<bool, RecipeError> {
        let VersionedValue { version, zxid, .. } = *previous;
        let previous = VersionedValue { value: Bytes::new(), version, zxid };
        self.value.try_set(&previous, number.to_be_bytes().to_vec()).await
    }

    fn decode(&self, raw: &VersionedValue<Bytes>) -> Result<VersionedValue<i32>, RecipeError> {
        let path = || self.value.path.clone();
        let bytes = raw.value[..].try_into();
        let bytes =
            bytes.map_err(|_| RecipeError::BadData { path: path(), expected: "a number of four bytes" })?;
        Ok(VersionedValue { value: i32::from_be_bytes(bytes), version: raw.version, zxid: raw.zxid })
    }
}
