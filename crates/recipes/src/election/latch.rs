//! The leader latch: a background participant that leads whenever it is elected.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use zebu_client::{Client, ProtectionStyle, Retry};

use super::leadership::{ElectionParticipant, Leadership, LeadershipTerm, acknowledged, participants};
use crate::error::RecipeError;
use crate::ownership::{FencingToken, LeasePolicy, LossReason, OwnedNode, Ownership};
use crate::retry::retry_until_answered;
use crate::wait_queue::{ContenderNaming, LockMode, WaitLimit, WaitQueue};

const LATCH: ContenderNaming =
    ContenderNaming { style: ProtectionStyle::Curator, exclusive: "latch-", shared: "" };

/// The role of a participant.
#[derive(Clone, Debug)]
pub enum LatchRole {
    /// It waits in the queue.
    Follower,
    /// It leads. Call [`Ownership::check`] before any action that must not happen twice.
    Leader(Leadership),
    /// It has left, on request or because of this error; it will not lead again.
    Left(Option<RecipeError>),
}

/// Participates in an election until it leaves.
///
/// ```text
/// /election                                      container
///   _c_53345f98-…-latch-0000000003               ephemeral: the leader; the data is its id
///   _c_0d1c2a55-…-latch-0000000004               ephemeral: waits for 3
/// /election-leader                               ephemeral, if the leader has acknowledged
/// ```
///
/// The layout is that of Curator's `LeaderLatch`, which does not know the acknowledgement.
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::{Ownership, LeaderLatch, run_while_held};
///
/// let latch = LeaderLatch::join(&client, "/election", "host-7");
/// let leadership = latch.lead().await?;
/// // Dropped at its next await when leadership is lost.
/// run_while_held(&leadership, async { println!("term {}", leadership.token()) }).await?;
/// assert_eq!(latch.leader().await?.map(|leader| leader.id).as_deref(), Some("host-7"));
/// latch.leave().await?;
/// # Ok(()) });
/// ```
///
/// **Connection lost.** A follower keeps its position. A leader leads until the end of its lease, or until
/// the disconnect if its [`LeasePolicy`] says so. Then its term ends and it enters the queue again, so that a
/// connected participant can lead.
///
/// **Session lost.** The term ends; it participates again with the new session. **Crash.** Another
/// participant leads when the session expires. **Dropped.** It leaves in the background.
///
/// Every term has a [token](Ownership::token) greater than all before, even if the same participant leads
/// twice in a row.
#[derive(Debug)]
pub struct LeaderLatch {
    queue: WaitQueue,
    role: watch::Receiver<LatchRole>,
    stop: CancellationToken,
    resigned: watch::Sender<Option<FencingToken>>,
    task: JoinHandle<()>,
}

impl LeaderLatch {
    /// Participates from now on, in the background.
    pub fn join(client: &Client, path: &str, id: impl Into<String>) -> LeaderLatch {
        LeaderLatch::join_with(client, path, id, LeasePolicy::default())
    }

    /// Participates with another lease policy.
    pub fn join_with(
        client: &Client,
        path: &str,
        id: impl Into<String>,
        lease_policy: LeasePolicy,
    ) -> LeaderLatch {
        let id: Arc<str> = id.into().into();
        let queue = WaitQueue {
            client: client.clone(),
            directory: path.to_owned(),
            naming: LATCH,
            data: Bytes::copy_from_slice(id.as_bytes()),
            lease_policy,
        };
        let (sender, role) = watch::channel(LatchRole::Follower);
        let (stop, resigned) = (CancellationToken::new(), watch::channel(None).0);
        let candidate = LatchTask {
            queue: queue.clone(),
            id,
            role: sender,
            stop: stop.clone(),
            resigned: resigned.subscribe(),
        };
        let task = tokio::spawn(async move {
            let end = candidate.run().await.err();
            candidate.role.send_replace(LatchRole::Left(end));
        });
        LeaderLatch { queue, role, stop, resigned, task }
    }

    /// The role and its changes. The newest value is never lost; a slow reader may skip a short term.
    pub fn roles(&self) -> watch::Receiver<LatchRole> {
        self.role.clone()
    }

