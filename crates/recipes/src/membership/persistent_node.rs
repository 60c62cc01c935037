//! A node that is created again whenever it is missing, across sessions.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use zebu_client::Client;

use super::persistent_node_task::{DesiredData, NodeProgress, PersistentNodeTask};
use crate::error::RecipeError;

/// The mode of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PersistentNodeMode {
    /// Deleted with the session, and created again by the next one.
    #[default]
    Ephemeral,
    /// Persistent, and created again if another client deletes it.
    Persistent,
    /// Deleted this long after its last change; see [`TtlNode`](super::TtlNode), which renews it.
    Ttl(Duration),
}

/// The handling of an ephemeral node of another session at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum IfOwnedByOther {
    /// Waits until the other node is deleted.
    #[default]
    Wait,
    /// Replaces the other node once: the last one wins. Later it waits, so that two owners do not replace
    /// each other forever.
    Replace,
}

/// A node that is created again whenever it is missing; Curator's `PersistentNode`.
///
/// ```text
/// /machines                                      container
///   host-7                                       ephemeral, of the current session
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::PersistentNode;
///
/// let node = PersistentNode::start(&client, "/machines/host-7", "load 0.1");
/// node.wait_present().await?;
/// server.expire(client.session().id).await?; // the node goes with the session, and comes back
/// # client.states().wait_for(|status| status.session.epoch > 1 && status.state.is_connected()).await?;
/// node.set("load 0.7").await?;
/// assert_eq!(client.get("/machines/host-7").await?.data, "load 0.7");
/// node.remove().await?;
/// # Ok(()) });
/// ```
///
/// - **Connection lost.** The node stays; changes follow when a server is reachable.
/// - **Session lost.** An ephemeral node is created again with the new session, as soon as that of the former
///   session is deleted. It is not deleted explicitly: another session may have created one of the same name
///   by then, and no transaction condition distinguishes them.
/// - **Deleted** by another client: created again.
/// - **Changed** by another client: unchanged until [`set`](PersistentNode::set), or until it is created
///   again.
/// - **Crash.** An ephemeral node is deleted when the session expires.
/// - **Dropped.** The background deletes an ephemeral node; others stay.
#[derive(Debug)]
pub struct PersistentNode {
    path: String,
    desired: watch::Sender<DesiredData>,
    progress: watch::Receiver<NodeProgress>,
    stop: CancellationToken,
    remove: CancellationToken,
    task: JoinHandle<()>,
}

impl PersistentNode {
    /// Maintains an ephemeral node from now on, in the background.
    pub fn start(client: &Client, path: &str, data: impl Into<Bytes>) -> PersistentNode {
        PersistentNode::start_with(
            client,
            path,
            data,
            PersistentNodeMode::default(),
            IfOwnedByOther::default(),
        )
    }

    /// Maintains a node of this mode from now on, in the background.
    pub fn start_with(
        client: &Client,
        path: &str,
        data: impl Into<Bytes>,
        mode: PersistentNodeMode,
        if_owned_by_other: IfOwnedByOther,
    ) -> PersistentNode {
        let (desired, desired_receiver) = watch::channel(DesiredData { data: data.into(), number: 1 });
        let (sender, progress) = watch::channel(NodeProgress::default());
        let (stop, remove) = (CancellationToken::new(), CancellationToken::new());
        let maintainer = PersistentNodeTask {
            client: client.clone(),
            path: path.to_owned(),
            mode,
            if_owned_by_other,
            desired: desired_receiver,
            progress: sender,
        };
        let (stopped, removed) = (stop.clone(), remove.clone());
        let task = tokio::spawn(async move { maintainer.run(stopped, removed).await });
        PersistentNode { path: path.to_owned(), desired, progress, stop, remove, task }
    }

    /// The node's path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Waits until the node exists with the data that was set last.
    pub async fn wait_present(&self) -> Result<(), RecipeError> {
        let number = self.desired.borrow().number;
        self.until(|progress| progress.is_present && progress.written >= number).await
    }

    /// Whether the node exists, as far as is known.
    pub fn is_present(&self) -> bool {
        self.progress.borrow().is_present
    }

    /// Waits until the node is missing or another session owns it, as far as is known; it will be created
    /// again.
    pub async fn wait_missing(&self) -> Result<(), RecipeError> {
        self.until(|progress| !progress.is_present).await
    }

    /// The reason why the node is no longer maintained: the client was closed, or a server refused.
    pub fn failure(&self) -> Option<RecipeError> {
        self.progress.borrow().failure.clone()
    }

    /// Changes the data and waits for the reply of the ensemble. If the future is dropped, the background
    /// does it.
    pub async fn set(&self, data: impl Into<Bytes>) -> Result<(), RecipeError> {
        let data = data.into();
        self.desired.send_modify(|desired| {
            desired.data = data;
            desired.number += 1;
        });
        self.wait_present().await
    }

    /// Stops, deletes the node and waits for the reply of the ensemble.
    pub async fn remove(mut self) -> Result<(), RecipeError> {
        self.remove.cancel();
        self.stop.cancel();
        // The runtime reports a panic of the task.
        let _ = (&mut self.task).await;
        self.failure().map_or(Ok(()), Err)
    }

    /// Stops the task when it is cancelled; a node that is not ephemeral stays.
    pub(super) fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    async fn until(&self, mut holds: impl FnMut(&NodeProgress) -> bool) -> Result<(), RecipeError> {
        let mut progress = self.progress.clone();
        let found = progress.wait_for(|progress| progress.failure.is_some() || holds(progress)).await;
        match found.map(|progress| progress.failure.clone()) {
            Ok(None) => Ok(()),
            Ok(Some(error)) => Err(error),
            Err(_) => Err(RecipeError::Invalid(format!("{} is no longer maintained", self.path))),
        }
    }
}

impl Drop for PersistentNode {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
