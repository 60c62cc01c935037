//! The errors of the disk worker. Each of them ends the process, which is safe: only durable transactions
//! were acknowledged.

use zebu_proto::Zxid;
use zebu_proto::jute::DecodeError;
use zebu_storage::{
    EpochError, InstallError, IoFailure, LogError, RecoveryError, SnapshotError, TruncateError,
};
use zebu_zab::LinkId;

/// A command or an append failed.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The transaction log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// An epoch file failed.
    #[error(transparent)]
    Epoch(#[from] EpochError),
    /// The truncation of the log failed.
    #[error(transparent)]
    Truncate(#[from] TruncateError),
    /// The installation of a snapshot failed.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// The first snapshot of a directory failed.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// Reloading the state after a truncation failed.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// Another file failed.
    #[error(transparent)]
    Io(#[from] IoFailure),
    /// A transaction after a received snapshot cannot be decoded.
    #[error("transaction {zxid} after a received snapshot cannot be decoded: {reason}")]
    Undecodable {
        /// The zxid of the transaction.
        zxid: Zxid,
        /// The decode error.
        reason: DecodeError,
    },
    /// An InstallSnapshot command names a snapshot that was not received.
    #[error("the snapshot of link {} was to be installed, but never came", link.0)]
    SnapshotMissing {
        /// The connection to the leader.
        link: LinkId,
    },
}