    /// Whether it leads now, by the local clock.
    pub fn is_leader(&self) -> bool {
        match &*self.role.borrow() {
            LatchRole::Leader(leadership) => leadership.check().is_ok(),
            LatchRole::Follower | LatchRole::Left(_) => false,
        }
    }

    /// Waits until it leads.
    pub async fn lead(&self) -> Result<Leadership, RecipeError> {
        let mut roles = self.role.clone();
        loop {
            match &*roles.borrow_and_update() {
                LatchRole::Leader(leadership) if leadership.check().is_ok() => return Ok(leadership.clone()),
                LatchRole::Leader(_) | LatchRole::Follower => {}
                LatchRole::Left(end) => return Err(end.clone().unwrap_or_else(left_election)),
            }
            if roles.changed().await.is_err() {
                return Err(left_election());
            }
        }
    }

    /// Resigns, if it leads, and enters the queue again at its end. Only the current term ends; the next one
    /// is not affected.
    pub fn resign(&self) {
        if let LatchRole::Leader(leadership) = &*self.role.borrow() {
            self.resigned.send_replace(Some(leadership.token()));
        }
    }

    /// All participants, the leader first.
    pub async fn participants(&self) -> Result<Vec<ElectionParticipant>, RecipeError> {
        participants(&self.queue).await
    }

    /// The first participant in the queue: the leader, even if it has not noticed yet.
    pub async fn leader(&self) -> Result<Option<ElectionParticipant>, RecipeError> {
        Ok(self.participants().await?.into_iter().next())
    }

    /// The id of the leader that has [acknowledged](Leadership::acknowledge) its leadership.
    pub async fn acknowledged(&self) -> Result<Option<String>, RecipeError> {
        acknowledged(&self.queue.client, &self.queue.directory).await
    }

    /// Leaves the election and resigns. Returns after the reply of the ensemble.
    pub async fn leave(mut self) -> Result<(), RecipeError> {
        self.stop.cancel();
        // The runtime reports a panic of the task.
        let _ = (&mut self.task).await;
        match &*self.role.borrow() {
            LatchRole::Left(Some(error)) => Err(error.clone()),
            LatchRole::Left(None) | LatchRole::Follower | LatchRole::Leader(_) => Ok(()),
        }
    }
}

impl Drop for LeaderLatch {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn left_election() -> RecipeError {
    RecipeError::Invalid("the participant has left the election".to_owned())
}

/// The background task of a latch.
struct LatchTask {
    queue: WaitQueue,
    id: Arc<str>,
    role: watch::Sender<LatchRole>,
    stop: CancellationToken,
    /// The token of the term that was resigned last.
    resigned: watch::Receiver<Option<FencingToken>>,
}

impl LatchTask {
    async fn run(&self) -> Result<(), RecipeError> {
        loop {
            let node = tokio::select! {
                () = self.stop.cancelled() => return self.confirm_withdrawal().await,
                node = self.queue.enter(LockMode::Exclusive, WaitLimit::Unlimited) => node?,
            };
            let Some(node) = node else { continue };
            let owned = OwnedNode::new(node, self.queue.lease_policy);
            let term = LeadershipTerm::begin(owned, &self.id, &self.queue.directory);
            let leadership = term.leadership();
            tracing::info!(path = %self.queue.directory, id = %self.id, token = %leadership.token(), "became leader");
            let token = leadership.token();
            let mut resigned = self.resigned.clone();
            self.role.send_replace(LatchRole::Leader(leadership.clone()));
            let reason = tokio::select! {
                () = self.stop.cancelled() => LossReason::Released,
                Ok(_) = resigned.wait_for(|resigned| *resigned == Some(token)) => LossReason::Released,
                reason = leadership.lost() => reason,
            };
            tracing::info!(path = %self.queue.directory, id = %self.id, %reason, "lost leadership");
            // Clones of the leadership end before another participant can lead.
            self.role.send_replace(LatchRole::Follower);
            term.finish().await?;
            if self.stop.is_cancelled() {
                return Ok(());
            }
        }
    }

    /// The dropped wait has already deleted the node; the sync makes sure that the ensemble knows.
    async fn confirm_withdrawal(&self) -> Result<(), RecipeError> {
        let client = &self.queue.client;
        retry_until_answered(client, || client.sync(&self.queue.directory).retry(Retry::Never)).await?;
        Ok(())
    }
}
