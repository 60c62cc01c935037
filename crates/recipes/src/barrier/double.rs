//! The double barrier: a number of members begin together and end together.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use zebu_client::{
    Client, Compression, CreateMode, CreateSpec, Error, ErrorCode, EventKind, Parents, Retry, Version, path,
};

use crate::connection::{Attempts, before, is_passing, persist, plain_transaction, present};
use crate::error::RecipeError;
use crate::hold::{Held, Holding, LossReason, Terms, leased};
use crate::line::{Broom, Patience, Ticket, for_a_moment, step_out, watch_node};
use crate::lock::Hold;
use crate::unique_id::UniqueId;

/// Tells members that there are enough.
const READY: &str = "ready";

/// Members that begin together and end together; shared with Curator's `DistributedDoubleBarrier` and Kazoo's
/// `DoubleBarrier`.
///
/// ```text
/// /round                                         container
///   53345f98-9423-4e0c-a7b5-9f819e3ec2e1         ephemeral: a member
///   b7a80a0e-3a52-4d2c-8a3f-0a4f6f1c9d77         ephemeral: a member
///   ready                                        persistent: there were enough, go
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use std::num::NonZeroU32;
/// use zebu_recipes::DoubleBarrier;
///
/// let two = NonZeroU32::new(2).unwrap();
/// let member = async |name: &str| {
///     let entered = DoubleBarrier::new(&client, "/round", two).enter().await?;
///     println!("{name} computes"); // both are here now
///     entered.leave().await // both have finished
/// };
/// let (left, right) = tokio::join!(member("left"), member("right"));
/// left?;
/// right?;
/// # Ok(()) });
/// ```
///
/// **Rounds.** The same path can be used again and again. A `ready` that a crashed round has left behind is
/// removed by the first member of the next one, in the same transaction that makes it a member; until then it is
/// known to be older than its members.
///
/// **Connection lost.** Waiting goes on. **Session lost.** Who waits to enter becomes a member again; who has
/// entered is told (see [`Held`]) and no longer waited for. **Crash.** A member goes with its session; the
/// others do not wait for it longer than that. If it was the one that leaves last, `ready` stays until the next
/// round. **Dropped.** A member that stops waiting, or whose [`Entered`]
/// is dropped, is removed in the background.
///
/// **With Kazoo.** Kazoo removes `ready` when its first member leaves. A slow member of ours passes all the same,
/// because the server has told it that `ready` was created. Only if its connection is lost between the two moments
/// does it wait for the next round, as members of Kazoo do: use [`enter_within`](DoubleBarrier::enter_within) there.
#[derive(Clone, Debug)]
pub struct DoubleBarrier {
    client: Client,
    path: String,
    members: NonZeroU32,
}

impl DoubleBarrier {
    /// A barrier for so many members. Nothing is sent yet.
    pub fn new(client: &Client, path: &str, members: NonZeroU32) -> DoubleBarrier {
        DoubleBarrier { client: client.clone(), path: path.to_owned(), members }
    }

    /// Becomes a member and waits until there are enough.
    pub async fn enter(&self) -> Result<Entered, RecipeError> {
        loop {
            if let Some(entered) = self.enter_by(Patience::Endless).await? {
                return Ok(entered);
            }
        }
    }

    /// Becomes a member and waits until there are enough, but not for longer than this; then it is no member
    /// any more.
    pub async fn enter_within(&self, patience: Duration) -> Result<Option<Entered>, RecipeError> {
        self.enter_by(Patience::of(patience)).await
    }

    async fn enter_by(&self, patience: Patience) -> Result<Option<Entered>, RecipeError> {
        let deadline = patience.deadline();
        loop {
            let Some(ticket) = before(deadline, self.become_member()).await else { return Ok(None) };
            let ticket = ticket?;
            match before(deadline, self.gather(&ticket)).await {
                Some(Ok(Gathered::All)) => {
                    let hold = Hold::begin(ticket, Terms::default());
                    return Ok(Some(Entered { barrier: self.clone(), hold }));
                }
                Some(Ok(Gathered::StartOver)) => ticket.forget(),
                Some(Err(error)) => {
                    step_out(ticket).await;
                    return Err(error.into());
                }
                None => {
                    step_out(ticket).await;
                    return Ok(None);
                }
            }
        }
    }

