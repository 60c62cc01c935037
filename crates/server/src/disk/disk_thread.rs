//! The disk thread: a loop around the disk worker. It decides which appends share an fsync,
//! measures the fsync and reports to the core; the worker changes the files.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::thread::JoinHandle;
use std::time::Instant;

use tracing::{error, info, warn};
use zebu_node::{LogBatch, ServingMode};
use zebu_proto::Zxid;
use zebu_runtime::{DiskError, DiskOutcome, DiskWorker, RestoredState, RoomKeeper};
use zebu_storage::{Disk, FileDisk};
use zebu_tree::Tree;
use zebu_zab::{DiskCommand, IoId};

use crate::core::context::ServerContext;
use crate::core::inbox::ControlEvent;
use crate::disk::room_watch::{LOOK_INTERVAL, RoomWatch};
use crate::panic_guard::PanicGuard;
use crate::sync::{Receiver, Sender, channel};

/// The log cannot be written any more.
#[derive(Debug, thiserror::Error)]
#[error(
    "the transaction log in {} cannot be written: {error}. Nothing that was acknowledged is lost; free or repair \
     the disk, then start the server again", directory.display()
)]
pub(crate) struct DiskFailure {
    pub(crate) directory: PathBuf,
    #[source]
    pub(crate) error: DiskError,
}

/// A request to the disk thread.
#[derive(Debug)]
enum DiskRequest {
    /// A batch of transactions. An ensemble member numbers it.
    Append(LogBatch, Option<IoId>, Instant),
    /// A command, with the snapshot that it installs.
    Command(DiskCommand, Option<Box<Tree>>),
    /// A state that takes the place of the one with this last transaction.
    Restore(Box<RestoredState>, Zxid),
}

/// The core's handle of the disk thread. The permits of the inbox and the disk backlog bound the
/// queue.
#[derive(Debug)]
pub(crate) struct DiskHandle {
    shared: Arc<ServerContext>,
    requests: Sender<DiskRequest>,
}

impl DiskHandle {
    /// Queues a batch. An event reports when it is durable.
    pub(crate) fn append(&self, io: Option<IoId>, batch: LogBatch) {
        self.send(DiskRequest::Append(batch, io, Instant::now()));
    }

    /// Queues a command; `received` is the snapshot to install.
    pub(crate) fn command(&self, command: DiskCommand, received: Option<Tree>) {
        self.send(DiskRequest::Command(command, received.map(Box::new)));
    }

    /// Queues a state that takes the place of all files. `current` is the last transaction.
    pub(crate) fn restore(&self, state: Box<RestoredState>, current: Zxid) {
        self.send(DiskRequest::Restore(state, current));
    }

    fn send(&self, work: DiskRequest) {
        if let DiskRequest::Append(batch, ..) = &work {
            self.shared.disk_backlog.add(batch.bytes.len());
        }
        // The thread ends early only after it reported a failure or a panic, which ends the core.
        let _ = self.requests.send(work);
    }
}

/// Starts the disk thread. It ends when its handle is dropped, after everything queued is durable.
pub(crate) fn start_disk_thread(
    shared: Arc<ServerContext>,
    worker: DiskWorker<FileDisk>,
    room: Option<RoomKeeper<FileDisk>>,
) -> std::io::Result<(DiskHandle, JoinHandle<()>)> {
    let (handle, run) = disk_loop(shared, worker, room);
    Ok((handle, std::thread::Builder::new().name("zebu-disk".to_owned()).spawn(run)?))
}

/// The handle, and the function that its thread runs.
pub(crate) fn disk_loop<D: Disk>(
    shared: Arc<ServerContext>,
    worker: DiskWorker<D>,
    room: Option<RoomKeeper<D>>,
) -> (DiskHandle, impl FnOnce()) {
    let (work, received) = channel();
    let handle = DiskHandle { shared: shared.clone(), requests: work };
    let run = move || {
        let _panic_guard = PanicGuard::new(shared.clone(), "the disk thread");
        let room = room.map(|keeper| RoomWatch::new(shared.clone(), keeper));
        let mut disk = DiskThread { shared, worker, deferred: None, room };
        if let Err(failure) = disk.run(&received) {
            error!(%failure, "the disk failed; the server stops");
            disk.shared.inbox.push_control(ControlEvent::DiskFailed(failure));
        }
    };
    (handle, run)
}

/// The state of the disk thread.
struct DiskThread<D: Disk> {
    shared: Arc<ServerContext>,
    worker: DiskWorker<D>,
    /// A request that was received but does not belong to the last batch; it comes next.
    deferred: Option<DiskRequest>,
    /// `None` if no room is watched.
    room: Option<RoomWatch<D>>,
}

