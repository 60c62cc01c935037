//! A contender's own node: created so that a lost answer does no harm, and removed whatever becomes of the
//! caller. Before the create is sent there is somebody who will sweep it away.

use bytes::Bytes;
use tokio::runtime::Handle;
use zebu_client::{Client, Compression, Error, Parents, Retry, SessionId, Stat, path};

use super::naming::{Kind, Naming, Numbering};
use crate::connection::{Attempts, is_passing, persist, present};

/// A node in a line. Dropping it deletes the node in the background, as surely as the session lives.
#[derive(Debug)]
pub(crate) struct Ticket {
    client: Client,
    path: String,
    mark: String,
    stat: Stat,
    fate: Fate,
}

/// What dropping a ticket does.
#[derive(Clone, Debug)]
enum Fate {
    /// Nobody else ever has a node of this name: it may be deleted once too often.
    Delete,
    /// Others have nodes of the same name afterwards: it is deleted only while it is this one.
    DeleteThisOne(Handle),
    Nothing,
}

/// What the search for a node after a lost answer has found.
enum Found {
    Ours(Ticket),
    /// Of a session that is over; it goes with it.
    OfAnotherSession,
    Nothing,
}

impl Ticket {
    /// Takes a place at the end of the line in `directory`.
    pub(crate) async fn take(
        client: &Client,
        directory: &str,
        naming: &Naming,
        kind: Kind,
        data: &Bytes,
    ) -> Result<Ticket, Error> {
        let mut attempts = Attempts::default();
        loop {
            let mark = naming.style.mark();
            let wanted = path::join(directory, &format!("{mark}{}", naming.marker(kind)));
            let broom = Broom::new(client, directory, &mark);
            let numbering = naming.numbering(kind);
            if let Some(ticket) = create(client, &wanted, &mark, numbering, data, &mut attempts).await? {
                broom.put_away();
                return Ok(ticket);
            }
        }
    }

    /// Takes over a node that was created in another way.
    pub(crate) fn adopt(client: &Client, path: String, mark: String, stat: Stat) -> Ticket {
        Ticket { client: client.clone(), path, mark, stat, fate: Fate::Delete }
    }

