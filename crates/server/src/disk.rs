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
use zebu_node::{AfterAppend, DiskOrder, LogBatch};
use zebu_proto::Zxid;
use zebu_storage::{FileDisk, LogWriter};
use zebu_tree::Tree;
use zebu_zab::{Event, IoId};

use crate::inbox::Urgent;
use crate::member_disk::{Done, MemberDisk};
use crate::shared::Shared;
use crate::vital::Vital;

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

/// Work for the disk thread.
#[derive(Debug)]
enum Work {
    /// A batch; the number is a member's.
    Append(LogBatch, Option<IoId>),
    /// Something else that a member wants, with the state that came for it.
    Other(DiskOrder, Option<Box<Tree>>),
}

/// The core's end of the disk thread. The queue is bounded by the room in the core's inbox.
#[derive(Debug)]
pub(crate) struct DiskHandle {
    work: Sender<Work>,
}

impl DiskHandle {
    /// Hands over a batch; the inbox will say when it is durable.
    pub(crate) fn append(&self, batch: LogBatch) {
        self.hand_over(Work::Append(batch, None));
    }

    /// Hands over what a member wants; `received` is the state that is to be installed.
    pub(crate) fn order(&self, order: DiskOrder, received: Option<Tree>) {
        self.hand_over(match order {
            DiskOrder::Append { io, batch } => Work::Append(batch, Some(io)),
            other => Work::Other(other, received.map(Box::new)),
        });
    }

    fn hand_over(&self, work: Work) {
        // The thread ends early only after it reported a failure or a panic, which ends the core.
        let _ = self.work.send(work);
    }
}

/// Starts the disk thread. It ends when its handle is dropped, after everything handed over is durable.
pub(crate) fn start(
    shared: Arc<Shared>,
    log: Option<LogWriter<FileDisk>>,
    member: Option<MemberDisk>,
) -> std::io::Result<(DiskHandle, JoinHandle<()>)> {
    let (work, received) = channel();
    let thread = std::thread::Builder::new().name("zebu-disk".to_owned()).spawn(move || {
        let _vital = Vital::new(shared.clone(), "the disk thread");
        let mut disk = DiskThread { shared, log, member, postponed: None };
        if let Err(failure) = disk.run(&received) {
            error!(%failure, "the disk failed; the server stops");
            disk.shared.inbox.push_urgent(Urgent::DiskFailed(failure));
        }
    })?;
    Ok((DiskHandle { work }, thread))
}

/// The thread's own.
struct DiskThread {
    shared: Arc<Shared>,
    /// None only while a member has nothing at all.
    log: Option<LogWriter<FileDisk>>,
    member: Option<MemberDisk>,
    /// Work that was taken from the queue and comes next: not part of the batch before it.
    postponed: Option<Work>,
}

/// What goes into one sync: everything that waits, and with `flushDelay` what comes within it, up to
/// `maxBatchSize`. Ends before anything that is no batch.
struct Gathered<'a> {
    next: Option<(LogBatch, Option<IoId>)>,
    work: &'a Receiver<Work>,
    postponed: &'a mut Option<Work>,
    until: Option<Instant>,
    room: u64,
}

impl Iterator for Gathered<'_> {
    type Item = (LogBatch, Option<IoId>);

    fn next(&mut self) -> Option<(LogBatch, Option<IoId>)> {
        let work = match (self.next.take(), self.until) {
            (Some((batch, io)), _) => Work::Append(batch, io),
            (None, _) if self.room == 0 || self.postponed.is_some() => return None,
            (None, None) => self.work.try_recv().ok()?,
            (None, Some(until)) => {
                self.work.recv_timeout(until.saturating_duration_since(Instant::now())).ok()?
            }
        };
        match work {
            Work::Append(batch, io) => {
                self.room = self.room.saturating_sub(batch.transactions);
                Some((batch, io))
            }
            other => {
                *self.postponed = Some(other);
                None
            }
        }
    }
}

