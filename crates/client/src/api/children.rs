//! getChildren2, with and without a watch.

use std::sync::Arc;

use tracing::Instrument;
use zebu_proto::client::Freshness;
use zebu_proto::client::reply::GetChildren2Response;
use zebu_proto::{Jute, OpCode};

use super::call::{ApiCall, WhenFull, put_path_and_watch};
use super::client::Client;
use super::error::Error;
use super::freshness::fresh_read;
use super::pending::{Pending, sendable};
use super::retry::{RepeatRule, RetryPolicy};
use super::types::ChildList;
use super::watch::{OneshotWatcher, WatcherHandle};
use crate::core::{ServerReply, WatchIntent};

const OPERATION: &str = "children";

/// A read of the children of a node; see [`Client::children`].
#[must_use = "nothing is sent before send or await"]
pub struct Children {
    client: Client,
    path: String,
    freshness: Freshness,
    retry: Arc<dyn RetryPolicy>,
}

impl Client {
    /// Lists the names of a node's children, in no order.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// # client.create("/members").await?;
    /// # let other = client.clone();
    /// # tokio::spawn(async move { other.sync("/").await?; other.create("/members/a").await });
    /// let (children, changed) = client.children("/members").watched().await?;
    /// println!("{:?}", children.names);
    /// println!("{:?}", changed.await.kind);
    /// # Ok(()) });
    /// ```
    pub fn children(&self, path: &str) -> Children {
        Children {
            client: self.clone(),
            path: path.to_owned(),
            retry: self.retry.clone(),
            freshness: *self.reads,
        }
    }
}

impl Children {
    /// Registers a watch that fires when a child is created or deleted, or the node itself is deleted.
    pub fn watched(self) -> WatchedChildren {
        WatchedChildren { retry: self.retry.clone(), children: self }
    }

    pub(super) fn into_parts(self) -> (Client, String, Freshness, Arc<dyn RetryPolicy>) {
        (self.client, self.path, self.freshness, self.retry)
    }

    pub(super) fn set_freshness(&mut self, freshness: Freshness) {
        self.freshness = freshness;
    }

    pub(super) fn retry_with(mut self, retry: Arc<dyn RetryPolicy>) -> Children {
        self.retry = retry;
        self
    }

    fn call(&self, full: &str, watch: bool) -> ApiCall {
        ApiCall::new(OPERATION, &self.path, OpCode::GetChildren2)
            .body(|out| put_path_and_watch(full, watch, out))
            .fresh(self.freshness)
    }

    fn read(call: &ApiCall, reply: &ServerReply) -> Result<ChildList, Error> {
        let response = call.decode(reply, GetChildren2Response::decode)?;
        let names = response.children.into_iter().map(String::from).collect();
        Ok(ChildList { names, stat: response.stat })
    }

    fn begin(self, when_full: WhenFull) -> Pending<ChildList> {
        let span = tracing::debug_span!("children", path = %self.path);
        let full = match self.client.resolve(OPERATION, &self.path) {
            Ok(full) => full,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let call = self.call(&full, false);
        let first = self.client.start(&call, when_full);
        let run = async move {
            let reply = self.client.run(&call, first, self.retry, RepeatRule::Always).await?;
            Children::read(&call, &reply)
        };
        Box::pin(run.instrument(span))
    }
}

/// A read of the children with a watch; see [`Children::watched`].
#[must_use = "nothing is sent before send or await"]
pub struct WatchedChildren {
    children: Children,
    retry: Arc<dyn RetryPolicy>,
}

impl WatchedChildren {
    fn begin(self, when_full: WhenFull) -> Pending<(ChildList, OneshotWatcher)> {
        let children = self.children;
        let span = tracing::debug_span!("children", path = %children.path, watched = true);
        let full = match children.client.resolve(OPERATION, &children.path) {
            Ok(full) => full,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let (end, registration) = WatcherHandle::new(&children.client, WatchIntent::Children, &full);
        let mut call = children.call(&full, true);
        call.watch = Some(registration);
        let first = children.client.start(&call, when_full);
        let run = async move {
            let reply = children.client.run(&call, first, self.retry, RepeatRule::Always).await?;
            Ok((Children::read(&call, &reply)?, OneshotWatcher::new(end)))
        };
        Box::pin(run.instrument(span))
    }
}

fresh_read!(Children);
sendable!(Children => ChildList);
sendable!(WatchedChildren => (ChildList, OneshotWatcher));
