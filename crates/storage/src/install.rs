//! Installs a snapshot from the leader as the only data on disk. The snapshot is written beside the old data
//! while it is received; a durable mark is the point of no return. Then old snapshots, old logs and their
//! sync watermark are removed, and the new snapshot gets its name. A crash leaves either the complete old
//! history or the new snapshot, never both.

use std::path::{Path, PathBuf};

use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};

use crate::directory::Directories;
use crate::disk::Disk;
use crate::failure::{During, IoFailure};
use crate::format::names::{Compression, KEPT_PREFIX, NameSpelling, snapshot_name};
use crate::format::pending::RECEIVED_PREFIX;
use crate::format::snapshot::{Sections, SnapshotFlaw};
use crate::log_files;
use crate::pending_operation::{self, PendingOperation, PendingOperationError};
use crate::snapshot_file::{self, SnapshotBody, validate_as};
use crate::sync_watermark;

/// Why a received snapshot was not installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The disk failed. An error before [`ReceivedSnapshot::commit`] leaves the old history untouched; after
    /// an error in it the server must stop.
    #[error("the received state was not installed: {0}")]
    Io(#[from] IoFailure),
    /// The written snapshot cannot be read back.
    #[error("{}: the received state cannot be read back: {flaw}; check disk and memory", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The flaw of the file.
        flaw: SnapshotFlaw,
    },
    /// The file disappeared while it was being installed.
    #[error(transparent)]
    Pending(PendingOperationError),
}

impl From<PendingOperationError> for InstallError {
    fn from(error: PendingOperationError) -> InstallError {
        match error {
            PendingOperationError::Io(failure) => InstallError::Io(failure),
            PendingOperationError::Mark(_) | PendingOperationError::Lost(_) => InstallError::Pending(error),
        }
    }
}

enum InstallStage<F: crate::disk::DiskFile> {
    /// Sessions and ACLs are collected, because their counts come first.
    Gathering {
        file: F,
        sessions: Vec<(SessionId, i32)>,
        acls: Vec<(i64, Vec<Acl>)>,
    },
    Writing(SnapshotBody<F>),
    /// A write failed.
    Broken,
}

/// A snapshot that is being received. [`abandon`](SnapshotInstall::abandon) or the next recovery removes its
/// file.
pub struct SnapshotInstall<D: Disk> {
    target: InstallTarget<D>,
    stage: InstallStage<D::File>,
}

/// A received snapshot that is complete and durable, under a name that no server loads.
pub struct ReceivedSnapshot<D: Disk> {
    target: InstallTarget<D>,
}

struct InstallTarget<D> {
    disk: D,
    directories: Directories,
    zxid: Zxid,
    compression: Compression,
    /// Name of the file in the snapshots' directory.
    name: String,
    path: PathBuf,
}

impl<D: Disk> InstallTarget<D> {
    fn remove(&self) -> Result<(), IoFailure> {
        self.disk.remove(&self.path).during("remove", &self.path)
    }

    /// Reads the file back: the old history is removed for good, and must not depend on bytes that were never
    /// read.
    fn prove(&self) -> Result<(), InstallError> {
        let InstallTarget { disk, path, .. } = self;
        if let Err(flaw) = validate_as(disk, path, self.compression)? {
            return Err(InstallError::Unreadable { path: path.clone(), flaw });
        }
        let directory = self.directories.snapshots();
        Ok(disk.sync_directory(&directory).during("sync", &directory)?)
    }
}

impl<D: Disk> SnapshotInstall<D> {
    /// Creates a file of its own; several may be open at a time.
    pub fn begin(
        disk: D,
        directories: &Directories,
        zxid: Zxid,
        compression: Compression,
    ) -> Result<SnapshotInstall<D>, InstallError> {
        let directory = directories.snapshots();
        let names = disk.list(&directory).during("list", &directory)?;
        let numbers = names.iter().filter_map(|name| name.strip_prefix(RECEIVED_PREFIX)?.parse::<u64>().ok());
        let name = format!("{RECEIVED_PREFIX}{}", numbers.max().unwrap_or(0).saturating_add(1));
        let path = directory.join(&name);
        let file = disk.create(&path).during("create", &path)?;
        let directories = directories.clone();
        Ok(SnapshotInstall {
            target: InstallTarget { disk, directories, zxid, compression, name, path },
            stage: InstallStage::Gathering { file, sessions: Vec::new(), acls: Vec::new() },
        })
    }

    /// The last zxid of the snapshot.
    pub fn zxid(&self) -> Zxid {
        self.target.zxid
    }

    /// A session. All sessions and ACLs come before the first node.
    pub fn session(&mut self, id: SessionId, timeout_ms: i32) {
        if let InstallStage::Gathering { sessions, .. } = &mut self.stage {
            sessions.push((id, timeout_ms));
        }
    }

