//! Asking a holder to give up, and taking its place away if it does not.

use std::time::Duration;

use zebu_client::{Client, Compression, Retry};

use super::mutex::Contender;
use crate::connection::{before, persist, present};
use crate::error::RecipeError;
use crate::hold::{REVOKE, UNLOCK};
use crate::line::{Patience, watch_node};

/// What is written into the node of a holder to ask it to give up. Holders of ours understand both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RevocationWord {
    /// `unlock`, as ZooKeeper's description of revocable shared locks has it.
    #[default]
    Unlock,
    /// `__REVOKE__`, which Curator's revocation listeners hear.
    Curator,
}

/// How somebody has given up its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revoked {
    /// By itself, within the grace, or before it was asked.
    Consented,
    /// Its node was deleted; a holder of ours is told that it has lost it.
    Forced,
}

impl RevocationWord {
    const fn bytes(self) -> &'static [u8] {
        match self {
            RevocationWord::Unlock => UNLOCK,
            RevocationWord::Curator => REVOKE,
        }
    }
}

/// Asks a contender to give up its place. One that is gone is no error.
pub(super) async fn ask(
    client: &Client,
    contender: &Contender,
    word: RevocationWord,
) -> Result<(), RecipeError> {
    let write =
        || client.set(&contender.path, word.bytes()).compression(Compression::None).retry(Retry::Never);
    present(persist(client, write).await)?;
    Ok(())
}

/// Asks a contender to give up, and deletes its node if it is still there after the grace. No other contender
/// ever has a node of the same name.
pub(super) async fn revoke(
    client: &Client,
    contender: &Contender,
    word: RevocationWord,
    grace: Duration,
) -> Result<Revoked, RecipeError> {
    ask(client, contender, word).await?;
    let gone = async {
        while let Some(changed) = watch_node(client, &contender.path).await? {
            changed.await;
        }
        Ok::<_, RecipeError>(())
    };
    match before(Patience::of(grace).deadline(), gone).await {
        Some(gone) => gone.map(|()| Revoked::Consented),
        None => {
            persist(client, || client.delete(&contender.path).quiet().retry(Retry::Never)).await?;
            Ok(Revoked::Forced)
        }
    }
}
