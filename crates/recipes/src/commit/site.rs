//! A site that takes part in a transaction.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OnceCell;
use zebu_client::{Client, ErrorCode, Retry, SessionId, Version};

use super::round::Round;
use super::vote_node::Appearance;
use super::words::{CommitForm, Decision, Vote};
use crate::connection::{Attempts, plain_transaction};
use crate::error::RecipeError;
use crate::line::Ticket;

/// A site of a transaction; see [`CommitCoordinator`](super::CommitCoordinator).
///
/// A site that has voted for it must be able to carry it out whatever happens, also after a restart; until it has
/// heard the decision it can neither carry it out nor forget it.
///
/// With [`CommitForm::EphemeralVotes`] the vote goes with the handle: keep it until the decision was heard.
#[derive(Debug)]
#[must_use = "dropping it takes an ephemeral vote back"]
pub struct CommitSite {
    round: Round,
    name: String,
    patience: Option<Duration>,
    decided: OnceCell<Decision>,
    /// With ephemeral votes; deleted when it is dropped.
    vote_node: Mutex<Option<Ticket>>,
}

/// Whether a site has its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    There,
    /// There is a decision already.
    TooLate,
}

impl CommitSite {
    /// Takes part in a transaction that was proposed, again after a restart too.
    pub async fn join(client: &Client, path: &str, name: &str) -> Result<CommitSite, RecipeError> {
        let round = Round::open(client, path).await?;
        let round =
            round.ok_or_else(|| RecipeError::Invalid(format!("there is no transaction at {path}")))?;
        if !round.header.sites.iter().any(|site| site == name) {
            return Err(RecipeError::Invalid(format!("{name} is no site of the transaction at {path}")));
        }
        let site = CommitSite {
            round,
            name: name.to_owned(),
            patience: None,
            decided: OnceCell::new(),
            vote_node: Mutex::default(),
        };
        if site.round.header.form == CommitForm::EphemeralVotes {
            site.appear().await?;
        }
        Ok(site)
    }

    /// How long votes of others are waited for, by a site that has to decide: with `EverybodyWatches` always,
    /// else when it takes the part of a coordinator that is gone. For ever unless told otherwise.
    pub fn patience(mut self, patience: Duration) -> CommitSite {
        self.patience = Some(patience);
        self
    }

    /// What is to be done.
    pub fn body(&self) -> &Bytes {
        &self.round.body
    }

    /// Votes, once. Returns the vote that counts: the one of an earlier call, or one against it if somebody has
    /// lost patience, or if the session in which an ephemeral vote would be was lost.
    pub async fn vote(&self, vote: Vote) -> Result<Vote, RecipeError> {
        match self.round.header.form {
            CommitForm::EverybodyWatches | CommitForm::CoordinatorAnnounces => {
                self.round.cast(&self.name, vote).await
            }
            CommitForm::EphemeralVotes => self.vote_in_own_node(vote).await,
        }
    }

    /// The vote is written only if no decision was announced, and no site has begun a new life, since our node was
    /// looked at: then it is ours and counts.
    async fn vote_in_own_node(&self, vote: Vote) -> Result<Vote, RecipeError> {
        let (client, path) = (&self.round.client, self.round.vote_path(&self.name));
        let mut attempts = Attempts::default();
        loop {
            self.round.sync().await?;
            let version = self.round.version().await?;
            let decided = self.round.announced().await?.is_some();
            let own = self.round.read(&path).await?;
            let own = own.filter(|node| SessionId(node.stat.ephemeral_owner) == client.session().id);
            let Some(node) = own else {
                // It went with a session. A coordinator may have seen that, or not.
                if self.appear().await? == Place::TooLate {
                    return self.as_decided().await;
                }
                continue;
            };
            match Vote::read(&node.data) {
                Some(vote) => return Ok(vote),
                None if node.stat.version != 0 => {
                    return Err(RecipeError::BadData { path, expected: "commit or abort" });
                }
                None if decided => return self.as_decided().await,
                None => {}
            }
            let mut transaction = plain_transaction(client);
            transaction.check(&self.round.proposal_path(), Version::Exactly(version));
            transaction.set(&path, vote.text(), Version::Exactly(0));
            match transaction.retry(Retry::Never).await {
                Ok(_) => return Ok(vote),
                Err(error) if matches!(error.code(), Some(ErrorCode::NoNode | ErrorCode::BadVersion)) => {}
                Err(error) => attempts.after(client, error).await?,
            }
        }
    }

    /// Makes the own ephemeral node, if it is not there, and keeps it until this handle is dropped.
    async fn appear(&self) -> Result<Place, RecipeError> {
        let ticket = match self.round.appear(&self.name).await? {
            Appearance::TooLate => return Ok(Place::TooLate),
            Appearance::Shared => return Ok(Place::There),
            Appearance::Made(ticket) => ticket,
        };
        *self.vote_node.lock().unwrap_or_else(PoisonError::into_inner) = Some(ticket);
        Ok(Place::There)
    }

    /// The vote of a site that came too late is what was decided without it.
    async fn as_decided(&self) -> Result<Vote, RecipeError> {
        self.round.sync().await?;
        Ok(match self.round.announced().await? {
            Some(Decision::Commit) => Vote::Commit,
            Some(Decision::Abort) | None => Vote::Abort,
        })
    }

    /// Waits for the decision. If the coordinator is gone, one of those who wait takes its part.
    pub async fn decision(&self) -> Result<Decision, RecipeError> {
        self.decided.get_or_try_init(|| self.hear()).await.copied()
    }

    async fn hear(&self) -> Result<Decision, RecipeError> {
        if self.round.header.form == CommitForm::EverybodyWatches {
            return self.round.conduct(self.patience).await;
        }
        loop {
            if let Some(decision) = self.round.await_announcement().await? {
                return Ok(decision);
            }
            // Given up when this future is dropped, so that another site can take it.
            if let Some(_part) = self.round.take_part(&self.name).await? {
                tracing::info!(path = %self.round.path, site = %self.name, "takes the coordinator's part");
                return self.round.conduct(self.patience).await;
            }
        }
    }

    /// Says that the decision was carried out here; when all sites have, the nodes can go.
    pub async fn acknowledge(self) -> Result<(), RecipeError> {
        self.round.acknowledge(&self.name).await
    }
}
