//! Writes of one node whose outcome is known.

use bytes::Bytes;
use tokio::time::Instant;
use zebu_client::{Client, Compression, CreateSpec, Error, ErrorCode, Retry, Version, path};

use crate::connection::{before, persist, present};
use crate::error::RecipeError;
use crate::once::{Once, Outcome};

/// What a write is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// There is no node.
    Absent,
    /// The node has this version.
    Version(i32),
    /// The node is there, whatever its version.
    Any,
}

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// It was carried out.
    Yes,
    /// The basis does not hold any more.
    Conflict,
    /// The deadline passed before anything was sent.
    NotSent,
}

/// Writes one node.
#[derive(Debug)]
pub(crate) struct Writer {
    client: Client,
    path: String,
    once: Once,
}

impl Writer {
    pub(crate) fn new(client: &Client, path: &str) -> Writer {
        Writer { client: client.clone(), path: path.to_owned(), once: Once::beside(client, path) }
    }

    /// The same writer with its own nodes below this directory.
    pub(crate) fn below(client: &Client, path: &str, directory: &str) -> Writer {
        Writer { client: client.clone(), path: path.to_owned(), once: Once::below(client, directory) }
    }

    /// Writes if the basis holds.
    pub(crate) async fn write(&self, basis: Basis, data: &Bytes) -> Result<Written, RecipeError> {
        self.write_by(None, basis, data).await
    }

    /// Writes if the basis holds, but does not wait for the answer for longer than the deadline.
    pub(crate) async fn write_by(
        &self,
        deadline: Option<Instant>,
        basis: Basis,
        data: &Bytes,
    ) -> Result<Written, RecipeError> {
        if basis == Basis::Version(-1) {
            let path = &self.path;
            let what =
                format!("the version of {path} has overflowed to -1, which cannot be asked for; set it once");
            return Err(RecipeError::Invalid(what));
        }
        loop {
            let outcome = self.once.carry_out_by(deadline, |transaction| match basis {
                Basis::Absent => {
                    transaction.create(&self.path, CreateSpec::new().data(data.clone()));
                }
                Basis::Version(version) => {
                    transaction.set(&self.path, data.clone(), Version::Exactly(version));
                }
                Basis::Any => {
                    transaction.set(&self.path, data.clone(), Version::Any);
                }
            });
            match outcome.await? {
                Outcome::Done => return Ok(Written::Yes),
                Outcome::NotSent => return Ok(Written::NotSent),
                Outcome::Refused(error) => match (error.code(), basis) {
                    (Some(ErrorCode::NoNode), Basis::Absent) => self.make_parent().await?,
                    (
                        Some(ErrorCode::BadVersion | ErrorCode::NodeExists | ErrorCode::NoNode),
                        Basis::Absent | Basis::Version(_),
                    ) => return Ok(Written::Conflict),
                    _ => return Err(error.into()),
                },
                Outcome::Unknown => match before(deadline, self.guess(basis, data)).await {
                    Some(Ok(Some(written))) => return Ok(written),
                    Some(Ok(None)) => {}
                    Some(Err(error)) => return Err(error),
                    None => return Err(self.unknown()),
                },
            }
        }
    }

    /// After the session ended with the answer: what is there may still tell. `None` if it was certainly not
    /// carried out.
    async fn guess(&self, basis: Basis, data: &Bytes) -> Result<Option<Written>, RecipeError> {
        let client = &self.client;
        let read = persist(client, || async {
            client.sync(&self.path).retry(Retry::Never).await?;
            client.get(&self.path).compression(Compression::None).retry(Retry::Never).await
        });
        match (basis, present(read.await)?) {
            (Basis::Absent, None) => Ok(None),
            // The value that was to be written is there, by this write or by an equal one.
            (Basis::Any, Some(value)) if value.data == *data => Ok(Some(Written::Yes)),
            (Basis::Version(version), Some(value)) if value.stat.version == version => Ok(None),
            (Basis::Version(version), Some(value))
                if value.stat.version == version.wrapping_add(1) && value.data != *data =>
            {
                Ok(Some(Written::Conflict))
            }
            _ => Err(self.unknown()),
        }
    }

    fn unknown(&self) -> RecipeError {
        RecipeError::Unknown { what: "a write", path: self.path.clone() }
    }

    async fn make_parent(&self) -> Result<(), Error> {
        let parent = path::parent(&self.path).unwrap_or("/");
        persist(&self.client, || self.client.ensure_path(parent)).await
    }
}
