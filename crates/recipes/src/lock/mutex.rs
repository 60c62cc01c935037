//! The fair mutex: one ephemeral sequential node per contender, each watching the one before it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex, MutexGuard as StdGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use zebu_client::{Client, Compression, ErrorCode, Retry, path};

use super::hold::Hold;
use super::layout::LockLayout;
use super::revocation::{RevocationWord, Revoked, ask, revoke};
use crate::connection::{persist, present};
use crate::error::RecipeError;
use crate::hold::{Fenced, Held, Holding, Terms};
use crate::line::{Kind, Line, Patience};

/// A lock that one holder at a time has, in the order of their coming.
///
/// ```text
/// /locks/report                                  container, goes when nobody wants the lock
///   _c_53345f98-…-lock-0000000007                ephemeral: the holder
///   _c_0d1c2a55-…-lock-0000000008                ephemeral: waits for 7
///   _c_b7a80a0e-…-lock-0000000009                ephemeral: waits for 8
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// # client.ensure_path("/report").await?;
/// use std::time::Duration;
/// use zebu_client::Version;
/// use zebu_recipes::{Fenced, Held, Mutex};
///
/// let mutex = Mutex::new(&client, "/locks/report");
/// let guard = mutex.acquire().await?;
/// // Carried out only if the lock is still held when the ensemble gets to it.
/// let mut transaction = guard.transaction();
/// transaction.set("/report", "page 1", Version::Any);
/// transaction.await?;
/// // For what is written elsewhere: a number that is greater than that of every holder before.
/// println!("token {}", guard.token());
/// assert!(mutex.try_acquire().await?.is_none());
/// assert!(mutex.acquire_within(Duration::from_millis(10)).await?.is_none());
/// guard.release().await?;
/// # Ok(()) });
/// ```
///
/// **Fairness and load.** A release wakes one waiter. Waiting costs no requests.
///
/// **Re-entrance.** Tasks have no identity that a lock could recognise. [`MutexGuard::reenter`] makes another
/// guard of the same hold, and [`Mutex::acquire_as`] does so for callers that name themselves by an
/// [`Owner`]. The lock is free when the last guard has gone.
///
/// **Connection lost.** Waiting goes on; the place in the line is kept. A create whose answer was lost is
/// looked for, not repeated blindly. A holder keeps the lock until the end of its lease (see [`Terms`]).
///
/// **Session lost.** A waiter takes a new place at the end. A holder has lost the lock:
/// [`Held::lost`] ends, [`Held::cancellation`] is cancelled, and by the holder's clock this happens before
/// the ensemble can give the lock to anybody else. Whether the clock can be trusted does not matter for
/// writes that go through [`Fenced::transaction`] or carry the token.
///
/// **Crash.** The node goes with the session, after its timeout.
///
/// **Dropped.** A guard or a waiting future that is dropped deletes its node in the background, also when its
/// create is still under way.
#[derive(Clone, Debug)]
pub struct Mutex {
    line: Line,
    owners: Arc<Owners>,
}

/// A name for a caller that may take the same lock more than once; clones are the same caller.
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::{Mutex, Owner};
///
/// let (mutex, me) = (Mutex::new(&client, "/locks/a"), Owner::new());
/// let outer = mutex.acquire_as(&me).await?;
/// let inner = mutex.acquire_as(&me).await?; // does not wait for itself
/// outer.release().await?;
/// assert!(mutex.try_acquire().await?.is_none()); // still held by the inner one
/// inner.release().await?;
/// assert!(mutex.try_acquire().await?.is_some());
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner(u64);

