//! Changes of the whole directory that must not stay half done: a mark is made durable first, then the
//! change is carried out in steps that may be repeated, then the mark goes. Recovery finishes what it finds
//! marked.

use std::path::PathBuf;

use crate::aside;
use crate::directory::Directories;
use crate::disk::{Disk, read_file, replace_file};
use crate::failure::{During, IoFailure};
pub use crate::format::pending::Pending;
use crate::format::pending::{NAME, TEMPORARY_NAME};
use crate::install;

/// Why a change that was marked cannot be finished.
#[derive(Debug, thiserror::Error)]
pub enum PendingError {
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
    /// The state that was to be installed is gone.
    #[error(
        "{}: this state was to take the place of everything else, but it is gone; a member of an ensemble \
         can be emptied and is brought up to date by the others",
        .0.display()
    )]
    Lost(PathBuf),
}

/// The change that was under way, if any.
pub fn read<D: Disk>(disk: &D, directories: &Directories) -> Result<Option<Pending>, PendingError> {
    let path = directories.snapshots().join(NAME);
    if !disk.exists(&path).during("look for", &path)? {
        return Ok(None);
    }
    let bytes = read_file(disk, &path).during("read", &path)?;
    Pending::decode(&bytes).map(Some).ok_or(PendingError::Mark(path))
}

/// Makes the mark durable: from here on there is no way back.
pub(crate) fn mark<D: Disk>(disk: &D, directories: &Directories, pending: &Pending) -> Result<(), IoFailure> {
    let directory = directories.snapshots();
    replace_file(disk, &directory, NAME, TEMPORARY_NAME, &pending.encode())
        .during("write", &directory.join(NAME))
}

/// Carries a marked change to its end.
pub(crate) fn finish<D: Disk>(
    disk: &D,
    directories: &Directories,
    pending: &Pending,
) -> Result<(), PendingError> {
    match pending {
        Pending::Install { received, snapshot } => {
            install::replace(disk, directories, received, snapshot)?;
        }
        Pending::SetAside { number } => aside::move_all(disk, directories, *number)?,
    }
    let directory = directories.snapshots();
    let path = directory.join(NAME);
    disk.remove(&path).during("remove", &path)?;
    disk.sync_directory(&directory).during("sync", &directory)?;
    Ok(())
}
