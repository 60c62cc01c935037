//! One proposal: its nodes, how they come and go, and who sees to it that it is decided. Every change is bound to a node
//! whose name has the proposal's id, so that a late request never reaches another proposal at the same path.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use zebu_client::{
    Client, Compression, CreateSpec, Error, ErrorCode, NodeData, OneshotWatcher, Retry, Version, path,
};

use super::words::{CommitForm, Decision, Header};
use crate::connection::{Attempts, persist, plain_transaction, present};
use crate::error::RecipeError;
use crate::line::{Claim, Ticket, claim};
use crate::unique_id::UniqueId;

const DECISION: &str = "decision";
const COORDINATOR: &str = "coordinator";

/// One proposal.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) client: Client,
    pub(super) path: String,
    pub(super) header: Arc<Header>,
    pub(super) body: Bytes,
}

impl Round {
    /// Makes the nodes of a proposal, all in one. Fails if there is another one.
    pub(super) async fn propose(
        client: &Client,
        path: &str,
        header: Header,
        body: Bytes,
    ) -> Result<Round, RecipeError> {
        let invalid = |what: String| RecipeError::Invalid(what);
        let unique: BTreeSet<_> = header.sites.iter().collect();
        if header.sites.is_empty() || unique.len() < header.sites.len() {
            return Err(invalid(format!("{path} needs sites, each of them once")));
        }
        let data = header.write(&body).ok_or_else(|| invalid(format!("{path}: no JSON of the sites")))?;
        let round = Round { client: client.clone(), path: path.to_owned(), header: Arc::new(header), body };
        let mut attempts = Attempts::default();
        loop {
            let mut transaction = plain_transaction(client);
            transaction.create(path, CreateSpec::new().data(data.clone()));
            transaction.create(&round.proposal_path(), CreateSpec::new());
            match round.header.form {
                CommitForm::EverybodyWatches | CommitForm::CoordinatorAnnounces => {
                    for site in &round.header.sites {
                        transaction.create(&round.vote_path(site), CreateSpec::new());
                    }
                }
                CommitForm::EphemeralVotes => {}
            }
            let error = match transaction.retry(Retry::Never).await {
                Ok(_) => return Ok(round),
                Err(error) => error,
            };
            match error.code() {
                Some(ErrorCode::NodeExists) => {
                    let there = Round::open(client, path).await?;
                    // By an attempt whose answer was lost.
                    return match there {
                        Some(there) if there.header.id == round.header.id => Ok(round),
                        Some(_) => Err(invalid(format!("{path} is another transaction; use another path"))),
                        None => continue,
                    };
                }
                Some(ErrorCode::NoNode) => {
                    let parent = path::parent(path).unwrap_or("/");
                    persist(client, || client.ensure_path(parent)).await?;
                }
                _ => attempts.after(client, error).await?,
            }
        }
    }

    /// The proposal at a path; `None` if there is none.
    pub(super) async fn open(client: &Client, path: &str) -> Result<Option<Round>, RecipeError> {
        let read = persist(client, || async {
            client.sync(path).retry(Retry::Never).await?;
            client.get(path).compression(Compression::None).retry(Retry::Never).await
        });
        let Some(node) = present(read.await)? else { return Ok(None) };
        let parsed = Header::read(&node.data);
        let (header, body) = parsed.ok_or(RecipeError::BadData {
            path: path.to_owned(),
            expected: "a transaction with its sites",
        })?;
        Ok(Some(Round { client: client.clone(), path: path.to_owned(), header: Arc::new(header), body }))
    }

    pub(super) fn vote_path(&self, site: &str) -> String {
        path::join(&self.path, &format!("s_{site}"))
    }

    /// The node that stands for this proposal and no other. Its version rises with every life of a site that votes in
    /// an ephemeral node, and with the decision.
    pub(super) fn proposal_path(&self) -> String {
        path::join(&self.path, &self.proposal_name())
    }

    fn proposal_name(&self) -> String {
        format!("proposal_{}", self.header.id)
    }

    fn done_path(&self, site: &str) -> String {
        path::join(&self.path, &format!("done_{site}"))
    }

    pub(super) fn decision_path(&self) -> String {
        path::join(&self.path, DECISION)
    }

    fn coordinator_path(&self) -> String {
        path::join(&self.path, COORDINATOR)
    }

    pub(super) fn gone(&self) -> RecipeError {
        RecipeError::Invalid(format!("the transaction {} is not there any more", self.path))
    }

    /// Lets the server catch up: what others have written must not be missed because it lags. Later reads of this
    /// session are not older.
    pub(super) async fn sync(&self) -> Result<(), Error> {
        persist(&self.client, || self.client.sync(&self.path).retry(Retry::Never)).await.map(drop)
    }

