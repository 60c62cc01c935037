//! Moves logs and snapshots to a quarantine directory, for a server whose data is damaged or belongs to
//! another history. The server continues empty and untrusted, and an operator can still inspect the data.

use std::path::{Path, PathBuf};

use crate::directory::Directories;
use crate::disk::Disk;
use crate::failure::{During, IoFailure};
use crate::format::durable;
use crate::format::names::{LOG_TEMPORARY_PREFIX, parse_log, parse_snapshot};
use crate::format::pending::{ASIDE_PREFIX, RECEIVED_PREFIX};
use crate::pending_operation::{self, PendingOperation, PendingOperationError};
use crate::snapshot_file::discard_unfinished;
use crate::trust;

/// Moves everything but the epochs to `version-2/aside.<number>` of both roots. When it returns, the
/// directory is empty and untrusted, durably. After a crash in between, the next recovery completes it.
pub fn quarantine<D: Disk>(disk: &D, directories: &Directories) -> Result<u32, IoFailure> {
    trust::mark_untrusted(disk, &directories.snapshots())?;
    let number = match pending_operation::read(disk, directories) {
        Ok(Some(PendingOperation::SetAside { number })) => number,
        // The quarantine replaces an installation that cannot be completed, or a mark that cannot be read.
        Ok(Some(PendingOperation::Install { .. }) | None)
        | Err(PendingOperationError::Mark(_) | PendingOperationError::Lost(_)) => {
            let number = next_number(disk, directories)?;
            pending_operation::mark(disk, directories, &PendingOperation::SetAside { number })?;
            number
        }
        Err(PendingOperationError::Io(failure)) => return Err(failure),
    };
    match pending_operation::finish(disk, directories, &PendingOperation::SetAside { number }) {
        Ok(()) => Ok(number),
        Err(PendingOperationError::Io(failure)) => Err(failure),
        Err(PendingOperationError::Mark(_) | PendingOperationError::Lost(_)) => {
            unreachable!("moving reads no mark and no state")
        }
    }
}

fn next_number<D: Disk>(disk: &D, directories: &Directories) -> Result<u32, IoFailure> {
    let mut highest = 0;
    for directory in [directories.snapshots(), directories.logs()] {
        let names = disk.list(&directory).during("list", &directory)?;
        let numbers = names.iter().filter_map(|name| name.strip_prefix(ASIDE_PREFIX)?.parse().ok());
        highest = numbers.fold(highest, u32::max);
    }
    Ok(highest.saturating_add(1))
}

/// Snapshots first, the oldest before the others: until the last one is moved, ZooKeeper sees the complete
/// old history. Then it refuses logs without a snapshot.
pub(crate) fn move_all<D: Disk>(disk: &D, directories: &Directories, number: u32) -> Result<(), IoFailure> {
    let snapshots = directories.snapshots();
    discard_unfinished(disk, &snapshots)?;
    let mut files: Vec<_> = disk
        .list(&snapshots)
        .during("list", &snapshots)?
        .into_iter()
        .filter_map(|name| Some((parse_snapshot(&name)?.zxid, name)))
        .collect();
    files.sort_unstable();
    for (_, name) in files {
        move_files(disk, &snapshots, number, vec![name])?;
    }
    for directory in [directories.logs(), snapshots] {
        let names = disk.list(&directory).during("list", &directory)?;
        let names = names.into_iter().filter(|name| is_data(name)).collect();
        move_files(disk, &directory, number, names)?;
    }
    Ok(())
}

/// Whether a file with this name belongs to the history.
fn is_data(name: &str) -> bool {
    parse_log(name).is_some()
        || name == durable::NAME
        || name == durable::TEMPORARY_NAME
        || name.starts_with(LOG_TEMPORARY_PREFIX)
        || name.starts_with(RECEIVED_PREFIX)
}

fn move_files<D: Disk>(disk: &D, directory: &Path, number: u32, names: Vec<String>) -> Result<(), IoFailure> {
    if names.is_empty() {
        return Ok(());
    }
    let target: PathBuf = directory.join(format!("{ASIDE_PREFIX}{number}"));
    disk.create_directory(&target).during("create", &target)?;
    disk.sync_directory(directory).during("sync", directory)?;
    for name in names {
        let from = directory.join(&name);
        disk.rename(&from, &target.join(name)).during("move", &from)?;
    }
    disk.sync_directory(&target).during("sync", &target)?;
    disk.sync_directory(directory).during("sync", directory)
}
