//! Reads that show everything that was answered before, after a lost reply. A Zebu server answers them as one
//! linearizable read. On other servers a sync comes first; there a leader that was replaced without noticing
//! may show an older state.

use zebu_client::{Client, Compression, Error, NodeData, Retry, Stat};

/// The stat of a node.
pub(crate) async fn exists_latest(client: &Client, path: &str) -> Result<Option<Stat>, Error> {
    let exists = || client.exists(path);
    match exists().linearizable().retry(Retry::Never).await {
        Err(error) if error.is_unsupported_freshness() => {
            client.sync(path).retry(Retry::Never).await?;
            exists().retry(Retry::Never).await
        }
        answer => answer,
    }
}

/// The data of a node, without decompression.
pub(crate) async fn get_latest(client: &Client, path: &str) -> Result<NodeData, Error> {
    let get = || client.get(path).compression(Compression::None);
    match get().linearizable().retry(Retry::Never).await {
        Err(error) if error.is_unsupported_freshness() => {
            client.sync(path).retry(Retry::Never).await?;
            get().retry(Retry::Never).await
        }
        answer => answer,
    }
}
