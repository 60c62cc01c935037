//! The snapshot thread: writes the tree to a file, a slice at a time. The replica is locked, shared, only
//! while a slice is copied; no request waits for the disk.
//!
//! The snapshot is fuzzy: transactions go on between slices. It is named after the last transaction that
//! was applied when it began, and replaying the log from there makes it whole.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracing::{error, info, warn};
use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_storage::{Compression, Directories, FileDisk, Sections, SnapshotError, SnapshotWriter};
use zebu_tree::WalkProgress;

use crate::config::StorageConfig;
use crate::recovery;
use crate::shared::Shared;

/// Nodes that are copied under one hold of the lock.
const SLICE_NODES: usize = 500;

/// Pause between slices, so that a snapshot does not take a whole core from the clients.
const SLICE_PAUSE: Duration = Duration::from_micros(200);

/// How often a snapshot is begun again because a session ended without a list of its ephemeral nodes. The log has it all.
const ATTEMPTS_MAX: usize = 3;

/// What became of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// It is on the disk.
    Written(Zxid),
    /// Another state took the place of the one that was written.
    Replaced,
    /// A session ended without a list of its ephemeral nodes: no replay would make the snapshot exact.
    Void,
}

/// Where snapshots go and in which form.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotStore {
    disk: FileDisk,
    directory: PathBuf,
    compression: Compression,
    storage: StorageConfig,
}

impl SnapshotStore {
    pub(crate) fn new(disk: FileDisk, directories: &Directories, storage: &StorageConfig) -> SnapshotStore {
        SnapshotStore {
            disk,
            directory: directories.snapshots(),
            compression: recovery::compression(storage.snapshot_compression),
            storage: storage.clone(),
        }
    }

    pub(crate) fn begin(
        &self,
        zxid: Zxid,
        sessions: Vec<(SessionId, i32)>,
        acls: Vec<(i64, Arc<[Acl]>)>,
    ) -> Result<SnapshotWriter<FileDisk>, SnapshotError> {
        let acls = acls.iter().map(|(id, acl)| (*id, acl.as_ref()));
        let sessions = sessions.into_iter();
        SnapshotWriter::begin(self.disk, &self.directory, zxid, self.compression, sessions, acls)
    }

    pub(crate) fn sections(&self, zxid: Zxid, digest: i64, last_zxid: Zxid) -> Sections {
        recovery::sections(&self.storage, zxid, digest, last_zxid)
    }
}

/// Asks for snapshots. While one is being written, further wishes are dropped: the log has it all.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotHandle {
    wishes: SyncSender<()>,
}

impl SnapshotHandle {
    pub(crate) fn request(&self) {
        let _ = self.wishes.try_send(());
    }
}

/// Starts the snapshot thread. It ends when its handles are dropped.
pub(crate) fn start(
    shared: Arc<Shared>,
    store: SnapshotStore,
) -> std::io::Result<(SnapshotHandle, JoinHandle<()>)> {
    let (wishes, received) = sync_channel(1);
    let thread = std::thread::Builder::new()
        .name("zebu-snapshot".to_owned())
        .spawn(move || run(&shared, &store, &received))?;
    Ok((SnapshotHandle { wishes }, thread))
}

fn run(shared: &Shared, store: &SnapshotStore, wishes: &Receiver<()>) {
    while wishes.recv().is_ok() {
        let started = Instant::now();
        // What is read is behind a lock that only writers can poison; the next snapshot begins from the start.
        let written = catch_unwind(AssertUnwindSafe(|| write_snapshot_in_time(shared, store)));
        let Ok(written) = written else {
            shared.metrics.snapshot_errors.increment();
            error!(
                "writing a snapshot failed unexpectedly; the server goes on with its log. Please report the message above"
            );
            continue;
        };
        match written {
            Ok(Attempt::Replaced) => {
                info!("a snapshot was given up: another state took the place of this one")
            }
            Ok(Attempt::Void) => warn!(
                attempts = ATTEMPTS_MAX,
                "a snapshot was given up: sessions with very many ephemeral nodes ended while it was written"
            ),
            Ok(Attempt::Written(zxid)) => {
                let took_ms = started.elapsed().as_millis() as u64;
                shared.metrics.snapshot_ms.add(took_ms);
                info!(%zxid, took_ms, "snapshot written");
            }
            Err(error) => {
                shared.metrics.snapshot_errors.increment();
                error!(%error, "no snapshot was written; the server goes on with its log");
            }
        }
    }
}

/// Writes a snapshot, again if it became void on the way.
fn write_snapshot_in_time(shared: &Shared, store: &SnapshotStore) -> Result<Attempt, SnapshotError> {
    for _ in 1..ATTEMPTS_MAX {
        match write_snapshot(shared, store, SLICE_PAUSE)? {
            Attempt::Void => {}
            attempt => return Ok(attempt),
        }
    }
    write_snapshot(shared, store, SLICE_PAUSE)
}

/// One node, copied out of the tree.
struct Copied {
    path: Box<str>,
    data: Option<Box<[u8]>>,
    acl: i64,
    stat: StatPersisted,
}

/// Writes one snapshot of the replica as it is while the walk lasts.
pub(crate) fn write_snapshot(
    shared: &Shared,
    store: &SnapshotStore,
    pause: Duration,
) -> Result<Attempt, SnapshotError> {
    let generation = shared.generation();
    let (zxid, sessions, acls, mut walker) = {
        let replica = shared.read();
        let tree = replica.tree();
        let sessions = tree.sessions().iter().map(|(&id, &timeout_ms)| (id, timeout_ms)).collect();
        let acls = tree.acl_table().map(|(id, acl)| (id, acl.clone())).collect();
        (tree.last_zxid(), sessions, acls, tree.walker())
    };
    let mut writer = store.begin(zxid, sessions, acls)?;
    let mut slice = Vec::with_capacity(SLICE_NODES);
    loop {
        let (progress, digest_zxid, digest) = {
            let replica = shared.read();
            if shared.generation() != generation {
                drop(replica);
                writer.abandon()?;
                return Ok(Attempt::Replaced);
            }
            let tree = replica.tree();
            let progress = walker.next_slice(tree, SLICE_NODES, &mut |path, data, acl, stat| {
                slice.push(Copied { path: path.into(), data: data.map(Box::from), acl, stat: *stat });
            });
            (progress, tree.last_zxid(), tree.digest())
        };
        for node in slice.drain(..) {
            writer.node(&node.path, node.data.as_deref(), node.acl, &node.stat)?;
        }
        match progress {
            WalkProgress::More => std::thread::sleep(pause),
            WalkProgress::Void => {
                writer.abandon()?;
                return Ok(Attempt::Void);
            }
            WalkProgress::Done => {
                writer.finish(store.sections(digest_zxid, digest, digest_zxid))?;
                return Ok(Attempt::Written(zxid));
            }
        }
    }
}
