//! The votes of a proposal, and how a decision is reached and announced. Nothing in here depends on who does it, or on
//! how many do it at the same time. Votes are followed by a cache; before a decision they are read again.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;
use zebu_client::{
    Compression, CreateMode, CreateSpec, Error, ErrorCode, NodeData, Retry, SessionId, Version,
};

use super::round::Round;
use super::vote_node::{Appearance, Unfinished};
use super::words::{CommitForm, Decision, Vote};
use crate::cache::{Cache, Reach};
use crate::connection::{Attempts, persist, plain_transaction, present};
use crate::error::RecipeError;

/// All votes as they stand at one version of the proposal's node.
#[derive(Debug)]
struct Tally {
    /// The version of the proposal's node before and after the votes were read: none of them is of a later life.
    version: i32,
    /// In the order of the sites; none for a site without a node.
    votes: Vec<Option<Seen>>,
}

/// The vote of a site, with the version that a condition can ask for.
#[derive(Clone, Copy, Debug)]
struct Seen {
    vote: Option<Vote>,
    version: i32,
}

impl Tally {
    fn decision(&self) -> Option<Decision> {
        let votes: Vec<_> = self.votes.iter().map(|seen| seen.and_then(|seen| seen.vote)).collect();
        Decision::of(&votes)
    }
}

/// What came of an announcement.
enum Announced {
    /// This decision counts.
    Counts(Decision),
    /// A condition did not hold, or whether the decision was written is not known: read the votes again.
    LookAgain,
}

impl Round {
    /// Follows votes and announcement until there is a decision, and announces it where that is the form.
    /// Votes that are missing when the patience ends are cast against it.
    pub(super) async fn conduct(&self, patience: Option<Duration>) -> Result<Decision, RecipeError> {
        let cache = Cache::plain(&self.client, &self.path, Reach::Children);
        cache.synced().await?;
        let mut changes = cache.changes();
        let deadline = patience.and_then(|patience| Instant::now().checked_add(patience));
        let mut here = BTreeSet::new();
        loop {
            if cache.is_synced() && cache.get(&self.proposal_path()).is_none() {
                self.version().await?;
            }
            self.require_readable(&cache).await?;
            if let Some(decision) = self.step(&cache, &mut here).await? {
                return Ok(decision);
            }
            let next = match deadline {
                Some(deadline) => tokio::time::timeout_at(deadline, changes.next()).await,
                None => Ok(changes.next().await),
            };
            match next {
                Ok(Some(_)) => {}
                Ok(None) => return Err(cache.failure().unwrap_or_else(|| self.gone())),
                Err(_) => return self.give_up().await,
            }
        }
    }

    /// Fails if a vote or the decision may not be read: it would be waited for in vain.
    async fn require_readable(&self, cache: &Cache) -> Result<(), RecipeError> {
        for path in cache.unreadable() {
            if path == self.decision_path()
                || self.header.sites.iter().any(|site| self.vote_path(site) == path)
            {
                self.read(&path).await?;
            }
        }
        Ok(())
    }

    /// One look at the votes; `None` if there is no decision yet. `here` has the sites that were there at the
    /// last look.
    async fn step(
        &self,
        cache: &Cache,
        here: &mut BTreeSet<String>,
    ) -> Result<Option<Decision>, RecipeError> {
        if cache.get(&self.decision_path()).is_some() {
            self.sync().await?;
            return self.announced().await;
        }
        let nodes: Vec<_> = self.header.sites.iter().map(|site| cache.get(&self.vote_path(site))).collect();
        let votes: Vec<_> =
            nodes.iter().map(|node| node.as_ref().and_then(|node| Vote::read(&node.data))).collect();
        if Decision::of(&votes).is_some() {
            return self.decide().await;
        }
        let mut failed = false;
        for (site, node) in self.header.sites.iter().zip(&nodes) {
            match node {
                Some(_) => drop(here.insert(site.clone())),
                None => failed |= here.contains(site),
            }
        }
        if failed && self.header.form == CommitForm::EphemeralVotes {
            return self.abort().await.map(Some);
        }
        Ok(None)
    }

    /// Decides by the votes on the server; `None` if some of them are missing there.
    async fn decide(&self) -> Result<Option<Decision>, RecipeError> {
        loop {
            let tally = self.tally().await?;
            let Some(decision) = tally.decision() else { return Ok(None) };
            let announced = match (self.header.form, decision) {
                // All come to the same end by themselves: votes are written once.
                (CommitForm::EverybodyWatches, decision) => return Ok(Some(decision)),
                (CommitForm::EphemeralVotes, Decision::Commit) => {
                    self.announce(decision, Some(&tally)).await?
                }
                (CommitForm::CoordinatorAnnounces, _) | (CommitForm::EphemeralVotes, Decision::Abort) => {
                    self.announce(decision, None).await?
                }
            };
            match announced {
                Announced::Counts(decision) => return Ok(Some(decision)),
                Announced::LookAgain => {}
            }
        }
    }

    /// Announces an abort. A commit that was announced meanwhile is what comes back.
    async fn abort(&self) -> Result<Decision, RecipeError> {
        loop {
            if let Announced::Counts(decision) = self.announce(Decision::Abort, None).await? {
                return Ok(decision);
            }
        }
    }

