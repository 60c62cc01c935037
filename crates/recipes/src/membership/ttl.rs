//! A node that outlives its keeper by a fixed time.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use zebu_client::{Client, Compression, Error, ErrorCode, Retry, path};

use super::kept::{IfTaken, KeptAs, KeptNode};
use crate::connection::Attempts;
use crate::error::RecipeError;

/// The child that is written again and again.
const TOUCH: &str = "touch";

/// The shortest pause between two touches.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// A node that stays for a time after the last sign of life of whoever keeps it; Curator's
/// `PersistentTtlNode`.
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
/// report.there().await?;
/// drop(report); // nobody touches it any more: it goes a minute later
/// assert!(client.exists("/reports/host-7").await?.is_some());
/// # Ok(()) });
/// ```
///
/// The server must have TTL nodes (`zookeeper.extendedTypesEnabled=true`), and looks for those whose time has
/// come once a minute unless it is told otherwise.
///
/// **Connection lost, session lost.** No difference as long as it is shorter than the TTL; afterwards the node
/// is made again. **Crash, dropped.** The node goes after its TTL. **Deleted** by somebody: made again. **Refused**,
/// such as a child that an ACL or a quota forbids: [`failure`](TtlNode::failure) says so, and nothing is kept any more.
#[derive(Debug)]
pub struct TtlNode {
    node: KeptNode,
    touching: Touching,
}

/// The task that writes the child. Ends with its owner.
#[derive(Debug)]
struct Touching {
    task: JoinHandle<()>,
    failure: watch::Receiver<Option<RecipeError>>,
}

impl Drop for Touching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl TtlNode {
    /// Keeps a node from now on, in the background.
    pub fn start(client: &Client, path: &str, ttl: Duration, data: impl Into<Bytes>) -> TtlNode {
        let node = KeptNode::start_with(client, path, data, KeptAs::Ttl(ttl), IfTaken::default());
        let toucher = Toucher { client: client.clone(), child: path::join(path, TOUCH), ttl };
        let (sender, failure) = watch::channel(None);
        let keeping = node.stopper();
        let task = tokio::spawn(async move {
            let Err(error) = toucher.run().await;
            tracing::warn!(%error, child = %toucher.child, "cannot touch a TTL node; it is not kept any more");
            sender.send_replace(Some(error.into()));
            keeping.cancel();
        });
        TtlNode { node, touching: Touching { task, failure } }
    }

    /// The node's path.
    pub fn path(&self) -> &str {
        self.node.path()
    }

    /// Waits until the node is there, with the data that was asked for last.
    pub async fn there(&self) -> Result<(), RecipeError> {
        self.unless_failed(self.node.there()).await
    }

    /// The result of a wait, or why the node cannot be kept.
    async fn unless_failed(
        &self,
        wait: impl Future<Output = Result<(), RecipeError>>,
    ) -> Result<(), RecipeError> {
        let mut failure = self.touching.failure.clone();
        let failed = async {
            match failure.wait_for(Option::is_some).await.map(|failure| failure.clone()) {
                Ok(Some(error)) => error,
                // The task was aborted; the node itself tells the rest.
                Ok(None) | Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            error = failed => Err(error),
            result = wait => result,
        }
    }

    /// Whether the node is there, as far as is known.
    pub fn is_there(&self) -> bool {
        self.node.is_there()
    }

    /// Why the node is not kept any more, if so: the client was closed, or a server refused to write the node or
    /// its child. The node goes after its TTL then.
    pub fn failure(&self) -> Option<RecipeError> {
        self.node.failure().or_else(|| self.touching.failure.borrow().clone())
    }

    /// Changes the data and waits until the ensemble has it.
    pub async fn set(&self, data: impl Into<Bytes>) -> Result<(), RecipeError> {
        self.unless_failed(self.node.set(data)).await
    }

    /// Removes the node now, instead of letting its time come.
    pub async fn remove(self) -> Result<(), RecipeError> {
        let TtlNode { node, mut touching } = self;
        touching.task.abort();
        // Its end: nothing may be written behind the removal.
        let _ = (&mut touching.task).await;
        node.remove().await
    }
}

struct Toucher {
    client: Client,
    child: String,
    ttl: Duration,
}

impl Toucher {
    /// Ends when the client is closed or a server refuses.
    async fn run(&self) -> Result<Infallible, Error> {
        let pause = (self.ttl / 2).max(PAUSE_MIN);
        let mut attempts = Attempts::default();
        loop {
            let next = match self.touch().await {
                Ok(()) => {
                    attempts = Attempts::default();
                    pause
                }
                // The node itself is not there yet, or not any more; its keeper makes it.
                Err(error) if error.code() == Some(ErrorCode::NoNode) => pause.min(Duration::from_millis(50)),
                Err(error) => {
                    attempts.after(&self.client, error).await?;
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
