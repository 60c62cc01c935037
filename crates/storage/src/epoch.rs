//! The two epochs of an ensemble's member: the highest promised and the highest whose history was accepted.
//! Both survive every crash, and Apache can start from every state that a crash leaves.

use std::path::PathBuf;

use zebu_proto::Zxid;

use crate::disk::Disk;
use crate::failure::{During, IoFailure};
use crate::small_file::{SmallFileError, read_number, write_number};

const CURRENT: &str = "currentEpoch";
const CURRENT_TEMPORARY: &str = "currentEpoch.tmp";
const ACCEPTED: &str = "acceptedEpoch";
const ACCEPTED_TEMPORARY: &str = "acceptedEpoch.tmp";

/// Why the epochs cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EpochError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] SmallFileError),
    /// The log holds transactions of an epoch that was never promised.
    #[error(
        "{}: the last transaction {last} belongs to a later epoch than the accepted one, {accepted}: the \
         epoch files are older than the log; restore them, or empty the data directory so that this \
         member is brought up to date by the others",
        directory.display()
    )]
    Behind {
        /// Where the epoch files are.
        directory: PathBuf,
        /// The last transaction.
        last: Zxid,
        /// What `acceptedEpoch` says.
        accepted: i64,
    },
    /// A history was accepted of an epoch that was never promised.
    #[error(
        "{}: acceptedEpoch {accepted} is below currentEpoch {current}: the files do not belong together; \
         restore them, or empty the data directory so that this member is brought up to date by the \
         others",
        directory.display()
    )]
    Crossed {
        /// Where the epoch files are.
        directory: PathBuf,
        /// What `currentEpoch` says.
        current: i64,
        /// What `acceptedEpoch` says.
        accepted: i64,
    },
}

impl From<IoFailure> for EpochError {
    fn from(failure: IoFailure) -> EpochError {
        EpochError::File(failure.into())
    }
}

/// The epochs of a member, as they are on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epochs {
    directory: PathBuf,
    current: i64,
    accepted: i64,
}

impl Epochs {
    /// Reads both files, creates missing ones from the last transaction, and repairs what an interrupted
    /// change of epoch leaves.
    pub fn load<D: Disk>(disk: &D, directory: impl Into<PathBuf>, last: Zxid) -> Result<Epochs, EpochError> {
        let directory = directory.into();
        let epoch = last.0 >> 32;
        let found_current = read_number(disk, &directory.join(CURRENT))?;
        let found_accepted = read_number(disk, &directory.join(ACCEPTED))?;
        let mut current = found_current.unwrap_or(epoch);
        if epoch > current {
            // An interrupted rename: the new value is durable under the temporary name.
            match read_number(disk, &directory.join(CURRENT_TEMPORARY)) {
                Ok(Some(next)) => current = next,
                // Cut short while it was written, so nothing depended on it yet.
                Ok(None) | Err(SmallFileError::NotANumber { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let accepted = found_accepted.unwrap_or(epoch.max(current));
        if epoch > accepted {
            return Err(EpochError::Behind { directory, last, accepted });
        }
        // Whoever holds a transaction of an epoch holds the whole history that it began with.
        current = current.max(epoch);
        if accepted < current {
            return Err(EpochError::Crossed { directory, current, accepted });
        }
        let epochs = Epochs { directory, current, accepted };
        epochs.settle(disk, found_current, found_accepted)?;
        Ok(epochs)
    }

    /// Writes what differs and removes what an interrupted write has left.
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

    /// The highest epoch whose history was accepted.
    pub fn current(&self) -> i64 {
        self.current
    }

    /// The highest epoch that was promised.
    pub fn accepted(&self) -> i64 {
        self.accepted
    }

    /// Saves a promise. Durable when it returns.
    pub fn save_accepted<D: Disk>(&mut self, disk: &D, epoch: i64) -> Result<(), IoFailure> {
        write_number(disk, &self.directory, ACCEPTED, epoch)?;
        self.accepted = epoch;
        Ok(())
    }

    /// Saves that the history of an epoch was accepted. Durable when it returns.
    pub fn save_current<D: Disk>(&mut self, disk: &D, epoch: i64) -> Result<(), IoFailure> {
        write_number(disk, &self.directory, CURRENT, epoch)?;
        self.current = epoch;
        Ok(())
    }
}
