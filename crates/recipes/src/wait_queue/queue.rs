//! The wait for the first position. A watch event only triggers another check. The decision always uses a
//! fresh list of children, and only a node that the current session owns.

use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::Instant;
use zebu_client::{Client, Compression, Error, ErrorCode, OneshotWatcher, Retry, path};

use super::naming::{ContenderNaming, LockMode, QueuePosition};
use super::node::QueueNode;
use crate::error::RecipeError;
use crate::ownership::{LeasePolicy, has_lease, wait_for_lease};
use crate::retry::{none_if_missing, retry_until_answered, with_deadline};

/// How long a caller that gives up waits for the delete of its node.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a call waits for other contenders, and for a server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WaitLimit {
    /// The call does not wait for contenders. It waits for a server as long as the client's connection
    /// timeout.
    NoWait {
        /// When the call fails for lack of a server.
        deadline: Instant,
        connection_timeout: Duration,
    },
    Until(Instant),
    Unlimited,
}

impl WaitLimit {
    pub(crate) fn within(timeout: Duration) -> WaitLimit {
        match Instant::now().checked_add(timeout) {
            Some(deadline) => WaitLimit::Until(deadline),
            None => WaitLimit::Unlimited,
        }
    }

    /// The limit of calls whose name begins with `try`.
    pub(crate) fn no_wait(client: &Client) -> WaitLimit {
        let connection_timeout = client.connection_timeout();
        match Instant::now().checked_add(connection_timeout) {
            Some(deadline) => WaitLimit::NoWait { deadline, connection_timeout },
            None => WaitLimit::Unlimited,
        }
    }

    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            WaitLimit::Until(deadline) | WaitLimit::NoWait { deadline, .. } => Some(deadline),
            WaitLimit::Unlimited => None,
        }
    }

    /// Whether the call waits for other contenders.
    pub(crate) fn allows_waiting(self) -> bool {
        !matches!(self, WaitLimit::NoWait { .. })
    }

    /// The result of a call whose deadline has passed: `None`, or an error if the call does not wait for
    /// contenders.
    pub(crate) fn expired<T>(self, path: &str) -> Result<Option<T>, RecipeError> {
        match self {
            WaitLimit::NoWait { connection_timeout, .. } => {
                Err(RecipeError::Unreachable { path: path.to_owned(), waited: connection_timeout })
            }
            WaitLimit::Until(_) | WaitLimit::Unlimited => Ok(None),
        }
    }
}

/// A directory of contenders.
#[derive(Clone, Debug)]
pub(crate) struct WaitQueue {
    pub(crate) client: Client,
    pub(crate) directory: String,
    pub(crate) naming: ContenderNaming,
    /// The data of the contender's node.
    pub(crate) data: Bytes,
    pub(crate) lease_policy: LeasePolicy,
}

/// The result of one check of the queue.
enum QueueCheck {
    /// The node is the first, and the lease is long enough.
    First,
    Wait(OneshotWatcher),
    CheckAgain,
    /// The node is gone, or a former session owns it.
    NodeLost,
    /// Another contender is first, and the caller does not wait.
    NotFirst,
}

/// The end of a wait.
enum WaitOutcome {
    First(QueueNode),
    NotFirst,
    TimedOut,
    NodeLost,
}

impl WaitQueue {
    /// Enters the queue and waits until the own node is the first; `None` if that does not happen in time.
    /// The node is removed then, and also when the future is dropped.
    pub(crate) async fn enter(
        &self,
        mode: LockMode,
        limit: WaitLimit,
    ) -> Result<Option<QueueNode>, RecipeError> {
        let deadline = limit.deadline();
        loop {
            let renewal = self.client.keep_lease();
            let create = QueueNode::create(&self.client, &self.directory, &self.naming, mode, &self.data);
            let Some(node) = with_deadline(deadline, create).await else {
                return limit.expired(&self.directory);
            };
            drop(renewal);
            match self.wait_until_first(node?, limit).await? {
                WaitOutcome::First(node) => return Ok(Some(node)),
                WaitOutcome::NotFirst => return Ok(None),
                WaitOutcome::TimedOut => return limit.expired(&self.directory),
                WaitOutcome::NodeLost => {}
            }
        }
    }

    async fn wait_until_first(&self, node: QueueNode, limit: WaitLimit) -> Result<WaitOutcome, RecipeError> {
        let deadline = limit.deadline();
        loop {
            // During the check only: a waiter needs no lease and adds no load to the leader.
            let renewal = self.client.keep_lease();
            let check = with_deadline(deadline, self.check_position(&node, limit)).await;
            drop(renewal);
            match check {
                Some(Ok(QueueCheck::First)) => return Ok(WaitOutcome::First(node)),
                Some(Ok(QueueCheck::CheckAgain)) => {}
                Some(Ok(QueueCheck::NodeLost)) => {
                    node.disarm();
                    return Ok(WaitOutcome::NodeLost);
                }
                Some(Ok(QueueCheck::Wait(watcher))) => {
                    if with_deadline(deadline, watcher).await.is_none() {
                        leave_queue(node).await;
                        return Ok(WaitOutcome::TimedOut);
                    }
                }
                Some(Ok(QueueCheck::NotFirst)) => {
                    leave_queue(node).await;
                    return Ok(WaitOutcome::NotFirst);
                }
                None => {
                    leave_queue(node).await;
                    return Ok(WaitOutcome::TimedOut);
                }
                Some(Err(error)) => {
                    leave_queue(node).await;
                    return Err(error);
                }
            }
        }
    }

