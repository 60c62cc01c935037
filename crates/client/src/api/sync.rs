//! sync: waits until the server has caught up with the leader.

use std::sync::Arc;

use tracing::Instrument;
use zebu_proto::OpCode;

use super::call::{ApiCall, WhenFull, put_path};
use super::client::Client;
use super::pending::{Pending, sendable};
use super::retry::{RepeatRule, RetryPolicy};

const OPERATION: &str = "sync";

/// A sync; see [`Client::sync`].
#[must_use = "nothing is sent before send or await"]
pub struct Sync {
    client: Client,
    path: String,
    retry: Arc<dyn RetryPolicy>,
}

impl Client {
    /// Makes this client's later reads see all earlier commits. The path has no effect.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// # client.create("/config").await?;
    /// // Both are sent at once; the read is carried out after the sync.
    /// let synced = client.sync("/config").send();
    /// let node = client.get("/config").send();
    /// synced.await?;
    /// println!("{:?}", node.await?.data);
    /// # Ok(()) });
    /// ```
    pub fn sync(&self, path: &str) -> Sync {
        Sync { client: self.clone(), path: path.to_owned(), retry: self.retry.clone() }
    }
}

impl Sync {
    fn begin(self, when_full: WhenFull) -> Pending<()> {
        let span = tracing::debug_span!("sync", path = %self.path);
        let full = match self.client.resolve(OPERATION, &self.path) {
            Ok(full) => full,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let call = ApiCall::new(OPERATION, &self.path, OpCode::Sync).body(|out| put_path(&full, out));
        let first = self.client.start(&call, when_full);
        let run =
            async move { self.client.run(&call, first, self.retry, RepeatRule::Always).await.map(drop) };
        Box::pin(run.instrument(span))
    }
}

sendable!(Sync => ());
