//! The read-write lock: readers together, writers alone, all in the order of their coming.

use std::time::Duration;

use bytes::Bytes;
use zebu_client::{Client, CreateMode, CreateSpec, ErrorCode, Retry, SessionId, Stat, Version, path};

use super::hold::Hold;
use super::layout::RwLockLayout;
use super::mutex::{Contender, contenders};
use super::revocation::{RevocationWord, Revoked, ask, revoke};
use crate::connection::{Attempts, persist, plain_transaction};
use crate::error::RecipeError;
use crate::hold::{Fenced, Held, Holding, LossReason, Terms};
use crate::line::{Broom, Kind, Line, Patience, Ticket};

/// A lock that many readers or one writer have.
///
/// ```text
/// /locks/catalog                                 container
///   _c_53345f98-…-__READ__0000000003             reads
///   _c_0d1c2a55-…-__READ__0000000004             reads
///   _c_b7a80a0e-…-__WRIT__0000000005             waits for 4, then for 3
///   _c_91fe0c11-…-__READ__0000000006             waits for 5: writers do not starve
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::RwLock;
///
/// let lock = RwLock::new(&client, "/locks/catalog");
/// let writer = lock.write().await?;
/// assert!(lock.try_read().await?.is_none());
/// let reader = writer.downgrade().await?; // nobody gets in between
/// let another = lock.read().await?;
/// assert!(lock.try_write().await?.is_none());
/// reader.release().await?;
/// another.release().await?;
/// # Ok(()) });
/// ```
///
/// A reader watches the nearest writer before it, a writer whoever is before it. When a writer leaves, all
/// readers directly behind it wake: they all have the lock now.
///
/// There is no way from reading to writing: two readers that both wanted it would wait for each other.
///
/// A lost connection, a lost session, a crash and a dropped future do what they do to a
/// [`Mutex`](super::Mutex). The fencing token of a reader says nothing about other readers, but it is greater
/// than that of every writer before and smaller than that of every writer after; a reader that was a writer
/// keeps the writer's.
#[derive(Clone, Debug)]
pub struct RwLock {
    line: Line,
}

impl RwLock {
    /// A lock in this directory, which is made when needed. Nothing is sent yet.
    pub fn new(client: &Client, path: &str) -> RwLock {
        let line = Line {
            client: client.clone(),
            directory: path.to_owned(),
            naming: RwLockLayout::default().naming(),
            data: Bytes::new(),
            terms: Terms::default(),
        };
        RwLock { line }
    }

    /// With whom the lock is shared.
    pub fn layout(mut self, layout: RwLockLayout) -> RwLock {
        self.line.naming = layout.naming();
        self
    }

    /// What others see of us in [`RwLock::contenders`].
    pub fn identity(mut self, identity: impl Into<Bytes>) -> RwLock {
        self.line.data = identity.into();
        self
    }

    /// When a loss is told.
    pub fn terms(mut self, terms: Terms) -> RwLock {
        self.line.terms = terms;
        self
    }

    /// Waits until no writer is before us.
    pub async fn read(&self) -> Result<ReadGuard, RecipeError> {
        loop {
            if let Some(hold) = self.acquire(Kind::Shared, Patience::Endless).await? {
                return Ok(ReadGuard { hold });
            }
        }
    }

    /// Reads if no writer has the lock or waits for it. Fails with
    /// [`Unreachable`](RecipeError::Unreachable) if no server answers within the client's connection timeout.
    pub async fn try_read(&self) -> Result<Option<ReadGuard>, RecipeError> {
        let patience = Patience::no_wait(&self.line.client);
        Ok(self.acquire(Kind::Shared, patience).await?.map(|hold| ReadGuard { hold }))
    }

    /// Waits until no writer is before us, but not for longer than this.
    pub async fn read_within(&self, patience: Duration) -> Result<Option<ReadGuard>, RecipeError> {
        Ok(self.acquire(Kind::Shared, Patience::of(patience)).await?.map(|hold| ReadGuard { hold }))
    }

    /// Waits until nobody is before us.
    pub async fn write(&self) -> Result<WriteGuard, RecipeError> {
        loop {
            if let Some(hold) = self.acquire(Kind::Exclusive, Patience::Endless).await? {
                return Ok(WriteGuard { line: self.line.clone(), hold });
            }
        }
    }

    /// Writes if nobody has the lock or waits for it. Fails with
    /// [`Unreachable`](RecipeError::Unreachable) if no server answers within the client's connection timeout.
    pub async fn try_write(&self) -> Result<Option<WriteGuard>, RecipeError> {
        let hold = self.acquire(Kind::Exclusive, Patience::no_wait(&self.line.client)).await?;
        Ok(hold.map(|hold| WriteGuard { line: self.line.clone(), hold }))
    }

    /// Waits until nobody is before us, but not for longer than this.
    pub async fn write_within(&self, patience: Duration) -> Result<Option<WriteGuard>, RecipeError> {
        let hold = self.acquire(Kind::Exclusive, Patience::of(patience)).await?;
        Ok(hold.map(|hold| WriteGuard { line: self.line.clone(), hold }))
    }

    /// Everybody in the line, in its order.
    pub async fn contenders(&self) -> Result<Vec<Contender>, RecipeError> {
        contenders(&self.line).await
    }

    /// Asks a contender to give up its place: [`ReadGuard::revoked`] or [`WriteGuard::revoked`] ends there.
    /// Whether it does so is its own decision. One that is gone already is no error.
    pub async fn request_revocation(
        &self,
        contender: &Contender,
        word: RevocationWord,
    ) -> Result<(), RecipeError> {
        ask(&self.line.client, contender, word).await
    }

