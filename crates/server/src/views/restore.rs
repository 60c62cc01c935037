//! A snapshot that an operator brings: received into a file, checked as a whole, then put in the place of the
//! state of a standalone server.
//!
//! The file has a name that no server loads; the next start removes it. The functions that read or write it
//! block their thread.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tokio::sync::oneshot;
use zebu_runtime::{RestoreFlaw, RestoredState};
use zebu_storage::format::pending::RECEIVED_PREFIX;

use super::ServerViews;
use crate::core::inbox::ControlEvent;
use crate::core::restore::{RestoreRefusal, RestoreRequest, RestoredSummary};
use crate::settings;

/// Bytes that a restore leaves free, so that the log of the server can grow meanwhile.
const ROOM_LEFT_BYTES: u64 = 64 << 20;

/// The room is checked again after this many bytes.
const ROOM_CHECK_BYTES: u64 = 8 << 20;

/// Numbers of file names that are tried.
const NAMES_MAX: u64 = 1000;

/// A snapshot that is being received. Its file is removed with it.
#[derive(Debug)]
pub struct StateUpload {
    file: File,
    path: PathBuf,
    received: u64,
    /// The room is known to be enough up to this length.
    checked: u64,
    limit: u64,
}

impl StateUpload {
    /// Adds bytes.
    ///
    /// # Errors
    /// There are too many bytes, or the disk has no room for them.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), RestoreRefusal> {
        self.received = self.received.saturating_add(bytes.len() as u64);
        if self.received > self.limit {
            return Err(RestoreRefusal::TooLong { limit: self.limit });
        }
        if self.received > self.checked {
            check_room(&self.path, ROOM_CHECK_BYTES.max(bytes.len() as u64))?;
            self.checked = self.received.saturating_add(ROOM_CHECK_BYTES);
        }
        self.file.write_all(bytes).map_err(|error| not_written(&self.path, &error))
    }

    /// The bytes that were received.
    pub fn received(&self) -> u64 {
        self.received
    }
}

impl Drop for StateUpload {
    fn drop(&mut self) {
        // The next start removes a file that stays.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl ServerViews {
    /// Begins to receive a snapshot of this length, if it is known.
    ///
    /// # Errors
    /// This server takes no state, or has no room for it.
    pub fn begin_restore(&self, length: Option<u64>, limit: u64) -> Result<StateUpload, RestoreRefusal> {
        if self.shared.config.membership.is_ensemble() {
            return Err(RestoreRefusal::Ensemble);
        }
        if length.is_some_and(|length| length > limit) {
            return Err(RestoreRefusal::TooLong { limit });
        }
        let directory = self.shared.config.storage.snapshot_dir();
        let checked = length.unwrap_or(0);
        check_room(&directory, checked)?;
        let (file, path) = create(&directory).map_err(|error| not_written(&directory, &error))?;
        Ok(StateUpload { file, path, received: 0, checked, limit })
    }

    /// Checks the received snapshot and puts it in the place of the state. All clients are closed. The
    /// answer comes when the new state is durable and served.
    ///
    /// # Errors
    /// The old state is in place. [`RestoreRefusal::Stopping`] may leave either one to the next start.
    pub fn restore(&self, upload: StateUpload) -> Result<RestoredSummary, RestoreRefusal> {
        let state = self.load(&upload)?;
        // Removed first: the new state is written beside the old files.
        let path = upload.path.clone();
        drop(upload);
        check_room(path.parent().unwrap_or(&path), state.size())?;
        let (reply, ended) = oneshot::channel();
        let request = RestoreRequest { state: Box::new(state), reply };
        self.shared.inbox.push_control(ControlEvent::Restore(Box::new(request)));
        ended.blocking_recv().unwrap_or(Err(RestoreRefusal::Stopping))
    }

    fn load(&self, upload: &StateUpload) -> Result<RestoredState, RestoreRefusal> {
        let file = File::open(&upload.path).map_err(|error| not_written(&upload.path, &error))?;
        let options = settings::tree_options(&self.shared.config, self.shared.hash_seed);
        RestoredState::read(file, options, upload.limit).map_err(|flaw| match flaw {
            RestoreFlaw::TooLong { limit } => RestoreRefusal::TooLong { limit },
            RestoreFlaw::Snapshot(_) | RestoreFlaw::Digest { .. } | RestoreFlaw::Zxid(_) => {
                RestoreRefusal::BadSnapshot(flaw.to_string())
            }
        })
    }
}

/// Creates a file with a free name.
fn create(directory: &Path) -> io::Result<(File, PathBuf)> {
    for number in 1..=NAMES_MAX {
        let path = directory.join(format!("{RECEIVED_PREFIX}upload.{number}"));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Whether the disk of a path has room for this many bytes and for the log.
fn check_room(path: &Path, bytes: u64) -> Result<(), RestoreRefusal> {
    let space = rustix::fs::statvfs(path).map_err(|error| not_written(path, &error.into()))?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let needed = bytes.saturating_add(ROOM_LEFT_BYTES);
    if free < needed { Err(RestoreRefusal::NoRoom { free, needed }) } else { Ok(()) }
}

fn not_written(path: &Path, error: &io::Error) -> RestoreRefusal {
    RestoreRefusal::NotWritten(format!("{}: {error}", path.display()))
}