    async fn check_position(&self, node: &QueueNode, limit: WaitLimit) -> Result<QueueCheck, RecipeError> {
        let client = &self.client;
        let listed =
            retry_until_answered(client, || client.children(&self.directory).retry(Retry::Never)).await;
        let Some(list) = none_if_missing(listed)? else { return Ok(QueueCheck::NodeLost) };
        // Checked after the reply: a session that ended before it cannot pass for the current one.
        if !node.is_owned_by_session() {
            return Ok(QueueCheck::NodeLost);
        }
        match self.naming.position(&list.names, node.name()) {
            QueuePosition::First if has_lease(client, self.lease_policy) => Ok(QueueCheck::First),
            QueuePosition::First => {
                wait_for_lease(client, self.lease_policy).await?;
                Ok(QueueCheck::CheckAgain)
            }
            QueuePosition::Missing => Ok(QueueCheck::NodeLost),
            QueuePosition::Conflict(child) => {
                let (directory, child) = (self.directory.clone(), child.to_owned());
                Err(RecipeError::LayoutConflict { directory, child })
            }
            QueuePosition::Behind(name) if name.starts_with(node.id_prefix()) => {
                // The own create, carried out after it was given up as lost.
                let duplicate = path::join(&self.directory, name);
                let delete = || client.delete(&duplicate).quiet().retry(Retry::Never);
                retry_until_answered(client, delete).await?;
                Ok(QueueCheck::CheckAgain)
            }
            QueuePosition::Behind(_) if !limit.allows_waiting() => Ok(QueueCheck::NotFirst),
            QueuePosition::Behind(name) => {
                let watched = watch_node(client, &path::join(&self.directory, name)).await?;
                Ok(watched.map_or(QueueCheck::CheckAgain, QueueCheck::Wait))
            }
        }
    }
}

/// Deletes a node of the queue, within [`LEAVE_TIMEOUT`]. A slower delete continues in the background.
pub(crate) async fn leave_queue(node: QueueNode) {
    leave_queue_all(vec![node]).await;
}

/// Deletes several nodes at once, within one [`LEAVE_TIMEOUT`] for all of them.
pub(crate) async fn leave_queue_all(nodes: Vec<QueueNode>) {
    let mut deletes = JoinSet::new();
    for node in nodes {
        // An error means that the client is closed, and the node gone with it.
        deletes.spawn(async move { drop(node.delete().await) });
    }
    // The rest is dropped with the set, and deleted in the background.
    let _ = tokio::time::timeout(LEAVE_TIMEOUT, async { while deletes.join_next().await.is_some() {} }).await;
}

/// Waits for a release, within [`LEAVE_TIMEOUT`]. A slower release continues in the background.
pub(crate) async fn with_leave_timeout(release: impl Future<Output = Result<(), RecipeError>>) {
    // An error means that the client is closed, and the nodes gone with it.
    let _ = tokio::time::timeout(LEAVE_TIMEOUT, release).await;
}

/// Watches a node until it changes or is deleted; `None` if it is gone already. It reads the data, because
/// `exists` of a missing node would leave a watch at the server.
pub(crate) async fn watch_node(client: &Client, path: &str) -> Result<Option<OneshotWatcher>, Error> {
    let read = retry_until_answered(client, || {
        client.get(path).compression(Compression::None).retry(Retry::Never).watched()
    });
    match none_if_missing(read.await) {
        Ok(found) => Ok(found.map(|(_, watcher)| watcher)),
        Err(error) if error.code() == Some(ErrorCode::NoAuth) => watch_unreadable(client, path).await,
        Err(error) => Err(error),
    }
}

/// Watches a node whose data the client may not read. If the server refuses `exists` too, it watches the
/// children of the parent.
pub(crate) async fn watch_unreadable(client: &Client, path: &str) -> Result<Option<OneshotWatcher>, Error> {
    match retry_until_answered(client, || client.exists(path).retry(Retry::Never).watched()).await {
        Ok((stat, watcher)) => return Ok(stat.map(|_| watcher)),
        Err(error) if error.code() == Some(ErrorCode::NoAuth) => {}
        Err(error) => return Err(error),
    }
    let parent = path::parent(path).unwrap_or("/");
    let listed = retry_until_answered(client, || client.children(parent).retry(Retry::Never).watched()).await;
    let exists =
        none_if_missing(listed)?.filter(|(list, _)| list.names.iter().any(|name| name == path::name(path)));
    Ok(exists.map(|(_, watcher)| watcher))
}
