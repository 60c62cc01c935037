//! A standalone server in an exploration: the shipped core, core thread and disk loop, with a disk in
//! memory and without a listener.

use std::sync::Arc;

use shuttle::future::block_on;
use shuttle::thread::JoinHandle;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use zebu_proto::Zxid;
use zebu_runtime::{DiskWorker, SnapshotSections, SnapshotStore};

use zebu_storage::crash_disk::CrashDisk;
use zebu_storage::{Compression, Directories, LogWriter, Missing};
use zebu_tree::{Tree, TreeOptions};

use crate::clock::Clock;
use crate::config::ServerConfig;
use crate::core::context::ServerContext;
use crate::core::inbox::ControlEvent;
use crate::core::node_builder::NodeParts;
use crate::core::server_core::{CoreEdge, CoreFailure, ServerCore};
use crate::disk::disk_thread::{DiskHandle, disk_loop};
use crate::disk::snapshotter::SnapshotHandle;
use crate::dynamic_config::ConfigFileWriter;
use crate::metrics::core_times::CoreTimes;
use crate::net::reply_sender::ReplySender;
use crate::net::unread_answers::UnreadAnswers;
use crate::rate_limited_log::RateLimitedLog;
use crate::settings;

/// A server whose threads are those of the exploration.
pub(crate) struct ExploredServer {
    pub(crate) shared: Arc<ServerContext>,
    core: JoinHandle<Result<(), CoreFailure>>,
    disk: JoinHandle<()>,
}

impl ExploredServer {
    pub(crate) fn start(config: ServerConfig) -> ExploredServer {
        ExploredServer::start_with_unread(config, usize::MAX)
    }

    /// Starts a server whose connections pause early above this sum of unread replies.
    pub(crate) fn start_with_unread(config: ServerConfig, unread_max: usize) -> ExploredServer {
        let clock = Clock::start();
        let tree = Tree::new(TreeOptions::default());
        let NodeParts { node, replica, .. } = NodeParts::build(&config, tree, None, &clock, 0);
        let mut shared = ServerContext::new(config, clock, replica, 0);
        shared.unread_answers = UnreadAnswers::new(unread_max);
        let shared = Arc::new(shared);
        let directories = Directories::new("/data", "/data");
        let (disk, disk_thread) = start_disk(&shared, &directories);
        let reply_sender = ReplySender::new(Handle::current(), shared.stats.clone());
        let (config_files, _) = ConfigFileWriter::start(shared.clone(), None).unwrap();
        let snapshots = SnapshotHandle::detached();
        let edge = CoreEdge {
            shared: shared.clone(),
            disk,
            snapshots,
            reply_sender,
            peers: None,
            directories,
            config_files,
            peer_warnings: RateLimitedLog::default(),
            times: CoreTimes::new(false),
        };
        shared.core.install(ServerCore::new(node, edge));
        let core = shuttle::thread::spawn({
            let shared = shared.clone();
            move || shared.core.run_thread(&shared.inbox, &shared.clock)
        });
        ExploredServer { shared, core, disk: disk_thread }
    }

    /// Stops the server after its last client is gone, and checks that all permits came back.
    pub(crate) fn stop(self) {
        // A round that ends the core drops client events, so earlier rounds take the last ones.
        for _ in 0..2 {
            let (sender, status) = oneshot::channel();
            self.shared.inbox.push_control(ControlEvent::GetStatus(sender));
            block_on(status).unwrap();
        }
        self.shared.inbox.push_control(ControlEvent::Stop);
        self.core.join().unwrap().unwrap();
        self.disk.join().unwrap();
        assert_eq!(self.shared.inbox.outstanding(), 0, "permits are missing");
    }
}

fn start_disk(shared: &Arc<ServerContext>, directories: &Directories) -> (DiskHandle, JoinHandle<()>) {
    let disk = CrashDisk::new();
    let _locks = directories.open(&disk, Missing::Create, "zebu").unwrap();
    let settings = settings::disk_settings(&shared.config, directories, 0);
    let store = SnapshotStore::new(disk.clone(), directories, Compression::Plain, SnapshotSections::None);
    store.write_first(shared.read_replica().tree()).unwrap();
    let log = LogWriter::open(disk.clone(), settings.log.clone(), Zxid(0)).unwrap();
    let worker = DiskWorker::new(directories.clone(), settings, store, Some(log), None);
    let (handle, run) = disk_loop(shared.clone(), worker, None);
    (handle, shuttle::thread::spawn(run))
}
