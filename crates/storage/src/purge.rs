//! Removes old snapshots and the logs that no snapshot needs. Retained snapshots are read to their last
//! checksum and synced first: a log is removed only when its replacement is proven. Files with foreign names
//! are never touched.

use std::path::{Path, PathBuf};

use zebu_proto::Zxid;

use crate::directory::Directories;
use crate::disk::{Access, Disk, DiskFile};
use crate::failure::{During, IoFailure};
use crate::format::names::{NameSpelling, parse_log};
use crate::snapshot_file::{list, validate};

/// Fewer snapshots than this are never kept.
pub const RETAIN_MIN: usize = 3;

/// The result of a purge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgeReport {
    /// Snapshots that were found valid and kept, newest first.
    pub kept: Vec<PathBuf>,
    /// Snapshots that are not valid. They stay unless they are older than every kept one.
    pub invalid: Vec<(PathBuf, String)>,
    /// Files that were removed.
    pub removed: Vec<PathBuf>,
}

/// The snapshots that a purge keeps, with the logs that they need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention<'a> {
    snapshots: usize,
    /// Snapshots that the last start could not use. A purge reads checksums and not the tree, so they may
    /// look valid, and an older snapshot is the one that the next start needs.
    rejected: &'a [PathBuf],
}

impl<'a> Retention<'a> {
    /// So many snapshots, and at least three.
    pub fn newest(snapshots: usize) -> Retention<'a> {
        Retention { snapshots: snapshots.max(RETAIN_MIN), rejected: &[] }
    }

    /// Only the least from which a server can start: one snapshot. For a disk with little room.
    pub fn least(self) -> Retention<'a> {
        Retention { snapshots: 1, ..self }
    }

    /// Does not count these files.
    pub fn without(self, rejected: &'a [PathBuf]) -> Retention<'a> {
        Retention { rejected, ..self }
    }
}

/// Keeps the newest `retain` valid snapshots (at least three) and all logs that they need.
pub fn purge<D: Disk>(disk: &D, directories: &Directories, retain: usize) -> Result<PurgeReport, IoFailure> {
    purge_to(disk, directories, Retention::newest(retain))
}

/// Keeps the newest valid snapshot and the logs that it needs: the least from which a server can start. The
/// disk has little room.
pub fn purge_for_room<D: Disk>(disk: &D, directories: &Directories) -> Result<PurgeReport, IoFailure> {
    purge_to(disk, directories, Retention::newest(1).least())
}

/// Removes all files that this retention does not keep.
pub fn purge_to<D: Disk>(
    disk: &D,
    directories: &Directories,
    retention: Retention<'_>,
) -> Result<PurgeReport, IoFailure> {
    let mut report = PurgeReport::default();
    let snapshots = directories.snapshots();
    let files = list(disk, &snapshots)?;
    let mut oldest = None;
    for file in files.iter().filter(|file| file.name.spelling != NameSpelling::Unfinished) {
        if report.kept.len() == retention.snapshots {
            break;
        }
        if retention.rejected.contains(&file.path) {
            report.invalid.push((file.path.clone(), "the last start could not use it".to_owned()));
            continue;
        }
        match validate(disk, &file.path)? {
            Ok(_) => {
                oldest = Some(file.name.zxid);
                report.kept.push(file.path.clone());
            }
            Err(flaw) => report.invalid.push((file.path.clone(), flaw.to_string())),
        }
    }
    let Some(oldest) = oldest else { return Ok(report) };
    for path in &report.kept {
        let file = disk.open(path, Access::Read).during("open", path)?;
        file.sync_all().during("sync", path)?;
    }
    disk.sync_directory(&snapshots).during("sync", &snapshots)?;
    let doomed = files
        .into_iter()
        .filter(|file| file.name.spelling == NameSpelling::Canonical && file.name.zxid < oldest)
        .map(|file| file.path)
        .collect();
    // Before the logs: a reader that finds a snapshot may rely on the logs that follow it.
    remove(disk, &snapshots, doomed, &mut report)?;
    let doomed = doomed_logs(disk, directories, oldest)?;
    remove(disk, &directories.logs(), doomed, &mut report)?;
    Ok(report)
}

fn remove<D: Disk>(
    disk: &D,
    directory: &Path,
    doomed: Vec<PathBuf>,
    report: &mut PurgeReport,
) -> Result<(), IoFailure> {
    if doomed.is_empty() {
        return Ok(());
    }
    for path in doomed {
        disk.remove(&path).during("remove", &path)?;
        report.removed.push(path);
    }
    disk.sync_directory(directory).during("sync", directory)
}

/// Logs before the one that may contain the transaction after `oldest`, oldest first: a crash in between
/// leaves no gap.
fn doomed_logs<D: Disk>(
    disk: &D,
    directories: &Directories,
    oldest: Zxid,
) -> Result<Vec<PathBuf>, IoFailure> {
    let logs = directories.logs();
    let names = disk.list(&logs).during("list", &logs)?;
    let mut numbered: Vec<_> = names
        .into_iter()
        .filter_map(|name| Some((parse_log(&name)?, logs.join(name))))
        .filter(|(name, _)| name.spelling == NameSpelling::Canonical)
        .map(|(name, path)| (name.zxid, path))
        .collect();
    numbered.sort_unstable();
    let keep_from = numbered.iter().rev().map(|(zxid, _)| *zxid).find(|zxid| *zxid <= oldest);
    let Some(keep_from) = keep_from else { return Ok(Vec::new()) };
    Ok(numbered.into_iter().filter(|(zxid, _)| *zxid < keep_from).map(|(_, path)| path).collect())
}