    fn ready(&self) -> String {
        path::join(&self.path, READY)
    }

    /// The names of the members, and whether `ready` is there. `None` if the barrier has no node yet.
    async fn look(&self) -> Result<Option<(BTreeSet<String>, Ready)>, Error> {
        let client = &self.client;
        let listed = persist(client, || client.children(&self.path).retry(Retry::Never)).await;
        let Some(list) = present(listed)? else { return Ok(None) };
        let mut members: BTreeSet<String> = list.names.into_iter().collect();
        let ready = if members.remove(READY) { Ready::Yes } else { Ready::No };
        Ok(Some((members, ready)))
    }

    /// Makes our node. If nobody is here, a `ready` is that of an earlier round, and goes.
    async fn become_member(&self) -> Result<Ticket, Error> {
        let client = &self.client;
        let mut attempts = Attempts::default();
        loop {
            let Some((members, ready)) = self.look().await? else {
                self.make_directory().await?;
                continue;
            };
            let name = UniqueId::new().dashed();
            let own = path::join(&self.path, &name);
            let broom = Broom::new(client, &self.path, &name);
            let mut transaction = plain_transaction(client);
            transaction.create(&own, CreateSpec::new().mode(CreateMode::Ephemeral));
            if members.is_empty() && ready == Ready::Yes {
                transaction.delete(&self.ready(), Version::Any);
            }
            match transaction.retry(Retry::Never).await {
                Ok(_) => {}
                // Somebody was faster, or the container has gone again.
                Err(error) if error.code() == Some(ErrorCode::NoNode) => continue,
                Err(error) if is_passing(&error) => attempts.after(client, error).await?,
                Err(error) => return Err(error),
            }
            // Its name is ours alone: if it is there, it was created, whatever became of the answer.
            let found = persist(client, || async {
                client.sync(&own).retry(Retry::Never).await?;
                client.exists(&own).retry(Retry::Never).await
            });
            if let Some(stat) = found.await? {
                let ticket = Ticket::adopt(client, own, name, stat);
                broom.put_away();
                if ticket.is_of_this_session() {
                    return Ok(ticket);
                }
                ticket.forget();
            }
        }
    }

