//! Writes a restored state as the data directory of a server. All members of the new ensemble start with the
//! same files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use zebu_proto::Zxid;
use zebu_runtime::{InstallableState, RestoredState};
use zebu_storage::{Compression, Directories, EpochError, Epochs, FileDisk, SnapshotError};
use zebu_tree::Tree;

use crate::spool::write_snapshot;

/// What happens to the sessions of a restored state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sessions {
    /// They end, and their ephemeral nodes are deleted.
    Drop,
    /// They stay, so that clients can resume them.
    Keep,
}

/// A written data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredDirectory {
    /// The snapshot.
    pub snapshot: PathBuf,
    /// The last transaction of the new history.
    pub zxid: Zxid,
    /// The number of nodes.
    pub nodes: u64,
    /// The sessions that were ended.
    pub ended_sessions: u64,
}

/// Why a state was not written.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The directory has data.
    #[error("{} has data of a server; name a new directory, or move the data aside", .0.display())]
    NotEmpty(PathBuf),
    /// No epoch is above the highest one of the ensemble.
    #[error("the ensemble has reached epoch {0}, and there is no later one")]
    Epoch(u32),
    /// The directory cannot be used.
    #[error("cannot use {}: {source}", path.display())]
    Directory {
        /// The directory or file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The snapshot was not written.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The epoch files were not written.
    #[error(transparent)]
    Epochs(#[from] EpochError),
}

/// The last epoch that leaves room for a later one.
const LAST_EPOCH: u32 = 0x7fff_fff0;

/// Moves a state into the epoch above all that the ensemble has had, so that no old member can win an
/// election against it. `time_ms` is the time of the ends of sessions.
pub fn in_new_epoch(
    tree: Tree,
    highest_epoch: u32,
    sessions: Sessions,
    time_ms: i64,
) -> Result<InstallableState, RestoreError> {
    let highest = highest_epoch.max(tree.last_zxid().epoch());
    if highest >= LAST_EPOCH {
        return Err(RestoreError::Epoch(highest));
    }
    let current = Zxid::new(highest + 1, 0);
    let state = RestoredState::of_tree(tree);
    Ok(match sessions {
        Sessions::Drop => state.end_sessions(current, time_ms),
        Sessions::Keep => state.keep_sessions(current, time_ms),
    })
}

/// Checks that a directory has no data of a server.
pub fn check_empty(out: &Path) -> Result<(), RestoreError> {
    let version = Directories::new(out, out).snapshots();
    match fs::read_dir(&version) {
        Ok(mut names) => match names.next() {
            None => Ok(()),
            Some(_) => Err(RestoreError::NotEmpty(version)),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(RestoreError::Directory { path: version, source }),
    }
}

/// Writes a state as a data directory. `progress` gets the number of written nodes.
pub fn write_directory(
    state: &InstallableState,
    out: &Path,
    my_id: Option<i64>,
    progress: impl FnMut(u64),
) -> Result<RestoredDirectory, RestoreError> {
    check_empty(out)?;
    let directory = Directories::new(out, out).snapshots();
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| RestoreError::Directory { path, source }
    };
    fs::create_dir_all(&directory).map_err(failed(&directory))?;
    if let Some(my_id) = my_id {
        let path = out.join("myid");
        fs::write(&path, format!("{my_id}\n")).map_err(failed(&path))?;
    }
    // The snapshot comes first: a server derives missing epochs from it, and never from an empty state.
    let snapshot = write_snapshot(&state.tree, &directory, state.zxid, Compression::Plain, progress)?;
    Epochs::load(&FileDisk, &directory, state.zxid)?;
    Ok(RestoredDirectory {
        snapshot,
        zxid: state.zxid,
        nodes: state.tree.node_count() as u64,
        ended_sessions: state.ended_sessions as u64,
    })
}
