//! The two epochs of a server in an ensemble. acceptedEpoch is the highest epoch that it has accepted;
//! currentEpoch is the highest one whose history it has accepted. Both survive every crash, and ZooKeeper can
//! start from every state that a crash leaves.

use std::path::PathBuf;

use zebu_proto::Zxid;

use crate::disk::Disk;
use crate::failure::{During, IoFailure};
use crate::small_file::{SmallFileError, read_number, write_number};
use crate::trust;

const CURRENT: &str = "currentEpoch";
const CURRENT_TEMPORARY: &str = "currentEpoch.tmp";
const ACCEPTED: &str = "acceptedEpoch";
const ACCEPTED_TEMPORARY: &str = "acceptedEpoch.tmp";

/// Epochs have 31 bits on the wire, and this one has no successor: no leader can have proposed it.
const EPOCH_MAX: i64 = i32::MAX as i64;

/// Why the epochs cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EpochError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] SmallFileError),
    /// The log contains transactions of an epoch that was never accepted.
    #[error(
        "{}: the last transaction {last} belongs to a later epoch than the accepted one, {accepted}: the \
         epoch files are older than the log; restore them, or empty the data directory so that this \
         member is brought up to date by the others",
        directory.display()
    )]
    Behind {
        /// The directory of the epoch files.
        directory: PathBuf,
        /// The last transaction.
        last: Zxid,
        /// The value of `acceptedEpoch`.
        accepted: i64,
    },
    /// One of the files is missing.
    #[error(
        "{} is missing although the other epoch file is there: a promise may be forgotten; restore it, or \
         let the others bring this member up to date",
        .0.display()
    )]
    Lost(PathBuf),
    /// No leader has ever proposed this epoch.
    #[error(
        "{}: epoch {epoch} is not below {EPOCH_MAX}, so no leader has ever proposed it: the file is wrong; restore it, \
         or let the others bring this member up to date; if the files of all members are wrong, none can vote: restore \
         those of a majority and remove zebu.untrusted beside them",
        path.display()
    )]
    OutOfRange {
        /// The file.
        path: PathBuf,
        /// Its value.
        epoch: i64,
    },
    /// An epoch is never lowered.
    #[error("{}: epoch {epoch} cannot be saved, it is not between {lowest} and the promised ones",
        path.display())]
    OutOfOrder {
        /// The file.
        path: PathBuf,
        /// The value that was to be saved.
        epoch: i64,
        /// The lowest value that is allowed.
        lowest: i64,
    },
    /// `currentEpoch` is an epoch that was never accepted.
    #[error(
        "{}: acceptedEpoch {accepted} is below currentEpoch {current}: the files do not belong together; \
         restore them, or empty the data directory so that this member is brought up to date by the \
         others",
        directory.display()
    )]
    Crossed {
        /// The directory of the epoch files.
        directory: PathBuf,
        /// The value of `currentEpoch`.
        current: i64,
        /// The value of `acceptedEpoch`.
        accepted: i64,
    },
}

impl EpochError {
    /// Whether the disk failed, rather than the files being wrong.
    pub fn is_io(&self) -> bool {
        matches!(self, EpochError::File(SmallFileError::Io(_)))
    }
}

impl From<IoFailure> for EpochError {
    fn from(failure: IoFailure) -> EpochError {
        EpochError::File(failure.into())
    }
}

/// The epochs of a server, as they are on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epochs {
    directory: PathBuf,
    current: i64,
    accepted: i64,
}

