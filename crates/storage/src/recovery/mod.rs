//! From the files to the state: the newest valid snapshot, then the log behind it, checked for holes.
//!
//! Recovery refuses rather than guesses. A torn tail of the last log was never acknowledged and is dropped;
//! damage with valid entries behind it, a hole, a transaction that was noted as durable and is gone: these
//! are errors that name the file, the offset and the way out. The disk is changed only after everything was
//! read and accepted.

mod error;
mod repair;
mod replay;
mod snapshot;

use std::path::{Path, PathBuf};

use zebu_proto::Zxid;
use zebu_proto::txn::TxnEntry;

use crate::directory::Directories;
use crate::disk::Disk;
use crate::durable::{self, read_note};
use crate::failure::During;
use crate::format::durable::DurableNote;
use crate::format::names::{compression_of, parse_snapshot};
use crate::format::scan::Flaw;
use crate::format::snapshot::{SnapshotSummary, SnapshotVisitor};
use crate::log_files::{self, LogFile};
use crate::pending::{self, Pending};
use crate::snapshot_file::{self, SnapshotFile};
use crate::trust::{self, Trust};
pub use error::RecoveryError;
pub use repair::Repair;
use repair::{leftovers, perform};
use replay::{Replay, Replayed};
use snapshot::{Base, load_base};

/// Receives the state: a snapshot, which a node that cannot be rejects, and what is behind it. Storage does not
/// know what it means.
pub trait RecoveryTarget: SnapshotVisitor {
    /// Forgets everything: another attempt begins.
    fn reset(&mut self);

    /// The snapshot was read to its end and its checksums are right.
    fn snapshot_loaded(&mut self, zxid: Zxid);

    /// A transaction behind the snapshot.
    fn apply(&mut self, entry: &TxnEntry);

    /// The digest of the state; `None` if digests are off.
    fn digest(&self) -> Option<i64>;
}

/// What logs without any snapshot mean (`snapshot.trust.empty`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EmptySnapshots {
    /// Something was lost: refuse.
    #[default]
    Refuse,
    /// The logs hold everything from the first transaction on.
    Trust,
}

/// What a snapshot means that was still being written while later transactions were applied, when the log
/// does not reach them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FuzzyEnd {
    /// The log has lost transactions: refuse. Right for a standalone server.
    #[default]
    Refuse,
    /// Report it. Right for a member: the others have these transactions and send them again.
    Report,
}

/// What the mark of an untrusted member means, see [`crate::trust`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Untrusted {
    /// Transactions may be missing: refuse. Right for a standalone server.
    #[default]
    Refuse,
    /// Report it. Right for a member: it does not vote until the others have brought it up to date.
    Report,
}

/// Whether recovery may change the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Changes {
    /// Torn tails are cut, left-overs removed.
    #[default]
    Perform,
    /// What would be done is only reported. For tools.
    Plan,
}

/// How recovery decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RecoveryOptions {
    /// Logs without a snapshot.
    pub empty_snapshots: EmptySnapshots,
    /// A fuzzy snapshot that the log does not complete.
    pub fuzzy_end: FuzzyEnd,
    /// A member that may lack something.
    pub untrusted: Untrusted,
    /// Whether the disk may be changed.
    pub changes: Changes,
}

impl RecoveryOptions {
    /// For a member of an ensemble: what the others can make good is reported, not refused.
    pub fn member() -> RecoveryOptions {
        RecoveryOptions {
            fuzzy_end: FuzzyEnd::Report,
            untrusted: Untrusted::Report,
            ..RecoveryOptions::default()
        }
    }
}

/// How far recovery has come; called every few thousand records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// Reading a snapshot.
    Snapshot {
        /// Which.
        path: &'a Path,
        /// Unpacked bytes so far.
        bytes: u64,
    },
    /// Reading a log.
    Log {
        /// Which.
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
    /// Its file.
    pub path: PathBuf,
    /// The zxid of its name.
    pub zxid: Zxid,
    /// What it said beside the state.
    pub summary: SnapshotSummary,
}

/// A snapshot that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedSnapshot {
    /// Its file.
    pub path: PathBuf,
    /// The zxid of its name.
    pub zxid: Zxid,
    /// Why.
    pub reason: String,
}

/// Bytes at the end of a log that were not a whole entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedTail {
    /// The log.
    pub path: PathBuf,
    /// Where they began; the log ends here now.
    pub at: u64,
    /// What was wrong with them.
    pub flaw: Flaw,
    /// The last transaction before them.
    pub kept: Zxid,
    /// The transaction that was lost, if the bytes still name one.
    pub claimed: Option<Zxid>,
}

/// Where a digest was found that the state does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestSource {
    /// In the snapshot.
    Snapshot,
    /// In a log entry.
    Log,
}

