//! What Zebu keeps on disk, in ZooKeeper's own files: the transaction log, snapshots, epoch files; how they
//! are recovered after any crash, and how old ones are purged.
//!
//! Storage never decides what is committed and knows no tree: recovery drives a [`RecoveryTarget`], the
//! snapshot writer is fed. A write is acknowledged to nobody before [`LogWriter::sync`] has returned; an
//! error of the disk is never retried.

mod aside;
pub mod directory;
pub mod disk;
pub mod durable;
pub mod epoch;
mod failure;
pub mod file;
pub mod format;
pub mod install;
mod log_files;
pub mod log_reader;
pub mod log_writer;
pub mod model;
pub mod pending;
pub mod purge;
pub mod recovery;
pub mod small_file;
pub mod snapshot_file;
pub mod truncate;
pub mod trust;

pub use aside::set_aside;
pub use directory::{Directories, DirectoryError, Locks, Missing};
pub use disk::{Disk, DiskFile, ReadAt};
pub use epoch::{EpochError, Epochs};
pub use failure::IoFailure;
pub use file::FileDisk;
pub use format::names::Compression;
pub use format::snapshot::{
    ContentLimits, Fed, Sections, SnapshotDigest, SnapshotSummary, StreamDecoder, StreamFlaw,
};
pub use install::{InstallError, Received, Receiving};
pub use log_reader::{DiffLimits, LogEntry, LogReader, read_after};
pub use log_writer::{DurableNotes, ForceSync, LogError, LogOptions, LogWriter};
pub use purge::{PurgeReport, purge};
pub use recovery::{
    DroppedTail, EmptySnapshots, Progress, Recovered, RecoveryError, RecoveryOptions, RecoveryTarget, Repair,
    recover,
};
pub use snapshot_file::{SnapshotError, SnapshotWriter, Written};
pub use truncate::{Refusal, TruncateError, Truncated, truncate};
pub use trust::Trust;
