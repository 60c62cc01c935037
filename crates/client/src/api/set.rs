//! setData.

use std::sync::Arc;

use bytes::Bytes;
use tracing::Instrument;
use zebu_proto::jute::encode_bytes;
use zebu_proto::{ErrorCode, Jute, OpCode, Stat};

use super::call::{ApiCall, CallAttempt, WhenFull, put_path};
use super::client::Client;
use super::compression::Compression;
use super::error::Error;
use super::pending::{Pending, sendable};
use super::retry::{RepeatRule, Retry, RetryLoop, RetryPolicy};
use super::types::Version;

const OPERATION: &str = "set";

/// A write of a node's data; see [`Client::set`].
#[must_use = "nothing is sent before send or await"]
pub struct Set {
    client: Client,
    path: String,
    data: Bytes,
    version: Version,
    repeat: RepeatRule,
    compression: Compression,
    retry: Arc<dyn RetryPolicy>,
}

impl Client {
    /// Replaces a node's data.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// # client.create("/config").await?;
    /// use zebu_client::Version;
    ///
    /// let stat = client.set("/config", "v2").await?;
    /// client.set("/config", "v3").version(Version::Exactly(stat.version)).await?;
    /// # Ok(()) });
    /// ```
    pub fn set(&self, path: &str, data: impl Into<Bytes>) -> Set {
        Set {
            client: self.clone(),
            path: path.to_owned(),
            data: data.into(),
            version: Version::Any,
            repeat: RepeatRule::IfNotSent,
            compression: self.compression,
            retry: self.retry.clone(),
        }
    }
}

impl Set {
    /// Only if this is the current version.
    pub fn version(mut self, version: Version) -> Set {
        self.version = version;
        self
    }

    /// Repeats the write when its outcome is unknown. With an exact version, equal data at the next version
    /// counts as the result of this call; it cannot distinguish another client that wrote the same. Without
    /// one, the version may rise by more than one.
    pub fn idempotent(mut self) -> Set {
        self.repeat = RepeatRule::Always;
        self
    }

    /// The compression of the data.
    pub fn compression(mut self, compression: Compression) -> Set {
        self.compression = compression;
        self
    }

    fn begin(mut self, when_full: WhenFull) -> Pending<Stat> {
        let span = tracing::debug_span!("set", path = %self.path);
        let full = match self.client.resolve(OPERATION, &self.path) {
            Ok(full) => full,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        self.data = self.compression.pack(std::mem::take(&mut self.data));
        let call = ApiCall::new(OPERATION, &self.path, OpCode::SetData).body(|out| {
            put_path(&full, out);
            encode_bytes(&self.data, out);
            self.version.wire().encode(out);
        });
        let first = self.client.start(&call, when_full);
        Box::pin(async move { self.run(call, first).await }.instrument(span))
    }

    async fn run(self, call: ApiCall, mut attempt: CallAttempt) -> Result<Stat, Error> {
        let mut retry = self.client.retry_loop(self.retry.clone());
        loop {
            match self.client.reply_of(&call, attempt).await {
                Ok(reply) => return call.decode(&reply, Stat::decode),
                Err(error)
                    if error.code() == Some(ErrorCode::BadVersion) && self.repeat == RepeatRule::Always =>
                {
                    return self.compare(error, &mut retry).await;
                }
                Err(error) => retry.after(error, self.repeat).await?,
            }
            attempt = self.client.start_awaited(&call);
        }
    }

    /// Checks whether the version is wrong because an earlier attempt of this call was carried out.
    async fn compare(&self, refused: Error, retry: &mut RetryLoop) -> Result<Stat, Error> {
        let Version::Exactly(version) = self.version else { return Err(refused) };
        loop {
            let read = self.client.get(&self.path).compression(Compression::None).retry(Retry::Never).await;
            match read {
                Ok(node) if node.data == self.data && node.stat.version == version.wrapping_add(1) => {
                    return Ok(node.stat);
                }
                Ok(_) => return Err(refused),
                Err(error) if error.code().is_some() => return Err(refused),
                Err(error) => retry.after(error, RepeatRule::Always).await?,
            }
        }
    }
}

sendable!(Set => Stat);
