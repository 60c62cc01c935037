//! Makes a state that came from the leader the only one on disk. It is written beside everything else while
//! it comes in; a durable mark is the point of no return; then old snapshots, old logs and the note about
//! them go, and the new snapshot gets its name. A crash leaves the old history as a whole or the new state,
//! never both.

use std::path::{Path, PathBuf};

use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};

use crate::directory::Directories;
use crate::disk::Disk;
use crate::durable;
use crate::failure::{During, IoFailure};
use crate::format::names::{Compression, KEPT_PREFIX, Spelling, snapshot_name};
use crate::format::pending::RECEIVED_PREFIX;
use crate::format::snapshot::{Sections, SnapshotFlaw};
use crate::log_files;
use crate::pending::{self, Pending, PendingError};
use crate::snapshot_file::{self, Body, validate_as};

/// Why a received state was not installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The disk failed. Before [`Received::commit`] the old history is untouched; in it the server must stop.
    #[error("the received state was not installed: {0}")]
    Io(#[from] IoFailure),
    /// What was written cannot be read back.
    #[error("{}: the received state cannot be read back: {flaw}; check disk and memory", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        flaw: SnapshotFlaw,
    },
    /// It vanished while it was being installed.
    #[error(transparent)]
    Pending(PendingError),
}

impl From<PendingError> for InstallError {
    fn from(error: PendingError) -> InstallError {
        match error {
            PendingError::Io(failure) => InstallError::Io(failure),
            PendingError::Mark(_) | PendingError::Lost(_) => InstallError::Pending(error),
        }
    }
}

enum Stage<F: crate::disk::DiskFile> {
    /// Sessions and ACLs have their number in front.
    Gathering {
        file: F,
        sessions: Vec<(SessionId, i32)>,
        acls: Vec<(i64, Vec<Acl>)>,
    },
    Writing(Body<F>),
    /// A write failed.
    Broken,
}

/// A state that is being received. What it has written is removed by [`abandon`](Receiving::abandon) or by
/// the next recovery.
pub struct Receiving<D: Disk> {
    target: Target<D>,
    stage: Stage<D::File>,
}

/// A received state that is whole and durable, under a name that no server loads.
pub struct Received<D: Disk> {
    target: Target<D>,
}

struct Target<D> {
    disk: D,
    directories: Directories,
    zxid: Zxid,
    compression: Compression,
    /// Name of the file in the snapshots' directory.
    name: String,
    path: PathBuf,
}

impl<D: Disk> Target<D> {
    fn remove(&self) -> Result<(), IoFailure> {
        self.disk.remove(&self.path).during("remove", &self.path)
    }

    /// What the state replaces goes for good: that must not hang on bytes that were never read again.
    fn prove(&self) -> Result<(), InstallError> {
        let Target { disk, path, .. } = self;
        if let Err(flaw) = validate_as(disk, path, self.compression)? {
            return Err(InstallError::Unreadable { path: path.clone(), flaw });
        }
        let directory = self.directories.snapshots();
        Ok(disk.sync_directory(&directory).during("sync", &directory)?)
    }
}

impl<D: Disk> Receiving<D> {
    /// Begins a file of its own; several may be open at a time.
    pub fn begin(
        disk: D,
        directories: &Directories,
        zxid: Zxid,
        compression: Compression,
    ) -> Result<Receiving<D>, InstallError> {
        let directory = directories.snapshots();
        let names = disk.list(&directory).during("list", &directory)?;
        let numbers = names.iter().filter_map(|name| name.strip_prefix(RECEIVED_PREFIX)?.parse::<u64>().ok());
        let name = format!("{RECEIVED_PREFIX}{}", numbers.max().unwrap_or(0).saturating_add(1));
        let path = directory.join(&name);
        let file = disk.create(&path).during("create", &path)?;
        let directories = directories.clone();
        Ok(Receiving {
            target: Target { disk, directories, zxid, compression, name, path },
            stage: Stage::Gathering { file, sessions: Vec::new(), acls: Vec::new() },
        })
    }

    /// The last transaction of the state.
    pub fn zxid(&self) -> Zxid {
        self.target.zxid
    }

    /// A session. All sessions and ACLs come before the first node.
    pub fn session(&mut self, id: SessionId, timeout_ms: i32) {
        if let Stage::Gathering { sessions, .. } = &mut self.stage {
            sessions.push((id, timeout_ms));
        }
    }

