//! A node whose name several contenders use, one at a time. Its data is unique to one attempt, so that the node is
//! recognised after a lost answer, and removed if the caller goes away before it knows that it has it.

use bytes::Bytes;
use tokio::runtime::Handle;
use zebu_client::{Client, Compression, Error, ErrorCode, Retry, SessionId, path};

use super::ticket::Ticket;
use crate::connection::{Attempts, persist, present};

/// The result of an attempt to create the node.
pub(crate) enum Claim {
    /// It is there and the present session's. Dropping the ticket deletes it.
    Ours(Ticket),
    /// Another contender has it.
    Taken,
    /// The node above it is missing.
    NoParent,
}

/// Creates an ephemeral node. No other attempt may use the same data.
pub(crate) async fn claim(client: &Client, path: &str, data: &Bytes) -> Result<Claim, Error> {
    let mut unfinished = Unfinished { client, path, data, runtime: Handle::current(), fate: Fate::Remove };
    let result = create(client, path, data).await;
    unfinished.fate = Fate::Nothing;
    result
}

async fn create(client: &Client, path: &str, data: &Bytes) -> Result<Claim, Error> {
    let mut attempts = Attempts::default();
    loop {
        let create = client.create(path).ephemeral().data(data.clone()).compression(Compression::None);
        let error = match create.retry(Retry::Never).await {
            Ok(created) => {
                let mark = path::name(path).to_owned();
                let ticket = Ticket::adopt_shared(client, path.to_owned(), mark, created.stat);
                return Ok(Claim::Ours(ticket));
            }
            Err(error) => error,
        };
        match error.code() {
            Some(ErrorCode::NodeExists) => {
                return Ok(match find(client, path, data).await? {
                    Some(ticket) => Claim::Ours(ticket),
                    None => Claim::Taken,
                });
            }
            Some(ErrorCode::NoNode) => return Ok(Claim::NoParent),
            _ => attempts.after(client, error).await?,
        }
    }
}

/// The node of an attempt with this data, if it is there and the present session's.
async fn find(client: &Client, path: &str, data: &Bytes) -> Result<Option<Ticket>, Error> {
    let read = persist(client, || async {
        client.sync(path).retry(Retry::Never).await?;
        client.get(path).compression(Compression::None).retry(Retry::Never).await
    });
    let ours = present(read.await)?
        .filter(|node| node.data == *data && SessionId(node.stat.ephemeral_owner) == client.session().id);
    let mark = path::name(path).to_owned();
    Ok(ours.map(|node| Ticket::adopt_shared(client, path.to_owned(), mark, node.stat)))
}

/// Removes the node of an attempt whose caller went away.
struct Unfinished<'a> {
    client: &'a Client,
    path: &'a str,
    data: &'a Bytes,
    runtime: Handle,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Remove,
    Nothing,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if self.fate == Fate::Nothing {
            return;
        }
        let (client, path, data) = (self.client.clone(), self.path.to_owned(), self.data.clone());
        // The ticket is dropped at once, which deletes the node. An error means that the client is over.
        self.runtime.spawn(async move { drop(find(&client, &path, &data).await) });
    }
}