    /// An ACL to which nodes refer by number.
    pub fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        if let InstallStage::Gathering { acls, .. } = &mut self.stage {
            acls.push((id, acl));
        }
    }

    /// A node, after its parent; the root has the empty path.
    pub fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<(), InstallError> {
        let written = self.body().and_then(|body| body.node(path, data, acl, stat));
        if written.is_err() {
            self.stage = InstallStage::Broken;
        }
        Ok(written.during("write", &self.target.path)?)
    }

    fn body(&mut self) -> std::io::Result<&mut SnapshotBody<D::File>> {
        if let InstallStage::Gathering { .. } = self.stage
            && let InstallStage::Gathering { file, sessions, acls } =
                std::mem::replace(&mut self.stage, InstallStage::Broken)
        {
            let acls = acls.iter().map(|(id, acl)| (*id, &acl[..]));
            let body = SnapshotBody::begin(file, self.target.compression, sessions.into_iter(), acls)?;
            self.stage = InstallStage::Writing(body);
        }
        match &mut self.stage {
            InstallStage::Writing(body) => Ok(body),
            InstallStage::Gathering { .. } | InstallStage::Broken => {
                Err(std::io::Error::other("an earlier write failed"))
            }
        }
    }

    /// Completes the snapshot: writes the sections, makes the file durable and reads it back. Removes the
    /// file on an error.
    pub fn finish(mut self, sections: Sections) -> Result<ReceivedSnapshot<D>, InstallError> {
        let begun = self.body().map(|_| ());
        let SnapshotInstall { target, stage } = self;
        let finished = begun.and_then(|()| match stage {
            InstallStage::Writing(body) => body.finish(sections),
            InstallStage::Gathering { .. } | InstallStage::Broken => Ok(()),
        });
        match finished.during("write", &target.path).map_err(InstallError::from).and_then(|()| target.prove())
        {
            Ok(()) => Ok(ReceivedSnapshot { target }),
            Err(error) => {
                // The first error is reported; recovery removes a file that stays.
                let _ = target.remove();
                Err(error)
            }
        }
    }

    /// Removes the file.
    pub fn abandon(self) -> Result<(), InstallError> {
        Ok(self.target.remove()?)
    }
}

impl<D: Disk> ReceivedSnapshot<D> {
    /// The last zxid of the snapshot.
    pub fn zxid(&self) -> Zxid {
        self.target.zxid
    }

    /// Replaces all logs and snapshots by the snapshot. No [`LogWriter`](crate::LogWriter) may be open; a new
    /// one is opened after the snapshot's zxid. Returns the snapshot's path.
    ///
    /// The old history may be longer than the snapshot. A leader's snapshot contains every transaction that
    /// was committed before it. The others were never committed, so that dropping them loses no acknowledged
    /// write.
    pub fn commit(self) -> Result<PathBuf, InstallError> {
        let InstallTarget { disk, directories, zxid, compression, name, .. } = self.target;
        let snapshot = snapshot_name(zxid, compression);
        let path = directories.snapshots().join(&snapshot);
        let pending = PendingOperation::Install { received: name, snapshot };
        pending_operation::mark(&disk, &directories, &pending)?;
        pending_operation::finish(&disk, &directories, &pending)?;
        Ok(path)
    }

    /// Removes the file.
    pub fn abandon(self) -> Result<(), InstallError> {
        Ok(self.target.remove()?)
    }
}

/// The steps after the mark; they may be repeated from the start.
pub(crate) fn replace<D: Disk>(
    disk: &D,
    directories: &Directories,
    received: &str,
    snapshot: &str,
) -> Result<(), PendingOperationError> {
    let directory = directories.snapshots();
    let (from, to) = (directory.join(received), directory.join(snapshot));
    if !disk.exists(&from).during("look for", &from)? {
        // The rename is the last step.
        let there = disk.exists(&to).during("look for", &to)?;
        return if there { Ok(()) } else { Err(PendingOperationError::Lost(from)) };
    }
    snapshot_file::discard_unfinished(disk, &directory)?;
    // The oldest first: until the last one is removed, ZooKeeper sees the complete old history. Then it
    // refuses logs without a snapshot.
    for file in snapshot_file::list(disk, &directory)?.into_iter().rev() {
        clear(disk, &directory, &file.path, file.name.spelling)?;
        disk.sync_directory(&directory).during("sync", &directory)?;
    }
    let logs = directories.logs();
    for log in log_files::list(disk, &logs)?.into_iter().rev() {
        clear(disk, &logs, &log.path, log.name.spelling)?;
    }
    sync_watermark::forget(disk, &logs)?;
    disk.sync_directory(&logs).during("sync", &logs)?;
    disk.rename(&from, &to).during("rename", &from)?;
    disk.sync_directory(&directory).during("sync", &directory)?;
    Ok(())
}

/// Removes a file of the old history; a file with a foreign name is only renamed, so that no server reads it.
fn clear<D: Disk>(disk: &D, directory: &Path, path: &Path, spelling: NameSpelling) -> Result<(), IoFailure> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match spelling {
        NameSpelling::Canonical | NameSpelling::Unfinished => disk.remove(path).during("remove", path),
        NameSpelling::Foreign => {
            disk.rename(path, &directory.join(format!("{KEPT_PREFIX}{name}"))).during("rename", path)
        }
    }
}
