//! Opening the data directory: locked, recovered, ready to be written.

use std::path::Path;
use std::time::{Duration, Instant};

use tracing::{error, info, warn};
use zebu_node::Restore;
use zebu_storage::disk::Disk;
use zebu_storage::{
    Compression, Directories, DirectoryError, EmptySnapshots, Epochs, FileDisk, ForceSync, Locks, LogOptions,
    LogWriter, Missing, Progress, Recovered, RecoveryError, RecoveryOptions, Sections, Trust, recover,
    set_aside,
};
use zebu_tree::{Tree, WalkProgress};

use crate::config::{ByteCount, ServerConfig, SnapshotCompression, StorageConfig};
use crate::purger::Origin;
use crate::serve_error::ServeError;
use crate::settings;
use crate::snapshotter::SnapshotStore;

/// How often a long load says how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Zeros are really written ahead, and a batch waits for them: a much smaller step than ZooKeeper's.
const PREALLOCATE_MAX: u64 = 256 << 10;

/// Nobody is waited for: sessions that own nodes and do not exist are over at the next tick.
const ORPHAN_TIMEOUT_MS: i32 = 1;

/// A data directory that this process owns.
pub(crate) struct Opened {
    pub(crate) tree: Tree,
    /// None for a member that has lost everything: its log begins with what the others send.
    pub(crate) log: Option<LogWriter<FileDisk>>,
    /// What a member brings into its ensemble.
    pub(crate) member: Option<OpenedMember>,
    pub(crate) snapshots: SnapshotStore,
    pub(crate) directories: Directories,
    pub(crate) origin: Origin,
    /// Digests in the files that were not those of the tree.
    pub(crate) digest_mismatches: u64,
    pub(crate) locks: Locks<<FileDisk as Disk>::Lock>,
}

/// What a member finds beside its state.
pub(crate) struct OpenedMember {
    pub(crate) epochs: Epochs,
    pub(crate) recovered: zebu_zab::Recovered,
}

pub(crate) fn open(config: &ServerConfig, hash_seed: u64) -> Result<Opened, ServeError> {
    let storage = &config.storage;
    let disk = FileDisk;
    let directories = Directories::new(&storage.data_dir, &storage.data_log_dir);
    let missing = if storage.create_directories { Missing::Create } else { Missing::Refuse };
    let holder = format!("zebu {}, process {}", env!("CARGO_PKG_VERSION"), std::process::id());
    let locks = directories.open(&disk, missing, &holder).map_err(|error| unusable(storage, &error))?;

    let is_member = config.membership.is_ensemble();
    let mut reporter = Reporter::new();
    let (recovered, mut tree) = load(config, &directories, hash_seed, &mut reporter)?;
    tell(&recovered, &tree, reporter.started.elapsed());
    if !is_member {
        adopt_orphans(&mut tree);
    }
    let snapshots = SnapshotStore::new(disk, &directories, storage);
    let member = if is_member { Some(open_member(storage, &directories, &recovered)?) } else { None };
    let lost = member.as_ref().is_some_and(|member| member.recovered.trust == zebu_zab::Trust::Untrusted);
    if recovered.snapshot.is_none() && !lost {
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
    let log = if recovered.snapshot.is_none() && lost {
        // Apache would trust a directory with a snapshot.
        None
    } else {
        let log = LogWriter::open(FileDisk, log_options(storage, &directories), recovered.last_zxid);
        Some(log.map_err(|error| ServeError::DataDirectory {
            path: directories.logs(),
            reason: error.to_string(),
        })?)
    };
    let origin = Origin::of(directories.data_root());
    let digest_mismatches = recovered.digests.mismatched;
    Ok(Opened { tree, log, member, snapshots, directories, origin, digest_mismatches, locks })
}

/// Reads the files. A member whose files are damaged puts them aside and begins anew: the others have it all.
fn load(
    config: &ServerConfig,
    directories: &Directories,
    hash_seed: u64,
    reporter: &mut Reporter,
) -> Result<(Recovered, Tree), ServeError> {
    let storage = &config.storage;
    let is_member = config.membership.is_ensemble();
    let mut options = if is_member { RecoveryOptions::member() } else { RecoveryOptions::default() };
    if storage.trust_empty_snapshot {
        options.empty_snapshots = EmptySnapshots::Trust;
    }
    let mut attempt = || {
        let mut restore = Restore::new(settings::tree_options(config, hash_seed));
        recover(&FileDisk, directories, options, &mut restore, &mut |progress| reporter.report(&progress))
            .map(|recovered| (recovered, restore.finish()))
    };
    let unusable = |reason: String| ServeError::DataDirectory { path: storage.data_dir.clone(), reason };
    match attempt() {
        Ok(loaded) => Ok(loaded),
        Err(error) if !is_member || matches!(error, RecoveryError::Io(_)) => Err(unusable(error.to_string())),
        Err(error) => {
            let number =
                set_aside(&FileDisk, directories).map_err(|failure| unusable(failure.to_string()))?;
            error!(
                %error, number,
                "the files of this member are damaged; they were set aside, and the others will send everything. Until \
                 then it does not vote"
            );
            attempt().map_err(|error| unusable(error.to_string()))
        }
    }
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

/// The promises of a member, and whether its history may be relied on.
fn open_member(
    storage: &StorageConfig,
    directories: &Directories,
    recovered: &Recovered,
) -> Result<OpenedMember, ServeError> {
    let unusable = |reason: String| ServeError::DataDirectory { path: storage.data_dir.clone(), reason };
    let last = recovered.last_zxid;
    let mut trust = match recovered.trust {
        Trust::Trusted => zebu_zab::Trust::Trusted,
        Trust::Untrusted => zebu_zab::Trust::Untrusted,
    };
    let epochs = match Epochs::load(&FileDisk, directories.snapshots(), last) {
        Ok(epochs) => epochs,
        Err(error) if error.is_io() => return Err(unusable(error.to_string())),
        Err(error) => {
            error!(%error, "the epochs of this member are damaged; it does not vote before the others have brought it up to date");
            trust = zebu_zab::Trust::Untrusted;
            Epochs::salvage(&FileDisk, directories.snapshots(), last)
                .map_err(|error| unusable(error.to_string()))?
        }
    };
    let recovered = zebu_zab::Recovered {
        last,
        proven: recovered.snapshot.as_ref().map_or(zebu_proto::Zxid::ZERO, |snapshot| snapshot.zxid),
        accepted_epoch: epochs.accepted(),
        current_epoch: epochs.current(),
        trust,
    };
    Ok(OpenedMember { epochs, recovered })
}

pub(crate) fn log_options(storage: &StorageConfig, directories: &Directories) -> LogOptions {
    let mut options = LogOptions::new(directories.logs(), directories.snapshots());
    options.preallocate = storage.preallocation.0.min(PREALLOCATE_MAX);
    options.size_max = storage.txn_log_size_limit.map(|ByteCount(bytes)| bytes);
    options.force_sync = if storage.force_sync { ForceSync::Yes } else { ForceSync::No };
    options
}

/// Before anybody is served: in one piece.
pub(crate) fn write_first_snapshot(
    tree: &Tree,
    snapshots: &SnapshotStore,
) -> Result<(), zebu_storage::SnapshotError> {
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
