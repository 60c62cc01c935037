//! Dividing a set of things among those who are there. Kazoo's layout.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;
use zebu_client::{Client, path};

use super::party::{Party, PartyLayout, PartyMember, members_among, shallow_identifier};
use crate::cache::{Cache, Changes, Reach};
use crate::error::RecipeError;
use crate::hold::{Held, LossReason};
use crate::lock::{LockLayout, Mutex, MutexGuard};

/// How long members must stay the same before anything is divided, unless told otherwise.
const SETTLE: Duration = Duration::from_secs(3);

/// Divides things among those who take part; Kazoo's `SetPartitioner`.
///
/// ```text
/// /shards                                        container
///   party                                        who takes part: a shallow Party
///     53345f9894234e0ca7b59f819e3ec2e1-host-7    ephemeral
///   locks
///     blue                                       a Mutex in Kazoo's layout: who has this one
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use std::time::Duration;
/// use zebu_recipes::Partitioner;
///
/// let shards = Partitioner::join(&client, "/shards", "host-7", ["blue", "green", "red"]).await?;
/// let shards = shards.settle(Duration::from_millis(50));
/// let mine = shards.assigned().await?;
/// assert_eq!(mine.items(), ["blue", "green", "red"]); // we are alone
/// tokio::select! {
///     () = mine.changed() => {} // somebody came or went: stop working, then give them back
///     () = async { /* the work */ } => {}
/// }
/// mine.release().await?;
/// shards.leave().await?;
/// # Ok(()) });
/// ```
///
/// All members sort things and members in the same way, and the i-th of n takes every n-th thing from the i-th
/// on. That is a plan; that nothing has two owners is what the locks are for: a member that is told of a change
/// later than others keeps its things until it gives them back. All must be given the same things, and
/// different identifiers: equal ones count as often as they are there, as with Kazoo, and claim the same things.
///
/// **Connection lost.** Things are kept until the end of the lease, see [`Held`]. **Session lost.** The share is
/// lost, [`Share::changed`] ends; the member joins again and [`assigned`](Partitioner::assigned) gives it another
/// share. **Crash.** Others divide anew when the session has timed out. **Dropped.** A share gives its things
/// back, a partitioner leaves, both in the background.
#[derive(Debug)]
pub struct Partitioner {
    client: Client,
    path: String,
    items: BTreeSet<String>,
    identifier: String,
    settle: Duration,
    member: PartyMember,
    cache: Arc<Cache>,
}

impl Partitioner {
    /// Takes part from now on.
    pub async fn join<Item: Into<String>>(
        client: &Client,
        path: &str,
        identifier: &str,
        items: impl IntoIterator<Item = Item>,
    ) -> Result<Partitioner, RecipeError> {
        let party = path::join(path, "party");
        let member = Party::new(client, &party).layout(PartyLayout::Shallow).join(identifier).await?;
        let cache = Arc::new(Cache::plain(client, &party, Reach::Children));
        cache.synced().await?;
        Ok(Partitioner {
            client: client.clone(),
            path: path.to_owned(),
            items: items.into_iter().map(Into::into).collect(),
            identifier: identifier.to_owned(),
            settle: SETTLE,
            member,
            cache,
        })
    }

    /// How long members must stay the same before things are divided: long enough for a group that starts or
    /// restarts. Three seconds unless told otherwise.
    pub fn settle(mut self, settle: Duration) -> Partitioner {
        self.settle = settle;
        self
    }

    /// Waits until it is known who takes part and everything of our share is ours. Give a share back before
    /// you ask for the next one.
    pub async fn assigned(&self) -> Result<Share, RecipeError> {
        loop {
            self.member.there().await?;
            let members = self.settled().await?;
            let items = share(&self.items, &members, &self.identifier);
            if let Some(guards) = self.take(&items, &members).await? {
                let (cache, path) = (self.cache.clone(), path::join(&self.path, "party"));
                return Ok(Share { items, guards, members, cache, path });
            }
        }
    }

