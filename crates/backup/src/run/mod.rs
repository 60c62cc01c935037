//! A running backup: it finds the leader, stays with it as an observer, and hands bases and segments to the
//! uploader. When too much waits for the target, it leaves the ensemble and joins again later; the leader
//! then sends what it missed.

mod base_schedule;
mod position;
mod status;
mod stay;
mod upload;
mod verifier;
mod wire;

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tracing::{info, warn};
use zebu_storage::Compression;

use crate::core::archive::{Archive, ArchiveError, PageError, all_segments};
use crate::core::learner::ExactState;
use crate::core::learner_settings::LearnerSettings;
use crate::core::plan::{Point, plan};
use crate::core::replay::{ReplayError, Unobserved, rebuild};
use crate::core::seal::{Sealer, Sealing};
use crate::core::segment::{SegmentLimits, Segmenter};
use crate::core::target::Target;
use base_schedule::BaseSchedule;
use position::Position;
pub use status::{RunStatus, StatusView};
use stay::Stay;
use upload::{UploadSettings, UploadShared, Uploader};
use verifier::Verifier;

/// The pauses between two attempts to join.
const JOIN_PAUSE_MIN: Duration = Duration::from_millis(100);
const JOIN_PAUSE_MAX: Duration = Duration::from_secs(3);

/// How long one server may take to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// A connection to a leader.
pub trait LeaderConnection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> LeaderConnection for T {}

/// Connects to a quorum port, `host:port`.
pub type Connect = dyn Fn(String) -> Pin<Box<dyn Future<Output = io::Result<Box<dyn LeaderConnection>>> + Send>>
    + Send
    + Sync;

/// Quorum ports to try, the most likely leader first. It may block.
pub type FindLeader = dyn Fn() -> Result<Vec<String>, String> + Send + Sync;

/// What a backup reaches its ensemble by.
#[derive(Clone)]
pub struct Ensemble {
    /// Finds the leader.
    pub find: Arc<FindLeader>,
    /// Connects to it.
    pub connect: Arc<Connect>,
}

/// Opens the target of a backup for a reader. It may block.
pub type OpenReader = dyn Fn() -> Result<Box<dyn Target>, String> + Send + Sync;

/// How a running backup is verified.
#[derive(Clone)]
pub struct Verification {
    /// The time between two verifications, milliseconds.
    pub every_ms: i64,
    /// Opens the target for a verification.
    pub open: Arc<OpenReader>,
}

/// The settings of a running backup.
#[derive(Clone)]
pub struct RunSettings {
    /// The name of this run, which no other process has.
    pub run: String,
    /// How it joins.
    pub learner: LearnerSettings,
    /// When segments are closed.
    pub segments: SegmentLimits,
    /// Bytes that may wait for the target before the backup leaves the ensemble.
    pub buffer_bytes: u64,
    /// The time after which another base is written, milliseconds.
    pub base_every_ms: i64,
    /// The bytes of log after which another base is written.
    pub base_log_bytes: u64,
    /// The time for which points must stay, milliseconds; `None` keeps all.
    pub keep_ms: Option<i64>,
    /// Proves the backup from time to time.
    pub verification: Option<Verification>,
    /// The directory in which a base is written before it goes to the target.
    pub spool: PathBuf,
    /// The compression of bases.
    pub compression: Compression,
    /// Encrypts bases and logs.
    pub sealer: Option<Arc<dyn Sealer>>,
    /// The seed of hash tables.
    pub hash_seed: u64,
    /// Whether the state is asked for although the backup could continue.
    pub begin: RunBegin,
}

/// How a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunBegin {
    /// Behind the end of the backup, if there is one.
    Continue,
    /// With a new base.
    NewBase,
}

