//! A purge keeps the newest valid snapshots, and the log from the oldest of them on. A damaged file does not
//! count as one of them.

use zebu_proto::Zxid;
use zebu_storage::crash_disk::CrashDisk;
use zebu_storage::format::names::{NameSpelling, parse_log};
use zebu_storage::snapshot_file::{list, validate};
use zebu_storage::{Directories, Disk};

use crate::history::{CheckResult, Violation};

const NAME: &str = "purged_files";

/// The files that a purge has to keep.
#[derive(Debug)]
pub(crate) struct RequiredFiles {
    /// The newest valid snapshots, newest first.
    snapshots: Vec<Zxid>,
    /// The log file that covers the oldest of them, and all later ones.
    logs: Vec<Zxid>,
}

impl RequiredFiles {
    /// The files that a purge has to keep, given the number of snapshots to retain.
    pub(crate) fn before_purge(disk: &CrashDisk, directories: &Directories, retain: usize) -> RequiredFiles {
        let mut snapshots = valid_snapshots(disk, directories);
        snapshots.truncate(retain);
        let oldest = snapshots.last().copied();
        let mut logs = logs(disk, directories);
        // Without a valid snapshot, the server needs every log.
        let first = oldest.and_then(|oldest| logs.iter().filter(|log| **log <= oldest).max().copied());
        logs.retain(|log| first.is_none_or(|first| *log >= first));
        RequiredFiles { snapshots, logs }
    }

    pub(crate) fn check(&self, server: usize, disk: &CrashDisk, directories: &Directories) -> CheckResult {
        let left = valid_snapshots(disk, directories);
        if let Some(lost) = self.snapshots.iter().find(|zxid| !left.contains(zxid)) {
            let text = format!("server {server} purged snapshot {lost}, one of the newest valid ones");
            return Err(Violation::new(NAME, text));
        }
        let logs = logs(disk, directories);
        match self.logs.iter().find(|log| !logs.contains(log)) {
            Some(log) => {
                let text = format!("server {server} purged log {log}, which the snapshots need that it kept");
                Err(Violation::new(NAME, text))
            }
            None => Ok(()),
        }
    }
}

/// The valid snapshots on a disk, newest first.
pub(crate) fn valid_snapshots(disk: &CrashDisk, directories: &Directories) -> Vec<Zxid> {
    let files = list(disk, &directories.snapshots()).unwrap_or_default();
    let finished = files.into_iter().filter(|file| file.name.spelling != NameSpelling::Unfinished);
    finished
        .filter(|file| validate(disk, &file.path).is_ok_and(|found| found.is_ok()))
        .map(|file| file.name.zxid)
        .collect()
}

fn logs(disk: &CrashDisk, directories: &Directories) -> Vec<Zxid> {
    let names = disk.list(&directories.logs()).unwrap_or_default();
    names.iter().filter_map(|name| Some(parse_log(name)?.zxid)).collect()
}
