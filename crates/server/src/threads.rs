//! The threads of a server besides the network threads: started together, and joined at the end.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::oneshot;
use zebu_node::Node;
use zebu_runtime::{DiskWorker, RoomKeeper, SnapshotStore};
use zebu_storage::{Directories, FileDisk};

use crate::audit::AuditThread;
use crate::core::context::ServerContext;
use crate::core::server_core::{CoreEdge, CoreFailure, ServerCore};
use crate::disk::disk_thread::start_disk_thread;
use crate::disk::purger::{self, DirectoryOrigin, PurgeHandle};
use crate::disk::snapshotter;
use crate::dynamic_config::{self, ConfigFileWriter};
use crate::metrics::core_times::CoreTimes;
use crate::net::reply_sender::ReplySender;
use crate::peers::Peers;
use crate::rate_limited_log::RateLimitedLog;

/// The files that the threads write.
pub(crate) struct StorageFiles {
    pub(crate) disk: DiskWorker<FileDisk>,
    pub(crate) snapshots: SnapshotStore<FileDisk>,
    pub(crate) directories: Directories,
    pub(crate) origin: DirectoryOrigin,
    /// Snapshots that the start could not use.
    pub(crate) rejected: Vec<PathBuf>,
}

/// Resolves when the core has ended; an error if it panicked.
pub(crate) type CoreExit = oneshot::Receiver<Result<(), CoreFailure>>;

/// The look at the room on the disk. A server without it goes on as if there were enough.
fn room_keeper(shared: &ServerContext, directories: &Directories) -> Option<RoomKeeper<FileDisk>> {
    let settings = shared.config.storage.room.settings();
    RoomKeeper::open(FileDisk, directories, settings)
        .inspect_err(|error| tracing::warn!(%error, "the room on the disk is not watched"))
        .ok()
}

/// The running threads.
pub(crate) struct ServerThreads {
    core: JoinHandle<()>,
    /// They end after the core, which owns their handles, when their queues are empty.
    workers: Vec<JoinHandle<()>>,
    purger: Option<(PurgeHandle, JoinHandle<()>)>,
    audit: Option<AuditThread>,
}

/// A thread has panicked.
#[derive(Debug)]
pub(crate) struct ThreadPanicked;

impl ServerThreads {
    /// Starts all threads.
    pub(crate) fn start(
        shared: Arc<ServerContext>,
        node: Node,
        peers: Option<Peers>,
        reply_sender: ReplySender,
        files: StorageFiles,
    ) -> io::Result<(ServerThreads, CoreExit)> {
        let StorageFiles { disk, snapshots, directories, origin, rejected } = files;
        let audit = shared.audit.clone().map(AuditThread::start).transpose()?;
        let room = room_keeper(&shared, &directories);
        let (disk, disk_thread) = start_disk_thread(shared.clone(), disk, room)?;
        let (snapshots, snapshot_thread) = snapshotter::start_snapshot_thread(shared.clone(), snapshots)?;
        let purging = purger::start_purge_thread(shared.clone(), directories.clone(), origin, rejected)?;
        let (config_files, files_thread) =
            ConfigFileWriter::start(shared.clone(), dynamic_config::dynamic_config_files(&shared.config))?;
        shared.set_operator_snapshots(Some(snapshots.clone()));
        let edge = CoreEdge {
            shared: shared.clone(),
            disk,
            snapshots,
            reply_sender,
            peers,
            directories,
            config_files,
            peer_warnings: RateLimitedLog::default(),
            times: CoreTimes::new(shared.config.membership.is_ensemble()),
        };
        shared.core.install(ServerCore::new(node, edge));
        let (core, core_ended) = start_core(shared)?;
        let behind_core = [disk_thread, snapshot_thread].into_iter().chain(files_thread).collect();
        Ok((ServerThreads { core, workers: behind_core, purger: purging, audit }, core_ended))
    }

    /// Joins all threads. The core must have received a stop event.
    pub(crate) fn join(self) -> Result<(), ThreadPanicked> {
        let mut ended = vec![self.core.join()];
        ended.extend(self.workers.into_iter().map(JoinHandle::join));
        if let Some((handle, thread)) = self.purger {
            drop(handle);
            ended.push(thread.join());
        }
        if let Some(audit) = self.audit {
            audit.close();
        }
        if ended.iter().all(Result::is_ok) { Ok(()) } else { Err(ThreadPanicked) }
    }
}

fn start_core(shared: Arc<ServerContext>) -> std::io::Result<(JoinHandle<()>, CoreExit)> {
    let (ended, receiver) = oneshot::channel();
    let thread = std::thread::Builder::new().name("zebu-core".to_owned()).spawn(move || {
        let result = shared.core.run_thread(&shared.inbox, &shared.clock);
        // The receiver is gone only while the process ends.
        let _ = ended.send(result);
    })?;
    Ok((thread, receiver))
}
