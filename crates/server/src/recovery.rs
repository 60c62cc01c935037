//! Opening the data directory: locked, recovered, ready to be written.

use std::path::Path;
use std::time::{Duration, Instant};

use tracing::{error, info, warn};
use zebu_node::Restore;
use zebu_storage::disk::Disk;
use zebu_storage::{
    Compression, Directories, DirectoryError, EmptySnapshots, FileDisk, ForceSync, Locks, LogOptions,
    LogWriter, Missing, Progress, Recovered, RecoveryOptions, Sections, recover,
};
use zebu_tree::{Tree, WalkProgress};

use crate::config::{ByteCount, ServerConfig, SnapshotCompression, StorageConfig};
use crate::purger::Origin;
use crate::serve_error::ServeError;
use crate::settings;
use crate::snapshotter::SnapshotStore;

/// How often a long load says how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Zeros are really written ahead, and a batch waits for them: a smaller step than ZooKeeper's.
const PREALLOCATE_MAX: u64 = 4 << 20;

/// Nobody is waited for: sessions that own nodes and do not exist are over at the next tick.
const ORPHAN_TIMEOUT_MS: i32 = 1;

/// A data directory that this process owns.
pub(crate) struct Opened {
    pub(crate) tree: Tree,
    pub(crate) log: LogWriter<FileDisk>,
    pub(crate) snapshots: SnapshotStore,
    pub(crate) directories: Directories,
    pub(crate) origin: Origin,
    /// Digests in the files that were not those of the tree.
    pub(crate) digest_mismatches: u64,
    pub(crate) locks: Locks<<FileDisk as Disk>::Lock>,
}

pub(crate) fn open(config: &ServerConfig, hash_seed: u64) -> Result<Opened, ServeError> {
    let storage = &config.storage;
    let disk = FileDisk;
    let directories = Directories::new(&storage.data_dir, &storage.data_log_dir);
    let missing = if storage.create_directories { Missing::Create } else { Missing::Refuse };
    let holder = format!("zebu {}, process {}", env!("CARGO_PKG_VERSION"), std::process::id());
    let locks = directories.open(&disk, missing, &holder).map_err(|error| unusable(storage, &error))?;

    let mut restore = Restore::new(settings::tree_options(config, hash_seed));
    let empty_snapshots =
        if storage.trust_empty_snapshot { EmptySnapshots::Trust } else { EmptySnapshots::Refuse };
    let options = RecoveryOptions { empty_snapshots, ..RecoveryOptions::default() };
    let mut reporter = Reporter::new();
    let recovered =
        recover(&disk, &directories, options, &mut restore, &mut |progress| reporter.report(&progress))
            .map_err(|error| ServeError::DataDirectory {
                path: storage.data_dir.clone(),
                reason: error.to_string(),
            })?;
    let mut tree = restore.finish();
    tell(&recovered, &tree, reporter.started.elapsed());
    let orphans = tree.adopt_orphaned_ephemerals(ORPHAN_TIMEOUT_MS);
    if !orphans.is_empty() {
        warn!(
            sessions = orphans.len(),
            "ephemeral nodes of sessions that do not exist; they will be removed"
        );
    }

    let snapshots = SnapshotStore::new(disk, &directories, storage);
    if recovered.snapshot.is_none() {
        if recovered.applied == 0 {
            Origin::mark(directories.data_root()).map_err(|error| ServeError::DataDirectory {
                path: storage.data_dir.clone(),
                reason: error.to_string(),
            })?;
        }
        // Apache refuses a directory that has logs and no snapshot.
        write_first_snapshot(&tree, &snapshots).map_err(|error| ServeError::DataDirectory {
            path: directories.snapshots(),
            reason: error.to_string(),
        })?;
    }
    if !storage.force_sync {
        warn!("forceSync=no: a power failure can lose writes that were acknowledged");
    }
    let log = LogWriter::open(FileDisk, log_options(storage, &directories), recovered.last_zxid)
        .map_err(|error| ServeError::DataDirectory { path: directories.logs(), reason: error.to_string() })?;
    let origin = Origin::of(directories.data_root());
    let digest_mismatches = recovered.digests.mismatched;
    Ok(Opened { tree, log, snapshots, directories, origin, digest_mismatches, locks })
}

fn log_options(storage: &StorageConfig, directories: &Directories) -> LogOptions {
    let mut options = LogOptions::new(directories.logs(), directories.snapshots());
    options.preallocate = storage.preallocation.0.min(PREALLOCATE_MAX);
    options.size_max = storage.txn_log_size_limit.map(|ByteCount(bytes)| bytes);
    options.force_sync = if storage.force_sync { ForceSync::Yes } else { ForceSync::No };
    options
}

/// Before anybody is served: in one piece.
fn write_first_snapshot(tree: &Tree, snapshots: &SnapshotStore) -> Result<(), zebu_storage::SnapshotError> {
    let mut writer = snapshots.begin(
        tree.last_zxid(),
        tree.sessions().iter().map(|(&id, &timeout_ms)| (id, timeout_ms)).collect(),
        tree.acl_table().map(|(id, acl)| (id, acl.clone())).collect(),
    )?;
    let mut walker = tree.walker();
    let mut result = Ok(());
    while result.is_ok() {
        let progress = walker.next_slice(tree, usize::MAX, &mut |path, data, acl, stat| {
            if result.is_ok() {
                result = writer.node(path, data, acl, stat);
            }
        });
        if progress == WalkProgress::Done {
            break;
        }
    }
    result?;
    // Apache writes no digest before the first transaction either: zero means that there is none.
    writer.finish(snapshots.sections(zebu_proto::Zxid::ZERO, 0, tree.last_zxid()))?;
    Ok(())
}

fn tell(recovered: &Recovered, tree: &Tree, took: Duration) {
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

fn unusable(storage: &StorageConfig, error: &DirectoryError) -> ServeError {
    ServeError::DataDirectory { path: storage.data_dir.clone(), reason: error.to_string() }
}

/// Says how far a long load is.
struct Reporter {
    started: Instant,
    last: Instant,
}

impl Reporter {
    fn new() -> Reporter {
        let now = Instant::now();
        Reporter { started: now, last: now }
    }

    fn report(&mut self, progress: &Progress<'_>) {
        if self.last.elapsed() < PROGRESS_INTERVAL {
            return;
        }
        self.last = Instant::now();
        let name = |path: &Path| {
            path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        };
        match progress {
            Progress::Snapshot { path, bytes } => {
                info!(file = name(path), mib = bytes >> 20, "loading the snapshot");
            }
            Progress::Log { path, bytes, length, zxid } => {
                info!(file = name(path), mib = bytes >> 20, of_mib = length >> 20, %zxid, "replaying the log");
            }
        }
    }
}

/// The compression of the configuration in the words of storage.
pub(crate) fn compression(configured: SnapshotCompression) -> Compression {
    match configured {
        SnapshotCompression::None => Compression::Plain,
        SnapshotCompression::Gzip => Compression::Gzip,
        SnapshotCompression::Snappy => Compression::Snappy,
    }
}

/// The sections of a snapshot that the configuration asks for.
pub(crate) fn sections(
    storage: &StorageConfig,
    zxid: zebu_proto::Zxid,
    digest: i64,
    last_zxid: zebu_proto::Zxid,
) -> Sections {
    match (storage.digest_enabled, storage.snapshot_zxid_trailer) {
        (false, _) => Sections::None,
        (true, false) => Sections::Digest { zxid, digest },
        (true, true) => Sections::DigestAndLastZxid { zxid, digest, last_zxid },
    }
}
