//! The wait for one's turn. Every wake-up only means "look again": the decision is always made on a fresh
//! list, and only for a node that the present session owns.

use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::Instant;
use zebu_client::{Client, Compression, Error, ErrorCode, OneshotWatcher, Retry, path};

use super::naming::{Kind, Naming, Place};
use super::ticket::Ticket;
use crate::connection::{before, persist, present};
use crate::error::RecipeError;
use crate::hold::{Terms, is_leased, leased};

/// How long the answer to the delete of a node is waited for when its owner has given up.
const STEP_OUT: Duration = Duration::from_secs(1);

/// How long a call waits for other contenders, and for a server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// Not for contenders, and for a server as long as the client's connection timeout.
    NoWait {
        /// When the call fails for lack of a server.
        deadline: Instant,
        /// The connection timeout of the client.
        limit: Duration,
    },
    /// Until then.
    Until(Instant),
    /// Until it comes.
    Endless,
}

impl Patience {
    pub(crate) fn of(duration: Duration) -> Patience {
        match Instant::now().checked_add(duration) {
            Some(deadline) => Patience::Until(deadline),
            None => Patience::Endless,
        }
    }

    /// The patience of calls whose name begins with `try`.
    pub(crate) fn no_wait(client: &Client) -> Patience {
        let limit = client.connection_timeout();
        match Instant::now().checked_add(limit) {
            Some(deadline) => Patience::NoWait { deadline, limit },
            None => Patience::Endless,
        }
    }

    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Patience::Until(deadline) | Patience::NoWait { deadline, .. } => Some(deadline),
            Patience::Endless => None,
        }
    }

    /// Whether the call waits for other contenders.
    pub(crate) fn waits(self) -> bool {
        !matches!(self, Patience::NoWait { .. })
    }

    /// The result of a call whose deadline has passed: nothing, or an error if the call was not meant to wait.
    pub(crate) fn expired<T>(self, path: &str) -> Result<Option<T>, RecipeError> {
        match self {
            Patience::NoWait { limit, .. } => {
                Err(RecipeError::Unreachable { path: path.to_owned(), waited: limit })
            }
            Patience::Until(_) | Patience::Endless => Ok(None),
        }
    }
}

/// A line that one can stand in.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) client: Client,
    pub(crate) directory: String,
    pub(crate) naming: Naming,
    pub(crate) data: Bytes,
    pub(crate) terms: Terms,
}

/// What one look at the line has shown.
enum Look {
    Turn,
    Wait(OneshotWatcher),
    Again,
    /// The node is gone or belongs to a former session.
    Gone,
    Refused,
}

impl Line {
    /// Takes a place and waits until it is the first; `None` if that does not happen in time. Nothing is left
    /// behind then, nor when the future is dropped.
    pub(crate) async fn stand(&self, kind: Kind, patience: Patience) -> Result<Option<Ticket>, RecipeError> {
        let deadline = patience.deadline();
        loop {
            let kept = self.client.keep_lease();
            let take = Ticket::take(&self.client, &self.directory, &self.naming, kind, &self.data);
            let Some(ticket) = before(deadline, take).await else { return patience.expired(&self.directory) };
            drop(kept);
            match self.wait_with(ticket?, patience).await? {
                Outcome::Turn(ticket) => return Ok(Some(ticket)),
                Outcome::Refused => return Ok(None),
                Outcome::TooLate => return patience.expired(&self.directory),
                Outcome::StartOver => {}
            }
        }
    }

    /// Waits with a node that stands in the line.
    async fn wait_with(&self, ticket: Ticket, patience: Patience) -> Result<Outcome, RecipeError> {
        let deadline = patience.deadline();
        loop {
            // For the look only: who waits for others needs no lease, and costs the leader nothing.
            let kept = self.client.keep_lease();
            let look = before(deadline, self.look(&ticket, patience)).await;
            drop(kept);
            match look {
                Some(Ok(Look::Turn)) => return Ok(Outcome::Turn(ticket)),
                Some(Ok(Look::Again)) => {}
                Some(Ok(Look::Gone)) => {
                    ticket.forget();
                    return Ok(Outcome::StartOver);
                }
                Some(Ok(Look::Wait(watcher))) => {
                    if before(deadline, watcher).await.is_none() {
                        step_out(ticket).await;
                        return Ok(Outcome::TooLate);
                    }
                }
                Some(Ok(Look::Refused)) => {
                    step_out(ticket).await;
                    return Ok(Outcome::Refused);
                }
                None => {
                    step_out(ticket).await;
                    return Ok(Outcome::TooLate);
                }
                Some(Err(error)) => {
                    step_out(ticket).await;
                    return Err(error);
                }
            }
        }
    }

