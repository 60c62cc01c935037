//! The double barrier: a number of members start together and end together.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use zebu_client::{
    Client, Compression, CreateMode, CreateSpec, Error, ErrorCode, EventKind, Parents, Retry, Version, path,
};

use crate::error::RecipeError;
use crate::ownership::{LeasePolicy, LossReason, OwnedNode, Ownership, OwnershipState, wait_for_lease};
use crate::retry::{
    ReconnectRetry, is_transient, none_if_missing, retry_until_answered, uncompressed_transaction,
    with_deadline,
};
use crate::unique_id::UniqueId;
use crate::wait_queue::{QueueNode, WaitLimit, leave_queue, watch_node, with_leave_timeout};

/// The name of the node that reports that all members have entered.
const READY: &str = "ready";

/// A barrier that a number of members enter together and leave together; compatible with Curator's
/// `DistributedDoubleBarrier` and Kazoo's `DoubleBarrier`.
///
/// ```text
/// /round                                         container
///   53345f98-9423-4e0c-a7b5-9f819e3ec2e1         ephemeral: a member
///   b7a80a0e-3a52-4d2c-8a3f-0a4f6f1c9d77         ephemeral: a member
///   ready                                        persistent: all members have entered
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
/// **Rounds.** The same path can be used for many rounds. The first member of a round deletes the `ready`
/// node of a crashed round, in the transaction that creates its own node. Until then `ready` is older than
/// all members and does not count.
///
/// - **Connection lost.** The wait continues.
/// - **Session lost.** A waiting member creates its node again. A member that has entered is notified (see
///   [`Ownership`]), and the others no longer wait for it.
/// - **Crash.** The node of a member is deleted with its session. If it was the last to leave, `ready` stays
///   until the next round.
/// - **Dropped.** The background deletes the node of a dropped wait or a dropped [`EnteredBarrier`].
///
/// **With Kazoo.** Kazoo deletes `ready` when its first member leaves. A slow member of this crate still
/// enters, because it has received the event of its creation. If its connection is lost in between, it waits
/// for the next round, as members of Kazoo do: use [`enter_within`](DoubleBarrier::enter_within) there.
#[derive(Clone, Debug)]
pub struct DoubleBarrier {
    client: Client,
    path: String,
    members: NonZeroU32,
}

impl DoubleBarrier {
    /// A barrier for this number of members. Nothing is sent yet.
    pub fn new(client: &Client, path: &str, members: NonZeroU32) -> DoubleBarrier {
        DoubleBarrier { client: client.clone(), path: path.to_owned(), members }
    }

    /// Enters the barrier and waits for the other members.
    pub async fn enter(&self) -> Result<EnteredBarrier, RecipeError> {
        loop {
            if let Some(entered) = self.enter_by(WaitLimit::Unlimited).await? {
                return Ok(entered);
            }
        }
    }

    /// Enters the barrier and waits for the other members, up to the timeout; then it leaves again.
    pub async fn enter_within(&self, timeout: Duration) -> Result<Option<EnteredBarrier>, RecipeError> {
        self.enter_by(WaitLimit::within(timeout)).await
    }

    async fn enter_by(&self, limit: WaitLimit) -> Result<Option<EnteredBarrier>, RecipeError> {
        let deadline = limit.deadline();
        loop {
            let Some(node) = with_deadline(deadline, self.create_member_node()).await else {
                return Ok(None);
            };
            let node = node?;
            match with_deadline(deadline, self.wait_to_enter(&node)).await {
                Some(Ok(true)) => {
                    let owned = OwnedNode::new(node, LeasePolicy::default());
                    return Ok(Some(EnteredBarrier { barrier: self.clone(), owned }));
                }
                Some(Ok(false)) => node.disarm(),
                Some(Err(error)) => {
                    leave_queue(node).await;
                    return Err(error.into());
                }
                None => {
                    leave_queue(node).await;
                    return Ok(None);
                }
            }
        }
    }

    fn ready(&self) -> String {
        path::join(&self.path, READY)
    }