/// Why a backup stopped.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The target cannot be used.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The process would continue an encrypted backup in plain.
    #[error(
        "the backup is encrypted, and this process has no key to encrypt for; give --encrypt-to, or write to another place"
    )]
    Unsealed,
    /// The end of the backup cannot be loaded.
    #[error("the backup cannot be continued: {0}; start with --new-base to begin a new history beside it")]
    Damaged(String),
    /// The process was told to stop before the first base of a new history could be written.
    #[error(
        "nothing of the present history is stored, because its base cannot be written to the local disk: {0}"
    )]
    NoBase(String),
    /// A thread of the process failed.
    #[error("a part of the backup process failed: {0}")]
    Internal(String),
}

impl From<ReplayError> for RunError {
    fn from(error: ReplayError) -> RunError {
        RunError::Damaged(error.to_string())
    }
}

impl From<PageError> for RunError {
    fn from(error: PageError) -> RunError {
        RunError::Damaged(error.to_string())
    }
}

/// The clock, milliseconds since 1970.
pub fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Runs a backup until `stop` is true. Then it stores what it has received.
pub async fn run<T: Target + 'static>(
    settings: RunSettings,
    target: T,
    ensemble: Ensemble,
    status: Arc<RunStatus>,
    mut stop: watch::Receiver<bool>,
) -> Result<(), RunError> {
    let opening = settings.clone();
    let opened = tokio::task::spawn_blocking(move || open(&opening, target)).await;
    let (archive, mut position) = opened.map_err(|error| RunError::Internal(error.to_string()))??;
    let upload = UploadSettings { keep_ms: settings.keep_ms, sealer: settings.sealer.clone() };
    let shared = Arc::new(UploadShared::new(status.clone()));
    let uploader = Uploader::start(archive, upload, shared.clone())?;
    let verification = settings.verification.clone();
    let verifier = verification.map(|how| Verifier::start(how, settings.hash_seed, shared.clone()));
    let _verifier = verifier.transpose()?;
    if let Some(last) = position.state.as_ref().map(|state| state.tree.last_zxid()) {
        status.received_zxid.store(last.0, Ordering::Relaxed);
        status.stored_zxid.store(last.0, Ordering::Relaxed);
    }
    let mut pause = JOIN_PAUSE_MIN;
    let mut rotation = 0;
    let mut earlier_since: Option<Instant> = None;
    while !*stop.borrow() && !shared.has_failed() {
        wait_for_room(&settings, &shared, &mut stop).await;
        let Some((address, connection)) = connect(&ensemble, &mut rotation, &status).await else {
            pause_or_stop(pause, &mut stop, &shared).await;
            pause = (pause * 2).min(JOIN_PAUSE_MAX);
            continue;
        };
        let stay = Stay::new(&settings, &uploader, position, address);
        let (end, after) = stay.run(connection, &mut stop).await?;
        position = after;
        status.is_synchronized.store(false, Ordering::Relaxed);
        status.rejoins.fetch_add(1, Ordering::Relaxed);
        pause = if end.was_synchronized { JOIN_PAUSE_MIN } else { (pause * 2).min(JOIN_PAUSE_MAX) };
        warn!(reason = %end.reason, "the stay at the leader is over");
        if !end.is_earlier_epoch {
            earlier_since = None;
        } else if earlier_since.get_or_insert_with(Instant::now).elapsed() >= silence_max(&settings.learner) {
            warn!("the ensemble has lost its data, or was set back; a new history begins");
            let epoch = position.epoch();
            if let Some(last) = position.give_up() {
                uploader.push(upload::UploadJob::Segment(last, epoch));
            }
        }
        pause_or_stop(pause, &mut stop, &shared).await;
    }
    let (epoch, missing_base) = (position.epoch(), position.missing_base());
    if let Some(last) = position.close() {
        uploader.push(upload::UploadJob::Segment(last, epoch));
    }
    let finished = tokio::task::spawn_blocking(move || uploader.finish()).await;
    finished.map_err(|error| RunError::Internal(error.to_string()))??;
    missing_base.map_or(Ok(()), |reason| Err(RunError::NoBase(reason)))
}

