//! The task of a persistent node: it reads, creates and writes the node, and repeats that after every event.

use bytes::Bytes;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use zebu_client::{
    Client, Compression, CreateMode, CreateSpec, Error, ErrorCode, NodeData, OneshotWatcher, Parents, Retry,
    SessionId, Version,
};

use super::persistent_node::{IfOwnedByOther, PersistentNodeMode};
use crate::error::RecipeError;
use crate::retry::{ReconnectRetry, none_if_missing, retry_until_answered, uncompressed_transaction};

/// The desired data of the node. Every change increments the number.
#[derive(Clone, Debug)]
pub(super) struct DesiredData {
    pub(super) data: Bytes,
    pub(super) number: u64,
}

/// The progress of the task.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeProgress {
    /// Whether the node exists and is ours, as far as is known.
    pub(super) is_present: bool,
    /// The number of the newest data that was written.
    pub(super) written: u64,
    pub(super) failure: Option<RecipeError>,
}

/// The node that was created or written last.
struct LastWrite {
    created: i64,
    written: u64,
    if_owned_by_other: IfOwnedByOther,
}

/// The action for a node that was read.
enum NodeAction {
    None,
    /// The node is owned and has other data.
    Write,
    /// Another session owns the node, and it is to be replaced.
    Replace,
    /// Another session owns the node, or a former session of this client.
    Wait,
}

pub(super) struct PersistentNodeTask {
    pub(super) client: Client,
    pub(super) path: String,
    pub(super) mode: PersistentNodeMode,
    pub(super) if_owned_by_other: IfOwnedByOther,
    pub(super) desired: watch::Receiver<DesiredData>,
    pub(super) progress: watch::Sender<NodeProgress>,
}

impl PersistentNodeTask {
    /// Maintains the node until it is stopped, then deletes it if it is ephemeral or if that was requested.
    pub(super) async fn run(&self, stop: CancellationToken, remove: CancellationToken) {
        let result = tokio::select! {
            () = stop.cancelled() => Ok(()),
            result = self.maintain() => result,
        };
        let ended = match result {
            Err(error) => Err(error),
            Ok(()) if self.mode == PersistentNodeMode::Ephemeral || remove.is_cancelled() => {
                self.remove().await
            }
            Ok(()) => Ok(()),
        };
        self.progress.send_modify(|progress| {
            progress.is_present = false;
            progress.failure = ended.err();
        });
    }

    async fn maintain(&self) -> Result<(), RecipeError> {
        let mut desired = self.desired.clone();
        let mut last = LastWrite { created: 0, written: 0, if_owned_by_other: self.if_owned_by_other };
        loop {
            desired.mark_unchanged();
            let watcher = self.reconcile(&mut last).await?;
            tokio::select! {
                _ = watcher => {}
                changed = desired.changed() => if changed.is_err() { return Ok(()) },
            }
        }
    }

    fn report(&self, is_present: bool, written: u64) {
        self.progress.send_modify(|progress| {
            progress.is_present = is_present;
            progress.written = written;
        });
    }

    /// Reads and changes the node until nothing is left to do. Returns the watcher of its next change.
    async fn reconcile(&self, last: &mut LastWrite) -> Result<OneshotWatcher, RecipeError> {
        let client = &self.client;
        let mut retry = ReconnectRetry::default();
        loop {
            let desired = self.desired.borrow().clone();
            let read = retry_until_answered(client, || {
                client.get(&self.path).compression(Compression::None).retry(Retry::Never).watched()
            });
            let found = none_if_missing(read.await)?;
            let Some((node, watcher)) = found else {
                self.report(false, last.written);
                self.create(last, &desired, &mut retry).await?;
                continue;
            };
            let done = match self.action_for(&node, last, &desired) {
                NodeAction::None => {
                    self.report(true, last.written);
                    return Ok(watcher);
                }
                NodeAction::Wait => {
                    self.report(false, last.written);
                    return Ok(watcher);
                }
                NodeAction::Write => self.write(last, &desired).await,
                NodeAction::Replace => self.replace(last, &node, &desired).await,
            };
            match done {
                Ok(()) => {}
                // The node changed after the read.
                Err(error) if is_conflict(&error) => {}
                Err(error) => retry.after(client, error).await?,
            }
        }
    }

