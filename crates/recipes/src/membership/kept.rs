//! A node that is there for as long as somebody wants it, whatever becomes of sessions: what users see of it.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use zebu_client::Client;

use super::keeper::{Keeper, Phase, Progress, Wanted};
use crate::error::RecipeError;

/// What kind of node is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum KeptAs {
    /// Goes with the session, and is made again by the next one.
    #[default]
    Ephemeral,
    /// Stays, and is made again if somebody deletes it.
    Persistent,
    /// Stays for this long after its last change; see [`TtlNode`](super::TtlNode), which changes it.
    Ttl(Duration),
}

/// What to do if another session has an ephemeral node of this name when the keeping begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum IfTaken {
    /// Ours is made when theirs goes.
    #[default]
    Wait,
    /// Ours takes its place, once: who comes last has the name. Later on we wait, so that two keepers do not
    /// push each other out for ever.
    Replace,
}

/// A node that is made again whenever it is missing; Curator's `PersistentNode`.
///
/// ```text
/// /machines                                      container
///   host-7                                       ephemeral, of the present session
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::KeptNode;
///
/// let node = KeptNode::start(&client, "/machines/host-7", "load 0.1");
/// node.there().await?;
/// server.expire(client.session().id).await?; // the node goes with the session, and comes back
/// # client.states().wait_for(|status| status.session.epoch > 1 && status.state.is_connected()).await?;
/// node.set("load 0.7").await?;
/// assert_eq!(client.get("/machines/host-7").await?.data, "load 0.7");
/// node.remove().await?;
/// # Ok(()) });
/// ```
///
/// **Connection lost.** Nothing happens to the node; changes follow when a server can be reached. **Session
/// lost.** An ephemeral node is made again with the new session, as soon as that of the former session has gone.
/// A node of a former session is not deleted by hand: another session may have made one of the same name by then,
/// and no condition of a transaction tells them apart. **Deleted** by somebody: made again. **Changed** by somebody: left as it is, until
/// [`set`](KeptNode::set) or until it has to be made again. **Crash.** An ephemeral node goes when the session
/// has timed out. **Dropped.** An ephemeral node is removed in the background; others stay.
#[derive(Debug)]
pub struct KeptNode {
    path: String,
    wanted: watch::Sender<Wanted>,
    progress: watch::Receiver<Progress>,
    stop: CancellationToken,
    remove: CancellationToken,
    task: JoinHandle<()>,
}

impl KeptNode {
    /// Keeps an ephemeral node from now on, in the background.
    pub fn start(client: &Client, path: &str, data: impl Into<Bytes>) -> KeptNode {
        KeptNode::start_with(client, path, data, KeptAs::default(), IfTaken::default())
    }

    /// Keeps a node of this kind from now on, in the background.
    pub fn start_with(
        client: &Client,
        path: &str,
        data: impl Into<Bytes>,
        kind: KeptAs,
        if_taken: IfTaken,
    ) -> KeptNode {
        let (wanted, wants) = watch::channel(Wanted { data: data.into(), number: 1 });
        let (sender, progress) = watch::channel(Progress::default());
        let (stop, remove) = (CancellationToken::new(), CancellationToken::new());
        let keeper = Keeper::new(client, path, kind, if_taken, wants, sender);
        let (stopped, removed) = (stop.clone(), remove.clone());
        let task = tokio::spawn(async move { keeper.run(stopped, removed).await });
        KeptNode { path: path.to_owned(), wanted, progress, stop, remove, task }
    }

    /// The node's path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Waits until the node is there, with the data that was asked for last.
    pub async fn there(&self) -> Result<(), RecipeError> {
        let number = self.wanted.borrow().number;
        self.until(|progress| progress.phase == Phase::There && progress.written >= number).await
    }

    /// Whether the node is there, as far as is known.
    pub fn is_there(&self) -> bool {
        self.progress.borrow().phase == Phase::There
    }

    /// Waits until the node is missing or somebody else's, as far as is known; it will be made again.
    pub async fn missing(&self) -> Result<(), RecipeError> {
        self.until(|progress| progress.phase == Phase::Missing).await
    }

    /// Why the node is not kept any more, if so: the client was closed, or a server refused.
    pub fn failure(&self) -> Option<RecipeError> {
        self.progress.borrow().failure.clone()
    }

    /// Changes the data and waits until the ensemble has it. If the future is dropped, it happens in the
    /// background.
    pub async fn set(&self, data: impl Into<Bytes>) -> Result<(), RecipeError> {
        let data = data.into();
        self.wanted.send_modify(|wanted| {
            wanted.data = data;
            wanted.number += 1;
        });
        self.there().await
    }

    /// Stops keeping the node, removes it, and waits until the ensemble knows.
    pub async fn remove(mut self) -> Result<(), RecipeError> {
        self.remove.cancel();
        self.stop.cancel();
        // A panic of the task was reported by itself.
        let _ = (&mut self.task).await;
        self.failure().map_or(Ok(()), Err)
    }

    /// Ends the keeping when it is cancelled; a node that is not ephemeral stays.
    pub(super) fn stopper(&self) -> CancellationToken {
        self.stop.clone()
    }

    async fn until(&self, mut holds: impl FnMut(&Progress) -> bool) -> Result<(), RecipeError> {
        let mut progress = self.progress.clone();
        let found = progress.wait_for(|progress| progress.failure.is_some() || holds(progress)).await;
        match found.map(|progress| progress.failure.clone()) {
            Ok(None) => Ok(()),
            Ok(Some(error)) => Err(error),
            Err(_) => Err(RecipeError::Invalid(format!("{} is not kept any more", self.path))),
        }
    }
}

impl Drop for KeptNode {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
