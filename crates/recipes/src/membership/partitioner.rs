//! Partitioning of a set of items among the members of a group. Kazoo's layout.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;
use zebu_client::{Client, path};

use super::party::{Party, PartyLayout, PartyMember, members_among, shallow_identifier};
use crate::cache::{Cache, CacheChanges, CacheScope};
use crate::error::RecipeError;
use crate::lock::{LockLayout, Mutex, MutexGuard};
use crate::ownership::{LossReason, Ownership};

/// The default time for which the members must be stable.
const TIME_BOUNDARY: Duration = Duration::from_secs(3);

/// Partitions items among members; Kazoo's `SetPartitioner`.
///
/// ```text
/// /shards                                        container
///   party                                        the members: a shallow Party
///     53345f9894234e0ca7b59f819e3ec2e1-host-7    ephemeral
///   locks
///     blue                                       a Mutex in Kazoo's layout: its owner
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use std::time::Duration;
/// use zebu_recipes::Partitioner;
///
/// let shards = Partitioner::join(&client, "/shards", "host-7", ["blue", "green", "red"]).await?;
/// let shards = shards.time_boundary(Duration::from_millis(50));
/// let mine = shards.acquire().await?;
/// assert_eq!(mine.items(), ["blue", "green", "red"]); // there is no other member
/// tokio::select! {
///     () = mine.changed() => {} // the members changed: stop working, then release
///     () = async { /* the work */ } => {}
/// }
/// mine.release().await?;
/// shards.leave().await?;
/// # Ok(()) });
/// ```
///
/// All members sort items and members in the same way, and the i-th of n members takes every n-th item. Locks
/// guarantee that no item has two owners: a member that learns of a change late keeps its items until it
/// releases them. All members need the same items and different identifiers. Equal identifiers count as often
/// as they occur, as with Kazoo, and claim the same items.
///
/// - **Connection lost.** Items are owned until the end of the lease, see [`Ownership`].
/// - **Session lost.** The partition is lost and [`AcquiredPartition::changed`] completes; the member joins
///   again and [`acquire`](Partitioner::acquire) returns another partition.
/// - **Crash.** The other members repartition when the session expires.
/// - **Dropped.** A partition releases its items, a partitioner leaves, both in the background.
#[derive(Debug)]
pub struct Partitioner {
    client: Client,
    path: String,
    items: BTreeSet<String>,
    identifier: String,
    time_boundary: Duration,
    member: PartyMember,
    cache: Arc<Cache>,
}

impl Partitioner {
    /// Joins the group.
    pub async fn join<Item: Into<String>>(
        client: &Client,
        path: &str,
        identifier: &str,
        items: impl IntoIterator<Item = Item>,
    ) -> Result<Partitioner, RecipeError> {
        let party = path::join(path, "party");
        let member = Party::new(client, &party).layout(PartyLayout::Shallow).join(identifier).await?;
        let cache = Arc::new(Cache::start_uncompressed(client, &party, CacheScope::Children));
        cache.synced().await?;
        Ok(Partitioner {
            client: client.clone(),
            path: path.to_owned(),
            items: items.into_iter().map(Into::into).collect(),
            identifier: identifier.to_owned(),
            time_boundary: TIME_BOUNDARY,
            member,
            cache,
        })
    }

    /// The time for which the members must be stable before items are partitioned, long enough for the start
    /// of a group. Three seconds by default.
    pub fn time_boundary(mut self, time_boundary: Duration) -> Partitioner {
        self.time_boundary = time_boundary;
        self
    }

    /// Waits for stable members and for the locks of all own items. Release a partition before the next call.
    pub async fn acquire(&self) -> Result<AcquiredPartition, RecipeError> {
        loop {
            self.member.wait_present().await?;
            let members = self.wait_for_stable_members().await?;
            let items = items_of(&self.items, &members, &self.identifier);
            if let Some(guards) = self.lock_items(&items, &members).await? {
                let (cache, path) = (self.cache.clone(), path::join(&self.path, "party"));
                return Ok(AcquiredPartition { items, guards, members, cache, path });
            }
        }
    }

    /// Leaves the group; other members get its items when they are released.
    pub async fn leave(self) -> Result<(), RecipeError> {
        self.member.leave().await
    }

    /// Waits until the members, including this one, are unchanged for the time boundary.
    async fn wait_for_stable_members(&self) -> Result<Vec<String>, RecipeError> {
        let party = path::join(&self.path, "party");
        let (mut changes, mut since) = (self.cache.changes(), Instant::now());
        let mut members = identifiers(&self.cache, &party)?;
        loop {
            let wait = tokio::time::timeout_at(since + self.time_boundary, changes.next()).await;
            match wait {
                Err(_) if members.contains(&self.identifier) && self.cache.is_synced() => return Ok(members),
                Err(_) => since = Instant::now(),
                Ok(Some(_)) => {}
                Ok(None) => return Err(self.ended_error()),
            }
            let now = identifiers(&self.cache, &party)?;
            if now != members {
                (members, since) = (now, Instant::now());
            }
        }
    }

