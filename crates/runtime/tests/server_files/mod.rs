//! The directories of a server on the model of a disk: their settings, and what a start finds in them.

use zebu_node::Restore;
use zebu_runtime::{DiskSettings, LoadOptions, StateTarget, load};
use zebu_storage::crash_disk::CrashDisk;
use zebu_storage::{Directories, LogOptions, Missing, RecoveredState};
use zebu_tree::{Tree, TreeOptions};

pub(crate) fn directories() -> Directories {
    Directories::new("/data", "/logs")
}

pub(crate) fn settings() -> DiskSettings {
    let directories = directories();
    DiskSettings {
        log: LogOptions { preallocate: 0, ..LogOptions::new(directories.logs(), directories.snapshots()) },
        tree: TreeOptions::default(),
        write_bytes: 1 << 20,
    }
}

/// Recovers the state of the directories, which are created if they are missing.
pub(crate) fn recover(disk: &CrashDisk, options: LoadOptions) -> (RecoveredState, Tree) {
    let directories = directories();
    drop(directories.open(disk, Missing::Create, "test").unwrap());
    let new_target = || Restore::new(TreeOptions::default());
    let (recovered, restore) = load(disk, &directories, options, new_target, |_| ()).unwrap();
    (recovered, restore.into_tree())
}
