//! delete: one node, or a node and its descendants.

use std::sync::Arc;

use tracing::Instrument;
use zebu_proto::client::{DeleteTreeReply, DeleteTreeRequest};
use zebu_proto::{ErrorCode, Jute, OpCode};

use super::call::{ApiCall, CallAttempt, WhenFull, put_path};
use super::cleanup::{CleanupGuard, CleanupTask, may_succeed_later};
use super::client::Client;
use super::error::Error;
use super::freshness::PrivateRequest;
use super::pending::{Pending, sendable};
use super::retry::{RepeatRule, Retry, RetryPolicy};
use super::types::Version;
use crate::path;

const OPERATION: &str = "delete";

/// Nodes that one request deletes on a server with deltree. More of them would hold up other requests.
const TREE_PART: i32 = 500;

/// The limit of concurrent deletes while a tree is deleted.
const TREE_BATCH: usize = 256;

/// The limit of walks over a tree to which other clients add nodes.
const TREE_ROUNDS: u32 = 10;

/// The handling of a missing node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IfMissing {
    Fail,
    Succeed,
}

/// The handling of a failure without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guarantee {
    None,
    UntilDone,
}

/// The scope of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeleteScope {
    Node,
    Tree,
}

/// A delete; see [`Client::delete`].
#[must_use = "nothing is sent before send or await"]
pub struct Delete {
    client: Client,
    path: String,
    version: Version,
    if_missing: IfMissing,
    guarantee: Guarantee,
    scope: DeleteScope,
    progress: Option<Progress>,
    retry: Arc<dyn RetryPolicy>,
}