impl Epochs {
    /// Reads both files, creates them from the last transaction if there are none, and repairs an interrupted
    /// change of epoch. An error that is not the disk's means that an accepted epoch may be lost. Then
    /// [`salvage`](Epochs::salvage) continues with an untrusted server.
    pub fn load<D: Disk>(disk: &D, directory: impl Into<PathBuf>, last: Zxid) -> Result<Epochs, EpochError> {
        let directory = directory.into();
        let epoch = last.0 >> 32;
        let found_current = read_number(disk, &directory.join(CURRENT))?;
        let found_accepted = read_number(disk, &directory.join(ACCEPTED))?;
        for (found, name) in [(found_current, CURRENT), (found_accepted, ACCEPTED)] {
            if let Some(epoch) = found.filter(|epoch| *epoch >= EPOCH_MAX) {
                return Err(EpochError::OutOfRange { path: directory.join(name), epoch });
            }
        }
        match (found_current, found_accepted) {
            (None, Some(accepted)) if accepted != epoch => {
                return Err(EpochError::Lost(directory.join(CURRENT)));
            }
            (Some(_), None) => return Err(EpochError::Lost(directory.join(ACCEPTED))),
            // With the epoch of the last transaction accepted, no other can be current: the missing file was
            // never written.
            (None, Some(_) | None) | (Some(_), Some(_)) => {}
        }
        let mut current = found_current.unwrap_or(epoch);
        if epoch > current {
            // An interrupted rename: the new value is durable under the temporary name.
            match read_number(disk, &directory.join(CURRENT_TEMPORARY)) {
                Ok(Some(next)) => current = next,
                // Interrupted while it was written, so that nothing depended on it yet.
                Ok(None) | Err(SmallFileError::NotANumber { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let accepted = found_accepted.unwrap_or(epoch);
        if epoch > accepted {
            return Err(EpochError::Behind { directory, last, accepted });
        }
        // A server with a transaction of an epoch has the complete initial history of that epoch.
        current = current.max(epoch);
        if accepted < current {
            return Err(EpochError::Crossed { directory, current, accepted });
        }
        let epochs = Epochs { directory, current, accepted };
        epochs.settle(disk, found_current, found_accepted)?;
        Ok(epochs)
    }

    /// Continues with files that [`load`](Epochs::load) refuses. The server is marked untrusted first,
    /// durably. The accepted epoch is the highest in any readable file, so it is never lower than a readable
    /// one.
    pub fn salvage<D: Disk>(
        disk: &D,
        directory: impl Into<PathBuf>,
        last: Zxid,
    ) -> Result<Epochs, IoFailure> {
        let directory = directory.into();
        trust::mark_untrusted(disk, &directory)?;
        let mut accepted = last.0 >> 32;
        let mut found = [None; 4];
        for (found, name) in found.iter_mut().zip([CURRENT, ACCEPTED, CURRENT_TEMPORARY, ACCEPTED_TEMPORARY])
        {
            match read_number(disk, &directory.join(name)) {
                // An epoch that no leader has proposed was never accepted.
                Ok(number) => *found = number.filter(|epoch| *epoch < EPOCH_MAX),
                Err(SmallFileError::NotANumber { .. }) => {}
                Err(SmallFileError::Io(failure)) => return Err(failure),
            }
            accepted = accepted.max(found.unwrap_or(accepted));
        }
        let current = (last.0 >> 32).max(found[0].unwrap_or(i64::MIN));
        let epochs = Epochs { directory, current, accepted };
        // Both are rewritten: an unreadable file must not stay.
        epochs.settle(disk, None, None)?;
        Ok(epochs)
    }

    /// Writes the files that differ and removes the leftovers of an interrupted write.
    fn settle<D: Disk>(
        &self,
        disk: &D,
        found_current: Option<i64>,
        found_accepted: Option<i64>,
    ) -> Result<(), IoFailure> {
        if found_accepted != Some(self.accepted) {
            write_number(disk, &self.directory, ACCEPTED, self.accepted)?;
        }
        if found_current != Some(self.current) {
            write_number(disk, &self.directory, CURRENT, self.current)?;
        }
        for name in [CURRENT_TEMPORARY, ACCEPTED_TEMPORARY] {
            let path = self.directory.join(name);
            if disk.exists(&path).during("look for", &path)? {
                disk.remove(&path).during("remove", &path)?;
                disk.sync_directory(&self.directory).during("sync", &self.directory)?;
            }
        }
        Ok(())
    }

    /// `currentEpoch`: the highest epoch whose history was accepted.
    pub fn current(&self) -> i64 {
        self.current
    }

    /// `acceptedEpoch`: the highest epoch that was accepted.
    pub fn accepted(&self) -> i64 {
        self.accepted
    }

    /// Saves `acceptedEpoch`. Durable when it returns. It is never lowered.
    pub fn save_accepted<D: Disk>(&mut self, disk: &D, epoch: i64) -> Result<(), EpochError> {
        if epoch < self.accepted {
            let (path, lowest) = (self.directory.join(ACCEPTED), self.accepted);
            return Err(EpochError::OutOfOrder { path, epoch, lowest });
        }
        write_number(disk, &self.directory, ACCEPTED, epoch)?;
        self.accepted = epoch;
        Ok(())
    }

    /// Saves `currentEpoch`: the complete history of that epoch was accepted and is durable. Durable when it
    /// returns. The server is trusted again. Only an untrusted server may lower it.
    pub fn save_current<D: Disk>(&mut self, disk: &D, epoch: i64) -> Result<(), EpochError> {
        let lowers = epoch < self.current && trust::read(disk, &self.directory)? == trust::Trust::Trusted;
        if lowers || epoch > self.accepted {
            let (path, lowest) = (self.directory.join(CURRENT), self.current);
            return Err(EpochError::OutOfOrder { path, epoch, lowest });
        }
        write_number(disk, &self.directory, CURRENT, epoch)?;
        self.current = epoch;
        trust::mark_trusted(disk, &self.directory)?;
        Ok(())
    }
}
