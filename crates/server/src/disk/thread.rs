//! The disk thread: appends everything that waits and makes one sync for all of it; only then does the core hear of
//! it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tracing::error;
use zebu_node::{DiskOrder, LogBatch};
use zebu_tree::Tree;
use zebu_zab::{Event, IoId};

use super::files::{Appended, Files};
use super::{DiskFailure, Work, locked};
use crate::inbox::Urgent;
use crate::member_disk::Done;
use crate::shared::Shared;

/// Works until the core's end is gone, and closes the log then.
pub(super) fn run(
    shared: Arc<Shared>,
    work: Receiver<Work>,
    waiting: Arc<AtomicUsize>,
    files: Arc<Mutex<Files>>,
) {
    let mut disk = DiskThread { shared, work, waiting, files, postponed: None };
    if let Err(failure) = disk.run() {
        error!(%failure, "the disk failed; the server stops");
        disk.shared.inbox.push_urgent(Urgent::DiskFailed(failure));
    }
}

/// The thread's own.
struct DiskThread {
    shared: Arc<Shared>,
    work: Receiver<Work>,
    /// Work that was handed over and is not done.
    waiting: Arc<AtomicUsize>,
    files: Arc<Mutex<Files>>,
    /// Work that came while a batch was gathered and cannot be part of it.
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
    taken: usize,
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
                self.taken += 1;
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
    fn run(&mut self) -> Result<(), DiskFailure> {
        while let Some(next) = self.postponed.take().or_else(|| self.work.recv().ok()) {
            if self.shared.abandoned.load(Ordering::Acquire) {
                return Ok(());
            }
            match next {
                Work::Append(batch, io) => self.append((batch, io))?,
                Work::Other(order, received) => self.perform(order, received.map(|tree| *tree))?,
            }
        }
        if self.shared.abandoned.load(Ordering::Acquire) { Ok(()) } else { locked(&self.files).close() }
    }

    fn append(&mut self, first: (LogBatch, Option<IoId>)) -> Result<(), DiskFailure> {
        let storage = &self.shared.config.storage;
        let delay = storage.flush_delay;
        let mut gathered = Gathered {
            next: Some(first),
            work: &self.work,
            postponed: &mut self.postponed,
            until: if delay.is_zero() { None } else { Some(Instant::now() + delay) },
            room: u64::from(storage.max_batch_size),
            taken: 0,
        };
        let Appended { last, last_io, .. } = locked(&self.files).append(gathered.by_ref())?;
        let taken = gathered.taken;
        self.waiting.fetch_sub(taken, Ordering::AcqRel);
        self.shared.inbox.push_urgent(match last_io {
            Some(io) => Urgent::Peer(Event::Persisted { io }),
            None => Urgent::Persisted(last),
        });
        Ok(())
    }

    fn perform(&mut self, order: DiskOrder, received: Option<Tree>) -> Result<(), DiskFailure> {
        let done = locked(&self.files).perform(order, received)?;
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        self.shared.inbox.push_all_urgent(match done {
            None => Vec::new(),
            Some(Done::Persisted(io)) => vec![Urgent::Peer(Event::Persisted { io })],
            Some(Done::Refused(io)) => vec![Urgent::Peer(Event::TruncateRefused { io })],
            Some(Done::Replaced(io, tree)) => vec![Urgent::Replaced { io, tree }],
        });
        Ok(())
    }
}
