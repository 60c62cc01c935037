//! One transaction as everybody sees it: its nodes, its votes, and how a decision is reached and announced.
//! Nothing in here depends on who does it, or on how many do it at the same time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use zebu_client::{
    Client, Compression, CreateMode, CreateSpec, Error, ErrorCode, NodeData, OneshotWatcher, Retry,
    SessionId, Version, path,
};

use super::words::{CommitForm, Decision, Header, Vote};
use crate::cache::{Cache, CachedNode, Reach};
use crate::connection::{Attempts, persist, present};
use crate::error::RecipeError;

const DECISION: &str = "decision";
const COORDINATOR: &str = "coordinator";

/// One transaction.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) client: Client,
    pub(super) path: String,
    pub(super) header: Arc<Header>,
    pub(super) body: Bytes,
}

/// The vote of a site as it was seen, with the version that a condition can ask for.
#[derive(Clone, Copy, Debug)]
struct Seen {
    vote: Option<Vote>,
    version: i32,
}

impl Round {
    /// Makes the nodes of a transaction, all in one. Fails if there is another one.
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
            let mut transaction = client.transaction();
            transaction.create(path, CreateSpec::new().data(data.clone()));
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

    /// A transaction that somebody has proposed; `None` if there is none.
    pub(super) async fn open(client: &Client, path: &str) -> Result<Option<Round>, RecipeError> {
        let Some(node) = read(client, path).await? else { return Ok(None) };
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

    fn done_path(&self, site: &str) -> String {
        path::join(&self.path, &format!("done_{site}"))
    }

    fn decision_path(&self) -> String {
        path::join(&self.path, DECISION)
    }

    fn coordinator_path(&self) -> String {
        path::join(&self.path, COORDINATOR)
    }

    /// The decision, if it was announced.
    pub(super) async fn announced(&self) -> Result<Option<Decision>, RecipeError> {
        let path = self.decision_path();
        let Some(node) = read(&self.client, &path).await? else { return Ok(None) };
        let decision = Decision::read(&node.data);
        decision.map(Some).ok_or(RecipeError::BadData { path, expected: "commit or abort" })
    }

    /// Follows votes and announcement until there is a decision, and announces it where that is the form.
    /// Votes that are missing when the patience ends are cast against it.
    pub(super) async fn conduct(&self, patience: Option<Duration>) -> Result<Decision, RecipeError> {
        let cache = Cache::start(&self.client, &self.path, Reach::Children);
        cache.synced().await?;
        let mut changes = cache.changes();
        let deadline = patience.and_then(|patience| Instant::now().checked_add(patience));
        let mut here = BTreeSet::new();
        loop {
            if cache.get(&self.path).is_none() && cache.is_synced() {
                return Err(self.gone());
            }
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
                Err(_) => return self.give_up(&cache).await,
            }
        }
    }

    pub(super) fn gone(&self) -> RecipeError {
        RecipeError::Invalid(format!("the transaction {} is not there any more", self.path))
    }

    fn seen(&self, cache: &Cache) -> Vec<Option<Seen>> {
        let seen = |node: Arc<CachedNode>| Seen { vote: Vote::read(&node.data), version: node.stat.version };
        let of = |site: &String| cache.get(&self.vote_path(site)).map(seen);
        self.header.sites.iter().map(of).collect()
    }

