//! The counting semaphore: a lease per permit, and a line of those who want one, of whom only the first
//! looks at the leases.

use std::time::Duration;

use bytes::Bytes;
use zebu_client::{Client, Retry, path};

use super::hold::Hold;
use super::layout::LockLayout;
use crate::connection::{before, persist, present};
use crate::error::RecipeError;
use crate::hold::{Fenced, Held, Holding, Terms};
use crate::line::{IdStyle, Kind, Line, Naming, Patience, Ticket, step_out};

const LEASES: Naming = Naming { style: IdStyle::Curator, exclusive: "lease-", shared: "" };

/// A number of permits that are handed out in the order of asking.
///
/// ```text
/// /limits/uploads                                container
///   locks                                        container: the line, as that of a Mutex
///     _c_91fe0c11-…-lock-0000000005              its first waits for a lease
///   leases                                       container
///     _c_53345f98-…-lease-0000000003             ephemeral: a permit
///     _c_0d1c2a55-…-lease-0000000004             ephemeral: a permit
/// ```
///
/// The layout is that of Curator's `InterProcessSemaphoreV2`. Like there, everybody must ask with the same
/// number of permits; nothing in the nodes says it. Other children of `leases` are ignored here, but Curator
/// counts them.
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::Semaphore;
///
/// let uploads = Semaphore::new(&client, "/limits/uploads", 2);
/// let first = uploads.acquire().await?;
/// let second = uploads.acquire().await?;
/// assert!(uploads.try_acquire().await?.is_none());
/// first.release().await?;
/// second.release().await?;
/// let both = uploads.acquire_many(2).await?; // all or nothing
/// # drop(both);
/// # Ok(()) });
/// ```
///
/// **Connection lost.** Waiting goes on; a permit is kept until the end of the lease (see [`Terms`]).
/// **Session lost, crash.** Its permits go back when the session has timed out; holders are told as with a
/// [`Mutex`](super::Mutex). **Dropped.** Permits and waiting futures that are dropped are given back in the
/// background.
#[derive(Clone, Debug)]
pub struct Semaphore {
    guard: Line,
    leases: String,
    permits: u32,
    data: Bytes,
}

impl Semaphore {
    /// A semaphore in this directory, which is made when needed. Nothing is sent yet.
    pub fn new(client: &Client, path: &str, permits: u32) -> Semaphore {
        let guard = Line {
            client: client.clone(),
            directory: path::join(path, "locks"),
            naming: LockLayout::Curator.naming(),
            data: Bytes::new(),
            terms: Terms::default(),
        };
        Semaphore { guard, leases: path::join(path, "leases"), permits, data: Bytes::new() }
    }

    /// What others see of us in the leases.
    pub fn identity(mut self, identity: impl Into<Bytes>) -> Semaphore {
        self.data = identity.into();
        self
    }

    /// When a loss is told.
    pub fn terms(mut self, terms: Terms) -> Semaphore {
        self.guard.terms = terms;
        self
    }

    /// Waits for a permit.
    pub async fn acquire(&self) -> Result<Permit, RecipeError> {
        loop {
            if let Some(permit) = self.acquire_by(1, Patience::Endless).await?.and_then(|mut all| all.pop()) {
                return Ok(permit);
            }
        }
    }

    /// Waits for several permits and takes them all at once; while it waits for the last of them, nobody
    /// else gets one, so that those who want many do not starve and do not wait for each other.
    pub async fn acquire_many(&self, count: u32) -> Result<Vec<Permit>, RecipeError> {
        loop {
            if let Some(permits) = self.acquire_by(count, Patience::Endless).await? {
                return Ok(permits);
            }
        }
    }

    /// Takes a permit if there is one and nobody waits.
    pub async fn try_acquire(&self) -> Result<Option<Permit>, RecipeError> {
        Ok(self.acquire_by(1, Patience::None).await?.and_then(|mut all| all.pop()))
    }

