//! A disk error with what was being done and to which file. It is the source of every other error here.

use std::io;
use std::path::{Path, PathBuf};

/// An operation of the disk that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct IoFailure {
    /// What was being done.
    pub action: &'static str,
    /// To what.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// Names the operation and the file of an error.
pub(crate) trait During<T> {
    fn during(self, action: &'static str, path: &Path) -> Result<T, IoFailure>;
}

impl<T> During<T> for io::Result<T> {
    fn during(self, action: &'static str, path: &Path) -> Result<T, IoFailure> {
        self.map_err(|source| IoFailure { action, path: path.to_owned(), source })
    }
}