    /// Leaves; others get its things when they are given back.
    pub async fn leave(self) -> Result<(), RecipeError> {
        self.member.leave().await
    }

    /// Waits until the same members, we among them, were seen for long enough.
    async fn settled(&self) -> Result<Vec<String>, RecipeError> {
        let party = path::join(&self.path, "party");
        let (mut changes, mut since) = (self.cache.changes(), Instant::now());
        let mut members = identifiers(&self.cache, &party)?;
        loop {
            let wait = tokio::time::timeout_at(since + self.settle, changes.next()).await;
            match wait {
                Err(_) if members.contains(&self.identifier) && self.cache.is_synced() => return Ok(members),
                Err(_) => since = Instant::now(),
                Ok(Some(_)) => {}
                Ok(None) => return Err(self.ended()),
            }
            let now = identifiers(&self.cache, &party)?;
            if now != members {
                (members, since) = (now, Instant::now());
            }
        }
    }

    /// Locks these things; `None` if the members change meanwhile.
    async fn take(
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
                () = other_members(&self.cache, &party, members) => return Ok(None),
            }
        }
        Ok(Some(guards))
    }

    fn ended(&self) -> RecipeError {
        self.cache.failure().unwrap_or_else(|| RecipeError::Invalid("the partitioner has ended".into()))
    }
}

/// What the i-th of n members takes: every n-th thing from the i-th on. Members are sorted; equal identifiers count
/// as often as they are there, as with Kazoo.
fn share(items: &BTreeSet<String>, members: &[String], identifier: &str) -> Vec<String> {
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

/// Waits until the members are not these any more.
async fn other_members(cache: &Cache, party: &str, members: &[String]) {
    let mut changes: Changes = cache.changes();
    while identifiers(cache, party).is_ok_and(|now| now == members) {
        if changes.next().await.is_none() {
            return;
        }
    }
}

/// The end of one hold.
type Loss = Pin<Box<dyn Future<Output = LossReason> + Send>>;

/// The things of one member.
#[derive(Debug)]
#[must_use = "dropping it gives the things back"]
pub struct Share {
    items: Vec<String>,
    guards: Vec<MutexGuard>,
    members: Vec<String>,
    cache: Arc<Cache>,
    path: String,
}

impl Share {
    /// The things, in their order. There may be none, if there are more members than things.
    pub fn items(&self) -> &[String] {
        &self.items
    }

    /// The locks on the things, in the same order: their tokens, and whether they are still held.
    pub fn guards(&self) -> &[MutexGuard] {
        &self.guards
    }

    /// Comes to its end when members have come or gone, or something of the share is lost: then stop working
    /// and give it back.
    pub async fn changed(&self) {
        let mut losses: Vec<Loss> = self.guards.iter().map(|guard| Box::pin(guard.lost()) as Loss).collect();
        let lost = poll_fn(|context| {
            let is_lost = losses.iter_mut().any(|loss| loss.as_mut().poll(context).is_ready());
            if is_lost { Poll::Ready(()) } else { Poll::Pending }
        });
        tokio::select! {
            () = lost => {}
            () = other_members(&self.cache, &self.path, &self.members) => {}
        }
    }

    /// Gives everything back, and waits until the ensemble knows.
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
        assert_eq!(share(&items, &members, "x"), ["a", "c", "e"]);
        assert_eq!(share(&items, &members, "y"), ["b", "d"]);
        assert_eq!(share(&items, &members, "z"), [""; 0]);
        assert_eq!(share(&set(&["a"]), &members, "y"), [""; 0]);
    }

    #[test]
    fn equal_identifiers_count_as_often_as_they_are_there() {
        let items: BTreeSet<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).into();
        let members = ["x", "x", "y"].map(str::to_owned);
        // Kazoo: sorted(items)[workers.index(identifier)::len(workers)].
        assert_eq!(share(&items, &members, "x"), ["a", "d"]);
        assert_eq!(share(&items, &members, "y"), ["c"]);
    }
}
