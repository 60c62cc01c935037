//! A member of a group that sees the others.

use std::collections::BTreeMap;

use bytes::Bytes;
use zebu_client::{Client, path};

use super::kept::{IfTaken, KeptAs, KeptNode};
use crate::cache::{Cache, Changes, Reach};
use crate::error::RecipeError;

/// A member of a group; Curator's `GroupMember`.
///
/// ```text
/// /machines                                      container
///   host-7                                       ephemeral: a member; the data is what it says about itself
///   host-8                                       ephemeral: a member
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::GroupMember;
///
/// let seven = GroupMember::join(&client, "/machines", "host-7", "idle").await?;
/// let eight = GroupMember::join(&client, "/machines", "host-8", "busy").await?;
/// assert_eq!(eight.members().keys().collect::<Vec<_>>(), ["host-7", "host-8"]);
/// seven.leave().await?;
/// eight.leave().await?;
/// # Ok(()) });
/// ```
///
/// Every member has a copy of the group and is always a part of it, whatever it has seen last. Who only looks
/// uses a [`Cache`] of the children.
///
/// **Connection lost.** The copy stays as it is; the member stays a member until its session ends. **Session
/// lost.** It becomes a member again with the next one. **Crash.** Others see it go when the session has timed
/// out. **Dropped.** It leaves in the background. **The same id twice**: the second one waits for the first to
/// go; `join` does not return before.
#[derive(Debug)]
pub struct GroupMember {
    node: KeptNode,
    cache: Cache,
    id: String,
    path: String,
    payload: std::sync::Mutex<Bytes>,
}

impl GroupMember {
    /// Becomes a member. Returns when the ensemble knows and the others are known here.
    pub async fn join(
        client: &Client,
        path: &str,
        id: &str,
        payload: impl Into<Bytes>,
    ) -> Result<GroupMember, RecipeError> {
        let payload = payload.into();
        let own = path::join(path, id);
        let node = KeptNode::start_with(client, &own, payload.clone(), KeptAs::Ephemeral, IfTaken::default());
        let cache = Cache::plain(client, path, Reach::Children);
        node.there().await?;
        cache.synced().await?;
        let payload = std::sync::Mutex::new(payload);
        Ok(GroupMember { node, cache, id: id.to_owned(), path: path.to_owned(), payload })
    }

    /// What it is called.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// All members and what they say about themselves, this one included.
    pub fn members(&self) -> BTreeMap<String, Bytes> {
        let others = self.cache.children(&self.path).into_iter();
        let mut members: BTreeMap<_, _> =
            others.map(|node| (path::name(&node.path).to_owned(), node.data.clone())).collect();
        let own = self.payload.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        members.insert(self.id.clone(), own);
        members
    }

    /// All changes from now on, as a [`Cache`] tells them.
    pub fn changes(&self) -> Changes {
        self.cache.changes()
    }

    /// Whether the copy is up to date.
    pub fn is_synced(&self) -> bool {
        self.cache.is_synced()
    }

    /// Why it is no member any more, or does not see the others, if so.
    pub fn failure(&self) -> Option<RecipeError> {
        self.node.failure().or_else(|| self.cache.failure())
    }

    /// Says something else about itself; returns when the ensemble knows.
    pub async fn set(&self, payload: impl Into<Bytes>) -> Result<(), RecipeError> {
        let payload = payload.into();
        *self.payload.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = payload.clone();
        self.node.set(payload).await
    }

    /// Leaves the group, and waits until the ensemble knows.
    pub async fn leave(self) -> Result<(), RecipeError> {
        self.node.remove().await
    }
}