    /// Waits for a permit, but not for longer than this.
    pub async fn acquire_within(&self, patience: Duration) -> Result<Option<Permit>, RecipeError> {
        Ok(self.acquire_by(1, Patience::of(patience)).await?.and_then(|mut all| all.pop()))
    }

    /// Waits for several permits, but not for longer than this.
    pub async fn acquire_many_within(
        &self,
        count: u32,
        patience: Duration,
    ) -> Result<Option<Vec<Permit>>, RecipeError> {
        self.acquire_by(count, Patience::of(patience)).await
    }

    /// How many permits are taken now.
    pub async fn taken(&self) -> Result<usize, RecipeError> {
        let client = &self.guard.client;
        let listed = persist(client, || client.children(&self.leases).retry(Retry::Never)).await;
        let names = present(listed)?.map_or_else(Vec::new, |list| list.names);
        Ok(names.iter().filter(|name| LEASES.parse(name).is_some()).count())
    }

    pub(super) async fn acquire_by(
        &self,
        count: u32,
        patience: Patience,
    ) -> Result<Option<Vec<Permit>>, RecipeError> {
        if count > self.permits {
            let permits = self.permits;
            return Err(RecipeError::Invalid(format!("{count} permits of {permits} can never be had")));
        }
        loop {
            let Some(guard) = self.guard.stand(Kind::Exclusive, patience).await? else { return Ok(None) };
            let mut leases = Vec::new();
            let outcome = before(patience.deadline(), self.fill(&guard, &mut leases, count, patience)).await;
            let outcome = outcome.unwrap_or(Ok(Filled::TooLate));
            if !matches!(outcome, Ok(Filled::All)) {
                for lease in leases.drain(..) {
                    step_out(lease).await;
                }
            }
            step_out(guard).await;
            match outcome? {
                Filled::All => {
                    let hold = |lease| Permit { hold: Hold::begin(lease, self.guard.terms) };
                    return Ok(Some(leases.into_iter().map(hold).collect()));
                }
                Filled::TooLate => return Ok(None),
                Filled::StartOver => {}
            }
        }
    }

    /// Takes leases and waits until there are not too many.
    async fn fill(
        &self,
        guard: &Ticket,
        leases: &mut Vec<Ticket>,
        count: u32,
        patience: Patience,
    ) -> Result<Filled, RecipeError> {
        let client = &self.guard.client;
        for _ in 0..count {
            leases.push(Ticket::take(client, &self.leases, &LEASES, Kind::Exclusive, &self.data).await?);
        }
        loop {
            let list = persist(client, || client.children(&self.leases).retry(Retry::Never).watched()).await;
            let Some((list, changed)) = present(list)? else { return Ok(Filled::StartOver) };
            let is_there = |lease: &Ticket| {
                lease.is_of_this_session() && list.names.iter().any(|name| name == lease.name())
            };
            if !guard.is_of_this_session() || !leases.iter().all(is_there) {
                return Ok(Filled::StartOver);
            }
            let taken = list.names.iter().filter(|name| LEASES.parse(name).is_some()).count();
            if u32::try_from(taken).is_ok_and(|taken| taken <= self.permits) {
                return Ok(Filled::All);
            }
            match patience {
                Patience::None => return Ok(Filled::TooLate),
                Patience::Until(_) | Patience::Endless => drop(changed.await),
            }
        }
    }
}

enum Filled {
    All,
    TooLate,
    /// The session or a node was lost.
    StartOver,
}

/// One permit.
#[derive(Debug)]
#[must_use = "dropping it gives the permit back"]
pub struct Permit {
    hold: Hold,
}

impl Permit {
    /// Gives the permit back and waits until the ensemble knows.
    pub async fn release(self) -> Result<(), RecipeError> {
        self.hold.release().await
    }
}

impl Held for Permit {
    fn holding(&self) -> &Holding {
        self.hold.holding()
    }
}

impl Fenced for Permit {}
