//! The two roots of a server's data, their `version-2` directories, and the locks that exclude a second
//! server. ZooKeeper takes no lock, so a running ZooKeeper server is not detected.

use std::path::{Path, PathBuf};

use crate::disk::{Disk, LockRefused};
use crate::failure::{During, IoFailure};

/// The sub-directory of both roots that holds logs and snapshots.
const VERSION: &str = "version-2";

/// Name of the lock file in both roots.
const LOCK: &str = "zebu.lock";

/// Whether missing directories are created (`datadir.autocreate`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Created.
    Create,
    /// An error.
    Refuse,
}

/// Why the directories cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The disk failed.
    #[error(transparent)]
    Io(#[from] IoFailure),
    /// The directory is missing and may not be created.
    #[error(
        "{} does not exist and datadir.autocreate is false; create it, or correct dataDir and dataLogDir",
        .0.display()
    )]
    Missing(PathBuf),
    /// Logs are among the snapshots or the reverse: one of the roots is wrong.
    #[error(
        "{} holds {name}, which belongs into {}: dataDir and dataLogDir seem to be exchanged or to have been \
         one before; correct the configuration or move the files",
        directory.display(), belongs.display()
    )]
    Misplaced {
        /// The directory that contains the file.
        directory: PathBuf,
        /// The name of the file.
        name: String,
        /// The directory that should contain it.
        belongs: PathBuf,
    },
    /// Another server uses it.
    #[error("{} is in use by another server ({holder}); stop it first, or give this one its own directories",
        path.display())]
    InUse {
        /// The lock file.
        path: PathBuf,
        /// The holder, as far as is known.
        holder: String,
    },
}

/// The data directories of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directories {
    data_root: PathBuf,
    log_root: PathBuf,
}

/// Excludes other servers until it is dropped.
#[derive(Debug)]
pub struct Locks<L> {
    _held: Vec<L>,
}

impl Directories {
    /// Names the roots: `dataDir` and `dataLogDir`, which may be the same.
    pub fn new(data_root: impl Into<PathBuf>, log_root: impl Into<PathBuf>) -> Directories {
        Directories { data_root: data_root.into(), log_root: log_root.into() }
    }

    /// `dataDir`: `myid` is here.
    pub fn data_root(&self) -> &Path {
        &self.data_root
    }

    /// `dataLogDir`.
    pub fn log_root(&self) -> &Path {
        &self.log_root
    }

    /// The directory of snapshots and epoch files.
    pub fn snapshots(&self) -> PathBuf {
        self.data_root.join(VERSION)
    }

    /// The directory of logs.
    pub fn logs(&self) -> PathBuf {
        self.log_root.join(VERSION)
    }

    /// Creates missing directories if allowed, refuses exchanged directories, and locks both roots. `holder`
    /// is the text that a second server reports.
    pub fn open<D: Disk>(
        &self,
        disk: &D,
        missing: Missing,
        holder: &str,
    ) -> Result<Locks<D::Lock>, DirectoryError> {
        let mut roots = vec![&self.data_root];
        if self.log_root != self.data_root {
            roots.push(&self.log_root);
        }
        for root in &roots {
            self.create(disk, root, missing)?;
        }
        let mut held = Vec::new();
        for root in &roots {
            let path = root.join(LOCK);
            match disk.lock(&path, holder) {
                Ok(lock) => held.push(lock),
                Err(LockRefused::Io(source)) => {
                    return Err(IoFailure { action: "lock", path, source }.into());
                }
                Err(LockRefused::Held { holder }) => {
                    let holder = if holder.is_empty() { "unknown".to_owned() } else { holder };
                    return Err(DirectoryError::InUse { path, holder });
                }
            }
        }
        self.check_kinds(disk)?;
        Ok(Locks { _held: held })
    }

    fn create<D: Disk>(&self, disk: &D, root: &Path, missing: Missing) -> Result<(), DirectoryError> {
        let directory = root.join(VERSION);
        if disk.exists(&directory).during("look for", &directory)? {
            return Ok(());
        }
        if missing == Missing::Refuse {
            return Err(DirectoryError::Missing(directory));
        }
        disk.create_directory(&directory).during("create", &directory)?;
        disk.sync_directory(root).during("sync", root)?;
        if let Some(parent) = root.parent()
            && !parent.as_os_str().is_empty()
        {
            disk.sync_directory(parent).during("sync", parent)?;
        }
        Ok(())
    }

    /// With separate directories, each may contain its own kind only: ZooKeeper refuses anything else.
    ///
    /// # Errors
    /// [`DirectoryError::Misplaced`], or the error of the disk.
    pub fn check_kinds<D: Disk>(&self, disk: &D) -> Result<(), DirectoryError> {
        let (snapshots, logs) = (self.snapshots(), self.logs());
        if snapshots == logs {
            return Ok(());
        }
        for (directory, prefix, belongs) in [(&logs, "snapshot.", &snapshots), (&snapshots, "log.", &logs)] {
            let names = disk.list(directory).during("list", directory)?;
            if let Some(name) = names.into_iter().find(|name| name.starts_with(prefix)) {
                let (directory, belongs) = (directory.clone(), belongs.clone());
                return Err(DirectoryError::Misplaced { directory, name, belongs });
            }
        }
        Ok(())
    }
}
