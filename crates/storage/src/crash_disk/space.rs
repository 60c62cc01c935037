//! The space of the disk: each directory may be a file system with a limit. The limit is reported, and
//! writes beyond it succeed.

use std::io;
use std::path::Path;

use super::CrashDisk;
use crate::disk::DiskSpace;

impl CrashDisk {
    /// Makes a directory a file system with this many bytes.
    pub fn set_capacity(&self, directory: &Path, bytes: u64) {
        self.state().capacities.insert(directory.to_owned(), bytes);
    }

    /// The space of a directory; `None` without a limit.
    pub(super) fn space_of(&self, directory: &Path) -> io::Result<Option<DiskSpace>> {
        let mut state = self.read()?;
        let Some(&total) = state.capacities.get(directory) else { return Ok(None) };
        let files: Vec<usize> = state.names(directory)?.live.values().copied().collect();
        let used: u64 = files.into_iter().map(|inode| state.inodes[inode].live.len() as u64).sum();
        Ok(Some(DiskSpace { total, free: total.saturating_sub(used) }))
    }
}