    /// The patience is over: votes that are missing are against it.
    async fn give_up(&self) -> Result<Decision, RecipeError> {
        if self.header.form == CommitForm::EphemeralVotes {
            return self.abort().await;
        }
        let tally = self.tally().await?;
        for (site, seen) in self.header.sites.iter().zip(&tally.votes) {
            if seen.is_none_or(|seen| seen.vote.is_none()) {
                self.cast(site, Vote::Abort).await?;
            }
        }
        self.decide().await?.ok_or_else(|| self.gone())
    }

    /// Reads all votes. They belong together: no site has begun a new life while they were read.
    async fn tally(&self) -> Result<Tally, RecipeError> {
        loop {
            self.sync().await?;
            let version = self.version().await?;
            let votes = persist(&self.client, || self.read_votes()).await?;
            if self.version().await? == version {
                return Ok(Tally { version, votes });
            }
        }
    }

    async fn read_votes(&self) -> Result<Vec<Option<Seen>>, Error> {
        let get = |site: &String| {
            let get = self.client.get(&self.vote_path(site)).compression(Compression::None);
            get.retry(Retry::Never).send()
        };
        let sent: Vec<_> = self.header.sites.iter().map(get).collect();
        let mut votes = Vec::with_capacity(sent.len());
        for read in sent {
            let seen = |node: NodeData| Seen { vote: Vote::read(&node.data), version: node.stat.version };
            votes.push(present(read.await)?.map(seen));
        }
        Ok(votes)
    }

    /// Casts the vote of a site that has a node; a vote is written once, and the one that counts is returned.
    pub(super) async fn cast(&self, site: &str, vote: Vote) -> Result<Vote, RecipeError> {
        let (client, path) = (&self.client, self.vote_path(site));
        let mut attempts = Attempts::default();
        loop {
            let mut transaction = plain_transaction(client);
            transaction.check(&self.proposal_path(), Version::Any);
            transaction.set(&path, vote.text(), Version::Exactly(0));
            match transaction.retry(Retry::Never).await {
                Ok(_) => return Ok(vote),
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Err(self.gone()),
                Err(error) if error.code() == Some(ErrorCode::BadVersion) => {
                    self.sync().await?;
                    let Some(node) = self.read(&path).await? else { return Err(self.gone()) };
                    self.version().await?;
                    let counts = Vote::read(&node.data);
                    return counts.ok_or(RecipeError::BadData { path, expected: "commit or abort" });
                }
                Err(error) => attempts.after(client, error).await?,
            }
        }
    }

    /// Writes the decision, once for all. With a tally, only if every vote is still there, and no site has begun a new
    /// life since it was made: a vote that was cast again has the same version as the one before. It is not repeated
    /// with an old tally.
    async fn announce(&self, decision: Decision, tally: Option<&Tally>) -> Result<Announced, RecipeError> {
        let client = &self.client;
        let mut transaction = plain_transaction(client);
        let proposal = tally.map_or(Version::Any, |tally| Version::Exactly(tally.version));
        transaction.set(&self.proposal_path(), "", proposal);
        let votes = tally.map_or(&[][..], |tally| &tally.votes);
        for (site, seen) in self.header.sites.iter().zip(votes.iter().flatten()) {
            transaction.check(&self.vote_path(site), Version::Exactly(seen.version));
        }
        transaction.create(&self.decision_path(), CreateSpec::new().data(decision.text()));
        let error = match transaction.retry(Retry::Never).await {
            Ok(_) => return Ok(Announced::Counts(decision)),
            Err(error) => error,
        };
        match error.code() {
            Some(ErrorCode::NodeExists | ErrorCode::BadVersion | ErrorCode::NoNode) => {
                self.sync().await?;
                if let Some(decision) = self.announced().await? {
                    return Ok(Announced::Counts(decision));
                }
                self.version().await?;
            }
            _ => Attempts::default().after(client, error).await?,
        }
        Ok(Announced::LookAgain)
    }

    /// Makes a site's own ephemeral node, unless there is a decision already.
    pub(super) async fn appear(&self, site: &str) -> Result<Appearance, RecipeError> {
        let (client, path) = (&self.client, self.vote_path(site));
        let mut attempts = Attempts::default();
        let mut unfinished = Unfinished::new(client, &path);
        let mut in_doubt = false;
        loop {
            self.sync().await?;
            let version = self.version().await?;
            if self.announced().await?.is_some() {
                return Ok(Appearance::TooLate);
            }
            let mut transaction = plain_transaction(client);
            transaction.set(&self.proposal_path(), "", Version::Exactly(version));
            transaction.create(&path, CreateSpec::new().mode(CreateMode::Ephemeral));
            unfinished.arm();
            let result = transaction.retry(Retry::Never).await;
            in_doubt |= result.as_ref().err().is_some_and(Error::is_ambiguous);
            if result.is_err() && !in_doubt {
                unfinished.disarm();
            }
            match result {
                Ok(_) => {}
                Err(error) if error.code() == Some(ErrorCode::NodeExists) => {}
                // Another site has appeared, or we have in an attempt whose answer was lost, or it was decided.
                Err(error) if error.code() == Some(ErrorCode::BadVersion) => {}
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Err(self.gone()),
                Err(error) => attempts.after(client, error).await?,
            }
            let (stat, changed) =
                persist(client, || client.exists(&path).retry(Retry::Never).watched()).await?;
            match stat {
                Some(stat) if SessionId(stat.ephemeral_owner) == client.session().id => {
                    return Ok(unfinished.found(&stat));
                }
                // Of a former session or a former life: it will go, and that aborts, or a decision is announced.
                Some(_) => drop(changed.await),
                None => {}
            }
        }
    }
}
