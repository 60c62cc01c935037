//! Conditional writes of one node with a known outcome.

use bytes::Bytes;
use tokio::time::Instant;
use zebu_client::{Client, Compression, CreateSpec, Error, ErrorCode, Retry, Version, path};

use crate::error::RecipeError;
use crate::idempotent_txn::{IdempotentTxn, TxnOutcome};
use crate::retry::{none_if_missing, retry_until_answered, with_deadline};

/// The condition of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteCondition {
    /// The node is missing.
    Missing,
    /// The node has this version.
    Version(i32),
    /// The node exists, at any version.
    Exists,
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    Written,
    /// The condition does not hold.
    Conflict,
    /// The deadline passed before anything was sent.
    NotSent,
}

/// Writes one node.
#[derive(Debug)]
pub(crate) struct NodeWriter {
    client: Client,
    path: String,
    txn: IdempotentTxn,
}

impl NodeWriter {
    pub(crate) fn new(client: &Client, path: &str) -> NodeWriter {
        NodeWriter { client: client.clone(), path: path.to_owned(), txn: IdempotentTxn::beside(client, path) }
    }

    /// The same with writer nodes below this directory.
    pub(crate) fn below(client: &Client, path: &str, directory: &str) -> NodeWriter {
        NodeWriter {
            client: client.clone(),
            path: path.to_owned(),
            txn: IdempotentTxn::below(client, directory),
        }
    }

    /// Writes if the condition holds.
    pub(crate) async fn write(
        &self,
        condition: WriteCondition,
        data: &Bytes,
    ) -> Result<WriteOutcome, RecipeError> {
        self.write_by(None, condition, data).await
    }

    /// Writes if the condition holds, and waits for the reply until the deadline.
    pub(crate) async fn write_by(
        &self,
        deadline: Option<Instant>,
        condition: WriteCondition,
        data: &Bytes,
    ) -> Result<WriteOutcome, RecipeError> {
        if condition == WriteCondition::Version(-1) {
            let path = &self.path;
            let what = format!(
                "the version of {path} has overflowed to -1, which no condition can name; write it once without a condition"
            );
            return Err(RecipeError::Invalid(what));
        }
        loop {
            let outcome = self.txn.run_by(deadline, |transaction| match condition {
                WriteCondition::Missing => {
                    transaction.create(&self.path, CreateSpec::new().data(data.clone()));
                }
                WriteCondition::Version(version) => {
                    transaction.set(&self.path, data.clone(), Version::Exactly(version));
                }
                WriteCondition::Exists => {
                    transaction.set(&self.path, data.clone(), Version::Any);
                }
            });
            match outcome.await? {
                TxnOutcome::Committed => return Ok(WriteOutcome::Written),
                TxnOutcome::NotSent => return Ok(WriteOutcome::NotSent),
                TxnOutcome::Rejected(error) => match (error.code(), condition) {
                    (Some(ErrorCode::NoNode), WriteCondition::Missing) => self.create_parent().await?,
                    (
                        Some(ErrorCode::BadVersion | ErrorCode::NodeExists | ErrorCode::NoNode),
                        WriteCondition::Missing | WriteCondition::Version(_),
                    ) => return Ok(WriteOutcome::Conflict),
                    _ => return Err(error.into()),
                },
                TxnOutcome::Unknown => {
                    match with_deadline(deadline, self.infer_outcome(condition, data)).await {
                        Some(Ok(Some(written))) => return Ok(written),
                        Some(Ok(None)) => {}
                        Some(Err(error)) => return Err(error),
                        None => return Err(self.unknown()),
                    }
                }
            }
        }
    }

    /// Infers the outcome from the value after the session ended with the reply. `None` if the write was
    /// certainly not carried out.
    async fn infer_outcome(
        &self,
        condition: WriteCondition,
        data: &Bytes,
    ) -> Result<Option<WriteOutcome>, RecipeError> {
        let client = &self.client;
        let read = retry_until_answered(client, || async {
            client.sync(&self.path).retry(Retry::Never).await?;
            client.get(&self.path).compression(Compression::None).retry(Retry::Never).await
        });
        match (condition, none_if_missing(read.await)?) {
            (WriteCondition::Missing, None) => Ok(None),
            // The node has the value, by this write or by an equal one.
            (WriteCondition::Exists, Some(value)) if value.data == *data => Ok(Some(WriteOutcome::Written)),
            (WriteCondition::Version(version), Some(value)) if value.stat.version == version => Ok(None),
            (WriteCondition::Version(version), Some(value))
                if value.stat.version == version.wrapping_add(1) && value.data != *data =>
            {
                Ok(Some(WriteOutcome::Conflict))
            }
            _ => Err(self.unknown()),
        }
    }

    fn unknown(&self) -> RecipeError {
        RecipeError::Unknown { what: "a write", path: self.path.clone() }
    }

    async fn create_parent(&self) -> Result<(), Error> {
        let parent = path::parent(&self.path).unwrap_or("/");
        retry_until_answered(&self.client, || self.client.ensure_path(parent)).await
    }
}
