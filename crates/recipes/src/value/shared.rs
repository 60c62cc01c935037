//! A value that everybody sees change.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use zebu_client::{Client, Compression, ErrorCode, NodeData, OneshotWatcher, Parents, Retry};

use super::writer::{Basis, Writer, Written};
use crate::connection::{persist, present};
use crate::error::RecipeError;
use crate::line::Patience;

/// A value with what tells it from all others of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned<T> {
    /// The value.
    pub value: T,
    /// How often the node was written since it was created.
    pub version: i32,
    /// The transaction that wrote it.
    pub zxid: i64,
}

/// A value that is kept up to date; shared with Curator's `SharedValue`.
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
/// assert!(!setting.try_set(&before, "other").await?); // it is not the same any more
/// changes.wait_for(|now| &now.value[..] == b"on").await?;
/// # Ok(()) });
/// ```
///
/// **Connection lost.** The value is the last one seen; it is read again afterwards, so that the newest is
/// never missed. Values that were replaced meanwhile are. **Session lost.** The same. **Crash.** The node is
/// persistent. **Deleted.** The last value stays until the node is created again.
///
/// [`set`](SharedValue::set) and [`try_set`](SharedValue::try_set) are carried out exactly once, as
/// [`AtomicValue`](super::AtomicValue) describes.
#[derive(Debug)]
pub struct SharedValue {
    client: Client,
    path: String,
    current: watch::Receiver<Arc<Versioned<Bytes>>>,
    failure: Arc<OnceLock<RecipeError>>,
    writer: Writer,
    task: JoinHandle<()>,
}

impl SharedValue {
    /// Reads the value, or makes the node with this one if there is none, and follows it from then on.
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
            match persist(client, create).await {
                Ok(_) => {}
                Err(error) if error.code() == Some(ErrorCode::NodeExists) => {}
                Err(error) => return Err(error.into()),
            }
        };
        let (sender, current) = watch::channel(Arc::new(versioned(node)));
        let failure = Arc::new(OnceLock::new());
        let follower = Follower { client: client.clone(), path: path.to_owned(), current: sender };
        let end = failure.clone();
        let task = tokio::spawn(async move {
            let Err(error) = follower.follow(changed).await;
            // Before the sender goes: whoever sees the end can ask for its reason.
            let _ = end.set(error);
            drop(follower);
        });
        let writer = Writer::new(client, path);
        Ok(SharedValue { client: client.clone(), path: path.to_owned(), current, failure, writer, task })
    }

    /// The newest value that was seen.
    pub fn current(&self) -> Arc<Versioned<Bytes>> {
        self.current.borrow().clone()
    }

    /// The value and every change of it. The newest is never lost. It ends if the value cannot be followed
    /// any more; [`failure`](SharedValue::failure) says why.
    pub fn changes(&self) -> watch::Receiver<Arc<Versioned<Bytes>>> {
        self.current.clone()
    }

    /// Why the value is not followed any more, if so: the client was closed, or may not read it.
    pub fn failure(&self) -> Option<RecipeError> {
        self.failure.get().cloned()
    }

    /// The node's path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Reads the value from a server now, instead of waiting for its news.
    pub async fn fetch(&self) -> Result<Versioned<Bytes>, RecipeError> {
        let read = || self.client.get(&self.path).compression(Compression::None).retry(Retry::Never);
        Ok(versioned(persist(&self.client, read).await?))
    }

    /// Writes the value, whatever is there, exactly once: a value that another client has written since is not
    /// overwritten by a repetition. Fails with [`Unknown`](RecipeError::Unknown) if the session ended together with
    /// the answer and the value does not tell either.
    pub async fn set(&self, value: impl Into<Bytes>) -> Result<(), RecipeError> {
        self.writer.write(Basis::Any, &value.into()).await.map(drop)
    }

    /// Keeps the writers' own nodes below this directory; see
    /// [`AtomicValue::writers_at`](super::AtomicValue::writers_at).
    pub fn writers_at(mut self, directory: &str) -> SharedValue {
        self.keep_writers_at(directory);
        self
    }

    pub(crate) fn keep_writers_at(&mut self, directory: &str) {
        self.writer = Writer::below(&self.client, &self.path, directory);
    }

    /// [`try_set`](SharedValue::try_set) for callers that wait for a server.
    pub(crate) async fn set_if(
        &self,
        previous: &Versioned<Bytes>,
        value: Bytes,
    ) -> Result<bool, RecipeError> {
        let written = self.writer.write(Basis::Version(previous.version), &value).await?;
        Ok(written == Written::Yes)
    }

    /// Writes the value if the present one is `previous`; `false` if another client was faster. Fails with
    /// [`Unreachable`](RecipeError::Unreachable) if no server answers within the client's connection timeout.
    pub async fn try_set(
        &self,
        previous: &Versioned<Bytes>,
        value: impl Into<Bytes>,
    ) -> Result<bool, RecipeError> {
        let patience = Patience::no_wait(&self.client);
        let basis = Basis::Version(previous.version);
        match self.writer.write_by(patience.deadline(), basis, &value.into()).await? {
            Written::Yes => Ok(true),
            Written::Conflict => Ok(false),
            Written::NotSent => patience.expired(&self.path).map(|_: Option<()>| false),
        }
    }
}

