//! Snapshots for an operator: the newest file, and a new file that is exact at one transaction.

use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use tokio::sync::oneshot;
use zebu_proto::Zxid;

use super::ServerViews;

/// A snapshot file that was written for an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorSnapshot {
    /// The file.
    pub path: PathBuf,
    /// The last transaction in it.
    pub zxid: Zxid,
}

/// Why no snapshot was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotRefusal {
    /// The snapshot thread is busy, or has ended.
    #[error("another snapshot is being written; try again later")]
    Busy,
    /// Writes changed the state during each attempt, and it is too large to hold them back.
    #[error(
        "writes changed the state while it was copied, and it is too large to hold them back; try again when the \
         server is less busy"
    )]
    KeptChanging,
    /// The disk has no room for the file.
    #[error(
        "the disk of this server has no room for a snapshot; make room, or ask another server. The log is kept, so \
         nothing is lost"
    )]
    NoRoom,
    /// The file could not be written.
    #[error("the snapshot could not be written: {0}")]
    Failed(String),
}

/// The newest snapshot file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastSnapshot {
    /// The transaction in its name.
    pub zxid: Zxid,
    /// Seconds since 1970 of its last change.
    pub written_seconds: u64,
}

impl ServerViews {
    /// Writes a snapshot that holds exactly the state after one transaction.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn take_snapshot(&self) -> Result<OperatorSnapshot, SnapshotRefusal> {
        let (reply, written) = oneshot::channel();
        if !self.shared.request_operator_snapshot(reply) {
            return Err(SnapshotRefusal::Busy);
        }
        written.await.unwrap_or(Err(SnapshotRefusal::Busy))
    }

    /// The newest snapshot file; `None` without any.
    pub fn last_snapshot(&self) -> Option<LastSnapshot> {
        let directory = self.shared.config.storage.snapshot_dir();
        let entries = std::fs::read_dir(directory).ok()?.flatten();
        let snapshots = entries.filter_map(|entry| {
            let name = entry.file_name();
            let zxid = name.to_str()?.strip_prefix("snapshot.")?.split('.').next()?.to_owned();
            let zxid = Zxid(u64::from_str_radix(&zxid, 16).ok()?.cast_signed());
            let modified = entry.metadata().ok()?.modified().ok()?;
            let written_seconds = modified.duration_since(UNIX_EPOCH).ok()?.as_secs();
            Some(LastSnapshot { zxid, written_seconds })
        });
        snapshots.max_by_key(|snapshot| snapshot.zxid.0)
    }
}
