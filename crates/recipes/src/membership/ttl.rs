//! A node that outlives its owner by a fixed time.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use zebu_client::{Client, Compression, Error, ErrorCode, Retry, path};

use super::persistent_node::{IfOwnedByOther, PersistentNode, PersistentNodeMode};
use crate::error::RecipeError;
use crate::retry::ReconnectRetry;

/// The child that is written periodically.
const TOUCH: &str = "touch";

/// The shortest pause between two touches.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// A node that exists for a fixed time after the last write of its owner; Curator's `PersistentTtlNode`.
///
/// ```text
/// /reports/host-7                                TTL node: the data
///   touch                                        TTL node: written every half TTL
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use std::time::Duration;
/// use zebu_recipes::TtlNode;
///
/// let report = TtlNode::start(&client, "/reports/host-7", Duration::from_secs(60), "all is well");
/// report.wait_present().await?;
/// drop(report); // without further writes it is deleted a minute later
/// assert!(client.exists("/reports/host-7").await?.is_some());
/// # Ok(()) });
/// ```
///
/// The server must support TTL nodes (`zookeeper.extendedTypesEnabled=true`). It checks for expired nodes
/// once a minute by default.
///
/// - **Connection lost, session lost.** No effect if shorter than the TTL; afterwards the node is created
///   again.
/// - **Crash, dropped.** The node is deleted after its TTL.
/// - **Deleted** by another client: created again.
/// - **Refused**, such as a child that an ACL or a quota forbids: [`failure`](TtlNode::failure) returns the
///   reason, and the node is no longer maintained.
#[derive(Debug)]
pub struct TtlNode {
    node: PersistentNode,
    touch: TouchHandle,
}

/// The task that writes the child. It ends with its owner.
#[derive(Debug)]
struct TouchHandle {
    task: JoinHandle<()>,
    failure: watch::Receiver<Option<RecipeError>>,
}

impl Drop for TouchHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl TtlNode {
    /// Maintains a node from now on, in the background.
    pub fn start(client: &Client, path: &str, ttl: Duration, data: impl Into<Bytes>) -> TtlNode {
        let node = PersistentNode::start_with(
            client,
            path,
            data,
            PersistentNodeMode::Ttl(ttl),
            IfOwnedByOther::default(),
        );
        let touch_task = TouchTask { client: client.clone(), child: path::join(path, TOUCH), ttl };
        let (sender, failure) = watch::channel(None);
        let stop = node.stop_token();
        let task = tokio::spawn(async move {
            let Err(error) = touch_task.run().await;
            tracing::warn!(%error, child = %touch_task.child, "stopped maintaining a TTL node");
            sender.send_replace(Some(error.into()));
            stop.cancel();
        });
        TtlNode { node, touch: TouchHandle { task, failure } }
    }

    /// The node's path.
    pub fn path(&self) -> &str {
        self.node.path()
    }

    /// Waits until the node exists with the data that was set last.
    pub async fn wait_present(&self) -> Result<(), RecipeError> {
        self.unless_failed(self.node.wait_present()).await
    }

    /// The result of a wait, or the error of the touch task.
    async fn unless_failed(
        &self,
        wait: impl Future<Output = Result<(), RecipeError>>,
    ) -> Result<(), RecipeError> {
        let mut failure = self.touch.failure.clone();
        let failed = async {
            match failure.wait_for(Option::is_some).await.map(|failure| failure.clone()) {
                Ok(Some(error)) => error,
                // The task was aborted; the node reports the rest.
                Ok(None) | Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            error = failed => Err(error),
            result = wait => result,
        }
    }

    /// Whether the node exists, as far as is known.
    pub fn is_present(&self) -> bool {
        self.node.is_present()
    }

    /// The reason why the node is no longer maintained: the client was closed, or a server refused to write
    /// the node or its child. The node is then deleted after its TTL.
    pub fn failure(&self) -> Option<RecipeError> {
        self.node.failure().or_else(|| self.touch.failure.borrow().clone())
    }

    /// Changes the data and waits for the reply of the ensemble.
    pub async fn set(&self, data: impl Into<Bytes>) -> Result<(), RecipeError> {
        self.unless_failed(self.node.set(data)).await
    }

    /// Deletes the node now.
    pub async fn remove(self) -> Result<(), RecipeError> {
        let TtlNode { node, mut touch } = self;
        touch.task.abort();
        // Waits for the end of the task: nothing may be written after the delete.
        let _ = (&mut touch.task).await;
        node.remove().await
    }
}

struct TouchTask {
    client: Client,
    child: String,
    ttl: Duration,
}

impl TouchTask {
    /// Ends when the client is closed or a server refuses.
    async fn run(&self) -> Result<Infallible, Error> {
        let pause = (self.ttl / 2).max(PAUSE_MIN);
        let mut retry = ReconnectRetry::default();
        loop {
            let next = match self.touch().await {
                Ok(()) => {
                    retry = ReconnectRetry::default();
                    pause
                }
                // The node is missing; its task creates it.
                Err(error) if error.code() == Some(ErrorCode::NoNode) => pause.min(Duration::from_millis(50)),
                Err(error) => {
                    retry.after(&self.client, error).await?;
                    PAUSE_MIN
                }
            };
            tokio::time::sleep(next).await;
        }
    }

    async fn touch(&self) -> Result<(), Error> {
        let client = &self.client;
        let written = client.set(&self.child, Bytes::new()).compression(Compression::None);
        match written.retry(Retry::Never).await {
            Err(error) if error.code() == Some(ErrorCode::NoNode) => {}
            written => return written.map(drop),
        }
        let create = client.create(&self.child).ttl(self.ttl).compression(Compression::None);
        match create.retry(Retry::Never).await {
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => Ok(()),
            created => created.map(drop),
        }
    }
}
