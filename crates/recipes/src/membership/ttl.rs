//! A node that outlives its keeper by a fixed time.

use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinHandle;
use zebu_client::{Client, Compression, Error, ErrorCode, Retry, path};

use super::kept::{IfTaken, KeptAs, KeptNode};
use crate::connection::{Attempts, is_passing};
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
/// is made again. **Crash, dropped.** The node goes after its TTL. **Deleted** by somebody: made again.
#[derive(Debug)]
pub struct TtlNode {
    node: KeptNode,
    touching: Touching,
}

/// Ends with its owner.
#[derive(Debug)]
struct Touching(JoinHandle<()>);

impl Drop for Touching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl TtlNode {
    /// Keeps a node from now on, in the background.
    pub fn start(client: &Client, path: &str, ttl: Duration, data: impl Into<Bytes>) -> TtlNode {
        let node = KeptNode::start_with(client, path, data, KeptAs::Ttl(ttl), IfTaken::default());
        let toucher = Toucher { client: client.clone(), child: path::join(path, TOUCH), ttl };
        TtlNode { node, touching: Touching(tokio::spawn(toucher.run())) }
    }

    /// The node's path.
    pub fn path(&self) -> &str {
        self.node.path()
    }

    /// Waits until the node is there, with the data that was asked for last.
    pub async fn there(&self) -> Result<(), RecipeError> {
        self.node.there().await
    }

    /// Whether the node is there, as far as is known.
    pub fn is_there(&self) -> bool {
        self.node.is_there()
    }

    /// Why the node is not kept any more, if so.
    pub fn failure(&self) -> Option<RecipeError> {
        self.node.failure()
    }

    /// Changes the data and waits until the ensemble has it.
    pub async fn set(&self, data: impl Into<Bytes>) -> Result<(), RecipeError> {
        self.node.set(data).await
    }

    /// Removes the node now, instead of letting its time come.
    pub async fn remove(self) -> Result<(), RecipeError> {
        let TtlNode { node, mut touching } = self;
        touching.0.abort();
        // Its end: nothing may be written behind the removal.
        let _ = (&mut touching.0).await;
        node.remove().await
    }
}

struct Toucher {
    client: Client,
    child: String,
    ttl: Duration,
}

impl Toucher {
    /// Ends with the client.
    async fn run(self) {
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
                Err(error) if is_passing(&error) => match attempts.after(&self.client, error).await {
                    Ok(()) => PAUSE_MIN,
                    Err(_) => return,
                },
                Err(error) => {
                    tracing::warn!(%error, child = %self.child, "a TTL node cannot be kept");
                    return;
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
        match client.create(&self.child).ttl(self.ttl).retry(Retry::Never).await {
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => Ok(()),
            created => created.map(drop),
        }
    }
}