impl Drop for SharedValue {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Follower {
    client: Client,
    path: String,
    current: watch::Sender<Arc<Versioned<Bytes>>>,
}

impl Follower {
    async fn follow(&self, mut changed: OneshotWatcher) -> Result<std::convert::Infallible, RecipeError> {
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
                    // A server that lags must not bring an old value back.
                    let newer = new.zxid > current.zxid;
                    if newer {
                        *current = Arc::new(new.clone());
                    }
                    newer
                });
                return Ok(changed);
            }
            let ask = || self.client.exists(&self.path).retry(Retry::Never).watched();
            let (stat, appeared) = persist(&self.client, ask).await?;
            if stat.is_none() {
                appeared.await;
            }
        }
    }
}

async fn read(client: &Client, path: &str) -> Result<Option<(NodeData, OneshotWatcher)>, RecipeError> {
    let get = || client.get(path).compression(Compression::None).retry(Retry::Never).watched();
    let read = persist(client, get).await;
    Ok(present(read)?)
}

fn versioned(node: NodeData) -> Versioned<Bytes> {
    Versioned { value: node.data, version: node.stat.version, zxid: node.stat.mzxid }
}

/// A number that everybody sees change; shared with Curator's `SharedCount` and with Kazoo's `Counter` with
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
/// It is a [`SharedValue`] of four bytes; what is said there holds here.
#[derive(Debug)]
pub struct SharedCount {
    value: SharedValue,
}

impl SharedCount {
    /// Reads the number, or makes the node with this one if there is none, and follows it from then on.
    pub async fn start(client: &Client, path: &str, seed: i32) -> Result<SharedCount, RecipeError> {
        let seed = seed.to_be_bytes().to_vec();
        Ok(SharedCount { value: SharedValue::start(client, path, seed).await? })
    }

    /// The newest number that was seen.
    pub fn current(&self) -> Result<Versioned<i32>, RecipeError> {
        self.decode(&self.value.current())
    }

    /// Waits until the number is another one than this, and returns it.
    pub async fn changed_from(&self, known: &Versioned<i32>) -> Result<Versioned<i32>, RecipeError> {
        let mut changes = self.value.changes();
        let found = changes.wait_for(|now| now.zxid != known.zxid).await.map(|now| now.clone());
        match found {
            Ok(now) => self.decode(&now),
            Err(_) => Err(self
                .value
                .failure()
                .unwrap_or_else(|| RecipeError::Invalid("the value is not followed any more".to_owned()))),
        }
    }

    /// Keeps the writers' own nodes below this directory; see
    /// [`AtomicValue::writers_at`](super::AtomicValue::writers_at).
    pub fn writers_at(mut self, directory: &str) -> SharedCount {
        self.value = self.value.writers_at(directory);
        self
    }

    /// Writes the number, whatever is there; see [`SharedValue::set`].
    pub async fn set(&self, number: i32) -> Result<(), RecipeError> {
        self.value.set(number.to_be_bytes().to_vec()).await
    }

    /// Writes the number if the present one is `previous`; `false` if somebody was faster.
    pub async fn try_set(&self, previous: &Versioned<i32>, number: i32) -> Result<bool, RecipeError> {
        let Versioned { version, zxid, .. } = *previous;
        let previous = Versioned { value: Bytes::new(), version, zxid };
        self.value.try_set(&previous, number.to_be_bytes().to_vec()).await
    }

    fn decode(&self, raw: &Versioned<Bytes>) -> Result<Versioned<i32>, RecipeError> {
        let path = || self.value.path.clone();
        let bytes = raw.value[..].try_into();
        let bytes =
            bytes.map_err(|_| RecipeError::BadData { path: path(), expected: "a number of four bytes" })?;
        Ok(Versioned { value: i32::from_be_bytes(bytes), version: raw.version, zxid: raw.zxid })
    }
}
