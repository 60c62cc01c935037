//! From the files to the state: the newest valid snapshot, then the log after it, checked for gaps.
//!
//! Recovery refuses rather than guesses. A torn tail of the last log was never acknowledged and is dropped.
//! Damage with valid entries after it, a gap, or a lost transaction below the sync watermark is an error. The
//! error names the file, the offset and the remedy. The disk is changed only after everything was read and
//! accepted.

mod error;
mod repair;
mod replay;
mod snapshot;

use std::path::{Path, PathBuf};

use zebu_proto::Zxid;
use zebu_proto::txn::TxnEntry;

use crate::directory::Directories;
use crate::disk::Disk;
use crate::failure::During;
use crate::format::durable::SyncWatermark;
use crate::format::names::{compression_of, parse_snapshot};
use crate::format::scan::LogFlaw;
use crate::format::snapshot::{SnapshotSummary, SnapshotVisitor};
use crate::log_files::{self, LogFile};
use crate::pending_operation::{self, PendingOperation};
use crate::snapshot_file::{self, SnapshotFile};
use crate::sync_watermark::{self, read_note};
use crate::trust::{self, Trust};
pub use error::RecoveryError;
pub use repair::RecoveryRepair;
use repair::{leftovers, perform};
use replay::{LogReplay, ReplayResult};
use snapshot::{SnapshotBase, load_base};

/// Receives the state: a snapshot, whose invalid nodes it rejects, and the transactions after it. Storage
/// does not interpret them.
pub trait RecoveryTarget: SnapshotVisitor {
    /// Drops everything: another attempt begins.
    fn reset(&mut self);

    /// The snapshot was read to its end and its checksums are right.
    fn snapshot_loaded(&mut self, zxid: Zxid);

    /// A transaction after the snapshot.
    fn apply(&mut self, entry: &TxnEntry);

    /// The digest of the state; `None` if digests are off.
    fn digest(&self) -> Option<i64>;
}

/// The policy for logs without any snapshot (`snapshot.trust.empty`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EmptySnapshots {
    /// A snapshot was lost: refuse.
    #[default]
    Refuse,
    /// The logs contain everything from the first transaction on.
    Trust,
}

/// The policy for a fuzzy snapshot whose later transactions are missing in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FuzzyEnd {
    /// The log has lost transactions: refuse. Right for a standalone server.
    #[default]
    Refuse,
    /// Report it. Right for a server of an ensemble: its peers have these transactions and send them again.
    Report,
}

/// The policy for an untrusted server, see [`crate::trust`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Untrusted {
    /// Transactions may be missing: refuse. Right for a standalone server.
    #[default]
    Refuse,
    /// Report it. Right for a server of an ensemble: it does not vote until it is synchronized.
    Report,
}

/// Whether recovery may change the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RecoveryChanges {
    /// Torn tails are truncated, leftovers removed.
    #[default]
    Perform,
    /// Changes are only reported. For tools.
    Plan,
}

/// The policies of recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RecoveryOptions {
    /// Logs without a snapshot.
    pub empty_snapshots: EmptySnapshots,
    /// A fuzzy snapshot that the log does not complete.
    pub fuzzy_end: FuzzyEnd,
    /// An untrusted server.
    pub untrusted: Untrusted,
    /// Whether the disk may be changed.
    pub changes: RecoveryChanges,
}

impl RecoveryOptions {
    /// For a server of an ensemble: damage that a synchronization repairs is reported, not refused.
    pub fn member() -> RecoveryOptions {
        RecoveryOptions {
            fuzzy_end: FuzzyEnd::Report,
            untrusted: Untrusted::Report,
            ..RecoveryOptions::default()
        }
    }
}

/// The progress of recovery; called every few thousand records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryProgress<'a> {
    /// Reading a snapshot.
    Snapshot {
        /// The file.
        path: &'a Path,
        /// Uncompressed bytes so far.
        bytes: u64,
    },
    /// Reading a log.
    Log {
        /// The file.
        path: &'a Path,
        /// Bytes so far.
        bytes: u64,
        /// Bytes of the file, padding included.
        length: u64,
        /// Last transaction.
        zxid: Zxid,
    },
}

/// The snapshot that was used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedSnapshot {
    /// Its path.
    pub path: PathBuf,
    /// The zxid of its name.
    pub zxid: Zxid,
    /// Its counts and sections.
    pub summary: SnapshotSummary,
}

