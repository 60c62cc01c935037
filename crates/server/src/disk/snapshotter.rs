//! The snapshot thread: copies slices of the tree under the shared replica lock and writes them
//! without it. The runtime defines the content of a snapshot.
//!
//! A snapshot for an operator leaves the server without its log, so it must be exact. The thread writes one
//! between two transactions, or holds writes back while it copies a small state.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracing::{error, info, warn};
use zebu_proto::Zxid;
use zebu_proto::quorum::DiskRoom;
use zebu_runtime::{NODE_BYTES, SnapshotStep, SnapshotStore, SnapshotTask};
use zebu_storage::{Compression, FileDisk, SnapshotError};

use crate::core::context::ServerContext;
use crate::views::{OperatorSnapshot, SnapshotRefusal};

/// Nodes that are copied under one hold of the lock.
const SLICE_NODES: usize = 500;

/// Pause between slices, so that a snapshot does not take a whole processor core from the clients.
const SLICE_PAUSE: Duration = Duration::from_micros(200);

/// Attempts at a snapshot that is invalidated by a session without a list of its ephemeral nodes. A
/// missing snapshot is safe, because the log is complete.
const ATTEMPTS_MAX: usize = 3;

/// Attempts at a snapshot for an operator without holding writes back.
const EXACT_ATTEMPTS_MAX: usize = 2;

/// Nodes and bytes of paths and data up to which writes are held back for an exact snapshot. They bound the
/// memory of the copy, and the time in which writes wait.
const HELD_NODES_MAX: usize = 500_000;
const HELD_BYTES_MAX: usize = 64 << 20;

/// Receives the snapshot that an operator requested.
pub(crate) type OperatorReply = tokio::sync::oneshot::Sender<Result<OperatorSnapshot, SnapshotRefusal>>;

/// A request to the snapshot thread.
#[derive(Debug)]
pub(crate) enum SnapshotRequest {
    /// The log has grown.
    Periodic,
    /// An operator wants an exact file.
    Operator(OperatorReply),
}

/// Requests snapshots. A request during a snapshot is dropped; the log is complete.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotHandle {
    requests: SyncSender<SnapshotRequest>,
}

impl SnapshotHandle {
    /// A handle whose requests are dropped.
    #[cfg(test)]
    pub(crate) fn detached() -> SnapshotHandle {
        SnapshotHandle { requests: sync_channel(1).0 }
    }

    pub(crate) fn request(&self) {
        let _ = self.requests.try_send(SnapshotRequest::Periodic);
    }

