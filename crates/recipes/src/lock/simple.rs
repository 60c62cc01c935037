//! The lock that is one node: whoever creates it has it. Simple to share with scripts; every waiter wakes when
//! it goes.

use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use zebu_client::{
    Client, Compression, CreateMode, CreateSpec, Error, ErrorCode, ErrorKind, Retry, SessionId, Stat,
    Version, path,
};

use crate::connection::{Attempts, before, is_passing, persist, plain_transaction, present};
use crate::error::RecipeError;
use crate::hold::{Fenced, FencingToken, Held, Holding, LossReason, Terms, Watched};
use crate::line::Patience;
use crate::unique_id::UniqueId;

/// A lock that whoever creates its node has; for few contenders, and for sharing with programs that know no
/// more than `create -e /locks/nightly`.
///
/// ```text
/// /locks                                         persistent
///   nightly                                      ephemeral: held; the data is the holder's identity
///   nightly-53345f9894234e0ca7b59f819e3ec2e1     ephemeral: whose it is, made and deleted together with it
/// ```
///
/// The second node is what makes it safe. Another holder's node has the same name and version as ours, so a
/// late delete could remove it; bound to a node that nobody else can have, it cannot. Contenders that do not
/// make one are excluded all the same.
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::SimpleLock;
///
/// let lock = SimpleLock::new(&client, "/locks/nightly").identity("host-7");
/// let guard = lock.acquire().await?;
/// assert_eq!(lock.holder().await?.as_deref(), Some(&b"host-7"[..]));
/// assert!(lock.try_acquire().await?.is_none());
/// guard.release().await?;
/// # Ok(()) });
/// ```
///
/// **Fairness and load.** There is none, and all waiters try at once when the lock is released: use a
/// [`Mutex`](super::Mutex) for more than a few.
///
/// **Connection lost.** Waiting goes on. A create whose answer was lost is recognised by the second node.
/// **Session lost, crash, dropped.** As with a [`Mutex`](super::Mutex).
///
/// **By hand.** Whoever deletes the first node by hand takes the lock from its holder, which is told. Until
/// then [`Fenced::transaction`] cannot tell the holder from the next one.
#[derive(Clone, Debug)]
pub struct SimpleLock {
    client: Client,
    path: String,
    data: Bytes,
    terms: Terms,
}

impl SimpleLock {
    /// A lock that is this node. Nothing is sent yet.
    pub fn new(client: &Client, path: &str) -> SimpleLock {
        let terms = Terms::default();
        SimpleLock { client: client.clone(), path: path.to_owned(), data: Bytes::new(), terms }
    }

    /// What others see of us in the node.
    pub fn identity(mut self, identity: impl Into<Bytes>) -> SimpleLock {
        self.data = identity.into();
        self
    }

    /// When a loss is told.
    pub fn terms(mut self, terms: Terms) -> SimpleLock {
        self.terms = terms;
        self
    }

    /// Waits for the lock.
    pub async fn acquire(&self) -> Result<SimpleLockGuard, RecipeError> {
        loop {
            if let Some(guard) = self.acquire_by(Patience::Endless).await? {
                return Ok(guard);
            }
        }
    }

    /// Takes the lock if nobody has it. Fails with [`Unreachable`](RecipeError::Unreachable) if no server answers
    /// within the client's connection timeout.
    pub async fn try_acquire(&self) -> Result<Option<SimpleLockGuard>, RecipeError> {
        self.acquire_by(Patience::no_wait(&self.client)).await
    }

    /// Waits for the lock, but not for longer than this.
    pub async fn acquire_within(&self, patience: Duration) -> Result<Option<SimpleLockGuard>, RecipeError> {
        self.acquire_by(Patience::of(patience)).await
    }

    /// The identity of whoever holds the lock.
    pub async fn holder(&self) -> Result<Option<Bytes>, RecipeError> {
        let get = || self.client.get(&self.path).compression(Compression::None).retry(Retry::Never);
        let read = persist(&self.client, get).await;
        Ok(present(read)?.map(|node| node.data))
    }

    async fn acquire_by(&self, patience: Patience) -> Result<Option<SimpleLockGuard>, RecipeError> {
        let deadline = patience.deadline();
        loop {
            let claim = Claim::new(self);
            match before(deadline, claim.make(self)).await {
                None => return patience.expired(&self.path),
                Some(Err(error)) => return Err(error.into()),
                Some(Ok(Made::Ours(stat))) => {
                    return Ok(Some(SimpleLockGuard::begin(claim, &stat, self.terms)));
                }
                Some(Ok(Made::NotOurs)) => claim.forget(),
            }
            if !patience.waits() {
                return Ok(None);
            }
            let watch =
                persist(&self.client, || self.client.exists(&self.path).retry(Retry::Never).watched());
            let gone = async {
                let (stat, changed) = watch.await?;
                if stat.is_some() {
                    changed.await;
                }
                Ok::<_, Error>(())
            };
            match before(deadline, gone).await {
                Some(result) => result?,
                None => return patience.expired(&self.path),
            }
        }
    }
}

