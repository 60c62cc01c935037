//! The purge thread: removes old snapshots and logs, soon after the start and then at a fixed rate.
//!
//! Where the configuration is silent, a directory that Zebu created is purged once a day; one that was taken
//! over from ZooKeeper is not, because its files are the way back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tracing::{error, info, warn};
use zebu_storage::disk::{Disk, replace_file};
use zebu_storage::{Directories, FileDisk, purge};

use crate::config::PurgeInterval;
use crate::metrics::Metrics;
use crate::shared::Shared;

/// How often a directory of Zebu's own is purged if nobody says otherwise.
const INTERVAL_DEFAULT: Duration = Duration::from_secs(24 * 60 * 60);

/// The first purge reads whole snapshots; it waits until the start is over.
const FIRST_RUN: Duration = Duration::from_secs(30);

/// Marks a directory that Zebu created. ZooKeeper ignores it.
const ORIGIN_FILE: &str = "zebu.origin";

/// Where the files of a directory come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Zebu made the first file.
    Zebu,
    /// Another server did.
    TakenOver,
}

impl Origin {
    /// Notes that Zebu made this directory.
    pub(crate) fn mark(directory: &Path) -> std::io::Result<()> {
        let text = format!("created by zebu {}\n", env!("CARGO_PKG_VERSION"));
        replace_file(&FileDisk, directory, ORIGIN_FILE, "zebu.origin.tmp", text.as_bytes())
    }

    /// Looks for the note.
    pub(crate) fn of(directory: &Path) -> Origin {
        match FileDisk.exists(&directory.join(ORIGIN_FILE)) {
            Ok(true) => Origin::Zebu,
            Ok(false) | Err(_) => Origin::TakenOver,
        }
    }
}

/// What the configuration and the origin of the directory amount to; `None` is never.
pub(crate) fn interval(configured: PurgeInterval, origin: Origin) -> Option<Duration> {
    match (configured, origin) {
        (PurgeInterval::Every(interval), _) => Some(interval),
        (PurgeInterval::Off, _) | (PurgeInterval::Unset, Origin::TakenOver) => None,
        (PurgeInterval::Unset, Origin::Zebu) => Some(INTERVAL_DEFAULT),
    }
}

/// Keeps the thread going; it ends when this is dropped.
pub(crate) struct PurgeHandle {
    _alive: Sender<()>,
}

/// Says what will happen and starts the thread if anything will.
pub(crate) fn start(
    shared: Arc<Shared>,
    directories: Directories,
    origin: Origin,
) -> std::io::Result<Option<(PurgeHandle, JoinHandle<()>)>> {
    let storage = &shared.config.storage;
    let retain = storage.snap_retain_count as usize;
    let Some(every) = interval(storage.purge_interval, origin) else {
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
    let (alive, stopped) = channel();
    let thread = std::thread::Builder::new()
        .name("zebu-purge".to_owned())
        .spawn(move || run(&shared.metrics, &directories, retain, every, &stopped))?;
    Ok(Some((PurgeHandle { _alive: alive }, thread)))
}

fn run(metrics: &Metrics, directories: &Directories, retain: usize, every: Duration, stopped: &Receiver<()>) {
    let mut pause = every.min(FIRST_RUN);
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        pause = every;
        // A purge has no state but the files; the next one looks at them again.
        let Ok(purged) = catch_unwind(AssertUnwindSafe(|| purge(&FileDisk, directories, retain))) else {
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
        assert_eq!(interval(PurgeInterval::Unset, Origin::Zebu), Some(INTERVAL_DEFAULT));
        assert_eq!(interval(PurgeInterval::Unset, Origin::TakenOver), None);
        assert_eq!(interval(PurgeInterval::Off, Origin::Zebu), None);
        assert_eq!(interval(PurgeInterval::Every(hour), Origin::TakenOver), Some(hour));
    }

    #[test]
    fn a_directory_remembers_who_made_it() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Origin::of(directory.path()), Origin::TakenOver);
        Origin::mark(directory.path()).unwrap();
        assert_eq!(Origin::of(directory.path()), Origin::Zebu);
    }
}
