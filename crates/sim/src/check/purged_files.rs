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
    /// The log file that covers the oldest of them.
    log: Option<Zxid>,
}

impl RequiredFiles {
    /// The files that a purge has to keep, given the number of snapshots to retain.
    pub(crate) fn before_purge(disk: &CrashDisk, directories: &Directories, retain: usize) -> RequiredFiles {
        let mut snapshots = valid_snapshots(disk, directories);
        snapshots.truncate(retain);
        let oldest = snapshots.last().copied();
        let logs = logs(disk, directories);
        let log = oldest.and_then(|oldest| logs.into_iter().filter(|log| *log <= oldest).max());
        RequiredFiles { snapshots, log }
    }

    pub(crate) fn check(&self, server: usize, disk: &CrashDisk, directories: &Directories) -> CheckResult {
        let left = valid_snapshots(disk, directories);
        if let Some(lost) = self.snapshots.iter().find(|zxid| !left.contains(zxid)) {
            let text = format!("server {server} purged snapshot {lost}, one of the newest valid ones");
            return Err(Violation::new(NAME, text));
        }
        let logs = logs(disk, directories);
        match self.log.filter(|log| !logs.contains(log)) {
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
