//! The election by one node: its creator leads.

use std::ops::ControlFlow;

use zebu_client::Client;

use super::leadership::text;
use crate::error::RecipeError;
use crate::lock::{SimpleLock, SimpleLockGuard};
use crate::ownership::{LeasePolicy, run_while_held};

/// An election by the creation of one ephemeral node, whose data is the leader's id.
///
/// ```text
/// /master                                        ephemeral: the leader's id
/// /master-53345f9894234e0ca7b59f819e3ec2e1       ephemeral: made and deleted together with it
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::{Ownership, SimpleElection};
///
/// let election = SimpleElection::new(&client, "/master", "host-7");
/// let leadership = election.lead().await?;
/// assert_eq!(election.leader().await?.as_deref(), Some("host-7"));
/// leadership.check()?;
/// leadership.release().await?;
/// assert_eq!(election.leader().await?, None);
/// # Ok(()) });
/// ```
///
/// It is a [`SimpleLock`] and behaves like one when the connection or the session is lost. All waiters wake
/// at once, in no order, and no list of waiters exists. For more than a few candidates use a
/// [`LeaderLatch`](super::LeaderLatch).
#[derive(Clone, Debug)]
pub struct SimpleElection {
    lock: SimpleLock,
}

impl SimpleElection {
    /// An election at this path.
    pub fn new(client: &Client, path: &str, id: impl Into<String>) -> SimpleElection {
        SimpleElection { lock: SimpleLock::new(client, path).identity(id.into()) }
    }

    /// The lease policy.
    pub fn lease_policy(mut self, lease_policy: LeasePolicy) -> SimpleElection {
        self.lock = self.lock.lease_policy(lease_policy);
        self
    }

    /// Waits until it leads.
    pub async fn lead(&self) -> Result<SimpleLockGuard, RecipeError> {
        self.lock.acquire().await
    }

    /// Leads if there is no other leader.
    pub async fn try_lead(&self) -> Result<Option<SimpleLockGuard>, RecipeError> {
        self.lock.try_acquire().await
    }

    /// Leads and runs the work repeatedly until the work returns `Break`; see
    /// [`LeaderSelector::run`](super::LeaderSelector::run).
    pub async fn run<R>(
        &self,
        mut work: impl AsyncFnMut(&SimpleLockGuard) -> ControlFlow<R>,
    ) -> Result<R, RecipeError> {
        loop {
            let leadership = self.lead().await?;
            let outcome = run_while_held(&leadership, work(&leadership)).await;
            leadership.release().await?;
            match outcome {
                Ok(ControlFlow::Break(result)) => return Ok(result),
                Ok(ControlFlow::Continue(())) | Err(_) => {}
            }
        }
    }

    /// The id of the leader.
    pub async fn leader(&self) -> Result<Option<String>, RecipeError> {
        Ok(self.lock.holder().await?.map(|data| text(&data)))
    }
}
