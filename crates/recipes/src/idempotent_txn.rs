//! Transactions that take effect exactly once. Each transaction also sets a node of the writer's own. After a
//! lost reply, the data of that node tells whether the transaction was committed.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Mutex;
use tokio::time::Instant;
use zebu_client::{
    Client, Compression, Error, ErrorCode, ErrorKind, Parents, Retry, Transaction, Version, path,
};

use crate::retry::{
    ReconnectRetry, is_transient, none_if_missing, retry_until_answered, uncompressed_transaction,
    with_deadline,
};
use crate::unique_id::UniqueId;
use crate::wait_queue::QueueNode;

/// The outcome of a transaction.
#[derive(Debug)]
pub(crate) enum TxnOutcome {
    Committed,
    /// The server rejected one of its operations with this error; no operation took effect.
    Rejected(Error),
    /// The session ended together with the reply, or the deadline passed before the reply.
    Unknown,
    /// The deadline passed before anything was sent.
    NotSent,
}

/// Runs transactions, one at a time.
#[derive(Debug)]
pub(crate) struct IdempotentTxn {
    client: Client,
    /// Writer nodes are named by this and 32 digits.
    prefix: String,
    writer: Mutex<WriterNode>,
}

/// The writer's own node; created with the first transaction of a session.
#[derive(Debug, Default)]
struct WriterNode {
    node: Option<QueueNode>,
    /// The number of the last transaction, which is the data of the node.
    last_number: u64,
}

impl IdempotentTxn {
    /// Writer nodes are `<path>-writer-<32 digits>`.
    pub(crate) fn beside(client: &Client, path: &str) -> IdempotentTxn {
        IdempotentTxn { client: client.clone(), prefix: format!("{path}-writer-"), writer: Mutex::default() }
    }

    /// Writer nodes are `<directory>/writer-<32 digits>`.
    pub(crate) fn below(client: &Client, directory: &str) -> IdempotentTxn {
        let prefix = path::join(directory, "writer-");
        IdempotentTxn { client: client.clone(), prefix, writer: Mutex::default() }
    }

    /// Runs the transaction that `build` fills.
    pub(crate) async fn run(&self, build: impl Fn(&mut Transaction)) -> Result<TxnOutcome, Error> {
        self.run_by(None, build).await
    }

    /// Runs the transaction that `build` fills, and waits for the reply until the deadline.
    pub(crate) async fn run_by(
        &self,
        deadline: Option<Instant>,
        build: impl Fn(&mut Transaction),
    ) -> Result<TxnOutcome, Error> {
        let in_doubt = AtomicBool::new(false);
        match with_deadline(deadline, self.attempt(build, &in_doubt)).await {
            Some(outcome) => outcome,
            None if in_doubt.load(Ordering::Relaxed) => Ok(TxnOutcome::Unknown),
            None => Ok(TxnOutcome::NotSent),
        }
    }

    /// `in_doubt` is set while a transaction was sent and its outcome is unknown.
    async fn attempt(
        &self,
        build: impl Fn(&mut Transaction),
        in_doubt: &AtomicBool,
    ) -> Result<TxnOutcome, Error> {
        let mut writer = self.writer.lock().await;
        let mut retry = ReconnectRetry::default();
        loop {
            let path = self.writer_path(&mut writer).await?;
            self.client.ready().await?;
            writer.last_number += 1;
            let number = writer.last_number.to_string();
            let mut transaction = uncompressed_transaction(&self.client);
            build(&mut transaction);
            let last = transaction.set(&path, number.clone(), Version::Any).index();
            in_doubt.store(true, Ordering::Relaxed);
            let error = match transaction.retry(Retry::Never).await {
                Ok(_) => return Ok(TxnOutcome::Committed),
                Err(error) => error,
            };
            in_doubt.store(error.is_ambiguous(), Ordering::Relaxed);
            match error.kind() {
                ErrorKind::Transaction { index, code: ErrorCode::NoNode } if *index == last => {
                    // Another client has deleted the writer node.
                    writer.node.take().into_iter().for_each(QueueNode::disarm);
                }
                ErrorKind::Transaction { .. } if !is_transient(&error) => {
                    return Ok(TxnOutcome::Rejected(error));
                }
                _ if is_transient(&error) => {
                    let unknown = error.is_ambiguous();
                    retry.after(&self.client, error).await?;
                    if unknown && let Some(outcome) = self.read_outcome(&path, &number).await? {
                        return Ok(outcome);
                    }
                    in_doubt.store(false, Ordering::Relaxed);
                }
                _ => return Err(error),
            }
        }
    }

    /// The outcome after a lost reply; `None` if the transaction was certainly not committed.
    async fn read_outcome(&self, path: &str, number: &str) -> Result<Option<TxnOutcome>, Error> {
        let client = &self.client;
        let read = retry_until_answered(client, || async {
            let synced = client.sync(path).retry(Retry::Never).send();
            let node = client.get(path).compression(Compression::None).retry(Retry::Never).send();
            synced.await?;
            node.await
        });
        match none_if_missing(read.await)? {
            Some(node) if node.data == number.as_bytes() => Ok(Some(TxnOutcome::Committed)),
            Some(_) => Ok(None),
            None => Ok(Some(TxnOutcome::Unknown)),
        }
    }

    /// The path of the writer node of the current session.
    async fn writer_path(&self, writer: &mut WriterNode) -> Result<String, Error> {
        loop {
            match writer.node.take() {
                Some(node) if node.is_owned_by_session() => {
                    return Ok(writer.node.insert(node).path().to_owned());
                }
                Some(node) => node.disarm(),
                None => writer.node = self.create_writer_node().await?,
            }
        }
    }

    /// `None` if the session ended meanwhile.
    async fn create_writer_node(&self) -> Result<Option<QueueNode>, Error> {
        let client = &self.client;
        let path = format!("{}{}", self.prefix, UniqueId::new(client).hex());
        let cleanup = client.cleanup_guard(path::parent(&path).unwrap_or("/"), path::name(&path));
        let create = || {
            let create = client.create(&path).ephemeral().compression(Compression::None);
            create.parents(Parents::Persistent).retry(Retry::Never)
        };
        match retry_until_answered(client, create).await {
            Ok(_) => {}
            // By an attempt whose reply was lost.
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => {}
            Err(error) => return Err(error),
        }
        let found = retry_until_answered(client, || client.exists(&path).retry(Retry::Never)).await?;
        cleanup.disarm();
        let name = path::name(&path).to_owned();
        Ok(found.map(|stat| QueueNode::adopt(client, path, name, stat)))
    }
}
