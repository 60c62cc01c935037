//! The place where a backup is kept: named objects, and one manifest that is replaced only under a condition.

use std::io::{self, Read};

use super::seal::Sealing;

/// The name of the manifest in every target.
pub const MANIFEST: &str = "manifest.json";

/// Why a target did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The target has no object of this name.
    #[error("{name} is missing in the backup")]
    Missing {
        /// The name of the object.
        name: String,
    },
    /// Another writer replaced the manifest.
    #[error("the manifest was replaced by another writer")]
    Conflict,
    /// The target refuses this writer for as long as another one has it.
    #[error("{0}")]
    Held(String),
    /// The settings of the target are wrong. No later attempt succeeds.
    #[error("{0}")]
    Unusable(String),
    /// An object is not what was written.
    #[error("{0}")]
    Damaged(String),
    /// The target failed or cannot be reached. A later attempt may succeed.
    #[error("{what}: {source}")]
    Io {
        /// The step that failed.
        what: String,
        /// The reason.
        source: io::Error,
    },
}

impl TargetError {
    /// A failed step.
    pub fn io(what: impl Into<String>, source: io::Error) -> TargetError {
        TargetError::Io { what: what.into(), source }
    }
}

/// The version of a manifest in its target. Two different contents never have the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision(pub String);

/// The manifest as its target has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredManifest {
    /// The content.
    pub bytes: Vec<u8>,
    /// The version for the next replacement.
    pub revision: Revision,
}

/// The content of a new object.
pub trait Content {
    /// The number of bytes.
    fn length(&self) -> u64;

    /// The SHA-256 of the bytes, as lower-case hexadecimal digits.
    fn sha256(&self) -> &str;

    /// Whether the bytes are encrypted.
    fn sealing(&self) -> Sealing {
        Sealing::Plain
    }

    /// Reads the bytes from the start.
    fn open(&self) -> io::Result<Box<dyn Read + Send + '_>>;
}

/// Content in memory.
#[derive(Clone, Debug)]
pub struct Bytes<'a> {
    bytes: &'a [u8],
    sha256: String,
}

impl<'a> Bytes<'a> {
    /// Computes the checksum.
    pub fn new(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes { bytes, sha256: super::sha256(bytes) }
    }
}

impl Content for Bytes<'_> {
    fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn sha256(&self) -> &str {
        &self.sha256
    }

    fn open(&self) -> io::Result<Box<dyn Read + Send + '_>> {
        Ok(Box::new(self.bytes))
    }
}

/// A place for backups. An object appears completely or not at all, and it is durable when `put` returns.
pub trait Target: Send {
    /// Stores an object. An existing one of this name is replaced.
    fn put(&self, name: &str, content: &dyn Content) -> Result<(), TargetError>;

    /// Opens an object for reading.
    fn open(&self, name: &str) -> Result<Box<dyn Read + Send + '_>, TargetError>;

    /// Names of all objects, without the manifest.
    fn list(&self) -> Result<Vec<String>, TargetError>;

    /// Removes an object; a missing one is fine.
    fn delete(&self, name: &str) -> Result<(), TargetError>;

    /// The manifest, if there is one.
    fn manifest(&self) -> Result<Option<StoredManifest>, TargetError>;

    /// Replaces the manifest if it still has the expected revision; `None` expects that there is none.
    fn replace_manifest(&self, bytes: &[u8], expected: Option<&Revision>) -> Result<Revision, TargetError>;

    /// Decrypts what is read from an encrypted object.
    fn unseal<'a>(
        &'a self,
        name: &str,
        _sealed: Box<dyn Read + 'a>,
    ) -> Result<Box<dyn Read + 'a>, TargetError> {
        Err(TargetError::Unusable(format!("{name} is encrypted; name the file of its key with --identity")))
    }

    /// Reads a whole object of at most `bytes_max` bytes.
    fn get(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>, TargetError> {
        let mut bytes = Vec::new();
        let reader = self.open(name)?;
        let read = reader.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| TargetError::io(format!("cannot read {name}"), error))?;
        if bytes.len() as u64 > bytes_max {
            return Err(TargetError::Damaged(format!("{name} is damaged: it is longer than the index says")));
        }
        Ok(bytes)
    }
}

impl<T: Target + ?Sized> Target for Box<T> {
    fn put(&self, name: &str, content: &dyn Content) -> Result<(), TargetError> {
        (**self).put(name, content)
    }

    fn open(&self, name: &str) -> Result<Box<dyn Read + Send + '_>, TargetError> {
        (**self).open(name)
    }

    fn list(&self) -> Result<Vec<String>, TargetError> {
        (**self).list()
    }

    fn delete(&self, name: &str) -> Result<(), TargetError> {
        (**self).delete(name)
    }

    fn manifest(&self) -> Result<Option<StoredManifest>, TargetError> {
        (**self).manifest()
    }

    fn replace_manifest(&self, bytes: &[u8], expected: Option<&Revision>) -> Result<Revision, TargetError> {
        (**self).replace_manifest(bytes, expected)
    }

    fn unseal<'a>(
        &'a self,
        name: &str,
        sealed: Box<dyn Read + 'a>,
    ) -> Result<Box<dyn Read + 'a>, TargetError> {
        (**self).unseal(name, sealed)
    }
}
