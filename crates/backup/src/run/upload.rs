//! The thread that writes to the target. It repeats failed steps, and it stops for good when another writer
//! has the target.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tracing::{info, warn};

use super::status::RunStatus;
use super::{RunError, wall_ms};
use crate::core::archive::{Archive, ArchiveError, NewBase};
use crate::core::retention::{self, SweepError};
use crate::core::seal::Sealer;
use crate::core::segment::ClosedSegment;
use crate::core::target::{Content, Target};
use crate::spool::SpooledSnapshot;

/// The pauses between two attempts.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Segments that one manifest adds.
const BATCH_SEGMENTS: usize = 64;

/// How long a stopping process waits for its target.
const STOP_GRACE: Duration = Duration::from_secs(20);

/// Work for the target, in order.
pub(super) enum UploadJob {
    /// A segment, and the highest epoch that was seen.
    Segment(ClosedSegment, u32),
    /// A base, and the highest epoch that was seen.
    Base(NewBase, u32, SpooledSnapshot),
    /// Removal of points that are too old, although no base follows.
    Retention,
}

impl UploadJob {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            UploadJob::Segment(segment, _) => segment.bytes.len() as u64,
            UploadJob::Base(..) | UploadJob::Retention => 0,
        }
    }

    /// When its first transaction came, milliseconds since 1970.
    pub(super) fn since_ms(&self) -> Option<i64> {
        match self {
            UploadJob::Segment(segment, _) => Some(segment.since_ms),
            UploadJob::Base(..) | UploadJob::Retention => None,
        }
    }
}

/// Settings of the uploader.
#[derive(Clone)]
pub(super) struct UploadSettings {
    pub(super) keep_ms: Option<i64>,
    pub(super) sealer: Option<Arc<dyn Sealer>>,
}

/// What the uploader shares with the stays at leaders.
#[derive(Debug)]
pub(super) struct UploadShared {
    pub(super) status: Arc<RunStatus>,
    /// Called after each change.
    pub(super) changed: Notify,
    failure: Mutex<Option<RunError>>,
    is_stopping: AtomicBool,
    is_retention_suspended: AtomicBool,
}

impl UploadShared {
    pub(super) fn new(status: Arc<RunStatus>) -> UploadShared {
        UploadShared {
            status,
            changed: Notify::new(),
            failure: Mutex::new(None),
            is_stopping: AtomicBool::new(false),
            is_retention_suspended: AtomicBool::new(false),
        }
    }

    /// Keeps all points, because newer ones may be wrong.
    pub(super) fn suspend_retention(&self) {
        self.is_retention_suspended.store(true, Ordering::Relaxed);
    }

    /// The whole backup was proven.
    pub(super) fn resume_retention(&self) {
        self.is_retention_suspended.store(false, Ordering::Relaxed);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub(super) fn take_failure(&self) -> Option<RunError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn fail(&self, error: RunError) {
        self.status.set_error(error.to_string());
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        self.changed.notify_waiters();
    }
}

/// The uploader's thread and its queue.
pub(super) struct Uploader {
    jobs: Option<Sender<UploadJob>>,
    thread: Option<JoinHandle<()>>,
    sealer: Option<Arc<dyn Sealer>>,
    pub(super) shared: Arc<UploadShared>,
}

impl Uploader {
    pub(super) fn start<T: Target + 'static>(
        archive: Archive<T>,
        settings: UploadSettings,
        shared: Arc<UploadShared>,
    ) -> Result<Uploader, RunError> {
        let (jobs, received) = channel();
        let (of_thread, sealer) = (shared.clone(), settings.sealer.clone());
        let work = move || {
            let shared = of_thread.clone();
            let work = Work { archive, settings, shared: of_thread, has_swept: false };
            // Without this thread nothing is stored any more, so that a panic must end the process.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work.run(&received))) {
                let text = panic_text(&*panic);
                shared.fail(RunError::Internal(format!(
                    "the thread that writes to the target panicked: {text}"
                )));
            }
        };
        let thread = std::thread::Builder::new().name("zebu-upload".to_owned()).spawn(work);
        let thread = thread.map_err(|error| RunError::Internal(format!("cannot start a thread: {error}")))?;
        Ok(Uploader { jobs: Some(jobs), thread: Some(thread), sealer, shared })
    }

    /// Adds work. The caller bounds the bytes that wait.
    pub(super) fn push(&self, mut job: UploadJob) {
        if let (UploadJob::Segment(segment, _), Some(sealer)) = (&mut job, &self.sealer)
            && let Err(error) = segment.seal(&**sealer)
        {
            return self.shared.fail(RunError::Internal(format!("a segment cannot be encrypted: {error}")));
        }
        let status = &self.shared.status;
        status.waiting_bytes.fetch_add(job.bytes(), Ordering::Relaxed);
        status.waiting_since_ms().extend(job.since_ms());
        if let Some(jobs) = &self.jobs {
            // A thread that has ended left its failure.
            let _ = jobs.send(job);
        }
    }

    /// Waits until all work is done, for a limited time if the target fails.
    pub(super) fn finish(mut self) -> Result<(), RunError> {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.shared.take_failure().map_or(Ok(()), Err)
    }
}

