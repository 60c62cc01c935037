//! The task behind a kept node: looks, makes, writes, and looks again whenever something has happened.

use bytes::Bytes;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use zebu_client::{
    Client, Compression, CreateMode, CreateSpec, Error, ErrorCode, NodeData, OneshotWatcher, Parents, Retry,
    SessionId, Version,
};

use super::kept::{IfTaken, KeptAs};
use crate::connection::{Attempts, persist, plain_transaction, present};
use crate::error::RecipeError;

/// What the node shall contain. The number rises with every wish.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) data: Bytes,
    pub(super) number: u64,
}

/// How far the keeper has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    pub(super) phase: Phase,
    /// The newest wish that was carried out.
    pub(super) written: u64,
    pub(super) failure: Option<RecipeError>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// It is being made, or waits for somebody else's to go.
    #[default]
    Missing,
    There,
}

/// What is known of the node that was made or taken over last.
struct Mine {
    created: i64,
    written: u64,
    if_taken: IfTaken,
}

/// What a found node is.
enum Verdict {
    UpToDate,
    /// Ours, with other data.
    Write,
    /// Of another session, and to be replaced.
    Replace,
    /// Of another session, or of a former one of ours, with which it goes.
    Leave,
}

/// After a look: what was found, and what tells that it has changed.
enum Settled {
    There(OneshotWatcher),
    Taken(OneshotWatcher),
}

pub(super) struct Keeper {
    client: Client,
    path: String,
    kind: KeptAs,
    if_taken: IfTaken,
    wanted: watch::Receiver<Wanted>,
    progress: watch::Sender<Progress>,
}

impl Keeper {
    pub(super) fn new(
        client: &Client,
        path: &str,
        kind: KeptAs,
        if_taken: IfTaken,
        wanted: watch::Receiver<Wanted>,
        progress: watch::Sender<Progress>,
    ) -> Keeper {
        Keeper { client: client.clone(), path: path.to_owned(), kind, if_taken, wanted, progress }
    }

    /// Keeps the node until told to stop, then removes it if it is ephemeral or if that was asked for.
    pub(super) async fn run(&self, stop: CancellationToken, remove: CancellationToken) {
        let kept = tokio::select! {
            () = stop.cancelled() => Ok(()),
            kept = self.keep() => kept,
        };
        let ended = match kept {
            Err(error) => Err(error),
            Ok(()) if self.kind == KeptAs::Ephemeral || remove.is_cancelled() => self.remove().await,
            Ok(()) => Ok(()),
        };
        self.progress.send_modify(|progress| {
            progress.phase = Phase::Missing;
            progress.failure = ended.err();
        });
    }

    async fn keep(&self) -> Result<(), RecipeError> {
        let mut wanted = self.wanted.clone();
        let mut mine = Mine { created: 0, written: 0, if_taken: self.if_taken };
        loop {
            wanted.mark_unchanged();
            let watcher = match self.settle(&mut mine).await? {
                Settled::There(watcher) => {
                    self.tell(Phase::There, mine.written);
                    watcher
                }
                Settled::Taken(watcher) => {
                    self.tell(Phase::Missing, mine.written);
                    watcher
                }
            };
            tokio::select! {
                _ = watcher => {}
                changed = wanted.changed() => if changed.is_err() { return Ok(()) },
            }
        }
    }

    fn tell(&self, phase: Phase, written: u64) {
        self.progress.send_modify(|progress| {
            progress.phase = phase;
            progress.written = written;
        });
    }

    /// Looks and acts until nothing is left to do.
    async fn settle(&self, mine: &mut Mine) -> Result<Settled, RecipeError> {
        let client = &self.client;
        let mut attempts = Attempts::default();
        loop {
            let wanted = self.wanted.borrow().clone();
            let read = persist(client, || {
                client.get(&self.path).compression(Compression::None).retry(Retry::Never).watched()
            });
            let found = present(read.await)?;
            let Some((node, watcher)) = found else {
                self.tell(Phase::Missing, mine.written);
                self.make(mine, &wanted, &mut attempts).await?;
                continue;
            };
            let done = match self.judge(&node, mine, &wanted) {
                Verdict::UpToDate => return Ok(Settled::There(watcher)),
                Verdict::Leave => return Ok(Settled::Taken(watcher)),
                Verdict::Write => self.write(mine, &wanted).await,
                Verdict::Replace => self.replace(mine, &node, &wanted).await,
            };
            match done {
                Ok(()) => {}
                // It changed while we looked.
                Err(error) if is_race(&error) => {}
                Err(error) => attempts.after(client, error).await?,
            }
        }
    }