/// The appends that share one fsync: all queued ones, and with `flushDelay` later ones, up to
/// `maxBatchSize`. Ends before a command.
struct GroupCommit<'a> {
    first: Option<(LogBatch, Option<IoId>)>,
    /// When the batches were queued.
    queued: &'a mut GroupTimes,
    requests: &'a Receiver<DiskRequest>,
    deferred: &'a mut Option<DiskRequest>,
    deadline: Option<Instant>,
    transactions_left: u64,
}

impl Iterator for GroupCommit<'_> {
    type Item = (LogBatch, Option<IoId>);

    fn next(&mut self) -> Option<(LogBatch, Option<IoId>)> {
        let work = match (self.first.take(), self.deadline) {
            (Some((batch, io)), _) => return Some(self.take(batch, io)),
            (None, _) if self.transactions_left == 0 || self.deferred.is_some() => return None,
            (None, None) => self.requests.try_recv().ok()?,
            (None, Some(until)) => {
                self.requests.recv_timeout(until.saturating_duration_since(Instant::now())).ok()?
            }
        };
        match work {
            DiskRequest::Append(batch, io, queued_at) => {
                self.queued.add(queued_at);
                Some(self.take(batch, io))
            }
            command @ (DiskRequest::Command(..) | DiskRequest::Restore(..)) => {
                *self.deferred = Some(command);
                None
            }
        }
    }
}

impl GroupCommit<'_> {
    fn take(&mut self, batch: LogBatch, io: Option<IoId>) -> (LogBatch, Option<IoId>) {
        self.transactions_left = self.transactions_left.saturating_sub(batch.transactions);
        (batch, io)
    }
}

/// Times of the batches that share one fsync.
#[derive(Debug)]
struct GroupTimes {
    /// The oldest batch was queued at this time.
    queued_at: Instant,
    /// The time of its first transaction by the leader's clock.
    first_time_ms: Option<i64>,
    batches: u64,
}

impl GroupTimes {
    fn of(queued_at: Instant, batch: &LogBatch) -> GroupTimes {
        GroupTimes { queued_at, first_time_ms: batch.first_time_ms(), batches: 1 }
    }

    fn add(&mut self, queued_at: Instant) {
        self.queued_at = self.queued_at.min(queued_at);
        self.batches += 1;
    }
}

impl<D: Disk> DiskThread<D> {
    fn run(&mut self, work: &Receiver<DiskRequest>) -> Result<(), DiskFailure> {
        self.look_at_room();
        while let Some(next) = self.next_request(work) {
            if self.shared.aborted.load(Ordering::Acquire) {
                return Ok(());
            }
            match next {
                DiskRequest::Append(batch, io, queued_at) => {
                    let times = GroupTimes::of(queued_at, &batch);
                    self.append((batch, io), times, work)?
                }
                DiskRequest::Command(command, received) => {
                    self.execute(command, received.map(|tree| *tree))?
                }
                DiskRequest::Restore(state, current) => self.restore(*state, current)?,
            }
        }
        if !self.shared.aborted.load(Ordering::Acquire) {
            self.worker.close().map_err(|error| self.failure(error))?;
        }
        Ok(())
    }