/// The message of a panic.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

struct Work<T> {
    archive: Archive<T>,
    settings: UploadSettings,
    shared: Arc<UploadShared>,
    has_swept: bool,
}

impl<T: Target> Work<T> {
    fn run(mut self, jobs: &Receiver<UploadJob>) {
        let mut next = None;
        loop {
            let Some(job) = next.take().or_else(|| jobs.recv().ok()) else { return };
            let result = match job {
                UploadJob::Base(base, epoch, snapshot) => self.store_base(base, epoch, &snapshot),
                UploadJob::Retention => self.remove_old(),
                UploadJob::Segment(segment, epoch) => {
                    let mut batch = vec![segment];
                    let mut highest = epoch;
                    while batch.len() < BATCH_SEGMENTS {
                        match jobs.try_recv() {
                            Ok(UploadJob::Segment(segment, epoch)) => {
                                batch.push(segment);
                                highest = highest.max(epoch);
                            }
                            Ok(job @ (UploadJob::Base(..) | UploadJob::Retention)) => {
                                next = Some(job);
                                break;
                            }
                            Err(_) => break,
                        }
                    }
                    self.store_segments(&batch, highest)
                }
            };
            if let Err(error) = result {
                return self.shared.fail(error);
            }
            self.shared.changed.notify_waiters();
        }
    }

    fn store_base(&mut self, base: NewBase, epoch: u32, snapshot: &SpooledSnapshot) -> Result<(), RunError> {
        self.repeat(|archive| archive.add_base(base, epoch, snapshot))?;
        let status = &self.shared.status;
        status.bases.fetch_add(1, Ordering::Relaxed);
        status.stored_bytes.fetch_add(snapshot.length(), Ordering::Relaxed);
        status.stored_zxid.store(base.zxid.0, Ordering::Relaxed);
        info!(zxid = %base.zxid, nodes = base.nodes, bytes = snapshot.length(), "stored a base");
        self.remove_old()
    }

    fn remove_old(&mut self) -> Result<(), RunError> {
        if let Some(keep_ms) = self.settings.keep_ms {
            if self.shared.is_retention_suspended.load(Ordering::Relaxed) {
                warn!("nothing is removed until the whole backup is proven, because a part of it was wrong");
                return Ok(());
            }
            let forgotten = self.repeat(|archive| retention::forget(archive, wall_ms() - keep_ms))?;
            return self.sweep(forgotten);
        }
        if self.has_swept { Ok(()) } else { self.sweep(0) }
    }

    fn store_segments(&mut self, batch: &[ClosedSegment], epoch: u32) -> Result<(), RunError> {
        self.repeat(|archive| archive.add_segments(batch, epoch))?;
        let bytes: u64 = batch.iter().map(|segment| segment.bytes.len() as u64).sum();
        let status = &self.shared.status;
        status.segments.fetch_add(batch.len() as u64, Ordering::Relaxed);
        status.stored_bytes.fetch_add(bytes, Ordering::Relaxed);
        status.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let mut waiting = status.waiting_since_ms();
        let stored = batch.len().min(waiting.len());
        waiting.drain(..stored);
        drop(waiting);
        if let Some(last) = batch.last() {
            status.stored_zxid.store(last.last.0, Ordering::Relaxed);
        }
        if self.has_swept { Ok(()) } else { self.sweep(0) }
    }

    /// Objects of crashed runs are harmless, so that a failure here is only reported, unless another process
    /// writes to the target.
    fn sweep(&mut self, forgotten: u64) -> Result<(), RunError> {
        self.has_swept = true;
        match retention::sweep(&mut self.archive) {
            Ok(0) => {}
            Ok(objects) => {
                info!(bases = forgotten, objects, "removed what is too old or was left by a crash")
            }
            Err(SweepError::Archive(error @ ArchiveError::Superseded { .. })) => return Err(error.into()),
            Err(error) => warn!(%error, "old objects were not removed; the next base tries again"),
        }
        Ok(())
    }

    fn repeat<R>(
        &mut self,
        mut step: impl FnMut(&mut Archive<T>) -> Result<R, ArchiveError>,
    ) -> Result<R, RunError> {
        let mut pause = PAUSE_MIN;
        let mut stop_at = None;
        loop {
            let error = match step(&mut self.archive) {
                Ok(done) => return Ok(done),
                Err(error) if !error.is_temporary() => return Err(error.into()),
                Err(error) => error,
            };
            let status = &self.shared.status;
            status.target_errors.fetch_add(1, Ordering::Relaxed);
            status.set_error(error.to_string());
            warn!(%error, "the target does not take the backup; trying again");
            if self.shared.is_stopping.load(Ordering::Relaxed) {
                let stop_at = *stop_at.get_or_insert_with(|| Instant::now() + STOP_GRACE);
                if Instant::now() >= stop_at {
                    return Err(error.into());
                }
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}
