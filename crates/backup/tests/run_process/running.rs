//! A running backup, and what its target has.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use zebu_backup::core::archive::all_segments;
use zebu_backup::core::learner_settings::LearnerSettings;
use zebu_backup::core::manifest::Manifest;
use zebu_backup::core::memory::MemoryTarget;
use zebu_backup::core::replay::Unobserved;
use zebu_backup::core::segment::SegmentLimits;
use zebu_backup::core::target::Target;
use zebu_backup::core::verify::verify;
use zebu_backup::run::{RunBegin, RunError, RunSettings, RunStatus, StatusView, run, wall_ms};
use zebu_proto::{ServerId, Zxid};
use zebu_storage::Compression;

use crate::leader::FakeLeader;

/// No test waits longer.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// A running backup.
pub(crate) struct Running {
    runtime: Runtime,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<Result<(), RunError>>>,
    pub(crate) status: Arc<RunStatus>,
    _spool: Arc<TempDir>,
}

/// Settings with short times.
pub(crate) fn settings(run: &str, spool: &TempDir) -> RunSettings {
    let mut learner = LearnerSettings::new(ServerId(77));
    learner.tick_ms = 200;
    RunSettings {
        run: run.to_owned(),
        learner,
        segments: SegmentLimits { bytes: 1 << 20, age_ms: 20 },
        buffer_bytes: 1 << 20,
        base_every_ms: i64::MAX,
        base_log_bytes: u64::MAX,
        keep_ms: None,
        verification: None,
        spool: spool.path().to_owned(),
        compression: Compression::Plain,
        sealer: None,
        hash_seed: 1,
        begin: RunBegin::Continue,
    }
}

impl Running {
    /// Starts a backup.
    pub(crate) fn start(leader: &FakeLeader, target: impl Target + 'static) -> Running {
        Running::start_with(leader, target, |_| ())
    }

    /// Starts a backup with other settings.
    pub(crate) fn start_with(
        leader: &FakeLeader,
        target: impl Target + 'static,
        change: impl FnOnce(&mut RunSettings),
    ) -> Running {
        let spool = Arc::new(TempDir::new().unwrap());
        let mut settings = settings("run", &spool);
        change(&mut settings);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.unwrap();
        let status = Arc::new(RunStatus::default());
        let (stop, stopped) = watch::channel(false);
        let task = runtime.spawn(run(settings, target, leader.ensemble(), status.clone(), stopped));
        Running { runtime, stop, task: Some(task), status, _spool: spool }
    }

    pub(crate) fn view(&self) -> StatusView {
        self.status.view(wall_ms())
    }

    /// Waits until a condition holds.
    pub(crate) fn wait(&self, what: &str, mut condition: impl FnMut(&StatusView) -> bool) {
        let deadline = Instant::now() + TIME_LIMIT;
        while !condition(&self.view()) {
            assert!(Instant::now() < deadline, "{what}: {:?}", self.view());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the target has a transaction.
    pub(crate) fn wait_stored(&self, zxid: Zxid) {
        self.wait("stored", |view| view.stored_zxid == format!("{:#x}", zxid.0));
    }

    /// Waits for the end of a run that ends by itself.
    pub(crate) fn end(mut self) -> Result<(), RunError> {
        let task = self.task.take().unwrap();
        self.runtime.block_on(async { tokio::time::timeout(TIME_LIMIT, task).await }).unwrap().unwrap()
    }

    /// Tells the run to stop, and waits for its end.
    pub(crate) fn stop(self) -> Result<(), RunError> {
        self.stop.send(true).unwrap();
        self.end()
    }
}

/// The manifest of a target.
pub(crate) fn manifest(target: &MemoryTarget) -> Manifest {
    Manifest::decode(&target.manifest().unwrap().unwrap().bytes).unwrap()
}

/// Checks every point of a backup, and returns its chains as first base and end.
pub(crate) fn proven_chains(target: &MemoryTarget) -> Vec<(Zxid, Zxid)> {
    let manifest = manifest(target);
    verify(target, &manifest, 1, &mut Unobserved, |_| ()).unwrap();
    let segments = all_segments(target, &manifest).unwrap();
    let mut chains: Vec<(Zxid, Zxid)> = Vec::new();
    for chain in 1..manifest.next_chain() {
        let Some(first) = manifest.bases.iter().find(|base| base.chain == chain) else { continue };
        let last = segments.iter().rfind(|segment| segment.chain == chain);
        chains.push((first.zxid, last.map_or(first.zxid, |segment| segment.last)));
    }
    chains
}
