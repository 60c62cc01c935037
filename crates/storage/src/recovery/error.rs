//! Why recovery refuses. Every text names the finding, the place and the action for an operator.

use std::path::PathBuf;

use zebu_proto::{DecodeError, Zxid};

use crate::failure::IoFailure;
use crate::format::scan::LogFlaw;
use crate::pending_operation::PendingOperationError;

/// Why the data was not loaded. Nothing on disk has changed, unless the error says so.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// The disk failed.
    #[error(transparent)]
    Io(#[from] IoFailure),
    /// An operation on the data directory had begun and cannot be completed.
    #[error(transparent)]
    Pending(PendingOperationError),
    /// The server may lack transactions.
    #[error(
        "{}: this data belongs to a member of an ensemble and may lack transactions that it has \
         acknowledged: start it as that member, and the others bring it up to date. To accept the \
         loss, remove this file",
        path.display()
    )]
    Untrusted {
        /// The file with the mark.
        path: PathBuf,
    },
    /// An entry is damaged and others follow it.
    #[error(
        "{}: damaged at offset {at} ({flaw}), behind transaction {last}, but a valid entry of transaction \
         {next} follows at offset {next_at}: dropping what is damaged would lose acknowledged \
         transactions; a member of an ensemble can be emptied and is brought up to date by the others, a \
         standalone server needs a copy of this file",
        path.display()
    )]
    Damaged {
        /// The log.
        path: PathBuf,
        /// The offset of the damage.
        at: u64,
        /// The flaw of the entry.
        flaw: LogFlaw,
        /// The last transaction before it.
        last: Zxid,
        /// The first valid one after it.
        next: Zxid,
        /// Its offset.
        next_at: u64,
    },
    /// An entry has the right checksum but is no transaction.
    #[error(
        "{}: the entry at offset {at} is intact but not a transaction that is known ({error}): it was \
         written by a newer or a modified server; use that one, or a copy of this file",
        path.display()
    )]
    Undecodable {
        /// The log.
        path: PathBuf,
        /// The offset of the entry.
        at: u64,
        /// The decode error.
        error: DecodeError,
    },
    /// A file with the name of a log that is none.
    #[error(
        "{}: offset 0: this is not a transaction log, the magic ZKLG is missing; move the file away if it \
         is something else, restore it from a copy if it was a log",
        path.display()
    )]
    NotALog {
        /// The file.
        path: PathBuf,
    },
    /// A log without a header that is not the newest.
    #[error(
        "{}: offset 0: the header is missing although newer logs exist: its transactions are lost; \
         restore the file from a copy, or remove it if it never held any",
        path.display()
    )]
    HeaderLost {
        /// The log.
        path: PathBuf,
    },
    /// Transactions are missing.
    #[error(
        "{}: offset {at}: transaction {found} does not follow {last}: the ones between are missing; \
         restore the log or the snapshot that held them, or empty this member so that the others bring it \
         up to date",
        path.display()
    )]
    Hole {
        /// The log.
        path: PathBuf,
        /// The offset of the entry after the gap.
        at: u64,
        /// The last transaction before the gap.
        last: Zxid,
        /// The first one after it.
        found: Zxid,
    },
    /// There are snapshots, but none can be used.
    #[error(
        "{}: no snapshot is usable ({rejected}); restore one from a copy. If the logs reach back to the \
         first transaction, move the damaged snapshots away and set snapshot.trust.empty=true for one \
         start",
        directory.display()
    )]
    NoUsableSnapshot {
        /// The directory of the snapshots.
        directory: PathBuf,
        /// The snapshots and their flaws.
        rejected: String,
    },
    /// Logs without any snapshot.
    #[error(
        "{}: no snapshot, but there are transaction logs: the snapshots were lost; restore them. If the \
         logs reach back to the first transaction, set snapshot.trust.empty=true for one start",
        directory.display()
    )]
    LogsWithoutSnapshot {
        /// The directory of the snapshots.
        directory: PathBuf,
    },
    /// An older snapshot and the logs do not reach the zxid of a damaged newer one.
    #[error(
        "{}: this snapshot is damaged ({reason}), and the older ones with the logs lead only to \
         transaction {last}: acknowledged transactions would be lost; restore the file from a copy. To \
         accept the loss, move it away",
        path.display()
    )]
    BehindSnapshot {
        /// The damaged snapshot.
        path: PathBuf,
        /// Its flaw.
        reason: String,
        /// The last transaction that they reach.
        last: Zxid,
    },
    /// The log ends before the transactions that a fuzzy snapshot contains in part.
    #[error(
        "{}: this snapshot holds parts of transactions up to {end}, but the log ends at {last}: the log \
         has lost its end; restore it. To go back to {last}, move this snapshot away so that an older one \
         is used",
        path.display()
    )]
    FuzzyEnd {
        /// The snapshot.
        path: PathBuf,
        /// The last transaction that it may contain in part.
        end: Zxid,
        /// The last transaction of the log.
        last: Zxid,
    },
    /// A transaction that was durable is missing.
    #[error(
        "{}: transaction {noted} was durable, but the log can be read only up to {last}, offset {offset}: \
         the file was damaged after it was written; restore it from a copy. To accept the loss, remove \
         {}",
        path.display(), note.display()
    )]
    DurableLost {
        /// The log.
        path: PathBuf,
        /// The offset of the first unreadable byte.
        offset: u64,
        /// The last transaction that was durable.
        noted: Zxid,
        /// The last one in the log.
        last: Zxid,
        /// The file of the sync watermark.
        note: PathBuf,
    },
}

/// An error of the disk stays one: a temporary failure must not lead to dropped data.
impl From<PendingOperationError> for RecoveryError {
    fn from(error: PendingOperationError) -> RecoveryError {
        match error {
            PendingOperationError::Io(failure) => RecoveryError::Io(failure),
            PendingOperationError::Mark(_) | PendingOperationError::Lost(_) => RecoveryError::Pending(error),
        }
    }
}
