//! A participant of a two-phase commit.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OnceCell;
use zebu_client::{Client, ErrorCode, Retry, SessionId, Version};

use super::proposal::CommitProposal;
use super::vote_node::VoteNode;
use super::votes::{CommitDecision, CommitProtocol, CommitVote};
use crate::error::RecipeError;
use crate::retry::{ReconnectRetry, uncompressed_transaction};
use crate::wait_queue::QueueNode;

/// A participant of a transaction; see [`CommitCoordinator`](super::CommitCoordinator).
///
/// A participant that has voted to commit must be able to commit, also after a restart. Until it has read the
/// decision, it can neither commit nor abort.
///
/// With [`CommitProtocol::EphemeralVotes`] the vote is deleted with the handle: keep the handle until the
/// decision.
#[derive(Debug)]
#[must_use = "dropping it withdraws an ephemeral vote"]
pub struct CommitParticipant {
    proposal: CommitProposal,
    name: String,
    vote_timeout: Option<Duration>,
    decided: OnceCell<CommitDecision>,
    /// The node of an ephemeral vote; deleted when it is dropped.
    vote_node: Mutex<Option<QueueNode>>,
}

impl CommitParticipant {
    /// Joins a proposed transaction, also after a restart.
    pub async fn join(client: &Client, path: &str, name: &str) -> Result<CommitParticipant, RecipeError> {
        let proposal = CommitProposal::open(client, path).await?;
        let proposal =
            proposal.ok_or_else(|| RecipeError::Invalid(format!("there is no proposal at {path}")))?;
        if !proposal.header.participants.iter().any(|participant| participant == name) {
            return Err(RecipeError::Invalid(format!("{name} is no participant of the proposal at {path}")));
        }
        let participant = CommitParticipant {
            proposal,
            name: name.to_owned(),
            vote_timeout: None,
            decided: OnceCell::new(),
            vote_node: Mutex::default(),
        };
        if participant.proposal.header.protocol == CommitProtocol::EphemeralVotes {
            participant.create_vote_node().await?;
        }
        Ok(participant)
    }

    /// The time that a deciding participant waits for votes: with `AllWatchVotes` always, otherwise when it
    /// replaces a coordinator. Unlimited by default.
    pub fn vote_timeout(mut self, timeout: Duration) -> CommitParticipant {
        self.vote_timeout = Some(timeout);
        self
    }

    /// The body of the proposal.
    pub fn body(&self) -> &Bytes {
        &self.proposal.body
    }

    /// Votes once. Returns the vote that counts: that of an earlier call, or an abort after a timeout or a
    /// lost session with an ephemeral vote.
    pub async fn vote(&self, vote: CommitVote) -> Result<CommitVote, RecipeError> {
        match self.proposal.header.protocol {
            CommitProtocol::AllWatchVotes | CommitProtocol::CoordinatorAnnounces => {
                self.proposal.cast(&self.name, vote).await
            }
            CommitProtocol::EphemeralVotes => self.vote_in_own_node(vote).await,
        }
    }

    /// Writes the vote only if neither a decision nor a new vote node was created since the own node was
    /// read. Then the vote counts.
    async fn vote_in_own_node(&self, vote: CommitVote) -> Result<CommitVote, RecipeError> {
        let (client, path) = (&self.proposal.client, self.proposal.vote_path(&self.name));
        let mut retry = ReconnectRetry::default();
        loop {
            self.proposal.sync().await?;
            let version = self.proposal.version().await?;
            let decided = self.proposal.announced().await?.is_some();
            let own = self.proposal.read(&path).await?;
            let own = own.filter(|node| SessionId(node.stat.ephemeral_owner) == client.session().id);
            let Some(node) = own else {
                // The node was deleted with a session. A coordinator may have noticed.
                if !self.create_vote_node().await? {
                    return self.vote_of_decision().await;
                }
                continue;
            };
            match CommitVote::read(&node.data) {
                Some(vote) => return Ok(vote),
                None if node.stat.version != 0 => {
                    return Err(RecipeError::BadData { path, expected: "commit or abort" });
                }
                None if decided => return self.vote_of_decision().await,
                None => {}
            }
            let mut transaction = uncompressed_transaction(client);
            transaction.check(&self.proposal.proposal_path(), Version::Exactly(version));
            transaction.set(&path, vote.text(), Version::Exactly(0));
            match transaction.retry(Retry::Never).await {
                Ok(_) => return Ok(vote),
                Err(error) if matches!(error.code(), Some(ErrorCode::NoNode | ErrorCode::BadVersion)) => {}
                Err(error) => retry.after(client, error).await?,
            }
        }
    }

    /// Creates the own ephemeral node, if it is missing, and keeps it until this handle is dropped. `false`
    /// if there is a decision.
    async fn create_vote_node(&self) -> Result<bool, RecipeError> {
        let node = match self.proposal.create_vote_node(&self.name).await? {
            VoteNode::Decided => return Ok(false),
            VoteNode::Shared => return Ok(true),
            VoteNode::Created(node) => node,
        };
        *self.vote_node.lock().unwrap_or_else(PoisonError::into_inner) = Some(node);
        Ok(true)
    }

    /// The vote of a late participant is the decision.
    async fn vote_of_decision(&self) -> Result<CommitVote, RecipeError> {
        self.proposal.sync().await?;
        Ok(match self.proposal.announced().await? {
            Some(CommitDecision::Commit) => CommitVote::Commit,
            Some(CommitDecision::Abort) | None => CommitVote::Abort,
        })
    }

    /// Waits for the decision. Without a coordinator, one of the waiting participants becomes coordinator.
    pub async fn decision(&self) -> Result<CommitDecision, RecipeError> {
        self.decided.get_or_try_init(|| self.wait_for_decision()).await.copied()
    }

    async fn wait_for_decision(&self) -> Result<CommitDecision, RecipeError> {
        if self.proposal.header.protocol == CommitProtocol::AllWatchVotes {
            return self.proposal.coordinate(self.vote_timeout).await;
        }
        loop {
            if let Some(decision) = self.proposal.await_announcement().await? {
                return Ok(decision);
            }
            // The node is deleted when this future is dropped, so that another participant can become
            // coordinator.
            if let Some(_part) = self.proposal.become_coordinator(&self.name).await? {
                tracing::info!(path = %self.proposal.path, participant = %self.name, "became coordinator");
                return self.proposal.coordinate(self.vote_timeout).await;
            }
        }
    }

    /// Acknowledges that the decision was applied. When all participants have done so, the nodes can be
    /// deleted.
    pub async fn acknowledge(self) -> Result<(), RecipeError> {
        self.proposal.acknowledge(&self.name).await
    }
}
