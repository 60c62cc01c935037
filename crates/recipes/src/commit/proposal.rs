//! One proposal: its nodes and the role of its coordinator. Every change checks a node with the proposal's id
//! in its name, so that a late request never affects another proposal at the same path.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use zebu_client::{
    Client, Compression, CreateSpec, Error, ErrorCode, NodeData, OneshotWatcher, Retry, Version, path,
};

use super::votes::{CommitDecision, CommitProtocol, ProposalHeader};
use crate::error::RecipeError;
use crate::retry::{ReconnectRetry, none_if_missing, retry_until_answered, uncompressed_transaction};
use crate::unique_id::UniqueId;
use crate::wait_queue::{ExclusiveCreate, QueueNode, create_exclusive};

const DECISION: &str = "decision";
const COORDINATOR: &str = "coordinator";

/// One proposal.
#[derive(Clone, Debug)]
pub(super) struct CommitProposal {
    pub(super) client: Client,
    pub(super) path: String,
    pub(super) header: Arc<ProposalHeader>,
    pub(super) body: Bytes,
}

impl CommitProposal {
    /// Creates the nodes of a proposal in one transaction. Fails if there is another proposal.
    pub(super) async fn propose(
        client: &Client,
        path: &str,
        header: ProposalHeader,
        body: Bytes,
    ) -> Result<CommitProposal, RecipeError> {
        let invalid = |what: String| RecipeError::Invalid(what);
        let unique: BTreeSet<_> = header.participants.iter().collect();
        if header.participants.is_empty() || unique.len() < header.participants.len() {
            return Err(invalid(format!("{path} needs at least one participant, and each only once")));
        }
        let data = header
            .write(&body)
            .ok_or_else(|| invalid(format!("{path}: cannot encode the participants as JSON")))?;
        let proposal =
            CommitProposal { client: client.clone(), path: path.to_owned(), header: Arc::new(header), body };
        let mut retry = ReconnectRetry::default();
        loop {
            let mut transaction = uncompressed_transaction(client);
            transaction.create(path, CreateSpec::new().data(data.clone()));
            transaction.create(&proposal.proposal_path(), CreateSpec::new());
            match proposal.header.protocol {
                CommitProtocol::AllWatchVotes | CommitProtocol::CoordinatorAnnounces => {
                    for participant in &proposal.header.participants {
                        transaction.create(&proposal.vote_path(participant), CreateSpec::new());
                    }
                }
                CommitProtocol::EphemeralVotes => {}
            }
            let error = match transaction.retry(Retry::Never).await {
                Ok(_) => return Ok(proposal),
                Err(error) => error,
            };
            match error.code() {
                Some(ErrorCode::NodeExists) => {
                    let existing = CommitProposal::open(client, path).await?;
                    // By an attempt whose reply was lost.
                    return match existing {
                        Some(existing) if existing.header.id == proposal.header.id => Ok(proposal),
                        Some(_) => Err(invalid(format!("{path} has another proposal; use another path"))),
                        None => continue,
                    };
                }
                Some(ErrorCode::NoNode) => {
                    let parent = path::parent(path).unwrap_or("/");
                    retry_until_answered(client, || client.ensure_path(parent)).await?;
                }
                _ => retry.after(client, error).await?,
            }
        }
    }

    /// The proposal at a path; `None` if there is none.
    pub(super) async fn open(client: &Client, path: &str) -> Result<Option<CommitProposal>, RecipeError> {
        let read = retry_until_answered(client, || async {
            client.sync(path).retry(Retry::Never).await?;
            client.get(path).compression(Compression::None).retry(Retry::Never).await
        });
        let Some(node) = none_if_missing(read.await)? else { return Ok(None) };
        let parsed = ProposalHeader::read(&node.data);
        let (header, body) = parsed.ok_or(RecipeError::BadData {
            path: path.to_owned(),
            expected: "a transaction with its participants",
        })?;
        Ok(Some(CommitProposal {
            client: client.clone(),
            path: path.to_owned(),
            header: Arc::new(header),
            body,
        }))
    }

    pub(super) fn vote_path(&self, participant: &str) -> String {
        path::join(&self.path, &format!("s_{participant}"))
    }

    /// The node that identifies this proposal. A new ephemeral vote node and the decision increment its
    /// version.
    pub(super) fn proposal_path(&self) -> String {
        path::join(&self.path, &self.proposal_name())
    }

    fn proposal_name(&self) -> String {
        format!("proposal_{}", self.header.id)
    }

    fn done_path(&self, participant: &str) -> String {
        path::join(&self.path, &format!("done_{participant}"))
    }

    pub(super) fn decision_path(&self) -> String {
        path::join(&self.path, DECISION)
    }

    fn coordinator_path(&self) -> String {
        path::join(&self.path, COORDINATOR)
    }

    pub(super) fn removed_error(&self) -> RecipeError {
        RecipeError::Invalid(format!("the proposal {} was removed", self.path))
    }

    /// Syncs with the leader, so that later reads of this session see all earlier writes.
    pub(super) async fn sync(&self) -> Result<(), Error> {
        retry_until_answered(&self.client, || self.client.sync(&self.path).retry(Retry::Never))
            .await
            .map(drop)
    }

