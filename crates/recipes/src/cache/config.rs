//! Typed configuration: the newest value that could be decoded, and the error of newer data.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use zebu_client::Client;

use crate::error::RecipeError;
use crate::value::{SharedValue, VersionedValue};

/// The limit of attempts after conflicts.
const UPDATE_ATTEMPTS: u32 = 20;

/// The state of a configuration.
#[derive(Clone, Debug)]
pub struct ConfigState<T> {
    /// The newest value that could be decoded.
    pub value: Arc<VersionedValue<T>>,
    /// The error of newer data that could not be decoded.
    pub error: Option<Arc<str>>,
}

/// A configuration in JSON as a typed value with change notification.
///
/// ```text
/// /config/shop                                   persistent: {"workers":4,"greeting":"hello"}
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::JsonConfig;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Shop {
///     workers: u32,
///     greeting: String,
/// }
///
/// let default = Shop { workers: 4, greeting: "hello".into() };
/// let config = JsonConfig::start(&client, "/config/shop", &default).await?;
/// let mut states = config.states();
/// config.update(|shop| shop.workers += 1).await?;
/// states.wait_for(|state| state.value.value.workers == 5).await?;
/// // Invalid data changes nothing and is reported.
/// client.set("/config/shop", "{").await?;
/// states.wait_for(|state| state.error.is_some()).await?;
/// assert_eq!(config.current().value.value.workers, 5);
/// # Ok(()) });
/// ```
///
/// The effects of a lost connection or session, a deleted node and a closed client are those of a
/// [`SharedValue`].
#[derive(Debug)]
pub struct JsonConfig<T> {
    value: SharedValue,
    states: watch::Receiver<ConfigState<T>>,
    task: JoinHandle<()>,
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> JsonConfig<T> {
    /// Reads the configuration, or creates the node with the default, and keeps it up to date. Fails if the
    /// data does not decode, because there is no older value.
    pub async fn start(client: &Client, path: &str, default: &T) -> Result<JsonConfig<T>, RecipeError> {
        let value = SharedValue::start(client, path, encode(default)?).await?;
        let mut raw = value.changes();
        let first = raw.borrow_and_update().clone();
        let first = decode(&first).map_err(|error| RecipeError::Invalid(format!("{path}: {error}")))?;
        let (sender, states) = watch::channel(ConfigState { value: Arc::new(first), error: None });
        let task = tokio::spawn(async move {
            while raw.changed().await.is_ok() {
                let new = raw.borrow_and_update().clone();
                sender.send_modify(|state| match decode(&new) {
                    Ok(value) => *state = ConfigState { value: Arc::new(value), error: None },
                    Err(error) => state.error = Some(error.into()),
                });
            }
        });
        Ok(JsonConfig { value, states, task })
    }

    /// Moves the writer nodes below this directory; see
    /// [`AtomicValue::writers_at`](crate::AtomicValue::writers_at).
    pub fn writers_at(mut self, directory: &str) -> JsonConfig<T> {
        self.value.keep_writers_at(directory);
        self
    }

    /// The current state.
    pub fn current(&self) -> ConfigState<T> {
        let state = self.states.borrow();
        ConfigState { value: state.value.clone(), error: state.error.clone() }
    }

    /// The state and its changes. The newest is never lost. It ends when the node can no longer be watched;
    /// [`failure`](JsonConfig::failure) returns the reason.
    pub fn states(&self) -> watch::Receiver<ConfigState<T>> {
        self.states.clone()
    }

    /// The reason why the value is no longer kept up to date.
    pub fn failure(&self) -> Option<RecipeError> {
        self.value.failure()
    }

    /// Changes the configuration exactly once. `change` is called again after a conflict.
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

impl<T> Drop for JsonConfig<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn decode<T: DeserializeOwned>(raw: &VersionedValue<Bytes>) -> Result<VersionedValue<T>, String> {
    let value = serde_json::from_slice(&raw.value).map_err(|error| error.to_string())?;
    Ok(VersionedValue { value, version: raw.version, zxid: raw.zxid })
}

fn encode<T: Serialize>(value: &T) -> Result<Bytes, RecipeError> {
    let bytes = serde_json::to_vec(value);
    Ok(bytes
        .map_err(|error| RecipeError::Invalid(format!("the value cannot be encoded as JSON: {error}")))?
        .into())
}
