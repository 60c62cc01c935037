//! exists, with and without a watch. A missing node is a result, not an error.

use std::sync::Arc;

use tracing::Instrument;
use zebu_proto::client::Freshness;
use zebu_proto::{ErrorCode, Jute, OpCode, Stat};

use super::call::{ApiCall, CallAttempt, WhenFull, put_path_and_watch};
use super::client::Client;
use super::error::Error;
use super::freshness::fresh_read;
use super::pending::{Pending, sendable};
use super::retry::{RepeatRule, RetryPolicy};
use super::watch::{OneshotWatcher, WatcherHandle};
use crate::core::WatchIntent;

const OPERATION: &str = "exists";

/// An existence check; see [`Client::exists`].
#[must_use = "nothing is sent before send or await"]
pub struct Exists {
    client: Client,
    path: String,
    freshness: Freshness,
    retry: Arc<dyn RetryPolicy>,
}

impl Client {
    /// Reads a node's stat; `None` if the node is missing.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// # client.create("/config").await?;
    /// match client.exists("/config").await? {
    ///     Some(stat) => println!("version {}", stat.version),
    ///     None => println!("not there"),
    /// }
    /// // A watch on a node that is missing fires when it is created.
    /// let (stat, changed) = client.exists("/config").watched().await?;
    /// if stat.is_none() {
    ///     println!("{:?}", changed.await.kind);
    /// }
    /// # Ok(()) });
    /// ```
    pub fn exists(&self, path: &str) -> Exists {
        Exists {
            client: self.clone(),
            path: path.to_owned(),
            retry: self.retry.clone(),
            freshness: self.reads,
        }
    }
}

impl Exists {
    /// Registers a watch that fires when the node is created, deleted or its data changes.
    pub fn watched(self) -> WatchedExists {
        WatchedExists { retry: self.retry.clone(), exists: self }
    }

    fn call(&self, full: &str, watch: bool) -> ApiCall {
        ApiCall::new(OPERATION, &self.path, OpCode::Exists)
            .body(|out| put_path_and_watch(full, watch, out))
            .fresh(self.freshness)
    }

    async fn run(
        client: Client,
        call: &ApiCall,
        first: CallAttempt,
        retry: Arc<dyn RetryPolicy>,
    ) -> Result<Option<Stat>, Error> {
        match client.run(call, first, retry, RepeatRule::Always).await {
            Ok(reply) => call.decode(&reply, Stat::decode).map(Some),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn begin(self, when_full: WhenFull) -> Pending<Option<Stat>> {
        let span = tracing::debug_span!("exists", path = %self.path);
        let full = match self.client.resolve(OPERATION, &self.path) {
            Ok(full) => full,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let call = self.call(&full, false);
        let first = self.client.start(&call, when_full);
        Box::pin(async move { Exists::run(self.client, &call, first, self.retry).await }.instrument(span))
    }
}

/// An existence check with a watch; see [`Exists::watched`].
#[must_use = "nothing is sent before send or await"]
pub struct WatchedExists {
    exists: Exists,
    retry: Arc<dyn RetryPolicy>,
}

impl WatchedExists {
    fn begin(self, when_full: WhenFull) -> Pending<(Option<Stat>, OneshotWatcher)> {
        let exists = self.exists;
        let span = tracing::debug_span!("exists", path = %exists.path, watched = true);
        let full = match exists.client.resolve(OPERATION, &exists.path) {
            Ok(full) => full,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let (end, registration) = WatcherHandle::new(&exists.client, WatchIntent::Exists, &full);
        let mut call = exists.call(&full, true);
        call.watch = Some(registration);
        let first = exists.client.start(&call, when_full);
        let run = async move {
            let stat = Exists::run(exists.client, &call, first, self.retry).await?;
            Ok((stat, OneshotWatcher::new(end)))
        };
        Box::pin(run.instrument(span))
    }
}

fresh_read!(Exists);
sendable!(Exists => Option<Stat>);
sendable!(WatchedExists => (Option<Stat>, OneshotWatcher));
