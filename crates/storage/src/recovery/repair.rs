//! The changes that recovery makes on disk, after everything was accepted: ZooKeeper can open the result.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::directory::Directories;
use crate::disk::{Access, Disk, DiskFile};
use crate::failure::{During, IoFailure};
use crate::format::durable;
use crate::format::names::{LOG_TEMPORARY_PREFIX, NameSpelling, SNAPSHOT_TEMPORARY_PREFIX, parse_snapshot};
use crate::format::pending::{self, RECEIVED_PREFIX};
use crate::trust;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveryRepair {
    /// A torn tail is truncated.
    Cut {
        /// The log.
        path: PathBuf,
        /// Its new length, right after the last entry.
        length: u64,
    },
    /// A file without content is removed: an unfinished snapshot, a log without entries.
    Remove {
        /// The file.
        path: PathBuf,
    },
}

impl RecoveryRepair {
    /// The file.
    pub fn path(&self) -> &PathBuf {
        match self {
            RecoveryRepair::Cut { path, .. } | RecoveryRepair::Remove { path } => path,
        }
    }
}

/// Files that an interrupted write has left.
pub(super) fn leftovers<D: Disk>(
    disk: &D,
    directories: &Directories,
) -> Result<Vec<RecoveryRepair>, IoFailure> {
    let mut repairs = Vec::new();
    let snapshots = directories.snapshots();
    for name in disk.list(&snapshots).during("list", &snapshots)? {
        let ours = [SNAPSHOT_TEMPORARY_PREFIX, RECEIVED_PREFIX].iter().any(|it| name.starts_with(it))
            || [pending::TEMPORARY_NAME, trust::TEMPORARY_NAME].contains(&&name[..]);
        let unfinished = parse_snapshot(&name).is_some_and(|it| it.spelling == NameSpelling::Unfinished);
        if unfinished || ours {
            repairs.push(RecoveryRepair::Remove { path: snapshots.join(name) });
        }
    }
    let logs = directories.logs();
    for name in disk.list(&logs).during("list", &logs)? {
        if name.starts_with(LOG_TEMPORARY_PREFIX) || name == durable::TEMPORARY_NAME {
            repairs.push(RecoveryRepair::Remove { path: logs.join(name) });
        }
    }
    Ok(repairs)
}

/// Makes the repairs and makes everything that was read durable. A killed process leaves entries in the page
/// cache: they are history from now on, so a power failure must not lose them.
pub(super) fn perform<D: Disk>(
    disk: &D,
    directories: &Directories,
    repairs: &[RecoveryRepair],
    read: &[PathBuf],
) -> Result<(), IoFailure> {
    for repair in repairs {
        match repair {
            RecoveryRepair::Cut { path, length } => {
                let file = disk.open(path, Access::ReadWrite).during("open", path)?;
                file.set_length(*length).during("cut", path)?;
            }
            RecoveryRepair::Remove { path } => disk.remove(path).during("remove", path)?,
        }
    }
    let removed = |path: &PathBuf| {
        repairs.iter().any(|it| matches!(it, RecoveryRepair::Remove { path: it } if it == path))
    };
    for path in read.iter().filter(|path| !removed(path)) {
        let file = disk.open(path, Access::Read).during("open", path)?;
        file.sync_all().during("sync", path)?;
    }
    for directory in BTreeSet::from([directories.snapshots(), directories.logs()]) {
        disk.sync_directory(&directory).during("sync", &directory)?;
    }
    Ok(())
}
