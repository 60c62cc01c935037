//! The directory for bases on their way. It is private, because a base is in plain there until it is
//! encrypted, and it is removed at the end. What a killed process left is removed by the next one.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use zebu_backup::core::hexadecimal;

use super::location::hash_seed;
use crate::offline::Failure;

/// What the names of these directories begin with.
const PREFIX: &str = "zebu-backup-";

/// The file that the owner of a directory keeps locked.
const LOCK: &str = "lock";

/// How often another process may remove a new directory before it is locked.
const ATTEMPTS: usize = 8;

/// A private directory, which is removed when it is dropped.
#[derive(Debug)]
pub(super) struct SpoolDirectory {
    path: PathBuf,
    /// It stays locked as long as the directory is in use.
    _lock: File,
}

impl SpoolDirectory {
    /// Creates a directory in `parent`, and removes those of processes that were killed.
    pub(super) fn create(parent: &Path) -> Result<SpoolDirectory, Failure> {
        let failed = |error: io::Error| Failure::of_file("create a directory in", parent, &error);
        fs::create_dir_all(parent).map_err(failed)?;
        for _ in 0..ATTEMPTS {
            let name = format!("{PREFIX}{}", hexadecimal(&hash_seed()?.to_be_bytes()));
            let path = parent.join(name);
            // An existing directory is an error: its owner could read or replace what is in it.
            DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
            if let Some(lock) = lock_new(&path).map_err(failed)? {
                let own = SpoolDirectory { path, _lock: lock };
                own.remove_abandoned(parent);
                return Ok(own);
            }
        }
        Err(failed(io::ErrorKind::AlreadyExists.into()))
    }

    /// The directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes directories of this user whose process has ended. A failure leaves them to the next process.
    fn remove_abandoned(&self, parent: &Path) {
        let Ok(own) = fs::symlink_metadata(&self.path) else { return };
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_named = entry.file_name().to_string_lossy().starts_with(PREFIX);
            let is_candidate = |found: &fs::Metadata| found.is_dir() && found.uid() == own.uid();
            if !is_named || path == self.path || !fs::symlink_metadata(&path).is_ok_and(|m| is_candidate(&m))
            {
                continue;
            }
            // The lock is held during the removal: a process that has just created the directory notices it.
            let Ok(lock) = OpenOptions::new().write(true).open(path.join(LOCK)) else { continue };
            if lock.try_lock().is_ok() {
                let _ = fs::remove_dir_all(&path);
                tracing::info!(directory = %path.display(), "removed the spool of a killed process");
            }
        }
    }
}

impl Drop for SpoolDirectory {
    fn drop(&mut self) {
        // The next process removes what stays.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Locks a new directory; `None` if another process has taken it for an abandoned one meanwhile.
fn lock_new(directory: &Path) -> io::Result<Option<File>> {
    let path = directory.join(LOCK);
    let lock = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let own = lock.metadata()?.ino();
    Ok(fs::metadata(&path).is_ok_and(|found| found.ino() == own).then_some(lock))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(parent: &Path) -> usize {
        fs::read_dir(parent).unwrap().count()
    }

    #[test]
    fn a_spool_is_private_and_goes_at_the_end() {
        let parent = tempfile::tempdir().unwrap();
        let (one, other) = (SpoolDirectory::create(parent.path()), SpoolDirectory::create(parent.path()));
        let (one, other) = (one.unwrap(), other.unwrap());
        assert_ne!(one.path(), other.path());
        let mode = fs::metadata(one.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert_eq!(names(parent.path()), 2, "the spool of a running process stays");
        drop((one, other));
        assert_eq!(names(parent.path()), 0);
    }

    #[test]
    fn the_spool_of_a_killed_process_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let killed = parent.path().join("zebu-backup-0");
        fs::create_dir_all(killed.join("base-0")).unwrap();
        fs::write(killed.join(LOCK), "").unwrap();
        fs::write(killed.join("base-0/snapshot.1"), "secret").unwrap();
        // Directories of others, and a link that names one.
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join(LOCK), "").unwrap();
        symlink(elsewhere.path(), parent.path().join("zebu-backup-link")).unwrap();
        fs::create_dir(parent.path().join("data")).unwrap();
        fs::write(parent.path().join("data").join(LOCK), "").unwrap();
        let spool = SpoolDirectory::create(parent.path()).unwrap();
        assert!(!killed.exists());
        assert!(elsewhere.path().join(LOCK).exists() && parent.path().join("data").join(LOCK).exists());
        drop(spool);
        assert_eq!(names(parent.path()), 2);
    }
}