/// The two nodes of one attempt. Dropping it removes them, if they are ours, in the background.
#[derive(Debug)]
struct Claim {
    client: Client,
    path: String,
    companion: String,
    runtime: Handle,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Remove,
    Nothing,
}

enum Made {
    Ours(Stat),
    NotOurs,
}

impl Claim {
    fn new(lock: &SimpleLock) -> Claim {
        Claim {
            client: lock.client.clone(),
            path: lock.path.clone(),
            companion: format!("{}-{}", lock.path, UniqueId::new().hex()),
            runtime: Handle::current(),
            fate: Fate::Remove,
        }
    }

    /// Creates both nodes or neither.
    async fn make(&self, lock: &SimpleLock) -> Result<Made, Error> {
        let client = &self.client;
        let mut attempts = Attempts::default();
        loop {
            let spec = || CreateSpec::new().mode(CreateMode::Ephemeral);
            let own = if lock.data.is_empty() { spec() } else { spec().data(lock.data.clone()) };
            let mut transaction = plain_transaction(client);
            transaction.create(&self.path, own);
            transaction.create(&self.companion, spec());
            match transaction.retry(Retry::Never).await {
                Ok(_) => return self.look().await,
                Err(error) if error.code() == Some(ErrorCode::NodeExists) => return self.look().await,
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                    let parent = path::parent(&self.path).unwrap_or("/");
                    persist(client, || client.ensure_path(parent)).await?;
                }
                Err(error) if is_passing(&error) => {
                    let unknown = error.is_ambiguous();
                    attempts.after(client, error).await?;
                    if unknown && let Made::Ours(stat) = self.look().await? {
                        return Ok(Made::Ours(stat));
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether both nodes are there and the present session's.
    async fn look(&self) -> Result<Made, Error> {
        let client = &self.client;
        let (companion, own) = persist(client, || async {
            client.sync(&self.path).retry(Retry::Never).await?;
            let companion = client.exists(&self.companion).retry(Retry::Never).send();
            let own = client.exists(&self.path).retry(Retry::Never).send();
            Ok((companion.await?, own.await?))
        })
        .await?;
        match (companion, own) {
            (Some(companion), Some(own))
                if companion.czxid == own.czxid && SessionId(own.ephemeral_owner) == client.session().id =>
            {
                Ok(Made::Ours(own))
            }
            _ => Ok(Made::NotOurs),
        }
    }

    fn forget(mut self) {
        self.fate = Fate::Nothing;
    }

    async fn remove(mut self) -> Result<(), Error> {
        let errand = self.errand();
        errand.run().await?;
        self.fate = Fate::Nothing;
        Ok(())
    }

    fn errand(&self) -> Errand {
        let (client, path, companion) = (self.client.clone(), self.path.clone(), self.companion.clone());
        // Nodes of an earlier session have gone with it.
        let session = self.client.session().id;
        Errand { client, path, companion, session }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.fate == Fate::Remove {
            // An error means that the client is over, and the nodes with it.
            let errand = self.errand();
            self.runtime.spawn(async move { errand.run().await });
        }
    }
}

/// The removal of both nodes: whatever happens, not of somebody else's.
struct Errand {
    client: Client,
    path: String,
    companion: String,
    session: SessionId,
}

impl Errand {
    async fn run(&self) -> Result<(), Error> {
        let mut attempts = Attempts::default();
        while self.client.session().id == self.session {
            let mut transaction = plain_transaction(&self.client);
            let companion = transaction.delete(&self.companion, Version::Any);
            transaction.delete(&self.path, Version::Any);
            match transaction.retry(Retry::Never).await {
                Ok(_) => return Ok(()),
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                    let first = matches!(error.kind(), ErrorKind::Transaction { index, .. }
                        if *index == companion.index());
                    if first {
                        return Ok(());
                    }
                    // Somebody has deleted the lock's node by hand.
                    persist(&self.client, || self.client.delete(&self.companion).quiet().retry(Retry::Never))
                        .await?;
                }
                Err(error) => attempts.after(&self.client, error).await?,
            }
        }
        Ok(())
    }
}

/// The lock is held.
#[derive(Debug)]
#[must_use = "dropping it gives the lock back"]
pub struct SimpleLockGuard {
    // Dropped in this order: those who depend on it are told before the nodes go.
    watched: Watched,
    claim: Claim,
}

impl SimpleLockGuard {
    fn begin(claim: Claim, stat: &Stat, terms: Terms) -> SimpleLockGuard {
        let token = FencingToken(stat.czxid);
        let watched = Watched::begin(&claim.client, &claim.path, stat, token, terms);
        SimpleLockGuard { watched, claim }
    }

    /// Gives the lock back and waits until the ensemble knows.
    pub async fn release(self) -> Result<(), RecipeError> {
        self.watched.holding().end(LossReason::Released);
        self.claim.remove().await?;
        Ok(())
    }
}

impl Held for SimpleLockGuard {
    fn holding(&self) -> &Holding {
        self.watched.holding()
    }
}

impl Fenced for SimpleLockGuard {
    fn fence(&self, transaction: &mut zebu_client::Transaction) -> zebu_client::OpRef<()> {
        transaction.check(&self.claim.companion, Version::Any)
    }
}
