//! A member of a group with a local list of all members.

use std::collections::BTreeMap;

use bytes::Bytes;
use zebu_client::{Client, path};

use super::persistent_node::{IfOwnedByOther, PersistentNode, PersistentNodeMode};
use crate::cache::{Cache, CacheChanges, CacheScope};
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
/// Every member has a local list of the group that always includes itself. A client that is no member uses a
/// [`Cache`] of the children.
///
/// - **Connection lost.** The list stays unchanged; the member stays a member until its session ends.
/// - **Session lost.** It becomes a member again with the next session.
/// - **Crash.** The others see it leave when the session expires.
/// - **Dropped.** It leaves in the background.
/// - **Same id twice.** The second member waits until the first has left; `join` does not return before.
#[derive(Debug)]
pub struct GroupMember {
    node: PersistentNode,
    cache: Cache,
    id: String,
    path: String,
    payload: std::sync::Mutex<Bytes>,
}

impl GroupMember {
    /// Joins the group. Returns after the reply of the ensemble and the first complete list.
    pub async fn join(
        client: &Client,
        path: &str,
        id: &str,
        payload: impl Into<Bytes>,
    ) -> Result<GroupMember, RecipeError> {
        let payload = payload.into();
        let own = path::join(path, id);
        let node = PersistentNode::start_with(
            client,
            &own,
            payload.clone(),
            PersistentNodeMode::Ephemeral,
            IfOwnedByOther::default(),
        );
        let cache = Cache::start_uncompressed(client, path, CacheScope::Children);
        node.wait_present().await?;
        cache.synced().await?;
        let payload = std::sync::Mutex::new(payload);
        Ok(GroupMember { node, cache, id: id.to_owned(), path: path.to_owned(), payload })
    }

    /// The id of the member.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// All members and their payloads, including this one.
    pub fn members(&self) -> BTreeMap<String, Bytes> {
        let others = self.cache.children(&self.path).into_iter();
        let mut members: BTreeMap<_, _> =
            others.map(|node| (path::name(&node.path).to_owned(), node.data.clone())).collect();
        let own = self.payload.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        members.insert(self.id.clone(), own);
        members
    }

    /// All changes from now on, as those of a [`Cache`].
    pub fn changes(&self) -> CacheChanges {
        self.cache.changes()
    }

    /// Whether the list is up to date.
    pub fn is_synced(&self) -> bool {
        self.cache.is_synced()
    }

    /// The reason why it is no longer a member, or why the list is no longer kept up to date.
    pub fn failure(&self) -> Option<RecipeError> {
        self.node.failure().or_else(|| self.cache.failure())
    }

    /// Changes the payload and waits for the reply of the ensemble.
    pub async fn set(&self, payload: impl Into<Bytes>) -> Result<(), RecipeError> {
        let payload = payload.into();
        *self.payload.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = payload.clone();
        self.node.set(payload).await
    }

    /// Leaves the group and waits for the reply of the ensemble.
    pub async fn leave(self) -> Result<(), RecipeError> {
        self.node.remove().await
    }
}