/// A snapshot that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedSnapshot {
    /// Its path.
    pub path: PathBuf,
    /// The zxid of its name.
    pub zxid: Zxid,
    /// The reason.
    pub reason: String,
}

/// Bytes at the end of a log that were not a complete entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedTail {
    /// The log.
    pub path: PathBuf,
    /// Their offset, where the log ends now.
    pub at: u64,
    /// Their flaw.
    pub flaw: LogFlaw,
    /// The last transaction before them.
    pub kept: Zxid,
    /// The transaction that was lost, if the bytes still name one.
    pub claimed: Option<Zxid>,
}

/// The source of a digest that differs from the state's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestSource {
    /// In the snapshot.
    Snapshot,
    /// In a log entry.
    Log,
}

/// A digest that differs from the state's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestMismatch {
    /// The transaction that it belongs to.
    pub zxid: Zxid,
    /// The source of the other digest.
    pub source: DigestSource,
    /// The digest in the file.
    pub expected: i64,
    /// The digest of the state.
    pub found: i64,
}

/// Digests that were compared while loading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DigestReport {
    /// How many.
    pub compared: u64,
    /// How many differ.
    pub mismatched: u64,
    /// The first few that differ.
    pub first: Vec<DigestMismatch>,
}

/// The result of recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredState {
    /// The last transaction of the state; zero for an empty database.
    pub last_zxid: Zxid,
    /// The snapshot that was loaded; `None` for an empty database, and for trusted logs without one. A server
    /// then writes `snapshot.0` before its first log.
    pub snapshot: Option<LoadedSnapshot>,
    /// Newer snapshots that could not be used.
    pub rejected: Vec<RejectedSnapshot>,
    /// Transactions that were applied after the snapshot.
    pub applied: u64,
    /// Entries that repeat an earlier zxid; skipped.
    pub repeated: u64,
    /// Torn tails that were dropped.
    pub dropped: Vec<DroppedTail>,
    /// The compared digests.
    pub digests: DigestReport,
    /// The snapshot contains parts of transactions up to this one, which the log does not reach. The state is
    /// right only when they have been applied again.
    pub fuzzy_until: Option<Zxid>,
    /// The changes on disk.
    pub repairs: Vec<RecoveryRepair>,
    /// A pending operation that recovery has completed.
    pub finished: Option<PendingOperation>,
    /// Whether the state contains every acknowledged transaction. An empty state is trusted here unless it
    /// was quarantined; the caller decides whether an ensemble may trust it.
    pub trust: Trust,
}

/// The files that the state is read from.
struct RecoverySource {
    snapshots: Vec<SnapshotFile>,
    logs: Vec<LogFile>,
    note: Option<SyncWatermark>,
}

