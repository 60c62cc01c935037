//! Opens the data directory: locks it, recovers the tree and opens the log for writing.

use std::path::Path;
use std::time::{Duration, Instant};

use tracing::{error, info, warn};
use zebu_node::Restore;
use zebu_runtime::{DiskError, DiskWorker, LoadOptions, StartReport, is_new, open_log, open_member};
use zebu_storage::disk::Disk;
use zebu_storage::{Directories, EmptySnapshots, FileDisk, Locks, Missing, RecoveredState, RecoveryProgress};
use zebu_tree::Tree;

use crate::config::ServerConfig;
use crate::disk::purger::DirectoryOrigin;
use crate::serve_error::ServeError;
use crate::settings;
use crate::threads::StorageFiles;

/// Interval of progress messages during a long load.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Session timeout of orphaned ephemeral nodes: their owners do not exist, so they expire at the
/// next tick.
const ORPHAN_TIMEOUT_MS: i32 = 1;

/// The locks of all directories of a server.
pub(crate) type DirectoryLocks = Locks<<FileDisk as Disk>::Lock>;

/// The duration of the load, for metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadTimes {
    pub(crate) total: Duration,
    /// Of the log; the rest is the snapshot's.
    pub(crate) log: Duration,
    pub(crate) replayed: u64,
}

/// A locked and recovered data directory.
pub(crate) struct OpenedDataDir {
    pub(crate) tree: Tree,
    /// The history that a member brings into its ensemble.
    pub(crate) recovered: Option<zebu_zab::RecoveredHistory>,
    pub(crate) files: StorageFiles,
    /// Digests in the files that differed from the tree's.
    pub(crate) digest_mismatches: u64,
    pub(crate) load: LoadTimes,
    pub(crate) locks: DirectoryLocks,
}

pub(crate) fn open_data_dir(config: &ServerConfig, hash_seed: u64) -> Result<OpenedDataDir, ServeError> {
    let storage = &config.storage;
    let directories = Directories::new(&storage.data_dir, &storage.data_log_dir);
    let missing = if storage.create_directories { Missing::Create } else { Missing::Refuse };
    let holder = format!("zebu {}, process {}", env!("CARGO_PKG_VERSION"), std::process::id());
    let locks = directories
        .open(&FileDisk, missing, &holder)
        .map_err(|error| unusable_directory(&storage.data_dir, error))?;

    let is_member = config.membership.is_ensemble();
    let mut reporter = ProgressReporter::new();
    let (recovered, mut tree) = load_tree(config, &directories, hash_seed, &mut reporter)?;
    let total = reporter.started.elapsed();
    let log = reporter.log_started.map_or(Duration::ZERO, |started| started.elapsed());
    let load = LoadTimes { total, log, replayed: recovered.applied };
    log_recovery(&recovered, &tree, total);
    if !is_member {
        adopt_orphans(&mut tree);
    }
    let member = if is_member {
        let member = open_member(&FileDisk, &directories, &recovered, |report| reporter.report(&report));
        Some(member.map_err(|error| unusable_directory(&storage.data_dir, error))?)
    } else {
        None
    };
    if is_new(&recovered, member.as_ref()) {
        DirectoryOrigin::write_marker(directories.data_root())
            .map_err(|error| unusable_directory(&storage.data_dir, error))?;
    }
    if !storage.force_sync {
        warn!("forceSync=no: a power failure can lose writes that were acknowledged");
    }
    let snapshots = settings::snapshot_store(storage, &directories);
    let disk_settings = settings::disk_settings(config, &directories, hash_seed);
    let log_options = disk_settings.log.clone();
    let log = open_log(log_options, &snapshots, &tree, &recovered, member.as_ref());
    let log = log.map_err(|error| match error {
        DiskError::Snapshot(error) => unusable_directory(&directories.snapshots(), error),
        error => unusable_directory(&directories.logs(), error),
    })?;
    let origin = DirectoryOrigin::detect(directories.data_root());
    let digest_mismatches = recovered.digests.mismatched;
    let rejected = recovered.rejected.into_iter().map(|rejected| rejected.path).collect();
    let (epochs, recovered) = member.map(|member| (member.epochs, member.recovered)).unzip();
    let disk = DiskWorker::new(directories.clone(), disk_settings, snapshots.clone(), log, epochs);
    let files = StorageFiles { disk, snapshots, directories, origin, rejected };
    Ok(OpenedDataDir { tree, recovered, files, digest_mismatches, load, locks })
}

