//! The leader selector: repeated work of the elected leader.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use zebu_client::Client;

use super::leadership::{ElectionParticipant, Leadership, LeadershipTerm, acknowledged, participants};
use crate::error::RecipeError;
use crate::lock::LockLayout;
use crate::ownership::{LeasePolicy, OwnedNode, Ownership, run_while_held};
use crate::wait_queue::{LockMode, WaitLimit, WaitQueue};

/// Runs work while it leads; leadership ends with the work.
///
/// ```text
/// /jobs/leader                                   container
///   _c_53345f98-…-lock-0000000003                ephemeral: the leader; the data is its id
///   _c_0d1c2a55-…-lock-0000000004                ephemeral: waits for 3
/// /jobs/leader-leader                            ephemeral, if the leader has acknowledged
/// ```
///
/// The layout is that of Curator's `LeaderSelector`, or that of Kazoo's `Election`.
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use std::ops::ControlFlow;
/// use zebu_recipes::{Ownership, LeaderSelector};
///
/// let mut terms = 0;
/// let selector = LeaderSelector::new(&client, "/jobs/leader", "host-7");
/// let result = selector
///     .run(|leadership| {
///         terms += 1;
///         let last = terms == 3;
///         async move {
///             println!("term {}", leadership.token());
///             // Not the last: resign and enter the queue again.
///             if last { ControlFlow::Break("done") } else { ControlFlow::Continue(()) }
///         }
///     })
///     .await?;
/// assert_eq!((result, terms), ("done", 3));
/// # Ok(()) });
/// ```
///
/// - **Connection lost.** The work continues until the end of the lease, or is dropped at once if the
///   [`LeasePolicy`] says so.
/// - **Session lost, lease ended.** The work is dropped at its next await; the selector enters the queue
///   again.
/// - **Crash.** Another participant leads when the session expires.
/// - **Dropped.** The work is dropped; the background deletes the acknowledgement and the queue node.
#[derive(Clone, Debug)]
pub struct LeaderSelector {
    queue: WaitQueue,
    id: Arc<str>,
}

impl LeaderSelector {
    /// Participates in the election at this path while [`run`](LeaderSelector::run) is called.
    pub fn new(client: &Client, path: &str, id: impl Into<String>) -> LeaderSelector {
        let id: Arc<str> = id.into().into();
        let queue = WaitQueue {
            client: client.clone(),
            directory: path.to_owned(),
            naming: LockLayout::default().naming(),
            data: Bytes::copy_from_slice(id.as_bytes()),
            lease_policy: LeasePolicy::default(),
        };
        LeaderSelector { queue, id }
    }

    /// The layout of the queue, which defines the compatible libraries.
    pub fn layout(mut self, layout: LockLayout) -> LeaderSelector {
        self.queue.naming = layout.naming();
        self
    }

    /// The lease policy.
    pub fn lease_policy(mut self, lease_policy: LeasePolicy) -> LeaderSelector {
        self.queue.lease_policy = lease_policy;
        self
    }

    /// Waits until it leads, runs the work and resigns, until the work returns `Break`. Work that loses
    /// leadership is dropped at its next await, and runs again in the next term.
    pub async fn run<R, F>(&self, mut work: impl FnMut(Leadership) -> F) -> Result<R, RecipeError>
    where
        F: Future<Output = ControlFlow<R>>,
    {
        loop {
            let Some(node) = self.queue.enter(LockMode::Exclusive, WaitLimit::Unlimited).await? else {
                continue;
            };
            let owned = OwnedNode::new(node, self.queue.lease_policy);
            let term = LeadershipTerm::begin(owned, &self.id, &self.queue.directory);
            let leadership = term.leadership();
            let outcome = run_while_held(&leadership, work(leadership.clone())).await;
            if let Err(reason) = &outcome {
                let token = leadership.token();
                tracing::info!(path = %self.queue.directory, id = %self.id, %token, %reason, "lost leadership");
            }
            term.finish().await?;
            match outcome {
                Ok(ControlFlow::Break(result)) => return Ok(result),
                Ok(ControlFlow::Continue(())) | Err(_) => {}
            }
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
}