    /// Takes over a node whose name others use too, as soon as it has gone.
    pub(crate) fn adopt_shared(client: &Client, path: String, mark: String, stat: Stat) -> Ticket {
        let fate = Fate::DeleteThisOne(Handle::current());
        Ticket { client: client.clone(), path, mark, stat, fate }
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

    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    pub(crate) fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Whether it belongs to the session that the client has now. One of a former session may still be
    /// visible, and may still be the first; it gives no right to anything.
    pub(crate) fn is_of_this_session(&self) -> bool {
        self.client.session().id == SessionId(self.stat.ephemeral_owner)
    }

    /// The node is known to be gone, or has another owner now.
    pub(crate) fn forget(mut self) {
        self.fate = Fate::Nothing;
    }

    /// Deletes the node and waits for the answer. If the session ends meanwhile, the node goes with it.
    pub(crate) async fn give_back(mut self) -> Result<(), Error> {
        if matches!(self.fate, Fate::DeleteThisOne(_)) {
            delete_this_one(&self.client, &self.path, &self.stat).await?;
            self.fate = Fate::Nothing;
            return Ok(());
        }
        let mut attempts = Attempts::default();
        loop {
            if !self.is_of_this_session() {
                self.fate = Fate::Nothing;
                return Ok(());
            }
            match self.client.delete(&self.path).quiet().retry(Retry::Never).await {
                Ok(()) => {
                    self.fate = Fate::Nothing;
                    return Ok(());
                }
                // Dropping it leaves the rest to the background.
                Err(error) => attempts.after(&self.client, error).await?,
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.is_of_this_session() {
            return;
        }
        match &self.fate {
            // Sent now, repeated in the background until it is answered.
            Fate::Delete => drop(self.client.delete(&self.path).quiet().guaranteed().send()),
            Fate::DeleteThisOne(runtime) => {
                let (client, path, stat) = (self.client.clone(), self.path.clone(), self.stat);
                // An error means that the client is over, and the node with it.
                runtime.spawn(async move { delete_this_one(&client, &path, &stat).await });
            }
            Fate::Nothing => {}
        }
    }
}

/// Deletes a node if it is the one with this stat. As long as the session that owns it lives, nobody else deletes it
/// and takes its name; so what was looked at is what is deleted. Looked at again before every attempt, because one
/// whose answer was lost may have been carried out.
async fn delete_this_one(client: &Client, path: &str, stat: &Stat) -> Result<(), Error> {
    let mut attempts = Attempts::default();
    loop {
        let found = persist(client, || async {
            client.sync(path).retry(Retry::Never).await?;
            client.exists(path).retry(Retry::Never).await
        });
        let ours = found.await?.is_some_and(|found| found.czxid == stat.czxid);
        if !ours || client.session().id != SessionId(stat.ephemeral_owner) {
            return Ok(());
        }
        match client.delete(path).quiet().retry(Retry::Never).await {
            Ok(()) => return Ok(()),
            Err(error) => attempts.after(client, error).await?,
        }
    }
}

/// Creates the node; `None` if it has to be done under another mark.
async fn create(
    client: &Client,
    wanted: &str,
    mark: &str,
    numbering: Numbering,
    data: &Bytes,
    attempts: &mut Attempts,
) -> Result<Option<Ticket>, Error> {
    loop {
        let mut create = client.create(wanted).ephemeral().compression(Compression::None);
        if numbering == Numbering::Counter {
            create = create.sequential();
        }
        if !data.is_empty() {
            create = create.data(data.clone());
        }
        let error = match create.parents(Parents::Containers).retry(Retry::Never).await {
            Ok(created) => {
                let ticket = Ticket::adopt(client, created.path, mark.to_owned(), created.stat);
                return Ok(Some(ticket));
            }
            Err(error) => error,
        };
        if !is_passing(&error) {
            return Err(error);
        }
        let unknown = error.is_ambiguous();
        attempts.after(client, error).await?;
        if unknown {
            match search(client, wanted, mark).await? {
                Found::Ours(ticket) => return Ok(Some(ticket)),
                Found::OfAnotherSession => return Ok(None),
                Found::Nothing => {}
            }
        }
    }
}

/// Looks for the node of a create whose answer was lost.
async fn search(client: &Client, wanted: &str, mark: &str) -> Result<Found, Error> {
    let directory = path::parent(wanted).unwrap_or("/");
    let names = persist(client, || marked(client, directory, mark)).await?;
    for name in names {
        let path = path::join(directory, &name);
        let stat = persist(client, || client.exists(&path).retry(Retry::Never)).await?;
        if let Some(stat) = stat {
            let ticket = Ticket::adopt(client, path, mark.to_owned(), stat);
            if ticket.is_of_this_session() {
                return Ok(Found::Ours(ticket));
            }
            ticket.forget();
            return Ok(Found::OfAnotherSession);
        }
    }
    Ok(Found::Nothing)
}

/// The names below a directory that begin with a mark, on a server that has caught up.
async fn marked(client: &Client, directory: &str, mark: &str) -> Result<Vec<String>, Error> {
    let synced = client.sync(directory).retry(Retry::Never).send();
    let listed = client.children(directory).retry(Retry::Never).send();
    synced.await?;
    let names = present(listed.await)?.map_or_else(Vec::new, |list| list.names);
    Ok(names.into_iter().filter(|name| name.starts_with(mark)).collect())
}

/// Sweeps up behind a create whose caller went away before its end was known.
pub(crate) struct Broom {
    errand: Option<Errand>,
}

struct Errand {
    client: Client,
    directory: String,
    mark: String,
    runtime: Handle,
}

impl Broom {
    pub(crate) fn new(client: &Client, directory: &str, mark: &str) -> Broom {
        let (client, runtime) = (client.clone(), Handle::current());
        Broom {
            errand: Some(Errand { client, directory: directory.to_owned(), mark: mark.to_owned(), runtime }),
        }
    }

    pub(crate) fn put_away(mut self) {
        self.errand = None;
    }
}

impl Drop for Broom {
    fn drop(&mut self) {
        if let Some(errand) = self.errand.take() {
            let runtime = errand.runtime.clone();
            runtime.spawn(errand.run());
        }
    }
}

impl Errand {
    /// Ends with the session: then the node is gone too.
    async fn run(self) {
        let session = self.client.session().id;
        let mut attempts = Attempts::default();
        while self.client.session().id == session {
            match self.sweep().await {
                Ok(()) => return,
                Err(error) => {
                    if attempts.after(&self.client, error).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    async fn sweep(&self) -> Result<(), Error> {
        for name in marked(&self.client, &self.directory, &self.mark).await? {
            let path = path::join(&self.directory, &name);
            self.client.delete(&path).quiet().retry(Retry::Never).await?;
        }
        Ok(())
    }
}