    /// Asks a contender to give up its place, and takes it away if it is still there after the grace.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// use std::time::Duration;
    /// use zebu_recipes::{Held, LossReason, RevocationWord, Revoked, RwLock};
    ///
    /// let lock = RwLock::new(&client, "/locks/catalog");
    /// let stubborn = lock.read().await?;
    /// let grace = Duration::from_millis(10);
    /// let reader = &lock.contenders().await?[0];
    /// assert_eq!(lock.revoke(reader, RevocationWord::Unlock, grace).await?, Revoked::Forced);
    /// assert_eq!(stubborn.lost().await, LossReason::NodeDeleted);
    /// lock.write().await?.release().await?;
    /// # Ok(()) });
    /// ```
    pub async fn revoke(
        &self,
        contender: &Contender,
        word: RevocationWord,
        grace: Duration,
    ) -> Result<Revoked, RecipeError> {
        revoke(&self.line.client, contender, word, grace).await
    }

    async fn acquire(&self, kind: Kind, patience: Patience) -> Result<Option<Hold>, RecipeError> {
        let ticket = self.line.stand(kind, patience).await?;
        Ok(ticket.map(|ticket| Hold::begin(ticket, self.line.terms)))
    }
}

/// The lock is held for reading.
#[derive(Debug)]
#[must_use = "dropping it gives the lock back"]
pub struct ReadGuard {
    hold: Hold,
}

impl ReadGuard {
    /// Gives the lock back and waits until the ensemble knows.
    pub async fn release(self) -> Result<(), RecipeError> {
        self.hold.release().await
    }

    /// Comes to its end when somebody [asks](RwLock::request_revocation) for the lock.
    pub async fn revoked(&self) {
        self.hold.holding().revoked().await;
    }
}

impl Held for ReadGuard {
    fn holding(&self) -> &Holding {
        self.hold.holding()
    }
}

impl Fenced for ReadGuard {}

/// The lock is held for writing.
#[derive(Debug)]
#[must_use = "dropping it gives the lock back"]
pub struct WriteGuard {
    line: Line,
    hold: Hold,
}

impl WriteGuard {
    /// Gives the lock back and waits until the ensemble knows.
    pub async fn release(self) -> Result<(), RecipeError> {
        self.hold.release().await
    }

    /// Comes to its end when somebody [asks](RwLock::request_revocation) for the lock.
    pub async fn revoked(&self) {
        self.hold.holding().revoked().await;
    }

    /// Goes on as a reader, in the same place of the line: no writer gets in between. What depends on this
    /// guard, such as its cancellation, ends with it; the reader's begins. One transaction makes the one
    /// node of the other, so that there is no moment without either.
    ///
    /// If it fails, the lock is given back.
    pub async fn downgrade(self) -> Result<ReadGuard, RecipeError> {
        let WriteGuard { line, hold } = self;
        let writer = hold.holding().clone();
        let lost = |reason| RecipeError::Lost { path: writer.path().to_owned(), reason };
        writer.check().map_err(lost)?;
        // Now, because the watch over the node will see it go.
        writer.end(LossReason::Released);
        let mark = line.naming.style.mark();
        let number = writer.path().rsplit_once(line.naming.exclusive).map_or("", |(_, number)| number);
        let reader = path::join(&line.directory, &format!("{mark}{}{number}", line.naming.shared));
        let broom = Broom::new(&line.client, &line.directory, &mark);
        let stat = replace(&line, writer.path(), &reader, writer.session()).await?.map_err(lost)?;
        let ticket = Ticket::adopt(&line.client, reader, mark, stat);
        broom.put_away();
        hold.dissolve();
        Ok(ReadGuard { hold: Hold::with_token(ticket, writer.token(), line.terms) })
    }
}

impl Held for WriteGuard {
    fn holding(&self) -> &Holding {
        self.hold.holding()
    }
}

impl Fenced for WriteGuard {}

/// Replaces the writer's node by the reader's, once.
async fn replace(
    line: &Line,
    writer: &str,
    reader: &str,
    session: SessionId,
) -> Result<Result<Stat, LossReason>, RecipeError> {
    let client = &line.client;
    let mut attempts = Attempts::default();
    loop {
        if client.session().id != session {
            return Ok(Err(LossReason::SessionExpired));
        }
        let mut transaction = plain_transaction(client);
        let spec = CreateSpec::new().mode(CreateMode::Ephemeral);
        let spec = if line.data.is_empty() { spec } else { spec.data(line.data.clone()) };
        // First the delete: if the session is a new one, this fails before anything is created.
        transaction.delete(writer, Version::Any);
        transaction.create(reader, spec);
        let done = match transaction.retry(Retry::Never).await {
            Ok(_) => true,
            Err(error) if error.code() == Some(ErrorCode::NoNode) => false,
            Err(error) => {
                let unknown = error.is_ambiguous();
                attempts.after(client, error).await?;
                if !unknown {
                    continue;
                }
                false
            }
        };
        // After a lost answer, or a node that is gone because the lost one was carried out.
        let found = persist(client, || async {
            client.sync(reader).retry(Retry::Never).await?;
            client.exists(reader).retry(Retry::Never).await
        });
        match found.await? {
            Some(stat) if SessionId(stat.ephemeral_owner) == client.session().id => return Ok(Ok(stat)),
            Some(_) => return Ok(Err(LossReason::SessionExpired)),
            None if done => return Ok(Err(LossReason::NodeDeleted)),
            None => {}
        }
        let remains = persist(client, || client.exists(writer).retry(Retry::Never)).await?;
        if remains.is_none() {
            return Ok(Err(LossReason::NodeDeleted));
        }
    }
}