    async fn look(&self, ticket: &Ticket, patience: Patience) -> Result<Look, RecipeError> {
        let client = &self.client;
        let listed = persist(client, || client.children(&self.directory).retry(Retry::Never)).await;
        let Some(list) = present(listed)? else { return Ok(Look::Gone) };
        // Asked for after the answer: a session that ended before it cannot be taken for the present one.
        if !ticket.is_of_this_session() {
            return Ok(Look::Gone);
        }
        match self.naming.place(&list.names, ticket.name()) {
            Place::First if is_leased(client, self.terms) => Ok(Look::Turn),
            Place::First => {
                leased(client, self.terms).await?;
                Ok(Look::Again)
            }
            Place::Missing => Ok(Look::Gone),
            Place::Conflict(child) => {
                let (directory, child) = (self.directory.clone(), child.to_owned());
                Err(RecipeError::LayoutConflict { directory, child })
            }
            Place::Behind(name) if name.starts_with(ticket.mark()) => {
                // Our own create, carried out after we had given it up.
                let ghost = path::join(&self.directory, name);
                persist(client, || client.delete(&ghost).quiet().retry(Retry::Never)).await?;
                Ok(Look::Again)
            }
            Place::Behind(_) if !patience.waits() => Ok(Look::Refused),
            Place::Behind(name) => {
                let watched = watch_node(client, &path::join(&self.directory, name)).await?;
                Ok(watched.map_or(Look::Again, Look::Wait))
            }
        }
    }
}

enum Outcome {
    Turn(Ticket),
    /// Another contender is before a caller that does not wait.
    Refused,
    TooLate,
    StartOver,
}

/// Leaves the line, and waits for it only for a moment: what takes longer is done in the background.
pub(crate) async fn step_out(ticket: Ticket) {
    step_out_all(vec![ticket]).await;
}

/// Gives several nodes back at once, within one [`STEP_OUT`] for all of them.
pub(crate) async fn step_out_all(tickets: Vec<Ticket>) {
    let mut leaving = JoinSet::new();
    for ticket in tickets {
        // An error means that the client is over, and the node with it.
        leaving.spawn(async move { drop(ticket.give_back().await) });
    }
    // What is left then is dropped with the set, and deleted in the background.
    let _ = tokio::time::timeout(STEP_OUT, async { while leaving.join_next().await.is_some() {} }).await;
}

/// Waits for a release, but only for a moment: what takes longer is done in the background.
pub(crate) async fn for_a_moment(release: impl Future<Output = Result<(), RecipeError>>) {
    // An error means that the client is over, and the nodes with it.
    let _ = tokio::time::timeout(STEP_OUT, release).await;
}

/// Watches a node until it changes or goes; `None` if it is gone already. By a read of its data: a question
/// for a missing node would leave a watch behind on the server.
pub(crate) async fn watch_node(client: &Client, path: &str) -> Result<Option<OneshotWatcher>, Error> {
    let read =
        persist(client, || client.get(path).compression(Compression::None).retry(Retry::Never).watched());
    match present(read.await) {
        Ok(found) => Ok(found.map(|(_, watcher)| watcher)),
        Err(error) if error.code() == Some(ErrorCode::NoAuth) => watch_unreadable(client, path).await,
        Err(error) => Err(error),
    }
}

/// Watches a node whose data may not be read. Servers that tell nothing of it without permission are asked for the list
/// of its siblings.
pub(crate) async fn watch_unreadable(client: &Client, path: &str) -> Result<Option<OneshotWatcher>, Error> {
    match persist(client, || client.exists(path).retry(Retry::Never).watched()).await {
        Ok((stat, watcher)) => return Ok(stat.map(|_| watcher)),
        Err(error) if error.code() == Some(ErrorCode::NoAuth) => {}
        Err(error) => return Err(error),
    }
    let directory = path::parent(path).unwrap_or("/");
    let listed = persist(client, || client.children(directory).retry(Retry::Never).watched()).await;
    let there = present(listed)?.filter(|(list, _)| list.names.iter().any(|name| name == path::name(path)));
    Ok(there.map(|(_, watcher)| watcher))
}
