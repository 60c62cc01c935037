//! The snapshot thread: copies slices of the tree under the shared replica lock and writes them
//! without it. The runtime defines the content of a snapshot.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracing::{error, info, warn};
use zebu_runtime::{SnapshotStep, SnapshotStore, SnapshotTask};
use zebu_storage::{FileDisk, SnapshotError};

use crate::core::context::ServerContext;

/// Nodes that are copied under one hold of the lock.
const SLICE_NODES: usize = 500;

/// Pause between slices, so that a snapshot does not take a whole processor core from the clients.
const SLICE_PAUSE: Duration = Duration::from_micros(200);

/// Attempts at a snapshot that is invalidated by a session without a list of its ephemeral nodes. A
/// missing snapshot is safe, because the log is complete.
const ATTEMPTS_MAX: usize = 3;

/// Requests snapshots. A request during a snapshot is dropped; the log is complete.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotHandle {
    requests: SyncSender<()>,
}

impl SnapshotHandle {
    /// A handle whose requests are dropped.
    #[cfg(test)]
    pub(crate) fn detached() -> SnapshotHandle {
        SnapshotHandle { requests: sync_channel(1).0 }
    }

    pub(crate) fn request(&self) {
        let _ = self.requests.try_send(());
    }
}

/// Starts the snapshot thread. It ends when its handles are dropped.
pub(crate) fn start_snapshot_thread(
    shared: Arc<ServerContext>,
    store: SnapshotStore<FileDisk>,
) -> std::io::Result<(SnapshotHandle, JoinHandle<()>)> {
    let (requests, received) = sync_channel(1);
    let thread = std::thread::Builder::new()
        .name("zebu-snapshot".to_owned())
        .spawn(move || run_snapshot_thread(&shared, &store, &received))?;
    Ok((SnapshotHandle { requests }, thread))
}

fn run_snapshot_thread(shared: &ServerContext, store: &SnapshotStore<FileDisk>, requests: &Receiver<()>) {
    while requests.recv().is_ok() {
        let started = Instant::now();
        // The thread only reads the replica, and only writers can poison its lock. The next
        // snapshot starts from the beginning.
        let written = catch_unwind(AssertUnwindSafe(|| write_snapshot_with_retries(shared, store)));
        let Ok(written) = written else {
            shared.metrics.snapshot_errors.increment();
            error!(
                "writing a snapshot failed unexpectedly; the server goes on with its log. Please report the message above"
            );
            continue;
        };
        match written {
            Ok(SnapshotStep::TreeReplaced) => {
                info!("a snapshot was given up: another state took the place of this one")
            }
            Ok(SnapshotStep::Invalidated) => warn!(
                attempts = ATTEMPTS_MAX,
                "a snapshot was given up: sessions with very many ephemeral nodes ended while it was written"
            ),
            Ok(SnapshotStep::More) => unreachable!("a snapshot is written to its end"),
            Ok(SnapshotStep::Written(zxid)) => {
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

/// Writes a snapshot, and retries if it was invalidated.
fn write_snapshot_with_retries(
    shared: &ServerContext,
    store: &SnapshotStore<FileDisk>,
) -> Result<SnapshotStep, SnapshotError> {
    for _ in 1..ATTEMPTS_MAX {
        match write_snapshot(shared, store)? {
            SnapshotStep::Invalidated => {}
            step => return Ok(step),
        }
    }
    write_snapshot(shared, store)
}

/// Writes one snapshot, fuzzy over the time of the walk.
fn write_snapshot(
    shared: &ServerContext,
    store: &SnapshotStore<FileDisk>,
) -> Result<SnapshotStep, SnapshotError> {
    let mut task = SnapshotTask::begin(store.clone(), &shared.read_replica());
    task.create()?;
    loop {
        task.copy_slice(&shared.read_replica(), SLICE_NODES);
        match task.write_slice()? {
            SnapshotStep::More => std::thread::sleep(SLICE_PAUSE),
            step => return Ok(step),
        }
    }
}