    /// One look at the votes; `None` if there is no decision yet. `here` has the sites that were there at the
    /// last look.
    async fn step(
        &self,
        cache: &Cache,
        here: &mut BTreeSet<String>,
    ) -> Result<Option<Decision>, RecipeError> {
        if let Some(node) = cache.get(&self.decision_path()) {
            return Ok(Decision::read(&node.data));
        }
        let seen = self.seen(cache);
        let votes: Vec<_> = seen.iter().map(|seen| seen.and_then(|seen| seen.vote)).collect();
        let decision = Decision::of(&votes);
        match (self.header.form, decision) {
            // Everybody sees the same, by itself: votes are written once.
            (CommitForm::EverybodyWatches, decision) => Ok(decision),
            (CommitForm::CoordinatorAnnounces, None) => Ok(None),
            (CommitForm::CoordinatorAnnounces, Some(decision)) => self.announce(decision, &[]).await,
            (CommitForm::EphemeralVotes, Some(Decision::Commit)) => {
                let versions: Vec<i32> = seen.iter().flatten().map(|seen| seen.version).collect();
                self.announce(Decision::Commit, &versions).await
            }
            (CommitForm::EphemeralVotes, Some(Decision::Abort)) => self.announce(Decision::Abort, &[]).await,
            (CommitForm::EphemeralVotes, None) => {
                let mut failed = false;
                for (site, seen) in self.header.sites.iter().zip(&seen) {
                    match seen {
                        Some(_) => {
                            here.insert(site.clone());
                        }
                        None => failed |= here.contains(site),
                    }
                }
                if failed { self.announce(Decision::Abort, &[]).await } else { Ok(None) }
            }
        }
    }

    /// Nobody waits any longer: votes that are missing are against it.
    async fn give_up(&self, cache: &Cache) -> Result<Decision, RecipeError> {
        if self.header.form == CommitForm::EphemeralVotes {
            // A commit that was announced meanwhile is what comes back.
            return Ok(self.announce(Decision::Abort, &[]).await?.unwrap_or(Decision::Abort));
        }
        let mut votes = Vec::new();
        for (site, seen) in self.header.sites.iter().zip(self.seen(cache)) {
            votes.push(match seen.and_then(|seen| seen.vote) {
                Some(vote) => Some(vote),
                None => Some(self.cast(site, Vote::Abort).await?),
            });
        }
        let decision = Decision::of(&votes).unwrap_or(Decision::Abort);
        match self.header.form {
            CommitForm::EverybodyWatches => Ok(decision),
            CommitForm::CoordinatorAnnounces | CommitForm::EphemeralVotes => {
                Ok(self.announce(decision, &[]).await?.unwrap_or(decision))
            }
        }
    }

    /// Casts the vote of a site that has a node; a vote is written once, and the one that counts is returned.
    pub(super) async fn cast(&self, site: &str, vote: Vote) -> Result<Vote, RecipeError> {
        let (client, path) = (&self.client, self.vote_path(site));
        let mut attempts = Attempts::default();
        loop {
            let set = client.set(&path, vote.text()).version(Version::Exactly(0));
            match set.compression(Compression::None).retry(Retry::Never).await {
                Ok(_) => return Ok(vote),
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Err(self.gone()),
                Err(error) if error.code() == Some(ErrorCode::BadVersion) => {
                    let Some(node) = read(client, &path).await? else { return Err(self.gone()) };
                    let counts = Vote::read(&node.data);
                    return counts.ok_or(RecipeError::BadData { path, expected: "commit or abort" });
                }
                Err(error) => attempts.after(client, error).await?,
            }
        }
    }