    /// Locks the items; `None` if the members change meanwhile.
    async fn lock_items(
        &self,
        items: &[String],
        members: &[String],
    ) -> Result<Option<Vec<MutexGuard>>, RecipeError> {
        let party = path::join(&self.path, "party");
        let mut guards = Vec::with_capacity(items.len());
        for item in items {
            let lock = path::join(&path::join(&self.path, "locks"), item);
            let mutex = Mutex::new(&self.client, &lock).layout(LockLayout::Kazoo);
            let mutex = mutex.identity(self.identifier.clone());
            tokio::select! {
                guard = mutex.acquire() => guards.push(guard?),
                () = wait_membership_change(&self.cache, &party, members) => return Ok(None),
            }
        }
        Ok(Some(guards))
    }

    fn ended_error(&self) -> RecipeError {
        self.cache.failure().unwrap_or_else(|| RecipeError::Invalid("the partitioner has ended".into()))
    }
}

/// The items of the i-th of n members: every n-th item from the i-th on. Members are sorted; equal
/// identifiers count as often as they occur, as with Kazoo.
fn items_of(items: &BTreeSet<String>, members: &[String], identifier: &str) -> Vec<String> {
    let Some(position) = members.iter().position(|member| member == identifier) else { return Vec::new() };
    items.iter().skip(position).step_by(members.len()).cloned().collect()
}

/// The identifiers of all members, sorted.
fn identifiers(cache: &Cache, party: &str) -> Result<Vec<String>, RecipeError> {
    let names = cache.children(party).iter().map(|node| path::name(&node.path).to_owned()).collect();
    let names = members_among(names, PartyLayout::Shallow).map_err(|child| {
        let directory = party.to_owned();
        RecipeError::LayoutConflict { directory, child }
    })?;
    let mut members: Vec<String> =
        names.iter().filter_map(|name| shallow_identifier(name)).map(str::to_owned).collect();
    members.sort();
    Ok(members)
}

/// Waits until the members change.
async fn wait_membership_change(cache: &Cache, party: &str, members: &[String]) {
    let mut changes: CacheChanges = cache.changes();
    while identifiers(cache, party).is_ok_and(|now| now == members) {
        if changes.next().await.is_none() {
            return;
        }
    }
}

/// The loss of one lock.
type Loss = Pin<Box<dyn Future<Output = LossReason> + Send>>;

/// The items of one member.
#[derive(Debug)]
#[must_use = "dropping it releases the items"]
pub struct AcquiredPartition {
    items: Vec<String>,
    guards: Vec<MutexGuard>,
    members: Vec<String>,
    cache: Arc<Cache>,
    path: String,
}

impl AcquiredPartition {
    /// The items, sorted. There are none if there are more members than items.
    pub fn items(&self) -> &[String] {
        &self.items
    }

    /// The locks of the items, in the same order.
    pub fn guards(&self) -> &[MutexGuard] {
        &self.guards
    }

    /// Completes when the members change or a lock is lost: then stop the work and release the partition.
    pub async fn changed(&self) {
        let mut losses: Vec<Loss> = self.guards.iter().map(|guard| Box::pin(guard.lost()) as Loss).collect();
        let lost = poll_fn(|context| {
            let is_lost = losses.iter_mut().any(|loss| loss.as_mut().poll(context).is_ready());
            if is_lost { Poll::Ready(()) } else { Poll::Pending }
        });
        tokio::select! {
            () = lost => {}
            () = wait_membership_change(&self.cache, &self.path, &self.members) => {}
        }
    }

    /// Releases all items and waits for the replies of the ensemble.
    pub async fn release(self) -> Result<(), RecipeError> {
        for guard in self.guards {
            guard.release().await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_kazoos_and_cover_everything_once() {
        let list = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        let set = |names: &[&str]| list(names).into_iter().collect::<BTreeSet<_>>();
        let (items, members) = (set(&["a", "b", "c", "d", "e"]), list(&["x", "y"]));
        assert_eq!(items_of(&items, &members, "x"), ["a", "c", "e"]);
        assert_eq!(items_of(&items, &members, "y"), ["b", "d"]);
        assert_eq!(items_of(&items, &members, "z"), [""; 0]);
        assert_eq!(items_of(&set(&["a"]), &members, "y"), [""; 0]);
    }

    #[test]
    fn equal_identifiers_count_as_often_as_they_are_there() {
        let items: BTreeSet<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).into();
        let members = ["x", "x", "y"].map(str::to_owned);
        // Kazoo: sorted(items)[workers.index(identifier)::len(workers)].
        assert_eq!(items_of(&items, &members, "x"), ["a", "d"]);
        assert_eq!(items_of(&items, &members, "y"), ["c"]);
    }
}