    /// The next request; `None` at the end. An idle thread looks at its room meanwhile.
    fn next_request(&mut self, work: &Receiver<DiskRequest>) -> Option<DiskRequest> {
        if let Some(deferred) = self.deferred.take() {
            return Some(deferred);
        }
        if self.room.is_none() {
            return work.recv().ok();
        }
        loop {
            match work.recv_timeout(LOOK_INTERVAL) {
                Ok(request) => return Some(request),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    self.look_at_room();
                    self.keep_reserve();
                }
            }
        }
    }

    fn look_at_room(&mut self) {
        if let Some(room) = &mut self.room {
            room.look();
        }
    }

    fn keep_reserve(&mut self) {
        if let Some(room) = &mut self.room {
            room.keep_reserve();
        }
    }

    fn append(
        &mut self,
        first: (LogBatch, Option<IoId>),
        mut times: GroupTimes,
        work: &Receiver<DiskRequest>,
    ) -> Result<(), DiskFailure> {
        let began = Instant::now();
        self.look_at_room();
        self.write_waiting(first, &mut times, work).map_err(|error| self.failure(error))?;
        let written = Instant::now();
        let synced = self.worker.sync().map_err(|error| self.failure(error))?;
        let durable = Instant::now();
        self.record_fsync(durable - written, synced.transactions);
        self.record_group(&times, began, written, durable);
        self.shared
            .inbox
            .push_without_wake(|batch| batch.control_events.push(ControlEvent::Disk(synced.into())));
        self.shared.disk_backlog.remove(synced.bytes);
        if self.deferred.is_none() {
            self.deferred = work.try_recv().ok();
        }
        match self.deferred {
            // The next fsync comes first, so this thread does not run the core.
            Some(_) => self.shared.inbox.wake(),
            None => self.shared.core.run_or_wake(&self.shared.inbox, synced.transactions as usize),
        }
        self.keep_reserve();
        Ok(())
    }

    /// Writes the appends that share the next fsync.
    fn write_waiting(
        &mut self,
        first: (LogBatch, Option<IoId>),
        times: &mut GroupTimes,
        work: &Receiver<DiskRequest>,
    ) -> Result<(), DiskError> {
        let storage = &self.shared.config.storage;
        let delay = storage.flush_delay;
        let gathered = GroupCommit {
            first: Some(first),
            queued: times,
            requests: work,
            deferred: &mut self.deferred,
            deadline: if delay.is_zero() { None } else { Some(Instant::now() + delay) },
            transactions_left: u64::from(storage.max_batch_size),
        };
        for (batch, io) in gathered {
            self.worker.append(io, batch)?;
        }
        self.worker.write_joined()
    }

    fn record_fsync(&self, took: std::time::Duration, transactions: u64) {
        let metrics = &self.shared.metrics;
        metrics.fsync_ms.record(took.as_millis() as u64);
        metrics.fsync_duration.record(took.as_micros() as u64);
        metrics.sync_batch.record(transactions);
        metrics.sync_batch_sizes.record(transactions);
        if took > self.shared.config.storage.fsync_warning_threshold {
            metrics.slow_fsyncs.increment();
            warn!(took_ms = took.as_millis() as u64, "the sync of the transaction log was slow");
        }
    }

    fn record_group(&self, times: &GroupTimes, began: Instant, written: Instant, durable: Instant) {
        let metrics = &self.shared.metrics;
        let millis = |from: Instant, to: Instant| to.saturating_duration_since(from).as_millis() as u64;
        metrics.disk_queue_ms.record(millis(times.queued_at, began));
        metrics.disk_write_ms.record(millis(began, written));
        metrics.disk_flush_ms.record(millis(began, durable));
        metrics.disk_total_ms.record(millis(times.queued_at, durable));
        metrics.disk_queue_size.record(times.batches);
        metrics.disk_queue_depth.record(times.batches);
        let total = durable.saturating_duration_since(times.queued_at);
        metrics.disk_duration.record(total.as_micros() as u64);
        if let (Some(ServingMode::Follower | ServingMode::Observer), Some(time_ms)) =
            (self.shared.serving_mode(), times.first_time_ms)
        {
            metrics.ack_creation_ms.record_elapsed(self.shared.clock.now().wall_ms - time_ms);
        }
    }

    fn execute(&mut self, command: DiskCommand, received: Option<Tree>) -> Result<(), DiskFailure> {
        let applied = || self.shared.read_replica().last_zxid();
        let executed = self.worker.execute(command, received, applied);
        let outcome = executed.map_err(|error| self.failure(error))?;
        report(&outcome);
        self.shared.inbox.push_control(ControlEvent::Disk(outcome.into()));
        Ok(())
    }

    fn restore(&mut self, state: RestoredState, current: Zxid) -> Result<(), DiskFailure> {
        let restored = self.worker.restore(state, current, self.shared.clock.now().wall_ms);
        let outcome = restored.map_err(|error| self.failure(error))?;
        self.shared.inbox.push_control(ControlEvent::RestoreEnded(outcome));
        Ok(())
    }

    fn failure(&self, error: DiskError) -> DiskFailure {
        DiskFailure { directory: self.shared.config.storage.log_dir(), error }
    }
}

/// Logs changes of the transaction log and the tree.
fn report(outcome: &DiskOutcome) {
    match outcome {
        DiskOutcome::Saved { .. } | DiskOutcome::TruncateRefused { .. } => {}
        DiskOutcome::Truncated { to, before, .. } if to < before => {
            info!(%to, "the log was truncated: the ensemble has decided otherwise");
        }
        DiskOutcome::Truncated { to, .. } => {
            info!(%to, "back to what is on disk: this member was an observer without a log");
        }
        DiskOutcome::Installed { zxid, tree, .. } => {
            info!(%zxid, nodes = tree.node_count(), "the whole state of the leader was taken over");
        }
        DiskOutcome::Quarantined { number, .. } => {
            warn!(number, "the history of this member does not fit the ensemble's; it was set aside");
        }
    }
}
