//! The purge thread: removes old snapshots and logs, soon after the start and then at a fixed rate.
//!
//! Without a setting, a directory that Zebu created is purged once a day. A directory taken over
//! from ZooKeeper is not purged, because its files allow the way back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracing::{error, info, warn};
use zebu_storage::disk::{Disk, replace_file};
use zebu_storage::{Directories, FileDisk, Retention, purge_to};

use crate::config::PurgeInterval;
use crate::core::context::ServerContext;
use crate::metrics::ServerMetrics;

/// Purge interval of a directory that Zebu created, without a setting.
const PURGE_INTERVAL_DEFAULT: Duration = Duration::from_secs(24 * 60 * 60);

/// Delay of the first purge. It reads whole snapshots, so it waits until the start is over.
const FIRST_PURGE_DELAY: Duration = Duration::from_secs(30);

/// Marks a directory that Zebu created. ZooKeeper ignores the file.
const ORIGIN_FILE: &str = "zebu.origin";

/// The server that created a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirectoryOrigin {
    Zebu,
    ZooKeeper,
}

impl DirectoryOrigin {
    /// Marks a directory as created by Zebu.
    pub(crate) fn write_marker(directory: &Path) -> std::io::Result<()> {
        let text = format!("created by zebu {}\n", env!("CARGO_PKG_VERSION"));
        replace_file(&FileDisk, directory, ORIGIN_FILE, "zebu.origin.tmp", text.as_bytes())
    }

    /// Checks the mark.
    pub(crate) fn detect(directory: &Path) -> DirectoryOrigin {
        match FileDisk.exists(&directory.join(ORIGIN_FILE)) {
            Ok(true) => DirectoryOrigin::Zebu,
            Ok(false) | Err(_) => DirectoryOrigin::ZooKeeper,
        }
    }
}

/// The interval that follows from the setting and the origin; `None` disables the purge.
pub(crate) fn effective_interval(configured: PurgeInterval, origin: DirectoryOrigin) -> Option<Duration> {
    match (configured, origin) {
        (PurgeInterval::Every(interval), _) => Some(interval),
        (PurgeInterval::Off, _) | (PurgeInterval::Unset, DirectoryOrigin::ZooKeeper) => None,
        (PurgeInterval::Unset, DirectoryOrigin::Zebu) => Some(PURGE_INTERVAL_DEFAULT),
    }
}

/// Keeps the thread running; it ends when this is dropped.
pub(crate) struct PurgeHandle {
    _requests: Arc<SyncSender<()>>,
}

/// Logs the purge settings, and starts the thread if the purge is on. Snapshots in `rejected` do not count as
/// retained.
pub(crate) fn start_purge_thread(
    shared: Arc<ServerContext>,
    directories: Directories,
    origin: DirectoryOrigin,
    rejected: Vec<PathBuf>,
) -> std::io::Result<Option<(PurgeHandle, JoinHandle<()>)>> {
    let storage = &shared.config.storage;
    let retain = storage.snap_retain_count as usize;
    let Some(every) = effective_interval(storage.purge_interval, origin) else {
        info!(
            "old snapshots and logs are kept (autopurge is off{})",
            if storage.purge_interval == PurgeInterval::Unset {
                " in a directory taken over from ZooKeeper"
            } else {
                ""
            }
        );
        return Ok(None);
    };
    info!(every_s = every.as_secs(), retain, "old snapshots and logs are removed (autopurge)");
    let (requests, received) = sync_channel(1);
    let requests = Arc::new(requests);
    shared.disk_room.set_purge(Arc::downgrade(&requests));
    let thread = std::thread::Builder::new().name("zebu-purge".to_owned()).spawn(move || {
        let retained = Retention::newest(retain).without(&rejected);
        run_purge_thread(&shared.metrics, &directories, retained, every, &received);
    })?;
    Ok(Some((PurgeHandle { _requests: requests }, thread)))
}

/// The files that a purge leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PurgeExtent {
    /// As configured.
    Configured,
    /// Only those that the next start needs, because the disk has little room.
    NeededFilesOnly,
}

fn run_purge_thread(
    metrics: &ServerMetrics,
    directories: &Directories,
    retained: Retention<'_>,
    every: Duration,
    requests: &Receiver<()>,
) {
    let mut next = Instant::now() + every.min(FIRST_PURGE_DELAY);
    loop {
        let extent = match requests.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(()) => PurgeExtent::NeededFilesOnly,
            Err(RecvTimeoutError::Timeout) => PurgeExtent::Configured,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if extent == PurgeExtent::Configured {
            next = Instant::now() + every;
        }
        // A purge has no state but the files, so the next one can start after a panic.
        let retention = match extent {
            PurgeExtent::Configured => retained,
            PurgeExtent::NeededFilesOnly => retained.least(),
        };
        let Ok(purged) = catch_unwind(AssertUnwindSafe(|| purge_to(&FileDisk, directories, retention)))
        else {
            metrics.purge_errors.increment();
            error!(
                "removing old files failed unexpectedly; trying again next time. Please report the message above"
            );
            continue;
        };
        match purged {
            Ok(report) if report.removed.is_empty() => {}
            Ok(report) => info!(removed = report.removed.len(), kept = report.kept.len(), "purged old files"),
            Err(error) => {
                metrics.purge_errors.increment();
                warn!(%error, "old files could not be removed; trying again next time");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_means_daily_only_in_our_own_directory() {
        let hour = Duration::from_secs(3600);
        assert_eq!(
            effective_interval(PurgeInterval::Unset, DirectoryOrigin::Zebu),
            Some(PURGE_INTERVAL_DEFAULT)
        );
        assert_eq!(effective_interval(PurgeInterval::Unset, DirectoryOrigin::ZooKeeper), None);
        assert_eq!(effective_interval(PurgeInterval::Off, DirectoryOrigin::Zebu), None);
        assert_eq!(effective_interval(PurgeInterval::Every(hour), DirectoryOrigin::ZooKeeper), Some(hour));
    }

    #[test]
    fn a_directory_remembers_who_made_it() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(DirectoryOrigin::detect(directory.path()), DirectoryOrigin::ZooKeeper);
        DirectoryOrigin::write_marker(directory.path()).unwrap();
        assert_eq!(DirectoryOrigin::detect(directory.path()), DirectoryOrigin::Zebu);
    }
}
