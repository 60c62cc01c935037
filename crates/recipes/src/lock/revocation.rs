//! Revocation: requesting the release of a lock, and enforcing it after a grace period.

use std::time::Duration;

use zebu_client::{Client, Compression, Retry};

use super::mutex::Contender;
use crate::error::RecipeError;
use crate::ownership::{REVOKE, UNLOCK};
use crate::retry::{none_if_missing, retry_until_answered, with_deadline};
use crate::wait_queue::{WaitLimit, watch_node};

/// The data that requests the release of a lock. Holders of this crate understand both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RevocationMessage {
    /// `unlock`, as in ZooKeeper's description of revocable shared locks.
    #[default]
    Unlock,
    /// `__REVOKE__`, which Curator's revocation listeners expect.
    Curator,
}

/// The outcome of a revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revoked {
    /// The contender released the lock within the grace period, or had left before.
    Consented,
    /// Its node was deleted; a holder of this crate is notified.
    Forced,
}

impl RevocationMessage {
    const fn bytes(self) -> &'static [u8] {
        match self {
            RevocationMessage::Unlock => UNLOCK,
            RevocationMessage::Curator => REVOKE,
        }
    }
}

/// Asks a contender to release the lock. A contender that has left is no error.
pub(super) async fn request_revocation(
    client: &Client,
    contender: &Contender,
    message: RevocationMessage,
) -> Result<(), RecipeError> {
    let write =
        || client.set(&contender.path, message.bytes()).compression(Compression::None).retry(Retry::Never);
    none_if_missing(retry_until_answered(client, write).await)?;
    Ok(())
}

/// Asks a contender to release the lock, and deletes its node after the grace period. No other contender ever
/// uses the name.
pub(super) async fn revoke(
    client: &Client,
    contender: &Contender,
    message: RevocationMessage,
    grace: Duration,
) -> Result<Revoked, RecipeError> {
    request_revocation(client, contender, message).await?;
    let gone = async {
        while let Some(changed) = watch_node(client, &contender.path).await? {
            changed.await;
        }
        Ok::<_, RecipeError>(())
    };
    match with_deadline(WaitLimit::within(grace).deadline(), gone).await {
        Some(gone) => gone.map(|()| Revoked::Consented),
        None => {
            retry_until_answered(client, || client.delete(&contender.path).quiet().retry(Retry::Never))
                .await?;
            Ok(Revoked::Forced)
        }
    }
}