    /// The names of the members, and whether `ready` exists. `None` if the barrier's node is missing.
    async fn list_members(&self) -> Result<Option<(BTreeSet<String>, bool)>, Error> {
        let client = &self.client;
        let listed = retry_until_answered(client, || client.children(&self.path).retry(Retry::Never)).await;
        let Some(list) = none_if_missing(listed)? else { return Ok(None) };
        let mut members: BTreeSet<String> = list.names.into_iter().collect();
        let is_ready = members.remove(READY);
        Ok(Some((members, is_ready)))
    }

    /// Creates the member's node. Without other members, an existing `ready` is that of an earlier round and
    /// is deleted.
    async fn create_member_node(&self) -> Result<QueueNode, Error> {
        let client = &self.client;
        let mut retry = ReconnectRetry::default();
        loop {
            let Some((members, is_ready)) = self.list_members().await? else {
                self.create_directory().await?;
                continue;
            };
            let name = UniqueId::new(client).dashed();
            let own = path::join(&self.path, &name);
            let cleanup = client.cleanup_guard(&self.path, &name);
            let mut transaction = uncompressed_transaction(client);
            transaction.create(&own, CreateSpec::new().mode(CreateMode::Ephemeral));
            if members.is_empty() && is_ready {
                transaction.delete(&self.ready(), Version::Any);
            }
            match transaction.retry(Retry::Never).await {
                Ok(_) => {}
                // Another member was faster, or the container was deleted.
                Err(error) if error.code() == Some(ErrorCode::NoNode) => continue,
                Err(error) if is_transient(&error) => retry.after(client, error).await?,
                Err(error) => return Err(error),
            }
            // The name is unique: if the node exists, this create made it, with or without a reply.
            let found = retry_until_answered(client, || async {
                client.sync(&own).retry(Retry::Never).await?;
                client.exists(&own).retry(Retry::Never).await
            });
            if let Some(stat) = found.await? {
                let node = QueueNode::adopt(client, own, name, stat);
                cleanup.disarm();
                if node.is_owned_by_session() {
                    return Ok(node);
                }
                node.disarm();
            }
        }
    }

    async fn create_directory(&self) -> Result<(), Error> {
        let client = &self.client;
        let create = || {
            let create = client.create(&self.path).container().compression(Compression::None);
            create.parents(Parents::Containers).retry(Retry::Never)
        };
        match retry_until_answered(client, create).await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Waits until all members have entered and the lease is long enough. `false` if the own node is lost.
    async fn wait_to_enter(&self, node: &QueueNode) -> Result<bool, Error> {
        let has_all = self.wait_for_all(node).await?;
        wait_for_lease(&self.client, LeasePolicy::default()).await?;
        Ok(has_all)
    }

    /// Waits until `ready` exists or enough members exist; `false` if the own node is lost. The last member
    /// creates `ready`, but members may be leaving when a slow member checks. A `ready` older than the own
    /// node belongs to another round.
    ///
    /// Kazoo deletes `ready` when its first member leaves. The event of its creation is therefore sufficient:
    /// the watch was set after the own node existed.
    async fn wait_for_all(&self, node: &QueueNode) -> Result<bool, Error> {
        let client = &self.client;
        let ready_path = self.ready();
        let mut retry = ReconnectRetry::default();
        // Once all members were seen together, later departures do not matter.
        let mut complete = false;
        loop {
            let watch =
                retry_until_answered(client, || client.exists(&ready_path).retry(Retry::Never).watched());
            let (ready, changed) = watch.await?;
            let here = self.list_members().await?.filter(|(members, _)| members.contains(node.name()));
            let Some((members, _)) = here.filter(|_| node.is_owned_by_session()) else {
                return Ok(false);
            };
            if ready.is_some_and(|ready| ready.czxid > node.stat().czxid) {
                return Ok(true);
            }
            complete |= u32::try_from(members.len()).map_or(true, |count| count >= self.members.get());
            if !complete {
                if changed.await.kind == EventKind::NodeCreated && node.is_owned_by_session() {
                    return Ok(true);
                }
                continue;
            }
            let mut transaction = uncompressed_transaction(client);
            if ready.is_some() {
                transaction.delete(&ready_path, Version::Any);
            }
            transaction.create(&ready_path, CreateSpec::new());
            match transaction.retry(Retry::Never).await {
                Ok(_) => return Ok(true),
                // Another member created it after the check above, hence after the own node.
                Err(error) if error.code() == Some(ErrorCode::NodeExists) => return Ok(true),
                // Another member deleted the old one: check again.
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {}
                Err(error) => retry.after(client, error).await?,
            }
        }
    }
}

/// The membership of an entered barrier. [`leave`](EnteredBarrier::leave) waits until all members leave;
/// dropping it leaves without waiting.
#[derive(Debug)]
#[must_use = "dropping it leaves the barrier at once"]
pub struct EnteredBarrier {
    barrier: DoubleBarrier,
    owned: OwnedNode,
}

impl Ownership for EnteredBarrier {
    fn ownership_state(&self) -> &OwnershipState {
        self.owned.ownership_state()
    }
}

impl EnteredBarrier {
    /// Leaves the barrier and waits for the other members.
    pub async fn leave(self) -> Result<(), RecipeError> {
        self.leave_by(WaitLimit::Unlimited).await.map(drop)
    }

