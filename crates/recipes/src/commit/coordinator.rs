//! The coordinator of a two-phase commit.

use std::time::Duration;

use bytes::Bytes;
use zebu_client::Client;

use super::proposal::CommitProposal;
use super::votes::{CommitDecision, CommitProtocol, ProposalHeader};
use crate::error::RecipeError;
use crate::unique_id::UniqueId;
use crate::wait_queue::QueueNode;

/// Proposes a transaction to a number of participants; all of them commit or none does.
///
/// ```text
/// /app/tx-7                                      persistent: {"id":…,"form":…,"sites":["bank","shop"]}, a
///                                                newline, then the body
///   s_bank                                       the vote: empty, then "commit" or "abort", written once
///   s_shop                                       (ephemeral with EphemeralVotes)
///   proposal_53345f98…                           persistent: the id; a new ephemeral vote node and the
///                                                decision increment its version
///   coordinator                                  ephemeral: a coordinator is active
///   decision                                     persistent: "commit" or "abort", written once
///   done_bank                                    persistent: this participant has applied the decision
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use std::time::Duration;
/// use zebu_recipes::{CommitCoordinator, CommitProtocol, CommitParticipant, CommitDecision, CommitVote};
///
/// let participants = ["bank", "shop"];
/// let protocol = CommitProtocol::CoordinatorAnnounces;
/// let path = "/app/tx-7";
/// let coordinator = CommitCoordinator::propose(&client, path, protocol, &participants, "pay 7").await?;
/// let participant = async |name: &str| {
///     let participant = CommitParticipant::join(&client, "/app/tx-7", name).await?;
///     println!("{name} checks whether it can {:?}", participant.body());
///     participant.vote(CommitVote::Commit).await?;
///     let decision = participant.decision().await?;
///     participant.acknowledge().await?; // applied
///     Ok::<_, zebu_recipes::RecipeError>(decision)
/// };
/// let (bank, shop, decided) = tokio::join!(
///     participant("bank"),
///     participant("shop"),
///     coordinator.decide_within(Duration::from_secs(10)),
/// );
/// assert_eq!([bank?, shop?, decided?], [CommitDecision::Commit; 3]);
/// coordinator.finish().await?; // when all have acknowledged
/// # Ok(()) });
/// ```
///
/// **Consistency.** No participant commits while another aborts, in all three [protocols](CommitProtocol).
/// Votes in persistent nodes are written once, with a version condition, so that every read gives the same
/// result. After a timeout the missing votes are written as aborts. With ephemeral votes, the transaction
/// that decides to commit checks all votes and the version of the proposal node. A vote that was deleted with
/// its session and cast again is a different vote.
///
/// - **Connection lost.** Calls continue afterwards.
/// - **Session lost.** With ephemeral votes, a participant that has not read the decision has voted abort.
///   Nothing else depends on sessions.
/// - **Coordinator crashes.** With `AllWatchVotes` it has no effect. Otherwise a waiting participant becomes
///   coordinator; concurrent coordinators reach the same decision. The nodes stay until
///   [`finish`](CommitCoordinator::finish) after [`resume`](CommitCoordinator::resume).
/// - **Participant crashes.** After its restart it joins again by its name and reads the decision; its node
///   shows whether it voted. The others wait for it until their timeout.
///
/// **Dropped.** The background deletes the coordinator's node, and a waiting participant becomes coordinator.
/// Participants wait for an existing coordinator even if it does not call
/// [`decide`](CommitCoordinator::decide). A dropped participant withdraws its ephemeral vote, which aborts an
/// undecided proposal.
///
/// **Another proposal at the same path** is safe from late requests: every request checks the node with the
/// proposal's id in its name.
#[derive(Debug)]
pub struct CommitCoordinator {
    proposal: CommitProposal,
    /// The coordinator's node, if this client owns it.
    coordinator_node: Option<QueueNode>,
}

impl CommitCoordinator {
    /// Proposes a transaction. One transaction creates all its nodes; a path holds one proposal at a time.
    pub async fn propose(
        client: &Client,
        path: &str,
        protocol: CommitProtocol,
        participants: &[&str],
        body: impl Into<Bytes>,
    ) -> Result<CommitCoordinator, RecipeError> {
        let participants = participants.iter().map(|participant| (*participant).to_owned()).collect();
        let header = ProposalHeader { id: UniqueId::new(client).hex(), protocol, participants };
        let proposal = CommitProposal::propose(client, path, header, body.into()).await?;
        CommitCoordinator::with_coordinator_node(proposal).await
    }

    /// Becomes coordinator of an existing proposal, after a crash of the former coordinator.
    pub async fn resume(client: &Client, path: &str) -> Result<Option<CommitCoordinator>, RecipeError> {
        let Some(proposal) = CommitProposal::open(client, path).await? else { return Ok(None) };
        CommitCoordinator::with_coordinator_node(proposal).await.map(Some)
    }

    /// Another coordinator may be active; concurrent coordinators are safe.
    async fn with_coordinator_node(proposal: CommitProposal) -> Result<CommitCoordinator, RecipeError> {
        let coordinator_node = match proposal.header.protocol {
            CommitProtocol::AllWatchVotes => None,
            CommitProtocol::CoordinatorAnnounces | CommitProtocol::EphemeralVotes => {
                proposal.become_coordinator(COORDINATOR).await?
            }
        };
        Ok(CommitCoordinator { proposal, coordinator_node })
    }

    /// Waits for the decision without a limit.
    pub async fn decide(&self) -> Result<CommitDecision, RecipeError> {
        self.proposal.coordinate(None).await
    }

    /// Waits for the decision, and aborts if votes are missing after the timeout.
    pub async fn decide_within(&self, timeout: Duration) -> Result<CommitDecision, RecipeError> {
        self.proposal.coordinate(Some(timeout)).await
    }

    /// Waits until all participants have acknowledged, and deletes all nodes.
    pub async fn finish(self) -> Result<(), RecipeError> {
        self.proposal.all_done().await?;
        self.remove().await
    }

    /// Deletes all nodes now. A participant that has not read the decision cannot read it any more.
    pub async fn remove(mut self) -> Result<(), RecipeError> {
        self.proposal.clear().await?;
        self.coordinator_node.take().into_iter().for_each(QueueNode::disarm);
        Ok(())
    }
}

/// The data of the coordinator's node starts with this.
const COORDINATOR: &str = "coordinator";