impl DiskThread {
    fn run(&mut self, work: &Receiver<Work>) -> Result<(), DiskFailure> {
        while let Some(next) = self.postponed.take().or_else(|| work.recv().ok()) {
            if self.shared.abandoned.load(Ordering::Acquire) {
                return Ok(());
            }
            match next {
                Work::Append(batch, io) => self.append((batch, io), work)?,
                Work::Other(order, received) => self.perform(order, received.map(|tree| *tree))?,
            }
        }
        if !self.shared.abandoned.load(Ordering::Acquire)
            && let Some(log) = self.log.take()
        {
            let closed = log.close().map(|_| ());
            closed.map_err(|error| self.failure(error))?;
        }
        Ok(())
    }

    fn append(&mut self, first: (LogBatch, Option<IoId>), work: &Receiver<Work>) -> Result<(), DiskFailure> {
        let mut log = self.take_log()?;
        let storage = &self.shared.config.storage;
        let delay = storage.flush_delay;
        let gathered = Gathered {
            next: Some(first),
            work,
            postponed: &mut self.postponed,
            until: if delay.is_zero() { None } else { Some(Instant::now() + delay) },
            room: u64::from(storage.max_batch_size),
        };
        let (mut last, mut transactions, mut last_io) = (Zxid::ZERO, 0, None);
        // What goes into the same file is one write.
        let mut joined: Option<LogBatch> = None;
        let mut written = Ok(());
        for (batch, io) in gathered {
            last = batch.last;
            last_io = io;
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
                written = log.append(joined.first, joined.last, &joined.bytes).and_then(|()| log.roll());
                if written.is_err() {
                    break;
                }
            }
        }
        if let Some(joined) = joined
            && written.is_ok()
        {
            written = log.append(joined.first, joined.last, &joined.bytes);
        }
        let started = Instant::now();
        written.and_then(|()| log.sync().map(|_| ())).map_err(|error| self.failure(error))?;
        self.log = Some(log);
        self.tell_metrics(started.elapsed(), transactions);
        let durable = match last_io {
            Some(io) => Urgent::Peer(Event::Persisted { io }),
            None => Urgent::Persisted(last),
        };
        self.shared.inbox.put(|delivery| delivery.urgent.push(durable));
        if self.postponed.is_none() {
            self.postponed = work.try_recv().ok();
        }
        match self.postponed {
            // The next sync is more important.
            Some(_) => self.shared.inbox.call(),
            None => self.shared.core.attend(&self.shared.inbox, transactions as usize),
        }
        Ok(())
    }

    fn tell_metrics(&self, took: std::time::Duration, transactions: u64) {
        self.shared.metrics.fsync_ms.add(took.as_millis() as u64);
        self.shared.metrics.sync_batch.add(transactions);
        if took > self.shared.config.storage.fsync_warning_threshold {
            warn!(took_ms = took.as_millis() as u64, "the sync of the transaction log was slow");
        }
    }

    fn perform(&mut self, order: DiskOrder, received: Option<Tree>) -> Result<(), DiskFailure> {
        let Some(member) = &mut self.member else { return Ok(()) };
        let done = member.perform(order, received, &mut self.log, &self.shared);
        let done = done.map_err(|reason| self.failure(reason))?;
        self.shared.inbox.push_urgent(match done {
            Done::Persisted(io) => Urgent::Peer(Event::Persisted { io }),
            Done::Refused(io) => Urgent::Peer(Event::TruncateRefused { io }),
            Done::Replaced(io, tree) => Urgent::Replaced { io, tree },
        });
        Ok(())
    }

    fn take_log(&mut self) -> Result<LogWriter<FileDisk>, DiskFailure> {
        match (self.log.take(), &self.member) {
            (Some(log), _) => Ok(log),
            (None, Some(member)) => {
                member.open_log(Zxid::ZERO, &self.shared).map_err(|reason| self.failure(reason))
            }
            (None, None) => unreachable!("a standalone server opens its log before it starts"),
        }
    }

    fn failure(&self, reason: impl std::fmt::Display) -> DiskFailure {
        DiskFailure { directory: self.shared.config.storage.log_dir(), reason: reason.to_string() }
    }
}