/// A digest that the state does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestMismatch {
    /// After which transaction.
    pub zxid: Zxid,
    /// Who says otherwise.
    pub source: DigestSource,
    /// What the file says.
    pub expected: i64,
    /// What the state has.
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

/// What recovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The last transaction of the state; zero for an empty database.
    pub last_zxid: Zxid,
    /// The snapshot that it began with; `None` for an empty database, and for trusted logs without one. A
    /// server writes `snapshot.0` before its first log then.
    pub snapshot: Option<LoadedSnapshot>,
    /// Newer snapshots that could not be used.
    pub rejected: Vec<RejectedSnapshot>,
    /// Transactions that were applied behind the snapshot.
    pub applied: u64,
    /// Entries that repeat an earlier zxid; skipped.
    pub repeated: u64,
    /// Torn tails that were dropped.
    pub dropped: Vec<DroppedTail>,
    /// Digests.
    pub digests: DigestReport,
    /// The snapshot holds parts of transactions up to this one, which the log does not reach: the state is
    /// right only when they have been applied again.
    pub fuzzy_until: Option<Zxid>,
    /// What was changed on disk.
    pub repairs: Vec<Repair>,
    /// A change of the whole directory that had begun and is done now.
    pub finished: Option<Pending>,
    /// Whether the state holds everything that was acknowledged. An empty one is trusted here unless it was
    /// set aside; whether an ensemble may trust it is the caller's matter.
    pub trust: Trust,
}

/// What the state is made from.
struct Source {
    snapshots: Vec<SnapshotFile>,
    logs: Vec<LogFile>,
    note: Option<DurableNote>,
}

/// Loads everything into `target`. On an error the target holds garbage and nothing on disk has changed,
/// except that an installation or a setting aside that had begun is finished.
pub fn recover<D: Disk>(
    disk: &D,
    directories: &Directories,
    options: RecoveryOptions,
    target: &mut dyn RecoveryTarget,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Recovered, RecoveryError> {
    let pending = pending::read(disk, directories)?;
    if let (Some(pending), Changes::Perform) = (&pending, options.changes) {
        pending::finish(disk, directories, pending)?;
    }
    let marked = check_trust(disk, directories, options, pending.as_ref())?;
    let source = match (&pending, options.changes) {
        (Some(pending), Changes::Plan) => Source::as_finished(disk, directories, pending)?,
        (None, _) | (_, Changes::Perform) => Source::list(disk, directories)?,
    };
    let base = load_base(disk, directories, options, &source, target, progress)?;
    let replay = Replay::new(disk, &base, source.note, target, progress);
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
    if options.changes == Changes::Perform {
        let mut read = replayed.read;
        read.extend(base.snapshot.iter().map(|snapshot| snapshot.path.clone()));
        perform(disk, directories, &repairs, &read)?;
        if let Some(end) = replayed.end {
            durable::raise(disk, &directories.logs(), end, replayed.last)?;
        }
    }
    Ok(Recovered {
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

impl Source {
    fn list<D: Disk>(disk: &D, directories: &Directories) -> Result<Source, RecoveryError> {
        let note = read_note(disk, &directories.logs())?;
        let logs = log_files::list(disk, &directories.logs())?;
        let snapshots = snapshot_file::list(disk, &directories.snapshots())?;
        Ok(Source { snapshots, logs, note })
    }

    /// What there would be if a change that has begun were finished, for those who may not finish it.
    fn as_finished<D: Disk>(
        disk: &D,
        directories: &Directories,
        pending: &Pending,
    ) -> Result<Source, RecoveryError> {
        let mut snapshots = Vec::new();
        if let Pending::Install { received, snapshot, .. } = pending
            && let Some(name) = parse_snapshot(snapshot)
        {
            let mut path = directories.snapshots().join(received);
            if !disk.exists(&path).during("look for", &path)? {
                path = directories.snapshots().join(snapshot);
            }
            snapshots.push(SnapshotFile { path, name, compression: compression_of(snapshot) });
        }
        Ok(Source { snapshots, logs: Vec::new(), note: None })
    }
}

fn check_trust<D: Disk>(
    disk: &D,
    directories: &Directories,
    options: RecoveryOptions,
    pending: Option<&Pending>,
) -> Result<Trust, RecoveryError> {
    let trust = match pending {
        Some(Pending::SetAside { .. }) => Trust::Untrusted,
        Some(Pending::Install { .. }) | None => trust::read(disk, &directories.snapshots())?,
    };
    if trust == Trust::Untrusted && options.untrusted == Untrusted::Refuse {
        return Err(RecoveryError::Untrusted { path: directories.snapshots().join(trust::NAME) });
    }
    Ok(trust)
}

/// An unusable newer snapshot still says how far the history went: the logs must lead there.
fn check_reached(base: &Base, replayed: &Replayed) -> Result<(), RecoveryError> {
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
    note: Option<DurableNote>,
    replayed: &Replayed,
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
