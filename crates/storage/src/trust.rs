//! The file `zebu.untrusted`: while it is there, this member may lack transactions that it has acknowledged,
//! so it must not vote. It appears before such a loss can happen and goes when the member has accepted the
//! whole history of an epoch.

use std::path::Path;

use crate::disk::{Disk, replace_file};
use crate::failure::{During, IoFailure};
pub use crate::format::pending::Trust;

/// Name of the file, beside the snapshots. Apache ignores it.
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

/// From now on the data is not trusted. Durable when it returns.
pub fn doubt<D: Disk>(disk: &D, snapshots: &Path) -> Result<(), IoFailure> {
    if read(disk, snapshots)? == Trust::Untrusted {
        // It may have been written by a process that died before it was durable.
        return disk.sync_directory(snapshots).during("sync", snapshots);
    }
    replace_file(disk, snapshots, NAME, TEMPORARY_NAME, TEXT).during("write", &snapshots.join(NAME))
}

/// The data is trusted again: everything that could be missing has been made good and is durable.
pub fn settle<D: Disk>(disk: &D, snapshots: &Path) -> Result<(), IoFailure> {
    let path = snapshots.join(NAME);
    if read(disk, snapshots)? == Trust::Untrusted {
        disk.remove(&path).during("remove", &path)?;
        disk.sync_directory(snapshots).during("sync", snapshots)?;
    }
    Ok(())
}
