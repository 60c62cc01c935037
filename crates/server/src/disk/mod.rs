//! The disk: its files have a lock, and a thread that works through what the core hands over. The core hears of a
//! batch when it is durable. Where the core has nobody else to attend to, it may append a small batch by itself.
//!
//! A write or sync that failed is never tried again: the kernel may have dropped the pages, and a second
//! sync would succeed without them. The server stops instead, which is always safe.

mod files;
mod thread;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use zebu_node::{AfterAppend, DiskOrder, LogBatch};
use zebu_proto::Zxid;
use zebu_storage::{FileDisk, LogWriter};
use zebu_tree::Tree;
use zebu_zab::IoId;

use crate::member_disk::MemberDisk;
use crate::shared::Shared;
use files::Files;

/// Batches up to this size may be appended by the core.
const APPENDED_NOW_BYTES_MAX: usize = 16 * 1024;

/// A sync that takes longer than this is left to the thread: what is saved by not waking it would not be noticed, and
/// the core has other things to do.
const QUICK_SYNC: Duration = Duration::from_millis(1);

/// After a sync that was not quick, the core tries again so many batches later.
const UNTIL_NEXT_TRY: u32 = 16;

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

/// What became of a batch that the core wanted to append by itself.
#[derive(Debug)]
pub(crate) enum AppendedNow {
    /// It is durable, up to here.
    Durable(Zxid),
    /// It is better handed over.
    Not(LogBatch),
}

/// The core's end of the disk. The queue is bounded by the room in the core's inbox.
pub(crate) struct DiskHandle {
    work: Sender<Work>,
    /// Work that was handed over and is not done.
    waiting: Arc<AtomicUsize>,
    files: Arc<Mutex<Files>>,
    /// So many batches go to the thread before the core appends one again.
    not_now: u32,
}

impl DiskHandle {
    /// Hands over a batch; the inbox will say when it is durable.
    pub(crate) fn append(&self, batch: LogBatch) {
        self.hand_over(Work::Append(batch, None));
    }

    /// Makes a batch durable here and now, if the disk has nothing else to do and answers quickly: to wake its thread
    /// and to be woken by it takes about as long as a quick sync. For a server without other members only: they
    /// would wait for the core meanwhile.
    ///
    /// # Errors
    /// The log cannot be written.
    pub(crate) fn append_now(&mut self, batch: LogBatch) -> Result<AppendedNow, DiskFailure> {
        if self.not_now > 0 {
            self.not_now -= 1;
            return Ok(AppendedNow::Not(batch));
        }
        let suits = batch.bytes.len() <= APPENDED_NOW_BYTES_MAX && batch.after == AfterAppend::Continue;
        if !suits || self.waiting.load(Ordering::Acquire) > 0 {
            return Ok(AppendedNow::Not(batch));
        }
        let appended = locked(&self.files).append(std::iter::once((batch, None)))?;
        if appended.sync_took > QUICK_SYNC {
            self.not_now = UNTIL_NEXT_TRY;
        }
        Ok(AppendedNow::Durable(appended.last))
    }

    /// Hands over what a member wants; `received` is the state that is to be installed.
    pub(crate) fn order(&self, order: DiskOrder, received: Option<Tree>) {
        self.hand_over(match order {
            DiskOrder::Append { io, batch } => Work::Append(batch, Some(io)),
            other => Work::Other(other, received.map(Box::new)),
        });
    }

    fn hand_over(&self, work: Work) {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        // The thread ends early only after it reported a failure, which ends the core.
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
    let waiting = Arc::new(AtomicUsize::new(0));
    let files = Arc::new(Mutex::new(Files::new(shared.clone(), log, member)));
    let thread = std::thread::Builder::new().name("zebu-disk".to_owned()).spawn({
        let (waiting, files) = (waiting.clone(), files.clone());
        move || thread::run(shared, received, waiting, files)
    })?;
    Ok((DiskHandle { work, waiting, files, not_now: 0 }, thread))
}

fn locked(files: &Mutex<Files>) -> MutexGuard<'_, Files> {
    // Whoever panics with this lock ends the process.
    files.lock().unwrap_or_else(PoisonError::into_inner)
}
