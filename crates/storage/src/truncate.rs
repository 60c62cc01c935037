//! Truncates the log after a transaction, for a server whose leader does not have the later ones.
//!
//! Everything is checked before anything is changed. The history must lead from a valid snapshot to that
//! transaction and on to its end without a gap. No file to remove may have a foreign name. Then the later
//! data is removed from the newest to the oldest, one durable step at a time. A crash leaves a complete
//! history that ends between the old end and the new one, for ZooKeeper too.

use std::path::{Path, PathBuf};

use zebu_proto::Zxid;

use crate::directory::Directories;
use crate::disk::{Access, Disk, DiskFile};
use crate::failure::{During, IoFailure};
use crate::format::log::{HEADER_SIZE, payload_zxid};
use crate::format::names::NameSpelling;
use crate::format::scan::{LogEnd, LogHeader, LogScanner, ScanItem};
use crate::log_files::{self, LogFile, follows, needed};
use crate::snapshot_file::{self, SnapshotFile, validate};
use crate::sync_watermark;

/// Why the log was not truncated.
#[derive(Debug, thiserror::Error)]
pub enum TruncateError {
    /// The disk failed. The truncation may be incomplete; the server must stop.
    #[error("the log cannot be cut: {0}; the server must stop; free or repair the disk, then start it again")]
    Io(#[from] IoFailure),
    /// The zxid is not in this history. Nothing was changed.
    #[error("the log was not cut behind {to}, nothing was changed: {reason}")]
    Refused {
        /// The transaction that was to be the last.
        to: Zxid,
        /// The reason.
        reason: TruncateRefusal,
    },
}

/// Why a history cannot be truncated at a transaction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TruncateRefusal {
    /// No snapshot is old enough.
    #[error("no usable snapshot is as old as that")]
    NoSnapshot,
    /// It is not in the log.
    #[error("it is neither in the log nor the last transaction of a snapshot")]
    Unknown,
    /// The log cannot be read without a gap.
    #[error("{}: offset {at}: the log is damaged or has a hole", path.display())]
    Broken {
        /// The log.
        path: PathBuf,
        /// The offset.
        at: u64,
    },
    /// A file with a foreign name would have to be removed.
    #[error("{} would have to go, but no server gives such a name; move it away", .0.display())]
    Foreign(PathBuf),
}

/// The result of a truncation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// The last transaction before.
    pub was: Zxid,
    /// The newest snapshot that is left; `None` if the history is empty now and there is none. A server then
    /// writes `snapshot.0` before its first log.
    pub base: Option<Zxid>,
    /// Files that were removed.
    pub removed: Vec<PathBuf>,
    /// Logs that were truncated.
    pub cut: Vec<PathBuf>,
}

/// One change of a log.
enum LogChange {
    Remove(PathBuf),
    Cut { path: PathBuf, length: u64 },
}

/// The steps of a truncation.
struct TruncatePlan {
    was: Zxid,
    base: Option<Zxid>,
    /// Newest first.
    snapshots: Vec<PathBuf>,
    /// Newest first.
    logs: Vec<LogChange>,
    /// The log that ends with the new last transaction, and its end there.
    end: Option<(Zxid, u64)>,
}

/// The part of a log that was read.
struct LogSurvey {
    last: Zxid,
    /// Whether the new last transaction was found.
    met: bool,
    /// The first one after it.
    next: Option<Zxid>,
    /// Oldest first.
    changes: Vec<LogChange>,
    end: Option<(Zxid, u64)>,
}

/// Makes `to` the last transaction on disk. Durable when it returns; a refusal has changed nothing. All
/// appended entries must have been synced. Afterwards a [`LogWriter`](crate::LogWriter) is opened again after
/// `to`; after a refusal the old one can continue.
pub fn truncate<D: Disk>(disk: &D, directories: &Directories, to: Zxid) -> Result<Truncated, TruncateError> {
    let plan = plan(disk, directories, to)?;
    let mut done = Truncated { was: plan.was, base: plan.base, removed: Vec::new(), cut: Vec::new() };
    if plan.snapshots.is_empty() && plan.logs.is_empty() {
        return Ok(done);
    }
    sync_watermark::lower(disk, &directories.logs(), plan.end, to)?;
    let directory = directories.snapshots();
    snapshot_file::discard_unfinished(disk, &directory)?;
    for path in plan.snapshots {
        remove(disk, &directory, &path)?;
        done.removed.push(path);
    }
    let directory = directories.logs();
    for change in plan.logs {
        match change {
            LogChange::Remove(path) => {
                remove(disk, &directory, &path)?;
                done.removed.push(path);
            }
            LogChange::Cut { path, length } => {
                let file = disk.open(&path, Access::ReadWrite).during("open", &path)?;
                file.set_length(length).during("cut", &path)?;
                file.sync_all().during("sync", &path)?;
                done.cut.push(path);
            }
        }
    }
    Ok(done)
}

fn remove<D: Disk>(disk: &D, directory: &Path, path: &Path) -> Result<(), IoFailure> {
    disk.remove(path).during("remove", path)?;
    // One at a time: a crash may undo any of several unsynced removals, which would leave a gap.
    disk.sync_directory(directory).during("sync", directory)
}

