//! Zebu's data on disk, in ZooKeeper's own files: the transaction log, snapshots, epoch files. This crate
//! recovers them after any crash, and purges old ones.
//!
//! Storage does not commit transactions and knows no tree: recovery drives a [`RecoveryTarget`], and the
//! caller feeds the snapshot writer. No write is acknowledged before [`LogWriter::sync`] has returned; an
//! error of the disk is never retried.

pub mod crash_disk;
pub mod directory;
pub mod disk;
pub mod epoch;
mod failure;
pub mod file;
pub mod format;
pub mod install;
mod log_files;
pub mod log_reader;
pub mod log_writer;
pub mod pending_operation;
pub mod purge;
mod quarantine;
pub mod recovery;
mod reserve;
pub mod small_file;
pub mod snapshot_file;
pub mod sync_watermark;
pub mod truncate;
pub mod trust;

pub use directory::{Directories, DirectoryError, Locks, Missing};
pub use disk::{Disk, DiskFile, DiskSpace, ReadAt};
pub use epoch::{EpochError, Epochs};
pub use failure::IoFailure;
pub use file::FileDisk;
pub use format::names::Compression;
pub use format::snapshot::{
    ContentLimits, Sections, SnapshotDigest, SnapshotSummary, StreamDecoder, StreamFlaw, StreamProgress,
};
pub use install::{InstallError, ReceivedSnapshot, SnapshotInstall};
pub use log_reader::{DiffLimits, LogEntry, LogReader, read_after};
pub use log_writer::{ForceSync, LogError, LogOptions, LogWriter, SyncWatermarks};
pub use purge::{PurgeReport, Retention, purge, purge_for_room, purge_to};
pub use quarantine::quarantine;
pub use recovery::{
    DroppedTail, EmptySnapshots, RecoveredState, RecoveryError, RecoveryOptions, RecoveryProgress,
    RecoveryRepair, RecoveryTarget, recover,
};
pub use reserve::{RESERVE_NAME, ReserveFile};
pub use snapshot_file::{SnapshotError, SnapshotTarget, SnapshotWriter, WrittenSnapshot};
pub use truncate::{TruncateError, TruncateRefusal, Truncated, truncate};
pub use trust::Trust;
