//! delete: one node, or a node and all below it.

use std::sync::Arc;

use tracing::Instrument;
use zebu_proto::{ErrorCode, Jute, OpCode};

use super::call::{Attempt, Call, WhenFull, put_path};
use super::client::Client;
use super::error::Error;
use super::janitor::{Chore, was_not_tried};
use super::pending::{Pending, sendable};
use super::protection::Sweeper;
use super::retry::{Repeat, Retry, RetryPolicy};
use super::types::Version;
use crate::path;

const OPERATION: &str = "delete";

/// Deletes that are in flight at once while a tree is removed.
const TREE_BATCH: usize = 256;

/// How often a tree is walked again because others add to it.
const TREE_ROUNDS: u32 = 10;

/// What a missing node means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Error,
    Success,
}

/// What happens when the call fails without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promise {
    None,
    Guaranteed,
}

/// How much is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Node,
    Tree,
}

/// A delete; see [`Client::delete`].
#[must_use = "nothing is sent before send or await"]
pub struct Delete {
    client: Client,
    path: String,
    version: Version,
    missing: Missing,
    promise: Promise,
    reach: Reach,
    retry: Arc<dyn RetryPolicy>,
}

impl Client {
    /// Deletes a node without children.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// # client.create("/config").await?;
    /// # client.ensure_path("/apps/old/deep").await?;
    /// # client.ensure_path("/locks/lock-0000000007").await?;
    /// client.delete("/config").await?;
    /// client.delete("/apps/old").recursive().quiet().await?;
    /// // An unlock that must not get lost: it is repeated in the background until it is done.
    /// client.delete("/locks/lock-0000000007").guaranteed().await?;
    /// # Ok(()) });
    /// ```
    pub fn delete(&self, path: &str) -> Delete {
        Delete {
            client: self.clone(),
            path: path.to_owned(),
            version: Version::Any,
            missing: Missing::Error,
            promise: Promise::None,
            reach: Reach::Node,
            retry: self.retry.clone(),
        }
    }
}

impl Delete {
    /// Only if this is the current version of the data.
    pub fn version(mut self, version: Version) -> Delete {
        self.version = version;
        self
    }

    /// A node that is not there counts as deleted. This also makes the delete safe to repeat.
    pub fn quiet(mut self) -> Delete {
        self.missing = Missing::Success;
        self
    }

    /// With all that is below it. Not atomic: others may see a part of it gone.
    pub fn recursive(mut self) -> Delete {
        self.reach = Reach::Tree;
        self
    }

    /// If the call fails because of the connection, because the server is throttled or takes no writes, or its future is
    /// dropped, the node is deleted in the background, whatever its version, as soon as a server answers. With
    /// [`recursive`](Delete::recursive), all that is below it goes too.
    pub fn guaranteed(mut self) -> Delete {
        self.promise = Promise::Guaranteed;
        self
    }

    fn call(&self, full: &str) -> Call {
        Call::new(OPERATION, &self.path, OpCode::Delete).body(|out| {
            put_path(full, out);
            self.version.wire().encode(out);
        })
    }

    fn begin(self, when_full: WhenFull) -> Pending<()> {
        let span = tracing::debug_span!("delete", path = %self.path);
        let full = match self.client.resolve(OPERATION, &self.path) {
            Ok(full) => full,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let call = self.call(&full);
        let first = self.client.start(&call, when_full);
        let sweeper = match self.promise {
            Promise::None => None,
            Promise::Guaranteed => Some(Sweeper::new(
                &self.client,
                match self.reach {
                    Reach::Node => Chore::Delete(full),
                    Reach::Tree => Chore::DeleteTree(full),
                },
            )),
        };
        Box::pin(async move { self.run(call, first, sweeper).await }.instrument(span))
    }

    async fn run(self, call: Call, first: Attempt, sweeper: Option<Sweeper>) -> Result<(), Error> {
        let result = match self.reach {
            Reach::Node => self.run_node(&call, first).await,
            Reach::Tree => self.run_tree(&call, first).await,
        };
        let result = match result {
            Err(error) if error.code() == Some(ErrorCode::NoNode) && self.missing == Missing::Success => {
                Ok(())
            }
            other => other,
        };
        let undecided = matches!(&result, Err(error) if was_not_tried(error));
        if !undecided {
            sweeper.into_iter().for_each(Sweeper::disarm);
        }
        result
    }

    async fn run_node(&self, call: &Call, first: Attempt) -> Result<(), Error> {
        let repeat = match self.missing {
            Missing::Error => Repeat::IfNotSent,
            Missing::Success => Repeat::Always,
        };
        self.client.run(call, first, self.retry.clone(), repeat).await.map(drop)
    }

    /// Tries the node itself first: most have no children. Then from the leaves upwards.
    async fn run_tree(&self, call: &Call, mut attempt: Attempt) -> Result<(), Error> {
        let mut attempts = self.client.attempts(self.retry.clone());
        let mut rounds = 0;
        let mut maybe_done = false;
        loop {
            match self.client.finish(call, attempt).await {
                Ok(_) => return Ok(()),
                // An earlier attempt was carried out after all.
                Err(error) if error.code() == Some(ErrorCode::NoNode) && maybe_done => return Ok(()),
                Err(error) if error.code() == Some(ErrorCode::NotEmpty) && rounds < TREE_ROUNDS => {
                    rounds += 1;
                    if let Err(error) = self.clear().await {
                        attempts.after(error, Repeat::Always).await?;
                    }
                }
                Err(error) => {
                    maybe_done |= error.is_ambiguous();
                    attempts.after(error, Repeat::Always).await?;
                }
            }
            attempt = self.client.start_awaited(call);
        }
    }

    /// Deletes everything below the node.
    async fn clear(&self) -> Result<(), Error> {
        let mut nodes = vec![self.path.clone()];
        let mut walked = 0;
        while walked < nodes.len() {
            let end = nodes.len().min(walked + TREE_BATCH);
            let batch = &nodes[walked..end];
            let lists: Vec<_> =
                batch.iter().map(|node| self.client.children(node).retry(Retry::Never).send()).collect();
            let mut below = Vec::new();
            for (node, list) in batch.iter().zip(lists) {
                match list.await {
                    Ok(list) => below.extend(list.names.iter().map(|name| path::join(node, name))),
                    Err(error) if error.code() == Some(ErrorCode::NoNode) => {}
                    Err(error) => return Err(error),
                }
            }
            walked = end;
            nodes.append(&mut below);
        }
        // Parents stand before their children; calls are carried out in the order they are sent.
        let leaves_first: Vec<&String> = nodes[1..].iter().rev().collect();
        for batch in leaves_first.chunks(TREE_BATCH) {
            let delete = |node: &&String| self.client.delete(node).quiet().retry(Retry::Never).send();
            let deletes: Vec<_> = batch.iter().map(delete).collect();
            for delete in deletes {
                match delete.await {
                    Ok(()) => {}
                    // Somebody has added to it: the next round sees it.
                    Err(error) if error.code() == Some(ErrorCode::NotEmpty) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

sendable!(Delete => ());