    /// An ACL to which nodes refer by number.
    pub fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        if let Stage::Gathering { acls, .. } = &mut self.stage {
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
            self.stage = Stage::Broken;
        }
        Ok(written.during("write", &self.target.path)?)
    }

    fn body(&mut self) -> std::io::Result<&mut Body<D::File>> {
        if let Stage::Gathering { .. } = self.stage
            && let Stage::Gathering { file, sessions, acls } =
                std::mem::replace(&mut self.stage, Stage::Broken)
        {
            let acls = acls.iter().map(|(id, acl)| (*id, &acl[..]));
            let body = Body::begin(file, self.target.compression, sessions.into_iter(), acls)?;
            self.stage = Stage::Writing(body);
        }
        match &mut self.stage {
            Stage::Writing(body) => Ok(body),
            Stage::Gathering { .. } | Stage::Broken => Err(std::io::Error::other("an earlier write failed")),
        }
    }

    /// The state is whole: writes the sections, makes the file durable and reads it back. Removes it on an
    /// error.
    pub fn finish(mut self, sections: Sections) -> Result<Received<D>, InstallError> {
        let begun = self.body().map(|_| ());
        let Receiving { target, stage } = self;
        let finished = begun.and_then(|()| match stage {
            Stage::Writing(body) => body.finish(sections),
            Stage::Gathering { .. } | Stage::Broken => Ok(()),
        });
        match finished.during("write", &target.path).map_err(InstallError::from).and_then(|()| target.prove())
        {
            Ok(()) => Ok(Received { target }),
            Err(error) => {
                // The error that is reported is the first one; a file that stays is removed by recovery.
                let _ = target.remove();
                Err(error)
            }
        }
    }

    /// Gives up and removes what was written.
    pub fn abandon(self) -> Result<(), InstallError> {
        Ok(self.target.remove()?)
    }
}

impl<D: Disk> Received<D> {
    /// The last transaction of the state.
    pub fn zxid(&self) -> Zxid {
        self.target.zxid
    }

    /// Puts the state in the place of all logs and snapshots. No [`LogWriter`](crate::LogWriter) may be open; one
    /// is opened behind the state afterwards. Returns the snapshot's path.
    ///
    /// The history that goes may be longer than the state: a leader's state holds all that was decided before
    /// it, so the rest never was, and whoever gives it up has lost nothing that it promised to keep.
    pub fn commit(self) -> Result<PathBuf, InstallError> {
        let Target { disk, directories, zxid, compression, name, .. } = self.target;
        let snapshot = snapshot_name(zxid, compression);
        let path = directories.snapshots().join(&snapshot);
        let pending = Pending::Install { received: name, snapshot };
        pending::mark(&disk, &directories, &pending)?;
        pending::finish(&disk, &directories, &pending)?;
        Ok(path)
    }

    /// Gives up and removes the file.
    pub fn abandon(self) -> Result<(), InstallError> {
        Ok(self.target.remove()?)
    }
}

/// The steps behind the mark; they may be repeated from the start.
pub(crate) fn replace<D: Disk>(
    disk: &D,
    directories: &Directories,
    received: &str,
    snapshot: &str,
) -> Result<(), PendingError> {
    let directory = directories.snapshots();
    let (from, to) = (directory.join(received), directory.join(snapshot));
    if !disk.exists(&from).during("look for", &from)? {
        // It got its name as the last step.
        let there = disk.exists(&to).during("look for", &to)?;
        return if there { Ok(()) } else { Err(PendingError::Lost(from)) };
    }
    snapshot_file::discard_unfinished(disk, &directory)?;
    // The oldest first: until the last one is gone, Apache sees the old history as a whole, then it refuses
    // logs without a snapshot.
    for file in snapshot_file::list(disk, &directory)?.into_iter().rev() {
        clear(disk, &directory, &file.path, file.name.spelling)?;
        disk.sync_directory(&directory).during("sync", &directory)?;
    }
    let logs = directories.logs();
    for log in log_files::list(disk, &logs)?.into_iter().rev() {
        clear(disk, &logs, &log.path, log.name.spelling)?;
    }
    durable::forget(disk, &logs)?;
    disk.sync_directory(&logs).during("sync", &logs)?;
    disk.rename(&from, &to).during("rename", &from)?;
    disk.sync_directory(&directory).during("sync", &directory)?;
    Ok(())
}

/// Removes a file of the old history; what no server has named is only renamed, so that no server reads it.
fn clear<D: Disk>(disk: &D, directory: &Path, path: &Path, spelling: Spelling) -> Result<(), IoFailure> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match spelling {
        Spelling::Canonical | Spelling::Unfinished => disk.remove(path).during("remove", path),
        Spelling::Foreign => {
            disk.rename(path, &directory.join(format!("{KEPT_PREFIX}{name}"))).during("rename", path)
        }
    }
}