    async fn make_directory(&self) -> Result<(), Error> {
        let client = &self.client;
        let create = || {
            let create = client.create(&self.path).container().compression(Compression::None);
            create.parents(Parents::Containers).retry(Retry::Never)
        };
        match persist(client, create).await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Waits until all are there and membership can be held.
    async fn gather(&self, ticket: &Ticket) -> Result<Gathered, Error> {
        let gathered = self.wait_for_all(ticket).await?;
        leased(&self.client, Terms::default()).await?;
        Ok(gathered)
    }

    /// Waits until `ready` was made or there are enough members: the last one sees that there are and makes
    /// it, but some may be leaving again when a slow one looks. A `ready` that is older than our own node is
    /// that of another round.
    ///
    /// Kazoo deletes `ready` when its first member leaves. The event that it was created is therefore an answer of
    /// its own, although `ready` may be gone again: the watch was set after our node existed.
    async fn wait_for_all(&self, ticket: &Ticket) -> Result<Gathered, Error> {
        let client = &self.client;
        let ready_path = self.ready();
        let mut attempts = Attempts::default();
        // Once all members were seen together, it does not matter that some have left since.
        let mut complete = false;
        loop {
            let watch = persist(client, || client.exists(&ready_path).retry(Retry::Never).watched());
            let (ready, changed) = watch.await?;
            let here = self.look().await?.filter(|(members, _)| members.contains(ticket.name()));
            let Some((members, _)) = here.filter(|_| ticket.is_of_this_session()) else {
                return Ok(Gathered::StartOver);
            };
            if ready.is_some_and(|ready| ready.czxid > ticket.stat().czxid) {
                return Ok(Gathered::All);
            }
            complete |= u32::try_from(members.len()).map_or(true, |count| count >= self.members.get());
            if !complete {
                if changed.await.kind == EventKind::NodeCreated && ticket.is_of_this_session() {
                    return Ok(Gathered::All);
                }
                continue;
            }
            let mut transaction = plain_transaction(client);
            if ready.is_some() {
                transaction.delete(&ready_path, Version::Any);
            }
            transaction.create(&ready_path, CreateSpec::new());
            match transaction.retry(Retry::Never).await {
                Ok(_) => return Ok(Gathered::All),
                // Made by another member since the look above, which was after our node existed.
                Err(error) if error.code() == Some(ErrorCode::NodeExists) => return Ok(Gathered::All),
                // The old one was deleted by another member: look again.
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {}
                Err(error) => attempts.after(client, error).await?,
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    Yes,
    No,
}

enum Gathered {
    All,
    /// Our node is gone.
    StartOver,
}

/// All members are there. [`leave`](Entered::leave) waits until all have finished; dropping it finishes for
/// this member without waiting.
#[derive(Debug)]
#[must_use = "dropping it leaves the barrier at once"]
pub struct Entered {
    barrier: DoubleBarrier,
    hold: Hold,
}

impl Held for Entered {
    fn holding(&self) -> &Holding {
        self.hold.holding()
    }
}

impl Entered {
    /// Says that this member has finished, and waits for the others.
    pub async fn leave(self) -> Result<(), RecipeError> {
        self.leave_by(Patience::Endless).await.map(drop)
    }

    /// Says that this member has finished, and waits for the others, but not for longer than this; `false`
    /// if some have not finished by then.
    pub async fn leave_within(self, patience: Duration) -> Result<bool, RecipeError> {
        self.leave_by(Patience::of(patience)).await
    }

    async fn leave_by(self, patience: Patience) -> Result<bool, RecipeError> {
        let Entered { barrier, hold } = self;
        let holding = hold.holding().clone();
        let own = path::name(holding.path()).to_owned();
        // What depends on being a member ends here, not when the node goes.
        holding.end(LossReason::Released);
        let left = before(patience.deadline(), barrier.depart(&own)).await;
        match patience {
            Patience::Endless => hold.release().await?,
            Patience::Until(_) | Patience::NoWait { .. } => for_a_moment(hold.release()).await,
        }
        left.transpose().map(|left| left.is_some()).map_err(Into::into)
    }
}

impl DoubleBarrier {
    /// The lowest member stays until all others have gone; the others go and wait for the lowest. Everybody
    /// watches one node. Only members of this round count: the next one may begin while we look.
    async fn depart(&self, own: &str) -> Result<(), Error> {
        let client = &self.client;
        let mut round: Option<BTreeSet<String>> = None;
        loop {
            let Some((members, _)) = self.look().await? else { return Ok(()) };
            let round = round.get_or_insert_with(|| members.clone());
            let left: Vec<&String> = members.intersection(round).collect();
            let awaited = match (left.first(), left.last()) {
                (Some(lowest), Some(highest)) if *lowest == own && *highest == own => {
                    return self.close(own).await;
                }
                (Some(lowest), Some(highest)) if *lowest == own => highest.as_str(),
                (Some(lowest), Some(_)) => lowest.as_str(),
                _ => return Ok(()),
            };
            if awaited < own && members.contains(own) {
                let own = path::join(&self.path, own);
                persist(client, || client.delete(&own).quiet().retry(Retry::Never)).await?;
            }
            if let Some(changed) = watch_node(client, &path::join(&self.path, awaited)).await? {
                changed.await;
            }
        }
    }

    /// The last member takes `ready` along, so that it cannot be taken for that of the next round.
    async fn close(&self, own: &str) -> Result<(), Error> {
        let client = &self.client;
        let mut attempts = Attempts::default();
        loop {
            let mut transaction = plain_transaction(client);
            transaction.delete(&path::join(&self.path, own), Version::Any);
            transaction.delete(&self.ready(), Version::Any);
            match transaction.retry(Retry::Never).await {
                Ok(_) => return Ok(()),
                // Either is gone already; what is left of ours goes with the guard.
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(()),
                Err(error) => attempts.after(client, error).await?,
            }
        }
    }
}