    /// Leaves the barrier and waits for the other members, up to the timeout; `false` if some have not left
    /// by then.
    pub async fn leave_within(self, timeout: Duration) -> Result<bool, RecipeError> {
        self.leave_by(WaitLimit::within(timeout)).await
    }

    async fn leave_by(self, limit: WaitLimit) -> Result<bool, RecipeError> {
        let EnteredBarrier { barrier, owned } = self;
        let ownership_state = owned.ownership_state().clone();
        let own = path::name(ownership_state.path()).to_owned();
        // Ownership ends here, not with the delete of the node.
        ownership_state.end(LossReason::Released);
        let left = with_deadline(limit.deadline(), barrier.wait_to_leave(&own)).await;
        match limit {
            WaitLimit::Unlimited => owned.release().await?,
            WaitLimit::Until(_) | WaitLimit::NoWait { .. } => with_leave_timeout(owned.release()).await,
        }
        left.transpose().map(|left| left.is_some()).map_err(Into::into)
    }
}

impl DoubleBarrier {
    /// The lowest member stays until all others have left; the others delete their nodes and wait for the
    /// lowest. Each member watches one node. Only members of this round count, because the next round may
    /// start meanwhile.
    async fn wait_to_leave(&self, own: &str) -> Result<(), Error> {
        let client = &self.client;
        let mut round: Option<BTreeSet<String>> = None;
        loop {
            let Some((members, _)) = self.list_members().await? else { return Ok(()) };
            let round = round.get_or_insert_with(|| members.clone());
            let left: Vec<&String> = members.intersection(round).collect();
            let awaited = match (left.first(), left.last()) {
                (Some(lowest), Some(highest)) if *lowest == own && *highest == own => {
                    return self.delete_last_member(own).await;
                }
                (Some(lowest), Some(highest)) if *lowest == own => highest.as_str(),
                (Some(lowest), Some(_)) => lowest.as_str(),
                _ => return Ok(()),
            };
            if awaited < own && members.contains(own) {
                let own = path::join(&self.path, own);
                retry_until_answered(client, || client.delete(&own).quiet().retry(Retry::Never)).await?;
            }
            if let Some(changed) = watch_node(client, &path::join(&self.path, awaited)).await? {
                changed.await;
            }
        }
    }

    /// Deletes the last member together with `ready`, so that `ready` does not count for the next round.
    async fn delete_last_member(&self, own: &str) -> Result<(), Error> {
        let client = &self.client;
        let mut retry = ReconnectRetry::default();
        loop {
            let mut transaction = uncompressed_transaction(client);
            transaction.delete(&path::join(&self.path, own), Version::Any);
            transaction.delete(&self.ready(), Version::Any);
            match transaction.retry(Retry::Never).await {
                Ok(_) => return Ok(()),
                // One of them is already deleted; the guard deletes the own node.
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(()),
                Err(error) => retry.after(client, error).await?,
            }
        }
    }
}