    /// The version of the proposal node. Fails if the proposal was deleted.
    pub(super) async fn version(&self) -> Result<i32, RecipeError> {
        let (client, path) = (&self.client, self.proposal_path());
        let found = retry_until_answered(client, || client.exists(&path).retry(Retry::Never)).await?;
        found.map(|stat| stat.version).ok_or_else(|| self.removed_error())
    }

    /// The decision, if it was announced before the last [`sync`](CommitProposal::sync).
    pub(super) async fn announced(&self) -> Result<Option<CommitDecision>, RecipeError> {
        let path = self.decision_path();
        let Some(node) = self.read(&path).await? else { return Ok(None) };
        // Checked after the decision was read: while the proposal exists, the decision is its own.
        self.version().await?;
        let decision = CommitDecision::read(&node.data);
        decision.map(Some).ok_or(RecipeError::BadData { path, expected: "commit or abort" })
    }

    /// Becomes coordinator, if there is none. Dropping the node ends the role.
    pub(super) async fn become_coordinator(&self, name: &str) -> Result<Option<QueueNode>, RecipeError> {
        let data = Bytes::from(format!("{name} {}", UniqueId::new(&self.client).hex()));
        match create_exclusive(&self.client, &self.coordinator_path(), &data).await? {
            ExclusiveCreate::Created(node) => Ok(Some(node)),
            ExclusiveCreate::OwnedByOther => Ok(None),
            ExclusiveCreate::NoParent => Err(self.removed_error()),
        }
    }

    /// Waits until there is a decision, or no coordinator.
    pub(super) async fn await_announcement(&self) -> Result<Option<CommitDecision>, RecipeError> {
        loop {
            self.sync().await?;
            if let Some(decision) = self.announced().await? {
                return Ok(Some(decision));
            }
            let (coordinator, left) = self.watch(&self.coordinator_path()).await?;
            let (decision, made) = self.watch(&self.decision_path()).await?;
            // The nodes may belong to the next proposal.
            self.version().await?;
            match (decision, coordinator) {
                (true, _) => {}
                (false, true) => {
                    tokio::select! {
                        _ = made => {}
                        _ = left => {}
                    }
                }
                (false, false) => return Ok(None),
            }
        }
    }

    async fn watch(&self, path: &str) -> Result<(bool, OneshotWatcher), Error> {
        let ask = || self.client.exists(path).retry(Retry::Never).watched();
        let (stat, changed) = retry_until_answered(&self.client, ask).await?;
        Ok((stat.is_some(), changed))
    }

    /// Records that a participant has applied the decision.
    pub(super) async fn acknowledge(&self, participant: &str) -> Result<(), RecipeError> {
        let (client, path) = (&self.client, self.done_path(participant));
        let mut retry = ReconnectRetry::default();
        loop {
            let mut transaction = uncompressed_transaction(client);
            transaction.check(&self.proposal_path(), Version::Any);
            transaction.create(&path, CreateSpec::new());
            match transaction.retry(Retry::Never).await {
                Ok(_) => return Ok(()),
                // By an attempt whose reply was lost, or the coordinator has deleted the proposal.
                Err(error) if matches!(error.code(), Some(ErrorCode::NodeExists | ErrorCode::NoNode)) => {
                    return Ok(());
                }
                Err(error) => retry.after(client, error).await?,
            }
        }
    }

    /// Waits until every participant has applied the decision.
    pub(super) async fn all_done(&self) -> Result<(), RecipeError> {
        let client = &self.client;
        loop {
            let list =
                retry_until_answered(client, || client.children(&self.path).retry(Retry::Never).watched())
                    .await;
            let Some((list, changed)) = none_if_missing(list)? else { return Ok(()) };
            let done = |participant: &String| list.names.contains(&format!("done_{participant}"));
            if !list.names.contains(&self.proposal_name()) || self.header.participants.iter().all(done) {
                return Ok(());
            }
            changed.await;
        }
    }

    /// Deletes all nodes in one transaction: another proposal may follow at once.
    pub(super) async fn clear(&self) -> Result<(), RecipeError> {
        let client = &self.client;
        let mut retry = ReconnectRetry::default();
        loop {
            let listed = retry_until_answered(client, || async {
                client.sync(&self.path).retry(Retry::Never).await?;
                client.children(&self.path).retry(Retry::Never).await
            });
            let Some(list) = none_if_missing(listed.await)? else { return Ok(()) };
            if !list.names.contains(&self.proposal_name()) {
                return Ok(());
            }
            let mut transaction = uncompressed_transaction(client);
            for name in &list.names {
                transaction.delete(&path::join(&self.path, name), Version::Any);
            }
            transaction.delete(&self.path, Version::Any);
            match transaction.retry(Retry::Never).await {
                Ok(_) => return Ok(()),
                // A node was created or deleted since the list was read.
                Err(error) if matches!(error.code(), Some(ErrorCode::NoNode | ErrorCode::NotEmpty)) => {}
                Err(error) => retry.after(client, error).await?,
            }
        }
    }

    /// A node of the proposal; `None` if it is missing.
    pub(super) async fn read(&self, path: &str) -> Result<Option<NodeData>, RecipeError> {
        let get = || self.client.get(path).compression(Compression::None).retry(Retry::Never);
        Ok(none_if_missing(retry_until_answered(&self.client, get).await)?)
    }
}