    /// Requests an exact snapshot. Returns whether the thread takes the request.
    pub(crate) fn request_exact(&self, reply: OperatorReply) -> bool {
        self.requests.try_send(SnapshotRequest::Operator(reply)).is_ok()
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

fn run_snapshot_thread(
    shared: &ServerContext,
    store: &SnapshotStore<FileDisk>,
    requests: &Receiver<SnapshotRequest>,
) {
    while let Ok(request) = requests.recv() {
        match request {
            SnapshotRequest::Operator(reply) => answer_operator(shared, store, reply),
            SnapshotRequest::Periodic => write_periodic_snapshot(shared, store),
        }
    }
}

fn answer_operator(shared: &ServerContext, store: &SnapshotStore<FileDisk>, reply: OperatorReply) {
    let written = catch_unwind(AssertUnwindSafe(|| write_exact_snapshot(shared, store)));
    let failed = |_| Err(SnapshotRefusal::Failed("the copy failed unexpectedly".to_owned()));
    let written = written.unwrap_or_else(failed);
    if let Err(SnapshotRefusal::Failed(_) | SnapshotRefusal::NoRoom) = &written {
        shared.metrics.snapshot_errors.increment();
    }
    // A refused call may have left files, too: those that were not exact.
    make_room(shared);
    // The receiver is gone if the operator's connection has ended.
    let _ = reply.send(written);
}

fn write_periodic_snapshot(shared: &ServerContext, store: &SnapshotStore<FileDisk>) {
    let started = Instant::now();
    // The thread only reads the replica, and only writers can poison its lock. The next
    // snapshot starts from the beginning.
    let written = catch_unwind(AssertUnwindSafe(|| write_snapshot_with_retries(shared, store)));
    let Ok(written) = written else {
        shared.metrics.snapshot_errors.increment();
        error!(
            "writing a snapshot failed unexpectedly; the server goes on with its log. Please report the message above"
        );
        return;
    };
    match written {
        Ok(SnapshotStep::TreeReplaced) => {
            info!("a snapshot was given up: another state took the place of this one")
        }
        Ok(SnapshotStep::Invalidated) => warn!(
            attempts = ATTEMPTS_MAX,
            "a snapshot was given up: sessions with very many ephemeral nodes ended while it was written"
        ),
        Ok(SnapshotStep::NoRoom) => {
            shared.metrics.snapshot_errors.increment();
            warn!("no snapshot was written: the disk has no room for it; the server goes on with its log");
        }
        Ok(SnapshotStep::More) => unreachable!("a snapshot is written to its end"),
        Ok(SnapshotStep::Written(zxid)) => {
            let took_ms = record_duration(shared, started);
            info!(%zxid, took_ms, "snapshot written");
            make_room(shared);
        }
        Err(error) => {
            shared.metrics.snapshot_errors.increment();
            error!(%error, "no snapshot was written; the server goes on with its log");
        }
    }
}

/// Lets the purge remove what a new snapshot replaces, if the disk has little room.
fn make_room(shared: &ServerContext) {
    if shared.disk_room.room() != DiskRoom::Enough {
        shared.disk_room.request_purge();
    }
}

/// Whether the disk has room for a snapshot of the present state. The size of a compressed file is not known
/// before it is written.
fn has_room(shared: &ServerContext, store: &SnapshotStore<FileDisk>) -> bool {
    if store.compression() != Compression::Plain {
        return shared.disk_room.has_room_for_snapshot(0);
    }
    let replica = shared.read_replica();
    let tree = replica.tree();
    let bytes = tree.approximate_data_size() as u64 + tree.node_count() as u64 * NODE_BYTES;
    shared.disk_room.has_room_for_snapshot(bytes)
}

/// Counts a written snapshot and returns its milliseconds.
fn record_duration(shared: &ServerContext, begun: Instant) -> u64 {
    let took = begun.elapsed();
    let took_ms = took.as_millis() as u64;
    shared.metrics.snapshot_ms.record(took_ms);
    shared.metrics.snapshot_duration.record(took.as_micros() as u64);
    took_ms
}

/// Writes a snapshot, and retries if it was invalidated.
fn write_snapshot_with_retries(
    shared: &ServerContext,
    store: &SnapshotStore<FileDisk>,
) -> Result<SnapshotStep, SnapshotError> {
    for _ in 1..ATTEMPTS_MAX {
        match write_snapshot(shared, store)?.0 {
            SnapshotStep::Invalidated => {}
            step => return Ok(step),
        }
    }
    Ok(write_snapshot(shared, store)?.0)
}

/// Writes a snapshot that no transaction changed while it was copied.
fn write_exact_snapshot(
    shared: &ServerContext,
    store: &SnapshotStore<FileDisk>,
) -> Result<OperatorSnapshot, SnapshotRefusal> {
    let failed = |error: SnapshotError| SnapshotRefusal::Failed(error.to_string());
    let begun = Instant::now();
    let found = |zxid| {
        let took_ms = record_duration(shared, begun);
        info!(%zxid, took_ms, "snapshot written for an operator");
        OperatorSnapshot { path: store.path_of(zxid), zxid }
    };
    for _ in 0..EXACT_ATTEMPTS_MAX {
        match write_snapshot(shared, store).map_err(failed)? {
            (SnapshotStep::Written(zxid), last) if zxid == last => return Ok(found(zxid)),
            (SnapshotStep::NoRoom, _) => return Err(SnapshotRefusal::NoRoom),
            // Not exact: the file is good for this server, whose log goes on from it.
            (SnapshotStep::Written(_) | SnapshotStep::Invalidated | SnapshotStep::TreeReplaced, _) => {}
            (SnapshotStep::More, _) => unreachable!("a snapshot is written to its end"),
        }
    }
    if !has_room(shared, store) {
        return Err(SnapshotRefusal::NoRoom);
    }
    let mut task = {
        let replica = shared.read_replica();
        let tree = replica.tree();
        if tree.node_count() > HELD_NODES_MAX || tree.approximate_data_size() > HELD_BYTES_MAX {
            return Err(SnapshotRefusal::KeptChanging);
        }
        let mut task = SnapshotTask::begin(store.clone(), &replica);
        task.copy_slice(&replica, usize::MAX);
        task
    };
    task.reserve(shared.disk_room.bytes_beside_snapshot(shared.disk_room.room()));
    match task.write_slice().map_err(failed)? {
        SnapshotStep::Written(zxid) => Ok(found(zxid)),
        SnapshotStep::NoRoom => Err(SnapshotRefusal::NoRoom),
        SnapshotStep::More | SnapshotStep::Invalidated | SnapshotStep::TreeReplaced => {
            Err(SnapshotRefusal::KeptChanging)
        }
    }
}

/// Writes one snapshot, fuzzy over the time of the walk. Returns the last transaction at its end, too.
fn write_snapshot(
    shared: &ServerContext,
    store: &SnapshotStore<FileDisk>,
) -> Result<(SnapshotStep, Zxid), SnapshotError> {
    if !has_room(shared, store) {
        return Ok((SnapshotStep::NoRoom, Zxid::ZERO));
    }
    let began = shared.disk_room.room();
    let mut task = SnapshotTask::begin(store.clone(), &shared.read_replica());
    task.create()?;
    loop {
        let last = {
            let replica = shared.read_replica();
            task.copy_slice(&replica, SLICE_NODES);
            replica.last_zxid()
        };
        // The log and other processes take room meanwhile.
        task.reserve(shared.disk_room.bytes_beside_snapshot(began));
        match task.write_slice()? {
            SnapshotStep::More => std::thread::sleep(SLICE_PAUSE),
            step => return Ok((step, last)),
        }
    }
}
