//! The ephemeral node that a site votes in: it goes with the site's handle, also if that is dropped while it is made.

use tokio::runtime::Handle;
use zebu_client::{Client, Retry, SessionId, Stat, path};

use crate::connection::persist;
use crate::line::Ticket;

/// How a site has come to its node.
pub(super) enum Appearance {
    /// This handle has made it. Dropping the ticket deletes it.
    Made(Ticket),
    /// Another handle of the same session has made it.
    Shared,
    /// There is a decision already.
    TooLate,
}

/// Removes the node of a site whose caller went away while it was made.
pub(super) struct Unfinished {
    client: Client,
    path: String,
    runtime: Option<Handle>,
}

impl Unfinished {
    pub(super) fn new(client: &Client, path: &str) -> Unfinished {
        Unfinished { client: client.clone(), path: path.to_owned(), runtime: None }
    }

    /// From now on there may be a node of ours.
    pub(super) fn arm(&mut self) {
        self.runtime = Some(Handle::current());
    }

    /// The create was certainly not carried out.
    pub(super) fn disarm(&mut self) {
        self.runtime = None;
    }

    /// The node was found and is the present session's.
    pub(super) fn found(mut self, stat: &Stat) -> Appearance {
        match self.runtime.take() {
            Some(_) => Appearance::Made(adopt(&self.client, &self.path, stat)),
            None => Appearance::Shared,
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        let (client, path) = (self.client.clone(), self.path.clone());
        runtime.spawn(async move {
            let found = persist(&client, || async {
                client.sync(&path).retry(Retry::Never).await?;
                client.exists(&path).retry(Retry::Never).await
            });
            // An error means that the client is over, and the node with it.
            if let Ok(Some(stat)) = found.await
                && SessionId(stat.ephemeral_owner) == client.session().id
            {
                drop(adopt(&client, &path, &stat));
            }
        });
    }
}

fn adopt(client: &Client, path: &str, stat: &Stat) -> Ticket {
    Ticket::adopt_shared(client, path.to_owned(), path::name(path).to_owned(), *stat)
}