fn plan<D: Disk>(disk: &D, directories: &Directories, to: Zxid) -> Result<TruncatePlan, TruncateError> {
    let refused = |reason| TruncateError::Refused { to, reason };
    let logs = log_files::list(disk, &directories.logs())?;
    let mut doomed = Vec::new();
    let mut found: Option<(Zxid, LogSurvey)> = None;
    for file in snapshot_file::list(disk, &directories.snapshots())? {
        if file.name.spelling == NameSpelling::Unfinished {
            continue;
        }
        if file.name.zxid > to {
            doomed.push(file);
            continue;
        }
        // A damaged one stays: its zxid is not after `to`.
        let Ok(summary) = validate(disk, &file.path)? else { continue };
        let survey = match found.take() {
            Some((base, survey)) => {
                if survey.is_mixed_in(summary.mixed_until()) {
                    doomed.push(file);
                }
                found = Some((base, survey));
                continue;
            }
            None => survey(disk, &logs, file.name.zxid, to)?.map_err(refused)?,
        };
        if survey.is_mixed_in(summary.mixed_until()) {
            doomed.push(file);
        } else {
            found = Some((file.name.zxid, survey));
        }
    }
    let foreign = |path: &PathBuf| refused(TruncateRefusal::Foreign(path.clone()));
    if let Some(file) = doomed.iter().find(|file| file.name.spelling != NameSpelling::Canonical) {
        return Err(foreign(&file.path));
    }
    let (base, survey) = match found {
        Some((base, survey)) => (Some(base), survey),
        None if to == Zxid::ZERO => (None, LogSurvey::of_nothing(&logs, &doomed)),
        None => return Err(refused(TruncateRefusal::NoSnapshot)),
    };
    if !survey.met {
        return Err(refused(TruncateRefusal::Unknown));
    }
    for change in &survey.changes {
        let (LogChange::Remove(path) | LogChange::Cut { path, .. }) = change;
        if logs.iter().any(|log| log.path == *path && log.name.spelling != NameSpelling::Canonical) {
            return Err(foreign(path));
        }
    }
    let snapshots = doomed.into_iter().map(|file| file.path).collect();
    let logs = survey.changes.into_iter().rev().collect();
    Ok(TruncatePlan { was: survey.last, base, snapshots, logs, end: survey.end })
}

impl LogSurvey {
    /// Removes everything: the empty history is a prefix of every other.
    fn of_nothing(logs: &[LogFile], snapshots: &[SnapshotFile]) -> LogSurvey {
        let names = logs.iter().map(|log| log.name.zxid).chain(snapshots.iter().map(|file| file.name.zxid));
        LogSurvey {
            last: names.max().unwrap_or(Zxid::ZERO),
            met: true,
            next: None,
            changes: logs.iter().map(|log| LogChange::Remove(log.path.clone())).collect(),
            end: None,
        }
    }

    /// Whether a snapshot that was written until `end` may contain parts of removed transactions. Counter
    /// zero is a change of leader, not a transaction.
    fn is_mixed_in(&self, end: Option<Zxid>) -> bool {
        let Some(end) = end else { return false };
        match self.next {
            Some(next) => end >= next,
            None => end > self.last && end.counter() != 0,
        }
    }
}

/// Reads the logs from `base` to their end. The inner error says why they cannot be truncated.
fn survey<D: Disk>(
    disk: &D,
    logs: &[LogFile],
    base: Zxid,
    to: Zxid,
) -> Result<Result<LogSurvey, TruncateRefusal>, IoFailure> {
    let mut survey = LogSurvey { last: base, met: base == to, next: None, changes: Vec::new(), end: None };
    let logs = needed(logs, base);
    for (index, log) in logs.iter().enumerate() {
        let newest = index + 1 == logs.len();
        if let Err(refusal) = survey_log(disk, log, to, &mut survey)? {
            match refusal {
                // Its creation was interrupted: it has no entries.
                None if newest => survey.changes.push(LogChange::Remove(log.path.clone())),
                None => return Ok(Err(TruncateRefusal::Broken { path: log.path.clone(), at: 0 })),
                Some(refusal) => return Ok(Err(refusal)),
            }
        }
    }
    Ok(Ok(survey))
}

/// Reads one log. The inner error is `None` for a log that has no header.
fn survey_log<D: Disk>(
    disk: &D,
    log: &LogFile,
    to: Zxid,
    survey: &mut LogSurvey,
) -> Result<Result<(), Option<TruncateRefusal>>, IoFailure> {
    let path = &log.path;
    let broken = |at| Ok(Err(Some(TruncateRefusal::Broken { path: path.clone(), at })));
    let file = disk.open(path, Access::Read).during("open", path)?;
    let (mut scanner, header) = LogScanner::open(&file).during("read", path)?;
    match header {
        LogHeader::Valid => {}
        LogHeader::Unfinished | LogHeader::Zero => return Ok(Err(None)),
        LogHeader::Foreign => return broken(0),
    }
    let mut cut = None;
    loop {
        let entry = match scanner.next_entry().during("read", path)? {
            ScanItem::Entry(entry) => entry,
            ScanItem::End(LogEnd::Clean { .. }) => break,
            ScanItem::End(LogEnd::Torn(damage)) => {
                cut = cut.or(Some(damage.at));
                break;
            }
            ScanItem::End(LogEnd::Damaged(damage, _)) => return broken(damage.at),
        };
        let Some(zxid) = payload_zxid(entry.payload) else { return broken(entry.at) };
        if zxid > to {
            cut = cut.or(Some(entry.at));
        }
        if zxid <= survey.last {
            continue;
        }
        if !follows(survey.last, zxid) {
            return broken(entry.at);
        }
        survey.last = zxid;
        if zxid == to {
            survey.met = true;
            survey.end = Some((log.name.zxid, entry.end));
        } else if zxid > to {
            survey.next = survey.next.or(Some(zxid));
        }
    }
    match cut {
        Some(at) if at == HEADER_SIZE as u64 => survey.changes.push(LogChange::Remove(path.clone())),
        Some(length) => survey.changes.push(LogChange::Cut { path: path.clone(), length }),
        None => {}
    }
    Ok(Ok(()))
}
