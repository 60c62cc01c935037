//! A leased item: an ephemeral node locks it, so that it returns to the queue if its consumer fails.

use bytes::Bytes;
use zebu_client::{ErrorCode, Retry, Version, path};

use super::distributed_queue::DistributedQueue;
use super::item::QueueItem;
use crate::error::RecipeError;
use crate::ownership::{LeasePolicy, LossReason, OwnedNode, Ownership, OwnershipState, wait_for_lease};
use crate::retry::{ReconnectRetry, retry_until_answered, uncompressed_transaction};
use crate::unique_id::UniqueId;
use crate::wait_queue::{ExclusiveCreate, create_exclusive};

/// An item that is locked for one consumer.
///
/// [`finish`](LeasedItem::finish) removes it. [`release`](LeasedItem::release), dropping, the loss of the
/// session and a crash return it to the queue. A slow consumer must expect that the item is processed twice:
/// [`Ownership::lost`] reports the loss, and [`finish`](LeasedItem::finish) then fails.
#[derive(Debug)]
#[must_use = "dropping it returns the item to the queue"]
pub struct LeasedItem {
    queue: DistributedQueue,
    item: QueueItem,
    owned: OwnedNode,
}

impl Ownership for LeasedItem {
    fn ownership_state(&self) -> &OwnershipState {
        self.owned.ownership_state()
    }
}

impl LeasedItem {
    /// The item.
    pub fn item(&self) -> &QueueItem {
        &self.item
    }

    /// Deletes the item and its lock in one transaction. Fails if the lock was lost. An item that is missing
    /// after a reply was lost with the session counts as finished, because only a consumer that has finished
    /// deletes it.
    pub async fn finish(self) -> Result<(), RecipeError> {
        let client = &self.queue.client;
        let path = path::join(&self.queue.path, &self.item.name);
        let lock = self.owned.ownership_state().path().to_owned();
        let lost = |reason| RecipeError::Lost { path: lock.clone(), reason };
        let mut retry = ReconnectRetry::default();
        self.check().map_err(lost)?;
        // Ownership ends here; the monitor will see the delete of the lock.
        self.owned.ownership_state().end(LossReason::Released);
        let mut unknown = false;
        loop {
            if client.session().id != self.owned.ownership_state().session() {
                // The session ended, perhaps after the item was deleted.
                if unknown && !self.exists(&path).await? {
                    break;
                }
                return Err(lost(LossReason::SessionExpired));
            }
            let mut transaction = uncompressed_transaction(client);
            transaction.delete(&lock, Version::Any);
            transaction.delete(&path, Version::Any);
            match transaction.retry(Retry::Never).await {
                Ok(_) => break,
                // By an attempt whose reply was lost: while the session lives, no other consumer owns the
                // lock.
                Err(error) if error.code() == Some(ErrorCode::NoNode) && unknown => break,
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                    return Err(lost(LossReason::NodeDeleted));
                }
                Err(error) => {
                    unknown |= error.is_ambiguous();
                    retry.after(client, error).await?;
                }
            }
        }
        self.owned.disarm();
        Ok(())
    }

    async fn exists(&self, path: &str) -> Result<bool, RecipeError> {
        let client = &self.queue.client;
        let found = retry_until_answered(client, || async {
            client.sync(path).retry(Retry::Never).await?;
            client.exists(path).retry(Retry::Never).await
        });
        Ok(found.await?.is_some())
    }

    /// Returns the item to the queue at once.
    pub async fn release(self) -> Result<(), RecipeError> {
        self.owned.release().await
    }
}

/// Tries to lock an item; `None` if another consumer has it.
pub(super) async fn lease_item(
    queue: &DistributedQueue,
    name: &str,
) -> Result<Option<LeasedItem>, RecipeError> {
    let lock = path::join(&queue.locks, name);
    let id = Bytes::from(UniqueId::new(&queue.client).hex());
    let node = loop {
        match create_exclusive(&queue.client, &lock, &id).await? {
            ExclusiveCreate::Created(node) => break node,
            ExclusiveCreate::OwnedByOther => return Ok(None),
            ExclusiveCreate::NoParent => queue.create_directory(&queue.locks).await?,
        }
    };
    wait_for_lease(&queue.client, LeasePolicy::default()).await?;
    // Another consumer may have finished the item between the list and the lock.
    match queue.read(name).await? {
        Some(item) => {
            let owned = OwnedNode::new(node, LeasePolicy::default());
            Ok(Some(LeasedItem { queue: queue.clone(), item, owned }))
        }
        None => {
            node.delete().await?;
            Ok(None)
        }
    }
}
