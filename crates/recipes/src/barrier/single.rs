//! The barrier that stands while its node exists.

use std::time::Duration;

use zebu_client::{Client, Compression, ErrorCode, Parents, Retry};

use crate::connection::{before, persist};
use crate::error::RecipeError;
use crate::line::Patience;

/// Something that everybody waits behind until it is lowered; shared with Curator's `DistributedBarrier` and
/// Kazoo's `Barrier`.
///
/// ```text
/// /maintenance                                   persistent: everybody waits while it is there
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use std::time::Duration;
/// use zebu_recipes::Barrier;
///
/// let barrier = Barrier::new(&client, "/maintenance");
/// barrier.raise().await?;
/// assert!(!barrier.wait_within(Duration::from_millis(10)).await?);
/// barrier.lower().await?;
/// barrier.wait().await?;
/// # Ok(()) });
/// ```
///
/// All who wait go on at once when it is lowered: that is what it is for. A lost connection or session does
/// not end a wait. The node is persistent: a crash of whoever raised it leaves it standing, and anybody can
/// lower it.
#[derive(Clone, Debug)]
pub struct Barrier {
    client: Client,
    path: String,
}

impl Barrier {
    /// A barrier that is this node. Nothing is sent yet.
    pub fn new(client: &Client, path: &str) -> Barrier {
        Barrier { client: client.clone(), path: path.to_owned() }
    }

    /// Raises it. One that stands already is no error.
    pub async fn raise(&self) -> Result<(), RecipeError> {
        let client = &self.client;
        let create = || client.create(&self.path).parents(Parents::Containers).compression(Compression::None);
        match persist(client, || create().retry(Retry::Never)).await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Lowers it. One that does not stand is no error.
    pub async fn lower(&self) -> Result<(), RecipeError> {
        let delete = || self.client.delete(&self.path).quiet().retry(Retry::Never);
        Ok(persist(&self.client, delete).await?)
    }

    /// Whether it stands.
    pub async fn is_raised(&self) -> Result<bool, RecipeError> {
        Ok(persist(&self.client, || self.client.exists(&self.path).retry(Retry::Never)).await?.is_some())
    }

    /// Waits until it does not stand.
    pub async fn wait(&self) -> Result<(), RecipeError> {
        loop {
            let ask = || self.client.exists(&self.path).retry(Retry::Never).watched();
            let (stat, changed) = persist(&self.client, ask).await?;
            if stat.is_none() {
                return Ok(());
            }
            // Whatever it says: look again.
            changed.await;
        }
    }

    /// Waits until it does not stand, but not for longer than this; `false` if it still stands then.
    pub async fn wait_within(&self, patience: Duration) -> Result<bool, RecipeError> {
        match before(Patience::of(patience).deadline(), self.wait()).await {
            Some(result) => result.map(|()| true),
            None => Ok(false),
        }
    }
}
