//! The votes of a proposal, and how a decision is reached and announced. Any number of clients may do this
//! concurrently. A cache watches the votes; before a decision they are read again.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;
use zebu_client::{
    Compression, CreateMode, CreateSpec, Error, ErrorCode, NodeData, Retry, SessionId, Version,
};

use super::proposal::CommitProposal;
use super::vote_node::{VoteNode, VoteNodeCleanup};
use super::votes::{CommitDecision, CommitProtocol, CommitVote};
use crate::cache::{Cache, CacheScope};
use crate::error::RecipeError;
use crate::retry::{ReconnectRetry, none_if_missing, retry_until_answered, uncompressed_transaction};

/// All votes at one version of the proposal node.
#[derive(Debug)]
struct VoteTally {
    /// The version of the proposal node before and after the votes were read: no vote node was created in
    /// between.
    version: i32,
    /// In the order of the participants; `None` for a participant without a node.
    votes: Vec<Option<CastVote>>,
}

/// The vote of a participant, with the version of its node for a condition.
#[derive(Clone, Copy, Debug)]
struct CastVote {
    vote: Option<CommitVote>,
    version: i32,
}

impl VoteTally {
    fn decision(&self) -> Option<CommitDecision> {
        let votes: Vec<_> = self.votes.iter().map(|seen| seen.and_then(|seen| seen.vote)).collect();
        CommitDecision::of(&votes)
    }
}

impl CommitProposal {
    /// Watches the votes until there is a decision, and announces it if the protocol demands it. After the
    /// timeout missing votes count as aborts.
    pub(super) async fn coordinate(&self, timeout: Option<Duration>) -> Result<CommitDecision, RecipeError> {
        let cache = Cache::start_uncompressed(&self.client, &self.path, CacheScope::Children);
        cache.synced().await?;
        let mut changes = cache.changes();
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut seen = BTreeSet::new();
        loop {
            if cache.is_synced() && cache.get(&self.proposal_path()).is_none() {
                self.version().await?;
            }
            self.require_readable(&cache).await?;
            if let Some(decision) = self.check_votes(&cache, &mut seen).await? {
                return Ok(decision);
            }
            let next = match deadline {
                Some(deadline) => tokio::time::timeout_at(deadline, changes.next()).await,
                None => Ok(changes.next().await),
            };
            match next {
                Ok(Some(_)) => {}
                Ok(None) => return Err(cache.failure().unwrap_or_else(|| self.removed_error())),
                Err(_) => return self.abort_missing_votes().await,
            }
        }
    }

    /// Fails if a vote or the decision is unreadable, because the wait would never end.
    async fn require_readable(&self, cache: &Cache) -> Result<(), RecipeError> {
        for path in cache.unreadable() {
            if path == self.decision_path()
                || self.header.participants.iter().any(|participant| self.vote_path(participant) == path)
            {
                self.read(&path).await?;
            }
        }
        Ok(())
    }

    /// Checks the votes; `None` if there is no decision yet. `seen` has the participants whose nodes existed
    /// at an earlier check.
    async fn check_votes(
        &self,
        cache: &Cache,
        seen: &mut BTreeSet<String>,
    ) -> Result<Option<CommitDecision>, RecipeError> {
        if cache.get(&self.decision_path()).is_some() {
            self.sync().await?;
            return self.announced().await;
        }
        let nodes: Vec<_> = self
            .header
            .participants
            .iter()
            .map(|participant| cache.get(&self.vote_path(participant)))
            .collect();
        let votes: Vec<_> =
            nodes.iter().map(|node| node.as_ref().and_then(|node| CommitVote::read(&node.data))).collect();
        if CommitDecision::of(&votes).is_some() {
            return self.decide().await;
        }
        let mut failed = false;
        for (participant, node) in self.header.participants.iter().zip(&nodes) {
            match node {
                Some(_) => drop(seen.insert(participant.clone())),
                None => failed |= seen.contains(participant),
            }
        }
        if failed && self.header.protocol == CommitProtocol::EphemeralVotes {
            return self.abort().await.map(Some);
        }
        Ok(None)
    }

    /// Decides by the votes on the server; `None` if some are missing there.
    async fn decide(&self) -> Result<Option<CommitDecision>, RecipeError> {
        loop {
            let tally = self.tally().await?;
            let Some(decision) = tally.decision() else { return Ok(None) };
            let announced = match (self.header.protocol, decision) {
                // All participants reach the same decision: votes are written once.
                (CommitProtocol::AllWatchVotes, decision) => return Ok(Some(decision)),
                (CommitProtocol::EphemeralVotes, CommitDecision::Commit) => {
                    self.announce(decision, Some(&tally)).await?
                }
                (CommitProtocol::CoordinatorAnnounces, _)
                | (CommitProtocol::EphemeralVotes, CommitDecision::Abort) => {
                    self.announce(decision, None).await?
                }
            };
            if announced.is_some() {
                return Ok(announced);
            }
        }
    }

    /// Announces an abort. Returns a commit that was announced meanwhile.
    async fn abort(&self) -> Result<CommitDecision, RecipeError> {
        loop {
            if let Some(decision) = self.announce(CommitDecision::Abort, None).await? {
                return Ok(decision);
            }
        }
    }

    /// Writes missing votes as aborts after the timeout.
    async fn abort_missing_votes(&self) -> Result<CommitDecision, RecipeError> {
        if self.header.protocol == CommitProtocol::EphemeralVotes {
            return self.abort().await;
        }
        let tally = self.tally().await?;
        for (participant, seen) in self.header.participants.iter().zip(&tally.votes) {
            if seen.is_none_or(|seen| seen.vote.is_none()) {
                self.cast(participant, CommitVote::Abort).await?;
            }
        }
        self.decide().await?.ok_or_else(|| self.removed_error())
    }