    /// The version of the proposal's node. Fails if the proposal was removed.
    pub(super) async fn version(&self) -> Result<i32, RecipeError> {
        let (client, path) = (&self.client, self.proposal_path());
        let found = persist(client, || client.exists(&path).retry(Retry::Never)).await?;
        found.map(|stat| stat.version).ok_or_else(|| self.gone())
    }

    /// The decision, if it was announced before the last [`sync`](Round::sync).
    pub(super) async fn announced(&self) -> Result<Option<Decision>, RecipeError> {
        let path = self.decision_path();
        let Some(node) = self.read(&path).await? else { return Ok(None) };
        // Asked for after the decision was read: as long as the proposal is there, the decision is its own.
        self.version().await?;
        let decision = Decision::read(&node.data);
        decision.map(Some).ok_or(RecipeError::BadData { path, expected: "commit or abort" })
    }

    /// Takes the part of the coordinator, if it is free. It is given up when the ticket is dropped.
    pub(super) async fn take_part(&self, name: &str) -> Result<Option<Ticket>, RecipeError> {
        let data = Bytes::from(format!("{name} {}", UniqueId::new().hex()));
        match claim(&self.client, &self.coordinator_path(), &data).await? {
            Claim::Ours(ticket) => Ok(Some(ticket)),
            Claim::Taken => Ok(None),
            Claim::NoParent => Err(self.gone()),
        }
    }

    /// Waits until there is a decision, or no coordinator that would announce one.
    pub(super) async fn await_announcement(&self) -> Result<Option<Decision>, RecipeError> {
        loop {
            self.sync().await?;
            if let Some(decision) = self.announced().await? {
                return Ok(Some(decision));
            }
            let (coordinator, left) = self.watch(&self.coordinator_path()).await?;
            let (decision, made) = self.watch(&self.decision_path()).await?;
            // What is there may be the next proposal's.
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
        let (stat, changed) = persist(&self.client, ask).await?;
        Ok((stat.is_some(), changed))
    }

    /// Says that a site has done what was decided.
    pub(super) async fn acknowledge(&self, site: &str) -> Result<(), RecipeError> {
        let (client, path) = (&self.client, self.done_path(site));
        let mut attempts = Attempts::default();
        loop {
            let mut transaction = plain_transaction(client);
            transaction.check(&self.proposal_path(), Version::Any);
            transaction.create(&path, CreateSpec::new());
            match transaction.retry(Retry::Never).await {
                Ok(_) => return Ok(()),
                // By an attempt whose answer was lost, or all others have, and it was cleared away since.
                Err(error) if matches!(error.code(), Some(ErrorCode::NodeExists | ErrorCode::NoNode)) => {
                    return Ok(());
                }
                Err(error) => attempts.after(client, error).await?,
            }
        }
    }

    /// Waits until every site has done what was decided.
    pub(super) async fn all_done(&self) -> Result<(), RecipeError> {
        let client = &self.client;
        loop {
            let list = persist(client, || client.children(&self.path).retry(Retry::Never).watched()).await;
            let Some((list, changed)) = present(list)? else { return Ok(()) };
            let done = |site: &String| list.names.contains(&format!("done_{site}"));
            if !list.names.contains(&self.proposal_name()) || self.header.sites.iter().all(done) {
                return Ok(());
            }
            changed.await;
        }
    }

    /// Removes all nodes, in one transaction: another proposal may follow at the same path at once.
    pub(super) async fn clear(&self) -> Result<(), RecipeError> {
        let client = &self.client;
        let mut attempts = Attempts::default();
        loop {
            let listed = persist(client, || async {
                client.sync(&self.path).retry(Retry::Never).await?;
                client.children(&self.path).retry(Retry::Never).await
            });
            let Some(list) = present(listed.await)? else { return Ok(()) };
            if !list.names.contains(&self.proposal_name()) {
                return Ok(());
            }
            let mut transaction = plain_transaction(client);
            for name in &list.names {
                transaction.delete(&path::join(&self.path, name), Version::Any);
            }
            transaction.delete(&self.path, Version::Any);
            match transaction.retry(Retry::Never).await {
                Ok(_) => return Ok(()),
                // A node has come or gone since the look.
                Err(error) if matches!(error.code(), Some(ErrorCode::NoNode | ErrorCode::NotEmpty)) => {}
                Err(error) => attempts.after(client, error).await?,
            }
        }
    }

    /// A node of the proposal; none if it is not there.
    pub(super) async fn read(&self, path: &str) -> Result<Option<NodeData>, RecipeError> {
        let get = || self.client.get(path).compression(Compression::None).retry(Retry::Never);
        Ok(present(persist(&self.client, get).await)?)
    }
}