/// How long a leader of the past can go on without its quorum.
fn silence_max(learner: &LearnerSettings) -> Duration {
    Duration::from_millis(learner.tick_ms.saturating_mul(learner.sync_limit).max(0).unsigned_abs())
}

/// Opens the target and loads the state at the end of the backup.
fn open<T: Target>(settings: &RunSettings, target: T) -> Result<(Archive<T>, Position), RunError> {
    let archive = Archive::open(target, settings.run.clone())?;
    let manifest = archive.manifest();
    let newest = manifest.bases.last().map_or(Sealing::Plain, |base| Sealing::of_name(&base.name));
    if newest == Sealing::Age && settings.sealer.is_none() {
        return Err(RunError::Unsealed);
    }
    let Some(end) = archive.end().filter(|_| settings.begin == RunBegin::Continue) else {
        return Ok((archive, Position::default()));
    };
    let segments = all_segments(archive.target(), manifest)?;
    let plan =
        plan(manifest, &segments, Point::Latest).map_err(|error| RunError::Damaged(error.to_string()))?;
    let state = rebuild(archive.target(), &plan, settings.hash_seed, &mut Unobserved)?;
    if state.tree.last_zxid() != end.zxid {
        let text = format!("the log ends at {} and not at {}", state.tree.last_zxid(), end.zxid);
        return Err(RunError::Damaged(text));
    }
    info!(zxid = %end.zxid, nodes = state.tree.node_count(), "continuing behind the end of the backup");
    // The time of a base by the clock of this machine is no limit for those of the leaders.
    let is_local = manifest.bases.last().is_some_and(|base| base.local_time);
    let segmenter = Segmenter::new(settings.segments, end.zxid, if is_local { 0 } else { end.time_ms });
    let exact = ExactState { tree: state.tree, epoch: manifest.highest_epoch };
    let log_bytes = plan.segments.iter().map(|segment| segment.bytes).sum();
    let bases = BaseSchedule::behind(plan.base.zxid, plan.base.time_ms, log_bytes);
    Ok((archive, Position::known(exact, segmenter, bases)))
}

/// Waits while too much waits for the target.
async fn wait_for_room(settings: &RunSettings, shared: &UploadShared, stop: &mut watch::Receiver<bool>) {
    while shared.status.waiting_bytes.load(Ordering::Relaxed) >= settings.buffer_bytes / 2
        && !*stop.borrow()
        && !shared.has_failed()
    {
        pause_or_stop(JOIN_PAUSE_MAX, stop, shared).await;
    }
}

async fn pause_or_stop(pause: Duration, stop: &mut watch::Receiver<bool>, shared: &UploadShared) {
    tokio::select! {
        () = tokio::time::sleep(pause) => {}
        _ = stop.changed() => {}
        () = shared.changed.notified() => {}
    }
}

/// Connects to the next server that accepts. Only a leader answers there.
async fn connect(
    ensemble: &Ensemble,
    rotation: &mut usize,
    status: &RunStatus,
) -> Option<(String, Box<dyn LeaderConnection>)> {
    let find = ensemble.find.clone();
    let found = match tokio::task::spawn_blocking(move || find()).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => {
            status.set_error(error.clone());
            warn!(%error, "cannot find the leader");
            return None;
        }
        Err(_) => return None,
    };
    let count = found.len();
    for index in 0..count {
        let address = found[(index + *rotation) % count].clone();
        match tokio::time::timeout(CONNECT_MAX, (ensemble.connect)(address.clone())).await {
            Ok(Ok(connection)) => {
                // A server that accepts and does not lead must not be the first one again.
                *rotation = (*rotation + index + 1) % count;
                return Some((address, connection));
            }
            Ok(Err(error)) => status.set_error(format!("{address}: {error}")),
            Err(_) => status.set_error(format!("{address}: no answer")),
        }
    }
    None
}
