//! The file `zebu.untrusted`: while it exists, this server may lack transactions that it has acknowledged, so
//! it must not vote. It is created before such a loss can happen and removed when the server has accepted the
//! complete history of an epoch.

use std::path::Path;

use crate::disk::{Disk, replace_file};
use crate::failure::{During, IoFailure};
pub use crate::format::pending::Trust;

/// Name of the file, beside the snapshots. ZooKeeper ignores it.
pub const NAME: &str = "zebu.untrusted";

pub(crate) const TEMPORARY_NAME: &str = "zebu.untrusted.tmp";

const TEXT: &[u8] =
    b"This member may lack transactions that it has acknowledged. It does not vote before the others \
have brought it up to date; then this file goes by itself.\n";

/// Whether the data below `snapshots` is trusted.
pub fn read<D: Disk>(disk: &D, snapshots: &Path) -> Result<Trust, IoFailure> {
    let path = snapshots.join(NAME);
    let there = disk.exists(&path).during("look for", &path)?;
    Ok(if there { Trust::Untrusted } else { Trust::Trusted })
}

/// Marks the data as untrusted. Durable when it returns.
pub fn mark_untrusted<D: Disk>(disk: &D, snapshots: &Path) -> Result<(), IoFailure> {
    if read(disk, snapshots)? == Trust::Untrusted {
        // A process may have written it and ended before it was durable.
        return disk.sync_directory(snapshots).during("sync", snapshots);
    }
    replace_file(disk, snapshots, NAME, TEMPORARY_NAME, TEXT).during("write", &snapshots.join(NAME))
}

/// Marks the data as trusted again: all possibly missing transactions have been received and are durable.
pub fn mark_trusted<D: Disk>(disk: &D, snapshots: &Path) -> Result<(), IoFailure> {
    let path = snapshots.join(NAME);
    if read(disk, snapshots)? == Trust::Untrusted {
        disk.remove(&path).during("remove", &path)?;
        disk.sync_directory(snapshots).during("sync", snapshots)?;
    }
    Ok(())
}
