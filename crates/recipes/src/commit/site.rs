//! A site that takes part in a transaction.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OnceCell;
use zebu_client::{Client, Compression, ErrorCode, Retry, SessionId, Version};

use super::round::Round;
use super::words::{CommitForm, Decision, Vote};
use crate::connection::{Attempts, persist};
use crate::error::RecipeError;

/// A site of a transaction; see [`CommitCoordinator`](super::CommitCoordinator).
///
/// A site that has voted for it must be able to carry it out whatever happens, also after a restart; until it has
/// heard the decision it can neither carry it out nor forget it.
#[derive(Debug)]
pub struct CommitSite {
    round: Round,
    name: String,
    patience: Option<Duration>,
    decided: OnceCell<Decision>,
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
        if round.header.form == CommitForm::EphemeralVotes {
            round.appear(name).await?;
        }
        Ok(CommitSite { round, name: name.to_owned(), patience: None, decided: OnceCell::new() })
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

    async fn vote_in_own_node(&self, vote: Vote) -> Result<Vote, RecipeError> {
        let (client, path) = (&self.round.client, self.round.vote_path(&self.name));
        let mut attempts = Attempts::default();
        loop {
            let set = client.set(&path, vote.text()).version(Version::Exactly(0));
            match set.compression(Compression::None).retry(Retry::Never).await {
                Ok(_) => return Ok(vote),
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                    // It went with a session. Whoever decides may have seen that, or not.
                    if self.round.appear(&self.name).await?.is_none() {
                        return self.as_decided().await;
                    }
                }
                Err(error) if error.code() == Some(ErrorCode::BadVersion) => {
                    let read = || client.get(&path).compression(Compression::None).retry(Retry::Never);
                    let Ok(node) = persist(client, read).await else { continue };
                    if SessionId(node.stat.ephemeral_owner) == client.session().id
                        && let Some(vote) = Vote::read(&node.data)
                    {
                        return Ok(vote);
                    }
                    if self.round.appear(&self.name).await?.is_none() {
                        return self.as_decided().await;
                    }
                }
                Err(error) => attempts.after(client, error).await?,
            }
        }
    }

    /// The vote of a site that came too late is what was decided without it.
    async fn as_decided(&self) -> Result<Vote, RecipeError> {
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
            if self.round.take_part(&self.name).await? {
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
