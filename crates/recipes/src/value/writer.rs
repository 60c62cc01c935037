//! Conditional writes of one node whose outcome is known.

use bytes::Bytes;
use zebu_client::{Client, CreateSpec, Error, ErrorCode, Retry, Version, path};

use crate::connection::{persist, present};
use crate::error::RecipeError;
use crate::once::{Once, Outcome};

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
    /// It was carried out.
    Yes,
    /// The basis does not hold any more.
    Conflict,
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
        Writer { client: client.clone(), path: path.to_owned(), once: Once::new(client, path) }
    }

    /// Writes if the basis holds.
    pub(crate) async fn write(&self, basis: Basis, data: &Bytes) -> Result<Written, RecipeError> {
        if basis == Basis::Version(-1) {
            let path = &self.path;
            let what =
                format!("the version of {path} has overflowed to -1, which cannot be asked for; set it once");
            return Err(RecipeError::Invalid(what));
        }
        loop {
            let outcome = self.once.carry_out(|transaction| match basis {
                Basis::Absent => {
                    transaction.create(&self.path, CreateSpec::new().data(data.clone()));
                }
                Basis::Version(version) => {
                    transaction.set(&self.path, data.clone(), Version::Exactly(version));
                }
            });
            match outcome.await? {
                Outcome::Done => return Ok(Written::Yes),
                Outcome::Refused(ErrorCode::NoNode) if basis == Basis::Absent => {
                    self.make_parent().await?;
                }
                Outcome::Refused(ErrorCode::BadVersion | ErrorCode::NodeExists | ErrorCode::NoNode) => {
                    return Ok(Written::Conflict);
                }
                Outcome::Refused(code) => {
                    let path = &self.path;
                    return Err(RecipeError::Invalid(format!("the server refused to write {path}: {code}")));
                }
                Outcome::Unknown => {
                    if let Some(written) = self.guess(basis, data).await? {
                        return Ok(written);
                    }
                }
            }
        }
    }

    /// After the session ended with the answer: what is there may still tell. `None` if it was certainly not
    /// carried out.
    async fn guess(&self, basis: Basis, data: &Bytes) -> Result<Option<Written>, RecipeError> {
        let read = persist(&self.client, || self.client.get(&self.path).retry(Retry::Never)).await;
        match (basis, present(read)?) {
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
}