impl Owner {
    /// A caller that is different from all others of this process.
    pub fn new() -> Owner {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Owner(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Default for Owner {
    fn default() -> Owner {
        Owner::new()
    }
}

/// Who of this process holds the lock by name.
#[derive(Debug, Default)]
struct Owners(StdMutex<BTreeMap<Owner, Weak<Hold>>>);

impl Owners {
    fn lock(&self) -> StdGuard<'_, BTreeMap<Owner, Weak<Hold>>> {
        // Every change is one statement; a panic cannot leave half of one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hold of an owner, if it is still one.
    fn current(&self, owner: &Owner) -> Option<Arc<Hold>> {
        let hold = self.lock().get(owner)?.upgrade()?;
        hold.holding().check().is_ok().then_some(hold)
    }

    fn set(&self, owner: &Owner, hold: &Arc<Hold>) {
        let mut owners = self.lock();
        owners.retain(|_, hold| hold.strong_count() > 0);
        owners.insert(owner.clone(), Arc::downgrade(hold));
    }
}

/// Somebody in the line of a lock, the holder first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// Its node.
    pub path: String,
    /// The number in the line.
    pub sequence: i32,
    /// What it says about itself; see [`Mutex::identity`]. Empty if it may not be read.
    pub identity: Bytes,
}

impl Mutex {
    /// A lock in this directory, which is made when needed. Nothing is sent yet.
    pub fn new(client: &Client, path: &str) -> Mutex {
        let line = Line {
            client: client.clone(),
            directory: path.to_owned(),
            naming: LockLayout::default().naming(),
            data: Bytes::new(),
            terms: Terms::default(),
        };
        Mutex { line, owners: Arc::default() }
    }

    /// With whom the lock is shared.
    pub fn layout(mut self, layout: LockLayout) -> Mutex {
        self.line.naming = layout.naming();
        self
    }

    /// What others see of us in [`Mutex::contenders`], such as a host name.
    pub fn identity(mut self, identity: impl Into<Bytes>) -> Mutex {
        self.line.data = identity.into();
        self
    }

    /// When a loss is told.
    pub fn terms(mut self, terms: Terms) -> Mutex {
        self.line.terms = terms;
        self
    }

    /// The directory.
    pub fn path(&self) -> &str {
        &self.line.directory
    }

    pub(crate) fn line(&self) -> &Line {
        &self.line
    }

    /// Waits for the lock. Dropping the future leaves nothing behind, so that any timeout can be put around
    /// it.
    pub async fn acquire(&self) -> Result<MutexGuard, RecipeError> {
        loop {
            // Endless patience has no end without a guard; the loop satisfies the type.
            if let Some(guard) = self.acquire_by(Patience::Endless).await? {
                return Ok(guard);
            }
        }
    }

    /// Takes the lock if nobody has it and nobody waits for it. Fails with
    /// [`Unreachable`](RecipeError::Unreachable) if no server answers within the client's connection timeout.
    pub async fn try_acquire(&self) -> Result<Option<MutexGuard>, RecipeError> {
        self.acquire_by(Patience::no_wait(&self.line.client)).await
    }

    /// Waits for the lock, but not for longer than this; `None` if it did not come.
    pub async fn acquire_within(&self, patience: Duration) -> Result<Option<MutexGuard>, RecipeError> {
        self.acquire_by(Patience::of(patience)).await
    }

    /// Like [`Mutex::acquire`], but an owner that has the lock already gets another guard of it at once.
    pub async fn acquire_as(&self, owner: &Owner) -> Result<MutexGuard, RecipeError> {
        if let Some(hold) = self.owners.current(owner) {
            return Ok(MutexGuard { hold });
        }
        let guard = self.acquire().await?;
        self.owners.set(owner, &guard.hold);
        Ok(guard)
    }

    pub(crate) async fn acquire_by(&self, patience: Patience) -> Result<Option<MutexGuard>, RecipeError> {
        let ticket = self.line.stand(Kind::Exclusive, patience).await?;
        Ok(ticket.map(|ticket| MutexGuard { hold: Arc::new(Hold::begin(ticket, self.line.terms)) }))
    }

    /// Runs work under the lock. When the lock is lost the work is dropped at its next await.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// let mutex = zebu_recipes::Mutex::new(&client, "/locks/a");
    /// let sum = mutex.scope(async |_guard| 1 + 1).await?;
    /// assert_eq!(sum, 2);
    /// # Ok(()) });
    /// ```
    pub async fn scope<R>(&self, work: impl AsyncFnOnce(&MutexGuard) -> R) -> Result<R, RecipeError> {
        let guard = self.acquire().await?;
        let result = crate::hold::run_while_held(&guard, work(&guard)).await;
        let path = guard.path().to_owned();
        match result {
            Ok(output) => guard.release().await.map(|()| output),
            Err(reason) => Err(RecipeError::Lost { path, reason }),
        }
    }

    /// Who holds the lock and who waits for it, in this order.
    pub async fn contenders(&self) -> Result<Vec<Contender>, RecipeError> {
        contenders(&self.line).await
    }

    /// Asks a contender to give up its place: [`MutexGuard::revoked`] ends there, and Curator's revocation
    /// listeners are called. Whether it does so is its own decision. One that is gone already is no error.
    pub async fn request_revocation(&self, contender: &Contender) -> Result<(), RecipeError> {
        ask(&self.line.client, contender, RevocationWord::Curator).await
    }

    /// Asks a contender to give up its place, and takes it away if it is still there after the grace. A holder
    /// that is not ours may not notice that: let what it writes to ask for tokens.
    pub async fn revoke(&self, contender: &Contender, grace: Duration) -> Result<Revoked, RecipeError> {
        revoke(&self.line.client, contender, RevocationWord::Curator, grace).await
    }
}

/// The contenders of a line with their data, in its order.
pub(crate) async fn contenders(line: &Line) -> Result<Vec<Contender>, RecipeError> {
    let client = &line.client;
    let listed = persist(client, || client.children(&line.directory).retry(Retry::Never)).await;
    let names = present(listed)?.map_or_else(Vec::new, |list| list.names);
    let mut numbered: Vec<_> = names.iter().filter_map(|name| line.naming.parse(name)).collect();
    // By the distance from one of them: numbers wrap.
    let base = numbered.first().map_or(0, |one| one.sequence);
    numbered.sort_by_key(|one| one.sequence.wrapping_sub(base));
    let mut contenders = Vec::with_capacity(numbered.len());
    for one in numbered {
        let path = path::join(&line.directory, one.name);
        let read = persist(client, || client.get(&path).compression(Compression::None).retry(Retry::Never));
        let identity = match present(read.await) {
            Ok(Some(node)) => node.data,
            Ok(None) => continue,
            // It stands in the line, whatever it says about itself.
            Err(error) if error.code() == Some(ErrorCode::NoAuth) => Bytes::new(),
            Err(error) => return Err(error.into()),
        };
        contenders.push(Contender { path, sequence: one.sequence, identity });
    }
    Ok(contenders)
}

/// The lock is held. Give it back with [`release`](MutexGuard::release); dropping the guard does so in the
/// background.
#[derive(Debug)]
#[must_use = "dropping it gives the lock back"]
pub struct MutexGuard {
    hold: Arc<Hold>,
}

impl MutexGuard {
    /// Another guard of the same hold. The lock is free when all of them have gone.
    pub fn reenter(&self) -> MutexGuard {
        MutexGuard { hold: self.hold.clone() }
    }

    /// Gives the lock back, if this is the last guard of the hold, and waits until the ensemble knows. If
    /// the future is dropped, it happens in the background.
    pub async fn release(self) -> Result<(), RecipeError> {
        Hold::release_shared(self.hold).await
    }

    /// Comes to its end when somebody [asks](Mutex::request_revocation) for the lock.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// let mutex = zebu_recipes::Mutex::new(&client, "/locks/a");
    /// let guard = mutex.acquire().await?;
    /// mutex.request_revocation(&mutex.contenders().await?[0]).await?;
    /// guard.revoked().await;
    /// guard.release().await?;
    /// # Ok(()) });
    /// ```
    pub async fn revoked(&self) {
        self.hold.holding().revoked().await;
    }
}

impl Held for MutexGuard {
    fn holding(&self) -> &Holding {
        self.hold.holding()
    }
}

impl Fenced for MutexGuard {}
