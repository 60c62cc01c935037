//! The disk thread: the one owner of the transaction log. It appends everything that waits and makes one
//! sync for all of it; only then does the core hear of it.
//!
//! A write or sync that failed is never tried again: the kernel may have dropped the pages, and a second
//! sync would succeed without them. The server stops instead, which is always safe.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use tracing::{error, warn};
use zebu_node::{AfterAppend, LogBatch};
use zebu_storage::{FileDisk, LogWriter};

use crate::config::StorageConfig;
use crate::inbox::Urgent;
use crate::shared::Shared;

/// The log cannot be written any more.
#[derive(Debug, thiserror::Error)]
#[error(
    "the transaction log in {} cannot be written: {reason}. Nothing that was acknowledged is lost; free or repair \
     the disk, then start the server again", directory.display()
)]
pub(crate) struct DiskFailure {
    pub(crate) directory: PathBuf,
    pub(crate) reason: String,
}

/// The core's end of the disk thread. The queue is bounded by the room in the core's inbox.
#[derive(Debug)]
pub(crate) struct DiskHandle {
    orders: Sender<LogBatch>,
}

impl DiskHandle {
    /// Hands over a batch; the inbox will say when it is durable.
    pub(crate) fn append(&self, batch: LogBatch) {
        // The thread ends early only after it reported a failure, which ends the core.
        let _ = self.orders.send(batch);
    }
}

/// Starts the disk thread. It ends when its handle is dropped, after everything handed over is durable.
pub(crate) fn start(
    shared: Arc<Shared>,
    log: LogWriter<FileDisk>,
) -> std::io::Result<(DiskHandle, JoinHandle<()>)> {
    let (orders, received) = channel();
    let thread = std::thread::Builder::new().name("zebu-disk".to_owned()).spawn(move || {
        if let Err(failure) = run(&shared, log, &received) {
            error!(%failure, "the disk failed; the server stops");
            shared.inbox.push_urgent(Urgent::DiskFailed(failure));
        }
    })?;
    Ok((DiskHandle { orders }, thread))
}

/// What goes into one sync: everything that waits, and with `flushDelay` what comes within it, up to
/// `maxBatchSize`.
struct Gathered<'a> {
    next: Option<LogBatch>,
    orders: &'a Receiver<LogBatch>,
    until: Option<Instant>,
    room: u64,
}

impl<'a> Gathered<'a> {
    fn new(first: LogBatch, orders: &'a Receiver<LogBatch>, storage: &StorageConfig) -> Gathered<'a> {
        let delay = storage.flush_delay;
        let until = if delay.is_zero() { None } else { Some(Instant::now() + delay) };
        Gathered { next: Some(first), orders, until, room: u64::from(storage.max_batch_size) }
    }
}

impl Iterator for Gathered<'_> {
    type Item = LogBatch;

    fn next(&mut self) -> Option<LogBatch> {
        let batch = match (self.next.take(), self.until) {
            (Some(first), _) => first,
            (None, _) if self.room == 0 => return None,
            (None, None) => self.orders.try_recv().ok()?,
            (None, Some(until)) => {
                self.orders.recv_timeout(until.saturating_duration_since(Instant::now())).ok()?
            }
        };
        self.room = self.room.saturating_sub(batch.transactions);
        Some(batch)
    }
}

fn run(
    shared: &Shared,
    mut log: LogWriter<FileDisk>,
    orders: &Receiver<LogBatch>,
) -> Result<(), DiskFailure> {
    let failure = |error: zebu_storage::LogError| DiskFailure {
        directory: shared.config.storage.log_dir(),
        reason: error.to_string(),
    };
    while let Ok(first) = orders.recv() {
        if shared.abandoned.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut last = first.last;
        let mut transactions = 0;
        // What goes into the same file is one write.
        let mut joined: Option<LogBatch> = None;
        for batch in Gathered::new(first, orders, &shared.config.storage) {
            last = batch.last;
            transactions += batch.transactions;
            let rolls = batch.after == AfterAppend::RollAndSnapshot;
            match &mut joined {
                None => joined = Some(batch),
                Some(joined) => {
                    joined.bytes.extend_from_slice(&batch.bytes);
                    joined.last = batch.last;
                }
            }
            if rolls && let Some(joined) = joined.take() {
                log.append(joined.first, joined.last, &joined.bytes).map_err(failure)?;
                log.roll().map_err(failure)?;
            }
        }
        if let Some(joined) = joined {
            log.append(joined.first, joined.last, &joined.bytes).map_err(failure)?;
        }
        let started = Instant::now();
        log.sync().map_err(failure)?;
        let took = started.elapsed();
        shared.metrics.fsync_ms.add(took.as_millis() as u64);
        shared.metrics.sync_batch.add(transactions);
        if took > shared.config.storage.fsync_warning_threshold {
            warn!(took_ms = took.as_millis() as u64, "the sync of the transaction log was slow");
        }
        shared.inbox.push_urgent(Urgent::Persisted(last));
    }
    if !shared.abandoned.load(Ordering::Acquire) {
        log.close().map_err(failure)?;
    }
    Ok(())
}