    fn action_for(&self, node: &NodeData, last: &LastWrite, desired: &DesiredData) -> NodeAction {
        let owner = SessionId(node.stat.ephemeral_owner);
        let ours = match self.mode {
            PersistentNodeMode::Ephemeral => owner == self.client.session().id,
            PersistentNodeMode::Persistent | PersistentNodeMode::Ttl(_) => owner == SessionId(0),
        };
        if ours {
            let written = node.stat.czxid == last.created && last.written == desired.number;
            return if written { NodeAction::None } else { NodeAction::Write };
        }
        if last.if_owned_by_other == IfOwnedByOther::Replace { NodeAction::Replace } else { NodeAction::Wait }
    }

    async fn create(
        &self,
        last: &mut LastWrite,
        desired: &DesiredData,
        retry: &mut ReconnectRetry,
    ) -> Result<(), RecipeError> {
        let create = self.client.create(&self.path).data(desired.data.clone()).compression(Compression::None);
        let create = match self.mode {
            PersistentNodeMode::Ephemeral => create.ephemeral(),
            PersistentNodeMode::Persistent => create,
            PersistentNodeMode::Ttl(ttl) => create.ttl(ttl),
        };
        match create.parents(Parents::Containers).retry(Retry::Never).await {
            Ok(created) => {
                (last.created, last.written) = (created.stat.czxid, desired.number);
                last.if_owned_by_other = IfOwnedByOther::Wait;
                Ok(())
            }
            // By another client, or by an attempt whose reply was lost.
            Err(error) if is_conflict(&error) => Ok(()),
            Err(error) => Ok(retry.after(&self.client, error).await?),
        }
    }

    async fn write(&self, last: &mut LastWrite, desired: &DesiredData) -> Result<(), Error> {
        let set = self.client.set(&self.path, desired.data.clone()).compression(Compression::None);
        let stat = set.retry(Retry::Never).await?;
        (last.created, last.written) = (stat.czxid, desired.number);
        last.if_owned_by_other = IfOwnedByOther::Wait;
        Ok(())
    }

    /// Replaces the node in one transaction: it is never missing.
    async fn replace(
        &self,
        last: &mut LastWrite,
        node: &NodeData,
        desired: &DesiredData,
    ) -> Result<(), Error> {
        let spec = CreateSpec::new().data(desired.data.clone());
        let spec = match self.mode {
            PersistentNodeMode::Ephemeral => spec.mode(CreateMode::Ephemeral),
            PersistentNodeMode::Persistent => spec,
            PersistentNodeMode::Ttl(ttl) => spec.mode(CreateMode::PersistentWithTtl).ttl(ttl),
        };
        let mut transaction = uncompressed_transaction(&self.client);
        transaction.delete(&self.path, Version::Exactly(node.stat.version));
        transaction.create(&self.path, spec);
        transaction.retry(Retry::Never).await?;
        // The next read finds the node and writes the data once more, which confirms ownership.
        last.if_owned_by_other = IfOwnedByOther::Wait;
        Ok(())
    }

    async fn remove(&self) -> Result<(), RecipeError> {
        let client = &self.client;
        let mut retry = ReconnectRetry::default();
        loop {
            let found =
                retry_until_answered(client, || client.exists(&self.path).retry(Retry::Never)).await?;
            let Some(stat) = found else { return Ok(()) };
            let removed = match self.mode {
                // Another session owns it, or it is deleted with a former session.
                PersistentNodeMode::Ephemeral if SessionId(stat.ephemeral_owner) != client.session().id => {
                    return Ok(());
                }
                PersistentNodeMode::Ephemeral | PersistentNodeMode::Persistent => {
                    let delete = client.delete(&self.path).version(Version::Exactly(stat.version));
                    delete.retry(Retry::Never).await
                }
                PersistentNodeMode::Ttl(_) => {
                    client.delete(&self.path).recursive().quiet().retry(Retry::Never).await
                }
            };
            match removed {
                Ok(()) => return Ok(()),
                Err(error) if is_conflict(&error) => {}
                Err(error) => retry.after(client, error).await?,
            }
        }
    }
}

/// Another client changed the node; the next read shows its state.
fn is_conflict(error: &Error) -> bool {
    matches!(error.code(), Some(ErrorCode::NodeExists | ErrorCode::NoNode | ErrorCode::BadVersion))
}
