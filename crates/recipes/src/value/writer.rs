//! Conditional writes whose outcome is always known: each one also sets a node of the writer's own, in the
//! same transaction, which tells after a lost answer whether it was carried out.

use bytes::Bytes;
use tokio::sync::Mutex;
use zebu_client::{
    Client, Compression, CreateSpec, Error, ErrorCode, ErrorKind, Parents, Retry, Version, path,
};

use crate::connection::{Attempts, is_passing, persist, present};
use crate::error::RecipeError;
use crate::line::{Broom, Ticket};
use crate::unique_id::UniqueId;

/// What a write is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// There is no node.
    Absent,
    /// The node has this version.
    Version(i32),
}

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// It was carried out; the node has this version.
    Yes(i32),
    /// The basis does not hold any more.
    Conflict,
}

/// Writes one node.
#[derive(Debug)]
pub(crate) struct Writer {
    client: Client,
    path: String,
    tag: Mutex<Tag>,
}

/// The writer's own node; made with the first write of a session.
#[derive(Debug, Default)]
struct Tag {
    ticket: Option<Ticket>,
    count: u64,
}

impl Writer {
    pub(crate) fn new(client: &Client, path: &str) -> Writer {
        Writer { client: client.clone(), path: path.to_owned(), tag: Mutex::default() }
    }

    /// Writes if the basis holds.
    pub(crate) async fn write(&self, basis: Basis, data: &Bytes) -> Result<Written, RecipeError> {
        if basis == Basis::Version(-1) {
            let path = &self.path;
            let what = format!(
                "the version of {path} has overflowed to -1, which cannot be asked for; write it once"
            );
            return Err(RecipeError::Invalid(what));
        }
        let mut tag = self.tag.lock().await;
        let mut attempts = Attempts::default();
        loop {
            let node = self.tag_node(&mut tag).await?;
            tag.count += 1;
            let mark = tag.count.to_string();
            let error = match self.attempt(basis, data, &node, &mark).await {
                Ok(()) => return Ok(Written::Yes(next_version(basis))),
                Err(error) => error,
            };
            match error.kind() {
                ErrorKind::Transaction { index: 0, code: ErrorCode::NoNode } if basis == Basis::Absent => {
                    self.make_parent().await?;
                }
                ErrorKind::Transaction {
                    index: 0,
                    code: ErrorCode::BadVersion | ErrorCode::NodeExists | ErrorCode::NoNode,
                } => return Ok(Written::Conflict),
                ErrorKind::Transaction { index: 1, code: ErrorCode::NoNode } => {
                    // Somebody has deleted it.
                    tag.ticket.take().into_iter().for_each(Ticket::forget);
                }
                _ if is_passing(&error) => {
                    let unknown = error.is_ambiguous();
                    attempts.after(&self.client, error).await?;
                    if unknown && let Some(written) = self.find_out(basis, data, &node, &mark).await? {
                        return Ok(written);
                    }
                }
                _ => return Err(error.into()),
            }
        }
    }

    async fn attempt(&self, basis: Basis, data: &Bytes, node: &str, mark: &str) -> Result<(), Error> {
        let mut transaction = self.client.transaction();
        match basis {
            Basis::Absent => {
                transaction.create(&self.path, CreateSpec::new().data(data.clone()));
            }
            Basis::Version(version) => {
                transaction.set(&self.path, data.clone(), Version::Exactly(version));
            }
        }
        transaction.set(node, mark.to_owned(), Version::Any);
        transaction.retry(Retry::Never).await.map(drop)
    }

    /// After a lost answer; `None` if it was certainly not carried out.
    async fn find_out(
        &self,
        basis: Basis,
        data: &Bytes,
        node: &str,
        mark: &str,
    ) -> Result<Option<Written>, RecipeError> {
        let client = &self.client;
        let (tag, value) = persist(client, || async {
            let synced = client.sync(&self.path).retry(Retry::Never).send();
            let tag = client.get(node).retry(Retry::Never).send();
            let value = client.get(&self.path).retry(Retry::Never).send();
            synced.await?;
            Ok((present(tag.await)?, present(value.await)?))
        })
        .await?;
        if let Some(tag) = tag {
            let ours = tag.data == mark.as_bytes();
            return Ok(ours.then_some(Written::Yes(next_version(basis))));
        }
        // The session ended with the answer. What is there may still tell.
        match (basis, value) {
            (Basis::Absent, None) => Ok(None),
            (Basis::Version(version), Some(value)) if value.stat.version == version => Ok(None),
            (Basis::Version(version), Some(value))
                if value.stat.version == version.wrapping_add(1) && value.data != *data =>
            {
                Ok(Some(Written::Conflict))
            }
            _ => Err(RecipeError::Unknown { what: "a conditional write", path: self.path.clone() }),
        }
    }

    async fn make_parent(&self) -> Result<(), Error> {
        let parent = path::parent(&self.path).unwrap_or("/");
        persist(&self.client, || self.client.ensure_path(parent)).await
    }

    /// The path of the writer's own node in the present session.
    async fn tag_node(&self, tag: &mut Tag) -> Result<String, Error> {
        loop {
            match tag.ticket.take() {
                Some(ticket) if ticket.is_of_this_session() => {
                    return Ok(tag.ticket.insert(ticket).path().to_owned());
                }
                Some(ticket) => ticket.forget(),
                None => tag.ticket = self.make_tag().await?,
            }
        }
    }

    /// `<path>-writer-<32 digits>`; `None` if the session ended meanwhile.
    async fn make_tag(&self) -> Result<Option<Ticket>, Error> {
        let client = &self.client;
        let path = format!("{}-writer-{}", self.path, UniqueId::new().hex());
        let broom = Broom::new(client, path::parent(&path).unwrap_or("/"), path::name(&path));
        let create = || {
            let create = client.create(&path).ephemeral().compression(Compression::None);
            create.parents(Parents::Persistent).retry(Retry::Never)
        };
        match persist(client, create).await {
            Ok(_) => {}
            // By an attempt whose answer was lost.
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => {}
            Err(error) => return Err(error),
        }
        let found = persist(client, || client.exists(&path).retry(Retry::Never)).await?;
        broom.put_away();
        let mark = path::name(&path).to_owned();
        Ok(found.map(|stat| Ticket::adopt(client, path, mark, stat)))
    }
}

fn next_version(basis: Basis) -> i32 {
    match basis {
        Basis::Absent => 0,
        Basis::Version(version) => version.wrapping_add(1),
    }
}
