//! One item that is being processed: locked by an ephemeral node, so that it comes back if we do not finish.

use bytes::Bytes;
use zebu_client::{ErrorCode, Retry, Version, path};

use super::entry::Entry;
use super::items::Queue;
use crate::connection::{Attempts, persist, plain_transaction};
use crate::error::RecipeError;
use crate::hold::{Held, Holding, LossReason, Terms, leased};
use crate::line::{self, Claim};
use crate::lock::Hold;
use crate::unique_id::UniqueId;

/// An item that nobody else processes at the moment.
///
/// [`finish`](Delivery::finish) removes it; [`give_back`](Delivery::give_back), dropping, the loss of the
/// session and a crash let somebody else have it. Whoever is slow must expect that it was processed twice:
/// [`Held::lost`] tells when it is not ours any more, and [`finish`](Delivery::finish) fails then.
#[derive(Debug)]
#[must_use = "dropping it gives the item back"]
pub struct Delivery {
    queue: Queue,
    entry: Entry,
    hold: Hold,
}

impl Held for Delivery {
    fn holding(&self) -> &Holding {
        self.hold.holding()
    }
}

impl Delivery {
    /// The item.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Removes the item and its lock, in one transaction. Fails if the lock was lost; the item is then
    /// somebody else's, or waits for somebody. An item that is gone when an answer was lost with the session
    /// counts as finished: whoever removed it had finished it.
    pub async fn finish(self) -> Result<(), RecipeError> {
        let client = &self.queue.client;
        let item = path::join(&self.queue.path, &self.entry.name);
        let lock = self.hold.holding().path().to_owned();
        let lost = |reason| RecipeError::Lost { path: lock.clone(), reason };
        let mut attempts = Attempts::default();
        self.check().map_err(lost)?;
        // What depends on the item ends here; the watch over the lock will see it go.
        self.hold.holding().end(LossReason::Released);
        let mut unknown = false;
        loop {
            if client.session().id != self.hold.holding().session() {
                // The session ended, perhaps after the item was removed and before we heard of it.
                if unknown && !self.is_there(&item).await? {
                    break;
                }
                return Err(lost(LossReason::SessionExpired));
            }
            let mut transaction = plain_transaction(client);
            transaction.delete(&lock, Version::Any);
            transaction.delete(&item, Version::Any);
            match transaction.retry(Retry::Never).await {
                Ok(_) => break,
                // By an attempt whose answer was lost: as long as the session lives, nobody else takes the lock.
                Err(error) if error.code() == Some(ErrorCode::NoNode) && unknown => break,
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                    return Err(lost(LossReason::NodeDeleted));
                }
                Err(error) => {
                    unknown |= error.is_ambiguous();
                    attempts.after(client, error).await?;
                }
            }
        }
        self.hold.dissolve();
        Ok(())
    }

    async fn is_there(&self, item: &str) -> Result<bool, RecipeError> {
        let client = &self.queue.client;
        let found = persist(client, || async {
            client.sync(item).retry(Retry::Never).await?;
            client.exists(item).retry(Retry::Never).await
        });
        Ok(found.await?.is_some())
    }

    /// Lets somebody else have the item, at once.
    pub async fn give_back(self) -> Result<(), RecipeError> {
        self.hold.release().await
    }
}

pub(super) enum Claimed {
    Ours(Box<Delivery>),
    Taken,
}

/// Tries to lock an item.
pub(super) async fn claim(queue: &Queue, name: &str) -> Result<Claimed, RecipeError> {
    let lock = path::join(&queue.locks, name);
    let id = Bytes::from(UniqueId::new().hex());
    let ticket = loop {
        match line::claim(&queue.client, &lock, &id).await? {
            Claim::Ours(ticket) => break ticket,
            Claim::Taken => return Ok(Claimed::Taken),
            Claim::NoParent => queue.make_directory(&queue.locks).await?,
        }
    };
    leased(&queue.client, Terms::default()).await?;
    // It may have been finished between our look and our lock.
    match queue.read(name).await? {
        Some(entry) => {
            let hold = Hold::begin(ticket, Terms::default());
            Ok(Claimed::Ours(Box::new(Delivery { queue: queue.clone(), entry, hold })))
        }
        None => {
            ticket.give_back().await?;
            Ok(Claimed::Taken)
        }
    }
}
