//! The node of one contender. The client's protected create finds it again after a lost reply, and removes it
//! when the caller is dropped before the create is confirmed.

use bytes::Bytes;
use tokio::runtime::Handle;
use zebu_client::{Client, Compression, Error, Parents, Retry, SessionId, Stat, path};

use super::naming::{ContenderNaming, LockMode};
use crate::latest_read::exists_latest;
use crate::retry::{ReconnectRetry, UntilAnswered, retry_until_answered};

/// A node in a wait queue. Dropping it deletes the node in the background while the session lives.
#[derive(Debug)]
pub(crate) struct QueueNode {
    client: Client,
    path: String,
    id_prefix: String,
    stat: Stat,
    on_drop: OnDrop,
}

/// The effect of dropping a queue node.
#[derive(Clone, Debug)]
enum OnDrop {
    /// No other contender ever uses the name: a repeated delete is harmless.
    Delete,
    /// Other contenders may use the name afterwards: the node is deleted only while it is the same one.
    DeleteIfSame(Handle),
    Nothing,
}

impl QueueNode {
    /// Creates a node at the end of the queue in `directory`.
    pub(crate) async fn create(
        client: &Client,
        directory: &str,
        naming: &ContenderNaming,
        mode: LockMode,
        data: &Bytes,
    ) -> Result<QueueNode, Error> {
        let suffix = naming.marker(mode);
        let path = format!("{}/{suffix}", if directory == "/" { "" } else { directory });
        let mut retry = ReconnectRetry::default();
        loop {
            let mut create = client.create(&path).ephemeral().compression(Compression::None);
            if naming.is_sequential(mode) {
                create = create.sequential();
            }
            if !data.is_empty() {
                create = create.data(data.clone());
            }
            let create = create.protected_as(naming.style).parents(Parents::Containers);
            match create.retry(UntilAnswered::new(client)).await {
                Ok(created) => {
                    let name = path::name(&created.path);
                    let id_prefix = naming.style.prefix_of(name).unwrap_or(name).to_owned();
                    return Ok(QueueNode::adopt(client, created.path, id_prefix, created.stat));
                }
                Err(error) => retry.after(client, error).await?,
            }
        }
    }

    /// Takes over a node that was created in another way. No other contender may ever use its name.
    pub(crate) fn adopt(client: &Client, path: String, id_prefix: String, stat: Stat) -> QueueNode {
        QueueNode { client: client.clone(), path, id_prefix, stat, on_drop: OnDrop::Delete }
    }

    /// Takes over a node whose name other contenders use after it is deleted.
    pub(crate) fn adopt_shared_name(
        client: &Client,
        path: String,
        id_prefix: String,
        stat: Stat,
    ) -> QueueNode {
        let on_drop = OnDrop::DeleteIfSame(Handle::current());
        QueueNode { client: client.clone(), path, id_prefix, stat, on_drop }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn name(&self) -> &str {
        path::name(&self.path)
    }

    pub(crate) fn id_prefix(&self) -> &str {
        &self.id_prefix
    }

    pub(crate) fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Whether the client's current session owns the node. A node of a former session may still be visible
    /// and even be the first; it grants nothing.
    pub(crate) fn is_owned_by_session(&self) -> bool {
        self.client.session().id == SessionId(self.stat.ephemeral_owner)
    }

    /// Leaves the node alone: it is known to be gone, or another type owns it now.
    pub(crate) fn disarm(mut self) {
        self.on_drop = OnDrop::Nothing;
    }

    /// Deletes the node and waits for the reply. If the session ends meanwhile, the node goes with it.
    pub(crate) async fn delete(mut self) -> Result<(), Error> {
        if matches!(self.on_drop, OnDrop::DeleteIfSame(_)) {
            delete_if_same(&self.client, &self.path, &self.stat).await?;
            self.on_drop = OnDrop::Nothing;
            return Ok(());
        }
        let mut retry = ReconnectRetry::default();
        loop {
            if !self.is_owned_by_session() {
                self.on_drop = OnDrop::Nothing;
                return Ok(());
            }
            match self.client.delete(&self.path).quiet().retry(Retry::Never).await {
                Ok(()) => {
                    self.on_drop = OnDrop::Nothing;
                    return Ok(());
                }
                // Dropping the node leaves the delete to the background.
                Err(error) => retry.after(&self.client, error).await?,
            }
        }
    }
}

impl Drop for QueueNode {
    fn drop(&mut self) {
        if !self.is_owned_by_session() {
            return;
        }
        match &self.on_drop {
            // Sent now, and repeated in the background until a server answers.
            OnDrop::Delete => drop(self.client.delete(&self.path).quiet().guaranteed().send()),
            OnDrop::DeleteIfSame(runtime) => {
                let (client, path, stat) = (self.client.clone(), self.path.clone(), self.stat);
                // An error means that the client is closed, and the node gone with it.
                runtime.spawn(async move { delete_if_same(&client, &path, &stat).await });
            }
            OnDrop::Nothing => {}
        }
    }
}

/// Deletes a node if it has this stat. While its session lives, no other contender deletes it and creates
/// another one of the same name; hence the node that was checked is the node that is deleted. The check is
/// repeated before every attempt, because an attempt without a reply may have been carried out.
async fn delete_if_same(client: &Client, path: &str, stat: &Stat) -> Result<(), Error> {
    let mut retry = ReconnectRetry::default();
    loop {
        let found = retry_until_answered(client, || Box::pin(exists_latest(client, path)));
        let is_same = found.await?.is_some_and(|found| found.czxid == stat.czxid);
        if !is_same || client.session().id != SessionId(stat.ephemeral_owner) {
            return Ok(());
        }
        match client.delete(path).quiet().retry(Retry::Never).await {
            Ok(()) => return Ok(()),
            Err(error) => retry.after(client, error).await?,
        }
    }
}
