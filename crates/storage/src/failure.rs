//! A disk error with the operation and the file. It is the source of every other error here.

use std::io;
use std::path::{Path, PathBuf};

/// An operation of the disk that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct IoFailure {
    /// The operation.
    pub action: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// The error of the system.
    pub source: io::Error,
}

/// Adds the operation and the file to an error.
pub(crate) trait During<T> {
    fn during(self, action: &'static str, path: &Path) -> Result<T, IoFailure>;
}

impl<T> During<T> for io::Result<T> {
    fn during(self, action: &'static str, path: &Path) -> Result<T, IoFailure> {
        self.map_err(|source| IoFailure { action, path: path.to_owned(), source })
    }
}
