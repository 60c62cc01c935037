//! Transactions that are carried out exactly once: each one also sets a node of the caller's own, which tells
//! after a lost answer whether it was.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Mutex;
use tokio::time::Instant;
use zebu_client::{
    Client, Compression, Error, ErrorCode, ErrorKind, Parents, Retry, Transaction, Version, path,
};

use crate::connection::{Attempts, before, is_passing, persist, plain_transaction, present};
use crate::line::{Broom, Ticket};
use crate::unique_id::UniqueId;

/// What came of a transaction.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It was carried out.
    Done,
    /// One of its operations was refused with this error; nothing was carried out.
    Refused(Error),
    /// The session ended together with the answer, or the deadline passed before the answer came.
    Unknown,
    /// The deadline passed before anything was sent.
    NotSent,
}

/// Carries out transactions, one at a time.
#[derive(Debug)]
pub(crate) struct Once {
    client: Client,
    /// The own nodes begin with this and end with 32 digits.
    prefix: String,
    tag: Mutex<Tag>,
}

/// The caller's own node; made with the first transaction of a session.
#[derive(Debug, Default)]
struct Tag {
    ticket: Option<Ticket>,
    count: u64,
}

impl Once {
    /// The own nodes are `<path>-writer-<32 digits>`.
    pub(crate) fn beside(client: &Client, path: &str) -> Once {
        Once { client: client.clone(), prefix: format!("{path}-writer-"), tag: Mutex::default() }
    }

    /// The own nodes are `<directory>/writer-<32 digits>`.
    pub(crate) fn below(client: &Client, directory: &str) -> Once {
        Once { client: client.clone(), prefix: path::join(directory, "writer-"), tag: Mutex::default() }
    }

    /// Carries out what `build` puts together.
    pub(crate) async fn carry_out(&self, build: impl Fn(&mut Transaction)) -> Result<Outcome, Error> {
        self.carry_out_by(None, build).await
    }

    /// Carries out what `build` puts together, but does not wait for the answer for longer than the deadline.
    pub(crate) async fn carry_out_by(
        &self,
        deadline: Option<Instant>,
        build: impl Fn(&mut Transaction),
    ) -> Result<Outcome, Error> {
        let in_doubt = AtomicBool::new(false);
        match before(deadline, self.attempt(build, &in_doubt)).await {
            Some(outcome) => outcome,
            None if in_doubt.load(Ordering::Relaxed) => Ok(Outcome::Unknown),
            None => Ok(Outcome::NotSent),
        }
    }

    /// `in_doubt` is set while a transaction was sent and its end is not known.
    async fn attempt(
        &self,
        build: impl Fn(&mut Transaction),
        in_doubt: &AtomicBool,
    ) -> Result<Outcome, Error> {
        let mut tag = self.tag.lock().await;
        let mut attempts = Attempts::default();
        loop {
            let node = self.tag_node(&mut tag).await?;
            self.client.ready().await?;
            tag.count += 1;
            let mark = tag.count.to_string();
            let mut transaction = plain_transaction(&self.client);
            build(&mut transaction);
            let last = transaction.set(&node, mark.clone(), Version::Any).index();
            in_doubt.store(true, Ordering::Relaxed);
            let error = match transaction.retry(Retry::Never).await {
                Ok(_) => return Ok(Outcome::Done),
                Err(error) => error,
            };
            in_doubt.store(error.is_ambiguous(), Ordering::Relaxed);
            match error.kind() {
                ErrorKind::Transaction { index, code: ErrorCode::NoNode } if *index == last => {
                    // Somebody has deleted our own node.
                    tag.ticket.take().into_iter().for_each(Ticket::forget);
                }
                ErrorKind::Transaction { .. } if !is_passing(&error) => {
                    return Ok(Outcome::Refused(error));
                }
                _ if is_passing(&error) => {
                    let unknown = error.is_ambiguous();
                    attempts.after(&self.client, error).await?;
                    if unknown && let Some(outcome) = self.find_out(&node, &mark).await? {
                        return Ok(outcome);
                    }
                    in_doubt.store(false, Ordering::Relaxed);
                }
                _ => return Err(error),
            }
        }
    }

    /// After a lost answer; `None` if it was certainly not carried out.
    async fn find_out(&self, node: &str, mark: &str) -> Result<Option<Outcome>, Error> {
        let client = &self.client;
        let read = persist(client, || async {
            let synced = client.sync(node).retry(Retry::Never).send();
            let tag = client.get(node).compression(Compression::None).retry(Retry::Never).send();
            synced.await?;
            tag.await
        });
        match present(read.await)? {
            Some(tag) if tag.data == mark.as_bytes() => Ok(Some(Outcome::Done)),
            Some(_) => Ok(None),
            None => Ok(Some(Outcome::Unknown)),
        }
    }

    /// The path of the own node in the present session.
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

    /// `None` if the session ended meanwhile.
    async fn make_tag(&self) -> Result<Option<Ticket>, Error> {
        let client = &self.client;
        let path = format!("{}{}", self.prefix, UniqueId::new().hex());
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
