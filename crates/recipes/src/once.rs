//! Transactions that are carried out exactly once: each one also sets a node of the caller's own, which tells
//! after a lost answer whether it was.

use tokio::sync::Mutex;
use zebu_client::{
    Client, Compression, Error, ErrorCode, ErrorKind, Parents, Retry, Transaction, Version, path,
};

use crate::connection::{Attempts, is_passing, persist, present};
use crate::line::{Broom, Ticket};
use crate::unique_id::UniqueId;

/// What came of a transaction.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It was carried out.
    Done,
    /// One of its operations was refused; nothing was carried out.
    Refused(ErrorCode),
    /// The session ended together with the answer: nobody knows.
    Unknown,
}

/// Carries out transactions, one at a time.
#[derive(Debug)]
pub(crate) struct Once {
    client: Client,
    /// The own nodes are `<path>-writer-<32 digits>`.
    path: String,
    tag: Mutex<Tag>,
}

/// The caller's own node; made with the first transaction of a session.
#[derive(Debug, Default)]
struct Tag {
    ticket: Option<Ticket>,
    count: u64,
}

impl Once {
    pub(crate) fn new(client: &Client, path: &str) -> Once {
        Once { client: client.clone(), path: path.to_owned(), tag: Mutex::default() }
    }

    /// Carries out what `build` puts together.
    pub(crate) async fn carry_out(&self, build: impl Fn(&mut Transaction)) -> Result<Outcome, Error> {
        let mut tag = self.tag.lock().await;
        let mut attempts = Attempts::default();
        loop {
            let node = self.tag_node(&mut tag).await?;
            tag.count += 1;
            let mark = tag.count.to_string();
            let mut transaction = self.client.transaction();
            build(&mut transaction);
            let last = transaction.set(&node, mark.clone(), Version::Any).index();
            let error = match transaction.retry(Retry::Never).await {
                Ok(_) => return Ok(Outcome::Done),
                Err(error) => error,
            };
            match error.kind() {
                ErrorKind::Transaction { index, code: ErrorCode::NoNode } if *index == last => {
                    // Somebody has deleted our own node.
                    tag.ticket.take().into_iter().for_each(Ticket::forget);
                }
                ErrorKind::Transaction { code, .. } if !is_passing(&error) => {
                    return Ok(Outcome::Refused(*code));
                }
                _ if is_passing(&error) => {
                    let unknown = error.is_ambiguous();
                    attempts.after(&self.client, error).await?;
                    if unknown && let Some(outcome) = self.find_out(&node, &mark).await? {
                        return Ok(outcome);
                    }
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
            let tag = client.get(node).retry(Retry::Never).send();
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