    fn judge(&self, node: &NodeData, mine: &Mine, wanted: &Wanted) -> Verdict {
        let owner = SessionId(node.stat.ephemeral_owner);
        let ours = match self.kind {
            KeptAs::Ephemeral => owner == self.client.session().id,
            KeptAs::Persistent | KeptAs::Ttl(_) => owner == SessionId(0),
        };
        if ours {
            let written = node.stat.czxid == mine.created && mine.written == wanted.number;
            return if written { Verdict::UpToDate } else { Verdict::Write };
        }
        if mine.if_taken == IfTaken::Replace { Verdict::Replace } else { Verdict::Leave }
    }

    async fn make(
        &self,
        mine: &mut Mine,
        wanted: &Wanted,
        attempts: &mut Attempts,
    ) -> Result<(), RecipeError> {
        let create = self.client.create(&self.path).data(wanted.data.clone()).compression(Compression::None);
        let create = match self.kind {
            KeptAs::Ephemeral => create.ephemeral(),
            KeptAs::Persistent => create,
            KeptAs::Ttl(ttl) => create.ttl(ttl),
        };
        match create.parents(Parents::Containers).retry(Retry::Never).await {
            Ok(created) => {
                (mine.created, mine.written) = (created.stat.czxid, wanted.number);
                mine.if_taken = IfTaken::Wait;
                Ok(())
            }
            // By somebody else, or by an attempt whose answer was lost.
            Err(error) if is_race(&error) => Ok(()),
            Err(error) => Ok(attempts.after(&self.client, error).await?),
        }
    }

    async fn write(&self, mine: &mut Mine, wanted: &Wanted) -> Result<(), Error> {
        let set = self.client.set(&self.path, wanted.data.clone()).compression(Compression::None);
        let stat = set.retry(Retry::Never).await?;
        (mine.created, mine.written) = (stat.czxid, wanted.number);
        mine.if_taken = IfTaken::Wait;
        Ok(())
    }

    /// Another node in its place, in one transaction: nobody sees it missing.
    async fn replace(&self, mine: &mut Mine, node: &NodeData, wanted: &Wanted) -> Result<(), Error> {
        let spec = CreateSpec::new().data(wanted.data.clone());
        let spec = match self.kind {
            KeptAs::Ephemeral => spec.mode(CreateMode::Ephemeral),
            KeptAs::Persistent => spec,
            KeptAs::Ttl(ttl) => spec.mode(CreateMode::PersistentWithTtl).ttl(ttl),
        };
        let mut transaction = plain_transaction(&self.client);
        transaction.delete(&self.path, Version::Exactly(node.stat.version));
        transaction.create(&self.path, spec);
        transaction.retry(Retry::Never).await?;
        // The next look finds it; its data is written once more, which is how we know that it is ours.
        mine.if_taken = IfTaken::Wait;
        Ok(())
    }

    async fn remove(&self) -> Result<(), RecipeError> {
        let client = &self.client;
        let mut attempts = Attempts::default();
        loop {
            let found = persist(client, || client.exists(&self.path).retry(Retry::Never)).await?;
            let Some(stat) = found else { return Ok(()) };
            let removed = match self.kind {
                // Somebody else's, or one that goes with a former session.
                KeptAs::Ephemeral if SessionId(stat.ephemeral_owner) != client.session().id => return Ok(()),
                KeptAs::Ephemeral | KeptAs::Persistent => {
                    let delete = client.delete(&self.path).version(Version::Exactly(stat.version));
                    delete.retry(Retry::Never).await
                }
                KeptAs::Ttl(_) => client.delete(&self.path).recursive().quiet().retry(Retry::Never).await,
            };
            match removed {
                Ok(()) => return Ok(()),
                Err(error) if is_race(&error) => {}
                Err(error) => attempts.after(client, error).await?,
            }
        }
    }
}

/// Somebody was faster; the next look shows what there is.
fn is_race(error: &Error) -> bool {
    matches!(error.code(), Some(ErrorCode::NodeExists | ErrorCode::NoNode | ErrorCode::BadVersion))
}