    /// Writes the decision, once for all; returns the one that counts, or `None` if a condition did not hold and
    /// the votes must be looked at again. With versions, it is written only if every site's vote still has its.
    async fn announce(&self, decision: Decision, versions: &[i32]) -> Result<Option<Decision>, RecipeError> {
        let client = &self.client;
        let mut attempts = Attempts::default();
        loop {
            let mut transaction = client.transaction();
            for (site, version) in self.header.sites.iter().zip(versions) {
                transaction.check(&self.vote_path(site), Version::Exactly(*version));
            }
            transaction.create(&self.decision_path(), CreateSpec::new().data(decision.text()));
            match transaction.retry(Retry::Never).await {
                Ok(_) => return Ok(Some(decision)),
                Err(error) if error.code() == Some(ErrorCode::NodeExists) => return self.announced().await,
                Err(error) if error.code() == Some(ErrorCode::BadVersion) => return Ok(None),
                // A vote has gone with its session, or all of it has gone.
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                    if let Some(decision) = self.announced().await? {
                        return Ok(Some(decision));
                    }
                    if versions.is_empty() {
                        return Err(self.gone());
                    }
                    return Ok(None);
                }
                Err(error) => attempts.after(client, error).await?,
            }
        }
    }

    /// Takes the part of the coordinator, if nobody has it: `true` if it is ours now.
    pub(super) async fn take_part(&self, name: &str) -> Result<bool, RecipeError> {
        let (client, path) = (&self.client, self.coordinator_path());
        let create = || {
            let create = client.create(&path).ephemeral().data(name.to_owned());
            create.compression(Compression::None).retry(Retry::Never)
        };
        match persist(client, create).await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => {
                let stat = persist(client, || client.exists(&path).retry(Retry::Never)).await?;
                Ok(stat.is_some_and(|stat| SessionId(stat.ephemeral_owner) == client.session().id))
            }
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Err(self.gone()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until there is a decision, or nobody who would announce one.
    pub(super) async fn await_announcement(&self) -> Result<Option<Decision>, RecipeError> {
        loop {
            if let Some(decision) = self.announced().await? {
                return Ok(Some(decision));
            }
            let (coordinator, left) = self.watch(&self.coordinator_path()).await?;
            let (decision, made) = self.watch(&self.decision_path()).await?;
            match (decision, coordinator) {
                (true, _) => {}
                (false, true) => {
                    tokio::select! {
                        _ = made => {}
                        _ = left => {}
                    }
                }
                (false, false) => {
                    let there = persist(&self.client, || self.client.exists(&self.path).retry(Retry::Never));
                    return if there.await?.is_some() { Ok(None) } else { Err(self.gone()) };
                }
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
        match persist(client, || client.create(&path).retry(Retry::Never)).await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => Ok(()),
            // All others have, and it was cleared away: by an attempt whose answer was lost.
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until every site has done what was decided.
    pub(super) async fn all_done(&self) -> Result<(), RecipeError> {
        let client = &self.client;
        loop {
            let list = persist(client, || client.children(&self.path).retry(Retry::Never).watched()).await;
            let Some((list, changed)) = present(list)? else { return Ok(()) };
            let done = |site: &String| list.names.contains(&format!("done_{site}"));
            if self.header.sites.iter().all(done) {
                return Ok(());
            }
            changed.await;
        }
    }

    pub(super) async fn clear(&self) -> Result<(), RecipeError> {
        let client = &self.client;
        persist(client, || client.delete(&self.path).recursive().quiet().retry(Retry::Never)).await?;
        Ok(())
    }

    /// Makes a site's own ephemeral node; `None` if there is a decision already.
    pub(super) async fn appear(&self, site: &str) -> Result<Option<i64>, RecipeError> {
        let (client, path) = (&self.client, self.vote_path(site));
        let mut attempts = Attempts::default();
        loop {
            if self.announced().await?.is_some() {
                return Ok(None);
            }
            let mut transaction = client.transaction();
            transaction.check(&self.path, Version::Any);
            transaction.create(&path, CreateSpec::new().mode(CreateMode::Ephemeral));
            match transaction.retry(Retry::Never).await {
                Ok(_) => {}
                Err(error) if error.code() == Some(ErrorCode::NodeExists) => {}
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Err(self.gone()),
                Err(error) => attempts.after(client, error).await?,
            }
            let (stat, changed) =
                persist(client, || client.exists(&path).retry(Retry::Never).watched()).await?;
            match stat {
                Some(stat) if SessionId(stat.ephemeral_owner) == client.session().id => {
                    return Ok(Some(stat.czxid));
                }
                // Of a former session or a former life: it will go, and that aborts, or somebody decides.
                Some(_) => drop(changed.await),
                None => {}
            }
        }
    }
}

async fn read(client: &Client, path: &str) -> Result<Option<NodeData>, RecipeError> {
    let read = persist(client, || async {
        // What others have decided must not be missed because a server lags.
        client.sync(path).retry(Retry::Never).await?;
        client.get(path).compression(Compression::None).retry(Retry::Never).await
    });
    Ok(present(read.await)?)
}