    /// Reads all votes at one version of the proposal node.
    async fn tally(&self) -> Result<VoteTally, RecipeError> {
        loop {
            self.sync().await?;
            let version = self.version().await?;
            let votes = retry_until_answered(&self.client, || self.read_votes()).await?;
            if self.version().await? == version {
                return Ok(VoteTally { version, votes });
            }
        }
    }

    async fn read_votes(&self) -> Result<Vec<Option<CastVote>>, Error> {
        let get = |participant: &String| {
            let get = self.client.get(&self.vote_path(participant)).compression(Compression::None);
            get.retry(Retry::Never).send()
        };
        let sent: Vec<_> = self.header.participants.iter().map(get).collect();
        let mut votes = Vec::with_capacity(sent.len());
        for read in sent {
            let seen =
                |node: NodeData| CastVote { vote: CommitVote::read(&node.data), version: node.stat.version };
            votes.push(none_if_missing(read.await)?.map(seen));
        }
        Ok(votes)
    }

    /// Casts the vote of a participant with an existing node. A vote is written once; returns the one that
    /// counts.
    pub(super) async fn cast(&self, participant: &str, vote: CommitVote) -> Result<CommitVote, RecipeError> {
        let (client, path) = (&self.client, self.vote_path(participant));
        let mut retry = ReconnectRetry::default();
        loop {
            let mut transaction = uncompressed_transaction(client);
            transaction.check(&self.proposal_path(), Version::Any);
            transaction.set(&path, vote.text(), Version::Exactly(0));
            match transaction.retry(Retry::Never).await {
                Ok(_) => return Ok(vote),
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Err(self.removed_error()),
                Err(error) if error.code() == Some(ErrorCode::BadVersion) => {
                    self.sync().await?;
                    let Some(node) = self.read(&path).await? else { return Err(self.removed_error()) };
                    self.version().await?;
                    let counts = CommitVote::read(&node.data);
                    return counts.ok_or(RecipeError::BadData { path, expected: "commit or abort" });
                }
                Err(error) => retry.after(client, error).await?,
            }
        }
    }

    /// Announces the decision, once. With a tally, the transaction checks that every vote exists and that no
    /// vote node was created since: a vote that was cast again has the same version as before. Returns `None`
    /// if the votes must be read again.
    async fn announce(
        &self,
        decision: CommitDecision,
        tally: Option<&VoteTally>,
    ) -> Result<Option<CommitDecision>, RecipeError> {
        let client = &self.client;
        let mut transaction = uncompressed_transaction(client);
        let proposal = tally.map_or(Version::Any, |tally| Version::Exactly(tally.version));
        transaction.set(&self.proposal_path(), "", proposal);
        let votes = tally.map_or(&[][..], |tally| &tally.votes);
        for (participant, seen) in self.header.participants.iter().zip(votes.iter().flatten()) {
            transaction.check(&self.vote_path(participant), Version::Exactly(seen.version));
        }
        transaction.create(&self.decision_path(), CreateSpec::new().data(decision.text()));
        let error = match transaction.retry(Retry::Never).await {
            Ok(_) => return Ok(Some(decision)),
            Err(error) => error,
        };
        match error.code() {
            Some(ErrorCode::NodeExists | ErrorCode::BadVersion | ErrorCode::NoNode) => {
                self.sync().await?;
                if let Some(decision) = self.announced().await? {
                    return Ok(Some(decision));
                }
                self.version().await?;
            }
            _ => ReconnectRetry::default().after(client, error).await?,
        }
        Ok(None)
    }

    /// Creates the ephemeral vote node of a participant, unless there is a decision.
    pub(super) async fn create_vote_node(&self, participant: &str) -> Result<VoteNode, RecipeError> {
        let (client, path) = (&self.client, self.vote_path(participant));
        let mut retry = ReconnectRetry::default();
        let mut cleanup = VoteNodeCleanup::new(client, &path);
        let mut in_doubt = false;
        loop {
            self.sync().await?;
            let version = self.version().await?;
            if self.announced().await?.is_some() {
                return Ok(VoteNode::Decided);
            }
            let mut transaction = uncompressed_transaction(client);
            transaction.set(&self.proposal_path(), "", Version::Exactly(version));
            transaction.create(&path, CreateSpec::new().mode(CreateMode::Ephemeral));
            cleanup.arm();
            let result = transaction.retry(Retry::Never).await;
            in_doubt |= result.as_ref().err().is_some_and(Error::is_ambiguous);
            if result.is_err() && !in_doubt {
                cleanup.disarm();
            }
            match result {
                Ok(_) => {}
                Err(error) if error.code() == Some(ErrorCode::NodeExists) => {}
                // Another participant has joined, or an own attempt without a reply was carried out, or there
                // is a decision.
                Err(error) if error.code() == Some(ErrorCode::BadVersion) => {}
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Err(self.removed_error()),
                Err(error) => retry.after(client, error).await?,
            }
            let (stat, changed) =
                retry_until_answered(client, || client.exists(&path).retry(Retry::Never).watched()).await?;
            match stat {
                Some(stat) if SessionId(stat.ephemeral_owner) == client.session().id => {
                    return Ok(cleanup.found(&stat));
                }
                // The node of a former session: its delete aborts, or a decision is announced.
                Some(_) => drop(changed.await),
                None => {}
            }
        }
    }
}