/// Loads the snapshot and replays the log.
fn load_tree(
    config: &ServerConfig,
    directories: &Directories,
    hash_seed: u64,
    reporter: &mut ProgressReporter,
) -> Result<(RecoveredState, Tree), ServeError> {
    let storage = &config.storage;
    let is_member = config.membership.is_ensemble();
    let mut options = if is_member { LoadOptions::member() } else { LoadOptions::standalone() };
    if storage.trust_empty_snapshot {
        options.recovery.empty_snapshots = EmptySnapshots::Trust;
    }
    let new_target = || Restore::new(settings::tree_options(config, hash_seed));
    zebu_runtime::load(&FileDisk, directories, options, new_target, |report| {
        reporter.report(&report);
    })
    .map(|(recovered, restore)| (recovered, restore.finish()))
    .map_err(|error| unusable_directory(&storage.data_dir, error))
}

fn adopt_orphans(tree: &mut Tree) {
    let orphans = tree.adopt_orphaned_ephemerals(ORPHAN_TIMEOUT_MS);
    if !orphans.is_empty() {
        warn!(
            sessions = orphans.len(),
            "ephemeral nodes of sessions that do not exist; they will be removed"
        );
    }
}

fn log_recovery(recovered: &RecoveredState, tree: &Tree, took: Duration) {
    for rejected in &recovered.rejected {
        warn!(file = %rejected.path.display(), reason = %rejected.reason, "a snapshot could not be used; an older one was");
    }
    for dropped in &recovered.dropped {
        warn!(
            file = %dropped.path.display(), offset = dropped.at, last = %dropped.kept,
            "dropped bytes at the end of a log that were never acknowledged"
        );
    }
    if recovered.digests.mismatched > 0 {
        error!(
            mismatched = recovered.digests.mismatched,
            first = ?recovered.digests.first.first(),
            "the state differs from what its files say it should hash to"
        );
    }
    info!(
        zxid = %recovered.last_zxid,
        nodes = tree.node_count(),
        replayed = recovered.applied,
        took_ms = took.as_millis() as u64,
        "data directory loaded"
    );
}

fn unusable_directory(path: &Path, error: impl std::fmt::Display) -> ServeError {
    ServeError::DataDirectory { path: path.to_owned(), reason: error.to_string() }
}

/// Logs the progress of a long load.
struct ProgressReporter {
    started: Instant,
    last: Instant,
    /// When the replay of the log began.
    log_started: Option<Instant>,
}

impl ProgressReporter {
    fn new() -> ProgressReporter {
        let now = Instant::now();
        ProgressReporter { started: now, last: now, log_started: None }
    }

    fn report(&mut self, report: &StartReport<'_>) {
        match report {
            StartReport::Progress(progress) => self.progress(progress),
            StartReport::Damaged(_) => {}
            StartReport::Quarantined(error, number) => error!(
                %error, number,
                "the files of this member are damaged; they were set aside, and the others will send everything. Until \
                 then it does not vote"
            ),
            StartReport::EpochsDamaged(error) => error!(
                %error,
                "the epochs of this member are damaged; it does not vote before the others have brought it up to date"
            ),
        }
    }

    fn progress(&mut self, progress: &RecoveryProgress<'_>) {
        if matches!(progress, RecoveryProgress::Log { .. }) {
            self.log_started.get_or_insert_with(Instant::now);
        }
        if self.last.elapsed() < PROGRESS_INTERVAL {
            return;
        }
        self.last = Instant::now();
        let name = |path: &Path| {
            path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        };
        match progress {
            RecoveryProgress::Snapshot { path, bytes } => {
                info!(file = name(path), mib = bytes >> 20, "loading the snapshot");
            }
            RecoveryProgress::Log { path, bytes, length, zxid } => {
                info!(file = name(path), mib = bytes >> 20, of_mib = length >> 20, %zxid, "replaying the log");
            }
        }
    }
}
