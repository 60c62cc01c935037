//! Configuration with a type: the last value that could be read, and what is wrong with the newest one.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use zebu_client::Client;

use crate::error::RecipeError;
use crate::value::{SharedValue, Versioned};

/// How often an update is tried again because somebody was faster.
const UPDATE_ATTEMPTS: u32 = 20;

/// What is known of a configuration.
#[derive(Clone, Debug)]
pub struct Reading<T> {
    /// The newest value that could be understood.
    pub value: Arc<Versioned<T>>,
    /// Why the newest data could not be, if it is newer than that.
    pub problem: Option<Arc<str>>,
}

/// A configuration in JSON that everybody sees change, as a type.
///
/// ```text
/// /config/shop                                   persistent: {"workers":4,"greeting":"hello"}
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::Config;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Shop {
///     workers: u32,
///     greeting: String,
/// }
///
/// let default = Shop { workers: 4, greeting: "hello".into() };
/// let config = Config::start(&client, "/config/shop", &default).await?;
/// let mut readings = config.readings();
/// config.update(|shop| shop.workers += 1).await?;
/// readings.wait_for(|reading| reading.value.value.workers == 5).await?;
/// // What nobody can read changes nothing, and is told.
/// client.set("/config/shop", "{").await?;
/// readings.wait_for(|reading| reading.problem.is_some()).await?;
/// assert_eq!(config.current().value.value.workers, 5);
/// # Ok(()) });
/// ```
///
/// A lost connection or session, a deleted node and a closed client do what they do to a [`SharedValue`].
#[derive(Debug)]
pub struct Config<T> {
    value: SharedValue,
    readings: watch::Receiver<Reading<T>>,
    task: JoinHandle<()>,
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Config<T> {
    /// Reads the configuration, or makes the node with this one if there is none, and follows it from then on.
    /// Fails if what is there cannot be understood: there is no older value to go on with.
    pub async fn start(client: &Client, path: &str, default: &T) -> Result<Config<T>, RecipeError> {
        let value = SharedValue::start(client, path, encode(default)?).await?;
        let mut raw = value.changes();
        let first = raw.borrow_and_update().clone();
        let first = decode(&first).map_err(|problem| RecipeError::Invalid(format!("{path}: {problem}")))?;
        let (sender, readings) = watch::channel(Reading { value: Arc::new(first), problem: None });
        let task = tokio::spawn(async move {
            while raw.changed().await.is_ok() {
                let new = raw.borrow_and_update().clone();
                sender.send_modify(|reading| match decode(&new) {
                    Ok(value) => *reading = Reading { value: Arc::new(value), problem: None },
                    Err(problem) => reading.problem = Some(problem.into()),
                });
            }
        });
        Ok(Config { value, readings, task })
    }

    /// Keeps the writers' own nodes below this directory; see
    /// [`AtomicValue::writers_at`](crate::AtomicValue::writers_at).
    pub fn writers_at(mut self, directory: &str) -> Config<T> {
        self.value.keep_writers_at(directory);
        self
    }

    /// What is known now.
    pub fn current(&self) -> Reading<T> {
        let reading = self.readings.borrow();
        Reading { value: reading.value.clone(), problem: reading.problem.clone() }
    }

    /// What is known, and every change of it. The newest is never lost. It ends if the node cannot be followed
    /// any more; [`failure`](Config::failure) says why.
    pub fn readings(&self) -> watch::Receiver<Reading<T>> {
        self.readings.clone()
    }

    /// Why it is not followed any more, if so.
    pub fn failure(&self) -> Option<RecipeError> {
        self.value.failure()
    }

    /// Changes the configuration, exactly once; `change` is called again if somebody was faster.
    pub async fn update(&self, mut change: impl FnMut(&mut T) + Send) -> Result<(), RecipeError> {
        for _ in 0..UPDATE_ATTEMPTS {
            let raw = self.value.fetch().await?;
            let mut value = decode::<T>(&raw).map_err(RecipeError::Invalid)?.value;
            change(&mut value);
            if self.value.set_if(&raw, encode(&value)?).await? {
                return Ok(());
            }
        }
        Err(RecipeError::Contended { path: self.value.path().to_owned(), attempts: UPDATE_ATTEMPTS })
    }
}

impl<T> Drop for Config<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn decode<T: DeserializeOwned>(raw: &Versioned<Bytes>) -> Result<Versioned<T>, String> {
    let value = serde_json::from_slice(&raw.value).map_err(|error| error.to_string())?;
    Ok(Versioned { value, version: raw.version, zxid: raw.zxid })
}

fn encode<T: Serialize>(value: &T) -> Result<Bytes, RecipeError> {
    let bytes = serde_json::to_vec(value);
    Ok(bytes.map_err(|error| RecipeError::Invalid(format!("it cannot be written as JSON: {error}")))?.into())
}
