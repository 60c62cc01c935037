//! The ephemeral node of a participant's vote. It is deleted with the participant's handle, also if that is
//! dropped during the create.

use zebu_client::{Client, Retry, SessionId, Stat, path};

use crate::retry::retry_until_answered;
use crate::spawn_on_drop::SpawnOnDrop;
use crate::wait_queue::QueueNode;

/// The origin of the vote node.
pub(super) enum VoteNode {
    /// This handle created it. Dropping it deletes the node.
    Created(QueueNode),
    /// Another handle of the same session created it.
    Shared,
    /// There is a decision already.
    Decided,
}

/// Deletes the node of a participant whose caller was dropped during the create.
pub(super) struct VoteNodeCleanup {
    client: Client,
    path: String,
    on_drop: Option<SpawnOnDrop>,
}

impl VoteNodeCleanup {
    pub(super) fn new(client: &Client, path: &str) -> VoteNodeCleanup {
        VoteNodeCleanup { client: client.clone(), path: path.to_owned(), on_drop: None }
    }

    /// From now on the node may exist.
    pub(super) fn arm(&mut self) {
        if self.on_drop.is_none() {
            let (client, path) = (self.client.clone(), self.path.clone());
            self.on_drop = Some(SpawnOnDrop::new(async move { delete_own(&client, &path).await }));
        }
    }

    /// The create was certainly not carried out.
    pub(super) fn disarm(&mut self) {
        self.on_drop.take().into_iter().for_each(SpawnOnDrop::disarm);
    }

    /// The node exists and the current session owns it.
    pub(super) fn found(mut self, stat: &Stat) -> VoteNode {
        match self.on_drop.take() {
            Some(on_drop) => {
                on_drop.disarm();
                VoteNode::Created(adopt(&self.client, &self.path, stat))
            }
            None => VoteNode::Shared,
        }
    }
}

/// Deletes the vote node if the current session owns it.
async fn delete_own(client: &Client, path: &str) {
    let found = retry_until_answered(client, || async {
        client.sync(path).retry(Retry::Never).await?;
        client.exists(path).retry(Retry::Never).await
    });
    // An error means that the client is closed, and the node gone with it.
    if let Ok(Some(stat)) = found.await
        && SessionId(stat.ephemeral_owner) == client.session().id
    {
        drop(adopt(client, path, &stat));
    }
}

fn adopt(client: &Client, path: &str, stat: &Stat) -> QueueNode {
    QueueNode::adopt_shared_name(client, path.to_owned(), path::name(path).to_owned(), *stat)
}