/// Gets the number of nodes that were deleted since the last call.
type Progress = Arc<dyn Fn(u64) + Send + Sync>;

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
            if_missing: IfMissing::Fail,
            guarantee: Guarantee::None,
            scope: DeleteScope::Node,
            progress: None,
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

    /// A missing node counts as deleted. This also makes the delete idempotent.
    pub fn quiet(mut self) -> Delete {
        self.if_missing = IfMissing::Succeed;
        self
    }

    /// Calls `progress` with the number of descendants that were deleted since its last call. Needs
    /// [`recursive`](Delete::recursive).
    pub fn on_progress(mut self, progress: impl Fn(u64) + Send + Sync + 'static) -> Delete {
        self.progress = Some(Arc::new(progress));
        self
    }

    /// Deletes all descendants too. Not atomic: other clients may see a part of the tree. Servers that are
    /// Zebu find the descendants themselves; otherwise the client lists them.
    pub fn recursive(mut self) -> Delete {
        self.scope = DeleteScope::Tree;
        self
    }

    /// Deletes the node in the background if the call fails because of the connection, throttling or a
    /// read-only server, or if its future is dropped. The node is deleted at any version as soon as a server
    /// answers. With [`recursive`](Delete::recursive), its descendants are deleted too.
    pub fn guaranteed(mut self) -> Delete {
        self.guarantee = Guarantee::UntilDone;
        self
    }

    fn call(&self, full: &str) -> ApiCall {
        ApiCall::new(OPERATION, &self.path, OpCode::Delete).body(|out| {
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
        let cleanup_guard = match self.guarantee {
            Guarantee::None => None,
            Guarantee::UntilDone => Some(CleanupGuard::new(
                &self.client,
                match self.scope {
                    DeleteScope::Node => CleanupTask::Delete(full),
                    DeleteScope::Tree => CleanupTask::DeleteTree(full),
                },
            )),
        };
        Box::pin(async move { self.run(call, first, cleanup_guard).await }.instrument(span))
    }

    async fn run(
        self,
        call: ApiCall,
        first: CallAttempt,
        cleanup_guard: Option<CleanupGuard>,
    ) -> Result<(), Error> {
        let result = match self.scope {
            DeleteScope::Node => self.run_node(&call, first).await,
            DeleteScope::Tree => self.run_tree(&call, first).await,
        };
        let result = match result {
            Err(error)
                if error.code() == Some(ErrorCode::NoNode) && self.if_missing == IfMissing::Succeed =>
            {
                Ok(())
            }
            other => other,
        };
        let undecided = matches!(&result, Err(error) if may_succeed_later(error));
        if !undecided {
            cleanup_guard.into_iter().for_each(CleanupGuard::disarm);
        }
        result
    }

    async fn run_node(&self, call: &ApiCall, first: CallAttempt) -> Result<(), Error> {
        let repeat = match self.if_missing {
            IfMissing::Fail => RepeatRule::IfNotSent,
            IfMissing::Succeed => RepeatRule::Always,
        };
        self.client.run(call, first, self.retry.clone(), repeat).await.map(drop)
    }

    /// Tries the node itself first, because most have no children. Then it deletes from the leaves upwards.
    async fn run_tree(&self, call: &ApiCall, mut attempt: CallAttempt) -> Result<(), Error> {
        let mut retry = self.client.retry_loop(self.retry.clone());
        let mut rounds = 0;
        let mut maybe_done = false;
        loop {
            match self.client.reply_of(call, attempt).await {
                Ok(_) => return Ok(()),
                // An earlier attempt was carried out.
                Err(error) if error.code() == Some(ErrorCode::NoNode) && maybe_done => return Ok(()),
                Err(error) if error.code() == Some(ErrorCode::NotEmpty) && rounds < TREE_ROUNDS => {
                    rounds += 1;
                    if let Err(error) = self.clear().await {
                        retry.after(error, RepeatRule::Always).await?;
                    }
                }
                Err(error) => {
                    maybe_done |= error.is_ambiguous();
                    retry.after(error, RepeatRule::Always).await?;
                }
            }
            attempt = self.client.start_awaited(call);
        }
    }

    /// Deletes all descendants of the node.
    async fn clear(&self) -> Result<(), Error> {
        match self.clear_on_server().await {
            Err(error) if error.is_unsupported_freshness() => self.clear_node_by_node().await,
            // A server refuses to clear its root, which has nodes of its own.
            Err(error) if error.code() == Some(ErrorCode::BadArguments) => self.clear_node_by_node().await,
            // Another client has deleted the node.
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(()),
            result => result,
        }
    }

    /// The server finds the nodes, so that no list is too long.
    async fn clear_on_server(&self) -> Result<(), Error> {
        let full = self.client.resolve(OPERATION, &self.path)?;
        let request =
            DeleteTreeRequest { root: full.into(), max: TREE_PART, keep_root: true, leave_ephemerals: false };
        let call = ApiCall::new(OPERATION, &self.path, OpCode::DeleteTree)
            .body(|out| request.encode(out))
            .private(PrivateRequest::DeleteTree);
        loop {
            let first = self.client.start_awaited(&call);
            let reply = self.client.run(&call, first, self.retry.clone(), RepeatRule::Always).await?;
            let DeleteTreeReply { deleted, more } = call.decode(&reply, DeleteTreeReply::decode)?;
            if let Some(progress) = &self.progress {
                progress(deleted.unsigned_abs());
            }
            if !more {
                return Ok(());
            }
        }
    }

    async fn clear_node_by_node(&self) -> Result<(), Error> {
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
        // Parents precede their children; requests are carried out in the order of sending.
        let leaves_first: Vec<&String> = nodes[1..].iter().rev().collect();
        for batch in leaves_first.chunks(TREE_BATCH) {
            let delete = |node: &&String| self.client.delete(node).quiet().retry(Retry::Never).send();
            let deletes: Vec<_> = batch.iter().map(delete).collect();
            for delete in deletes {
                match delete.await {
                    Ok(()) => {
                        if let Some(progress) = &self.progress {
                            progress(1);
                        }
                    }
                    // Another client has added a child: the next round deletes it.
                    Err(error) if error.code() == Some(ErrorCode::NotEmpty) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

sendable!(Delete => ());
