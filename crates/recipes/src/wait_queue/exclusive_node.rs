//! A node whose name several contenders use, one at a time. Its data is unique to one attempt. The data
//! identifies the node after a lost reply, and when the caller is dropped before the create is confirmed.

use bytes::Bytes;
use zebu_client::{Client, Compression, Error, ErrorCode, Retry, SessionId, path};

use super::node::QueueNode;
use crate::latest_read::get_latest;
use crate::retry::{ReconnectRetry, none_if_missing, retry_until_answered};
use crate::spawn_on_drop::SpawnOnDrop;

/// The result of an attempt to create the node.
pub(crate) enum ExclusiveCreate {
    /// The current session owns the node. Dropping it deletes the node.
    Created(QueueNode),
    /// Another contender owns the node.
    OwnedByOther,
    NoParent,
}

/// Creates an ephemeral node. No other attempt may use the same data.
pub(crate) async fn create_exclusive(
    client: &Client,
    path: &str,
    data: &Bytes,
) -> Result<ExclusiveCreate, Error> {
    let cleanup = {
        let (client, path, data) = (client.clone(), path.to_owned(), data.clone());
        // The found node is dropped at once, which deletes it. An error means that the client is closed.
        SpawnOnDrop::new(async move { drop(find(&client, &path, &data).await) })
    };
    let result = create(client, path, data).await;
    cleanup.disarm();
    result
}

async fn create(client: &Client, path: &str, data: &Bytes) -> Result<ExclusiveCreate, Error> {
    let mut retry = ReconnectRetry::default();
    loop {
        let create = client.create(path).ephemeral().data(data.clone()).compression(Compression::None);
        let error = match create.retry(Retry::Never).await {
            Ok(created) => {
                let prefix = path::name(path).to_owned();
                let node = QueueNode::adopt_shared_name(client, path.to_owned(), prefix, created.stat);
                return Ok(ExclusiveCreate::Created(node));
            }
            Err(error) => error,
        };
        match error.code() {
            Some(ErrorCode::NodeExists) => {
                return Ok(match find(client, path, data).await? {
                    Some(node) => ExclusiveCreate::Created(node),
                    None => ExclusiveCreate::OwnedByOther,
                });
            }
            Some(ErrorCode::NoNode) => return Ok(ExclusiveCreate::NoParent),
            _ => retry.after(client, error).await?,
        }
    }
}

/// The node with this data, if it exists and the current session owns it.
async fn find(client: &Client, path: &str, data: &Bytes) -> Result<Option<QueueNode>, Error> {
    let read = retry_until_answered(client, || Box::pin(get_latest(client, path)));
    let own = none_if_missing(read.await)?
        .filter(|node| node.data == *data && SessionId(node.stat.ephemeral_owner) == client.session().id);
    let prefix = path::name(path).to_owned();
    Ok(own.map(|node| QueueNode::adopt_shared_name(client, path.to_owned(), prefix, node.stat)))
}
