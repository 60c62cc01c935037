//! The counting semaphore: a lease per permit, and a line of those who want one, of whom only the first
//! looks at the leases.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OnceCell;
use zebu_client::{Client, Compression, ErrorCode, Parents, Retry, path};

use super::hold::Hold;
use super::layout::{LockLayout, SemaphoreLayout};
use crate::connection::{before, persist, present};
use crate::error::RecipeError;
use crate::hold::{Fenced, Held, Holding, Terms, is_leased, leased};
use crate::line::{IdStyle, Kind, Line, Naming, Patience, Ticket, step_out_all};

/// The leases of Curator's layout.
const CURATOR: Naming = Naming { style: IdStyle::Curator, exclusive: "lease-", shared: "" };

/// The leases of Kazoo's layout: an id and nothing else.
const KAZOO: Naming = Naming { style: IdStyle::Kazoo, exclusive: "", shared: "" };

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
/// This is the layout of Curator's `InterProcessSemaphoreV2`. Like there, everybody must ask with the same
/// number of permits; nothing in the nodes says it. Other children of `leases` are ignored here, but Curator
/// counts them. With [`SemaphoreLayout::Kazoo`] it is that of Kazoo's `Semaphore`:
///
/// ```text
/// /limits/uploads                                persistent: "2", the number of permits
///   53345f9894234e0ca7b59f819e3ec2e1             ephemeral: a permit
/// /limits/uploads-__lock__                       the line, as that of a Mutex in Kazoo's layout
/// ```
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
    path: String,
    layout: SemaphoreLayout,
    permits: u32,
    data: Bytes,
    /// Set when the directory has been found to be one of this layout.
    checked: Arc<OnceCell<()>>,
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
        let (layout, checked) = (SemaphoreLayout::default(), Arc::default());
        Semaphore { guard, path: path.to_owned(), layout, permits, data: Bytes::new(), checked }
    }

    /// With whom the semaphore is shared.
    pub fn layout(mut self, layout: SemaphoreLayout) -> Semaphore {
        (self.guard.directory, self.guard.naming) = match layout {
            SemaphoreLayout::Curator => (path::join(&self.path, "locks"), LockLayout::Curator.naming()),
            SemaphoreLayout::Kazoo => (format!("{}-__lock__", self.path), LockLayout::Kazoo.naming()),
        };
        (self.layout, self.checked) = (layout, Arc::default());
        self
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

    /// Takes a permit if there is one and nobody waits. Fails with
    /// [`Unreachable`](RecipeError::Unreachable) if no server answers within the client's connection timeout.
    pub async fn try_acquire(&self) -> Result<Option<Permit>, RecipeError> {
        let patience = Patience::no_wait(&self.guard.client);
        Ok(self.acquire_by(1, patience).await?.and_then(|mut all| all.pop()))
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
        let leases = self.leases();
        let listed = persist(client, || client.children(&leases).retry(Retry::Never)).await;
        let names = present(listed)?.map_or_else(Vec::new, |list| list.names);
        Ok(names.iter().filter(|name| self.is_lease(name)).count())
    }

    fn leases(&self) -> String {
        match self.layout {
            SemaphoreLayout::Curator => path::join(&self.path, "leases"),
            SemaphoreLayout::Kazoo => self.path.clone(),
        }
    }

    fn is_lease(&self, name: &str) -> bool {
        match self.layout {
            SemaphoreLayout::Curator => CURATOR.parse(name).is_some(),
            SemaphoreLayout::Kazoo => is_kazoo_lease(name),
        }
    }

    /// Refuses a directory that is used in the other layout, and another number of permits where it is written.
    async fn check_layout(&self) -> Result<(), RecipeError> {
        let client = &self.guard.client;
        let listed = persist(client, || client.children(&self.path).retry(Retry::Never)).await;
        let names = present(listed)?.map_or_else(Vec::new, |list| list.names);
        let is_stranger = |name: &&String| match self.layout {
            SemaphoreLayout::Curator => is_kazoo_lease(name),
            SemaphoreLayout::Kazoo => matches!(&***name, "locks" | "leases"),
        };
        if let Some(child) = names.iter().find(is_stranger).cloned() {
            return Err(RecipeError::LayoutConflict { directory: self.path.clone(), child });
        }
        if self.layout == SemaphoreLayout::Kazoo { self.check_permits().await } else { Ok(()) }
    }

    /// The number of permits in Kazoo's layout; written by whoever makes the node.
    async fn check_permits(&self) -> Result<(), RecipeError> {
        let (client, path) = (&self.guard.client, &self.path);
        let create = || {
            let create = client.create(path).data(self.permits.to_string()).compression(Compression::None);
            create.parents(Parents::Persistent).retry(Retry::Never)
        };
        match persist(client, create).await {
            Ok(_) => return Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => {}
            Err(error) => return Err(error.into()),
        }
        let read = persist(client, || client.get(path).compression(Compression::None).retry(Retry::Never));
        let node = present(read.await)?;
        // Other data is none of ours, as with Kazoo.
        let written = node.and_then(|node| std::str::from_utf8(&node.data).ok()?.trim().parse::<u32>().ok());
        match written {
            Some(written) if written != self.permits => {
                let permits = self.permits;
                Err(RecipeError::Invalid(format!("{path} has {written} permits, not {permits}")))
            }
            Some(_) | None => Ok(()),
        }
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
        let check = self.checked.get_or_try_init(|| self.check_layout());
        match before(patience.deadline(), check).await {
            Some(checked) => drop(checked?),
            None => return patience.expired(&self.path),
        }
        loop {
            let Some(guard) = self.guard.stand(Kind::Exclusive, patience).await? else { return Ok(None) };
            let mut leases = Vec::new();
            let outcome = before(patience.deadline(), self.fill(&guard, &mut leases, count, patience)).await;
            let outcome = outcome.unwrap_or(Ok(Filled::TooLate));
            let mut leaving = vec![guard];
            if !matches!(outcome, Ok(Filled::All)) {
                leaving.append(&mut leases);
            }
            step_out_all(leaving).await;
            match outcome? {
                Filled::All => {
                    let hold = |lease| Permit { hold: Hold::begin(lease, self.guard.terms) };
                    return Ok(Some(leases.into_iter().map(hold).collect()));
                }
                Filled::Refused => return Ok(None),
                Filled::TooLate => return patience.expired(&self.path),
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
        let (client, directory) = (&self.guard.client, self.leases());
        let naming = match self.layout {
            SemaphoreLayout::Curator => CURATOR,
            SemaphoreLayout::Kazoo => KAZOO,
        };
        for _ in 0..count {
            leases.push(Ticket::take(client, &directory, &naming, Kind::Exclusive, &self.data).await?);
        }
        loop {
            let list = persist(client, || client.children(&directory).retry(Retry::Never).watched()).await;
            let Some((list, changed)) = present(list)? else { return Ok(Filled::StartOver) };
            let is_there = |lease: &Ticket| {
                lease.is_of_this_session() && list.names.iter().any(|name| name == lease.name())
            };
            if !guard.is_of_this_session() || !leases.iter().all(is_there) {
                return Ok(Filled::StartOver);
            }
            let taken = list.names.iter().filter(|name| self.is_lease(name)).count();
            if u32::try_from(taken).is_ok_and(|taken| taken <= self.permits) {
                if is_leased(client, self.guard.terms) {
                    return Ok(Filled::All);
                }
                leased(client, self.guard.terms).await?;
                continue;
            }
            if !patience.waits() {
                return Ok(Filled::Refused);
            }
            changed.await;
        }
    }
}

fn is_kazoo_lease(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

enum Filled {
    All,
    /// There are too many leases for a caller that does not wait.
    Refused,
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
