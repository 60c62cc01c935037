//! Operations on the data directory that must not stay half done. A mark is made durable first, then the
//! operation runs in repeatable steps, then the mark is removed. Recovery completes a marked operation.

use std::path::PathBuf;

use crate::directory::Directories;
use crate::disk::{Disk, read_file, replace_file};
use crate::failure::{During, IoFailure};
pub use crate::format::pending::PendingOperation;
use crate::format::pending::{NAME, TEMPORARY_NAME};
use crate::install;
use crate::quarantine;

/// Why a marked operation cannot be completed.
#[derive(Debug, thiserror::Error)]
pub enum PendingOperationError {
    /// The disk failed.
    #[error(transparent)]
    Io(#[from] IoFailure),
    /// The mark cannot be read.
    #[error(
        "{} does not say which change was under way: the file is damaged; a member of an ensemble can be \
         emptied and is brought up to date by the others",
        .0.display()
    )]
    Mark(PathBuf),
    /// The snapshot that was to be installed is missing.
    #[error(
        "{}: this state was to take the place of everything else, but it is gone; a member of an ensemble \
         can be emptied and is brought up to date by the others",
        .0.display()
    )]
    Lost(PathBuf),
}

/// The pending operation, if any.
pub fn read<D: Disk>(
    disk: &D,
    directories: &Directories,
) -> Result<Option<PendingOperation>, PendingOperationError> {
    let path = directories.snapshots().join(NAME);
    if !disk.exists(&path).during("look for", &path)? {
        return Ok(None);
    }
    let bytes = read_file(disk, &path).during("read", &path)?;
    PendingOperation::decode(&bytes).map(Some).ok_or(PendingOperationError::Mark(path))
}

/// Makes the mark durable: this is the point of no return.
pub(crate) fn mark<D: Disk>(
    disk: &D,
    directories: &Directories,
    pending: &PendingOperation,
) -> Result<(), IoFailure> {
    let directory = directories.snapshots();
    replace_file(disk, &directory, NAME, TEMPORARY_NAME, &pending.encode())
        .during("write", &directory.join(NAME))
}

/// Completes a marked operation.
pub(crate) fn finish<D: Disk>(
    disk: &D,
    directories: &Directories,
    pending: &PendingOperation,
) -> Result<(), PendingOperationError> {
    match pending {
        PendingOperation::Install { received, snapshot } => {
            install::replace(disk, directories, received, snapshot)?;
        }
        PendingOperation::SetAside { number } => quarantine::move_all(disk, directories, *number)?,
    }
    let directory = directories.snapshots();
    let path = directory.join(NAME);
    disk.remove(&path).during("remove", &path)?;
    disk.sync_directory(&directory).during("sync", &directory)?;
    Ok(())
}