/// Loads everything into `target`. On an error the target contains garbage and nothing on disk has changed,
/// except that a pending installation or quarantine is completed.
pub fn recover<D: Disk>(
    disk: &D,
    directories: &Directories,
    options: RecoveryOptions,
    target: &mut dyn RecoveryTarget,
    progress: &mut dyn FnMut(RecoveryProgress<'_>),
) -> Result<RecoveredState, RecoveryError> {
    let pending = pending_operation::read(disk, directories)?;
    if let (Some(pending), RecoveryChanges::Perform) = (&pending, options.changes) {
        pending_operation::finish(disk, directories, pending)?;
    }
    let marked = check_trust(disk, directories, options, pending.as_ref())?;
    let source = match (&pending, options.changes) {
        (Some(pending), RecoveryChanges::Plan) => RecoverySource::as_finished(disk, directories, pending)?,
        (None, _) | (_, RecoveryChanges::Perform) => RecoverySource::list(disk, directories)?,
    };
    let base = load_base(disk, directories, &source, target, progress)?;
    let has_only_logs = base.snapshot.is_none() && !source.logs.is_empty();
    if has_only_logs && options.empty_snapshots == EmptySnapshots::Refuse {
        return Err(RecoveryError::LogsWithoutSnapshot { directory: directories.snapshots() });
    }
    let replay = LogReplay::new(disk, &base, source.note, target, progress);
    let replayed = replay.run(&source.logs)?;
    check_reached(&base, &replayed)?;
    check_note(directories, source.note, &replayed)?;
    let fuzzy_until = base.fuzzy_end().filter(|&end| end > replayed.last);
    if let (Some(end), FuzzyEnd::Refuse, Some(snapshot)) = (fuzzy_until, options.fuzzy_end, &base.snapshot) {
        let path = snapshot.path.clone();
        return Err(RecoveryError::FuzzyEnd { path, end, last: replayed.last });
    }
    let mut repairs = replayed.repairs;
    let in_use = base.snapshot.as_ref().map(|snapshot| &snapshot.path);
    repairs.extend(leftovers(disk, directories)?.into_iter().filter(|it| Some(it.path()) != in_use));
    if options.changes == RecoveryChanges::Perform {
        let mut read = replayed.read;
        read.extend(base.snapshot.iter().map(|snapshot| snapshot.path.clone()));
        perform(disk, directories, &repairs, &read)?;
        if let Some(end) = replayed.end {
            sync_watermark::raise(disk, &directories.logs(), end, replayed.last)?;
        }
    }
    Ok(RecoveredState {
        last_zxid: replayed.last,
        snapshot: base.snapshot,
        rejected: base.rejected,
        applied: replayed.applied,
        repeated: replayed.repeated,
        dropped: replayed.dropped,
        digests: replayed.digests,
        fuzzy_until,
        repairs,
        finished: pending,
        trust: if fuzzy_until.is_some() { Trust::Untrusted } else { marked },
    })
}

impl RecoverySource {
    fn list<D: Disk>(disk: &D, directories: &Directories) -> Result<RecoverySource, RecoveryError> {
        let note = read_note(disk, &directories.logs())?;
        let logs = log_files::list(disk, &directories.logs())?;
        let snapshots = snapshot_file::list(disk, &directories.snapshots())?;
        Ok(RecoverySource { snapshots, logs, note })
    }

    /// The directory as if a pending operation were completed, for callers that may not complete it.
    fn as_finished<D: Disk>(
        disk: &D,
        directories: &Directories,
        pending: &PendingOperation,
    ) -> Result<RecoverySource, RecoveryError> {
        let mut snapshots = Vec::new();
        if let PendingOperation::Install { received, snapshot, .. } = pending
            && let Some(name) = parse_snapshot(snapshot)
        {
            let mut path = directories.snapshots().join(received);
            if !disk.exists(&path).during("look for", &path)? {
                path = directories.snapshots().join(snapshot);
            }
            snapshots.push(SnapshotFile { path, name, compression: compression_of(snapshot) });
        }
        Ok(RecoverySource { snapshots, logs: Vec::new(), note: None })
    }
}

fn check_trust<D: Disk>(
    disk: &D,
    directories: &Directories,
    options: RecoveryOptions,
    pending: Option<&PendingOperation>,
) -> Result<Trust, RecoveryError> {
    let trust = match pending {
        Some(PendingOperation::SetAside { .. }) => Trust::Untrusted,
        Some(PendingOperation::Install { .. }) | None => trust::read(disk, &directories.snapshots())?,
    };
    if trust == Trust::Untrusted && options.untrusted == Untrusted::Refuse {
        return Err(RecoveryError::Untrusted { path: directories.snapshots().join(trust::NAME) });
    }
    Ok(trust)
}

/// An unusable newer snapshot still names a zxid: the logs must reach it.
fn check_reached(base: &SnapshotBase, replayed: &ReplayResult) -> Result<(), RecoveryError> {
    for rejected in &base.rejected {
        if rejected.zxid > replayed.last && rejected.zxid.counter() != 0 {
            return Err(RecoveryError::BehindSnapshot {
                path: rejected.path.clone(),
                reason: rejected.reason.clone(),
                last: replayed.last,
            });
        }
    }
    Ok(())
}

fn check_note(
    directories: &Directories,
    note: Option<SyncWatermark>,
    replayed: &ReplayResult,
) -> Result<(), RecoveryError> {
    let Some(note) = note.filter(|note| note.zxid > replayed.last) else { return Ok(()) };
    let logs = directories.logs();
    let tail = replayed.dropped.last();
    Err(RecoveryError::DurableLost {
        path: tail.map_or_else(|| logs.join(crate::format::names::log_name(note.log)), |it| it.path.clone()),
        offset: tail.map_or(note.offset, |tail| tail.at),
        noted: note.zxid,
        last: replayed.last,
        note: logs.join(crate::format::durable::NAME),
    })
}
