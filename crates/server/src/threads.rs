//! The threads of a server beside those of the network: they are started together, and waited for at the end.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::oneshot;
use zebu_node::Node;
use zebu_storage::{Directories, FileDisk, LogWriter};

use crate::core::{Core, CoreFailure};
use crate::disk;
use crate::dynamic_config::{self, FileWriter};
use crate::member_disk::MemberDisk;
use crate::peers::Peers;
use crate::post::Post;
use crate::purger::{self, Origin, PurgeHandle};
use crate::shared::Shared;
use crate::snapshotter::{self, SnapshotStore};

/// What the threads write to.
pub(crate) struct OpenFiles {
    pub(crate) log: Option<LogWriter<FileDisk>>,
    pub(crate) member: Option<MemberDisk>,
    pub(crate) snapshots: SnapshotStore,
    pub(crate) directories: Directories,
    pub(crate) origin: Origin,
}

/// Resolves when the core has ended; an error if it ended by a panic.
pub(crate) type CoreEnded = oneshot::Receiver<Result<(), CoreFailure>>;

/// Threads that run.
pub(crate) struct Threads {
    core: JoinHandle<()>,
    /// They finish what they have and end when the core is gone, which holds their handles.
    behind_core: Vec<JoinHandle<()>>,
    purging: Option<(PurgeHandle, JoinHandle<()>)>,
}

/// A thread has panicked.
#[derive(Debug)]
pub(crate) struct Panicked;

impl Threads {
    /// Starts all of them.
    pub(crate) fn start(
        shared: Arc<Shared>,
        node: Node,
        peers: Option<Peers>,
        post: Post,
        files: OpenFiles,
    ) -> io::Result<(Threads, CoreEnded)> {
        let OpenFiles { log, member, snapshots, directories, origin } = files;
        let (disk, disk_thread) = disk::start(shared.clone(), log, member)?;
        let (snapshots, snapshot_thread) = snapshotter::start(shared.clone(), snapshots)?;
        let purging = purger::start(shared.clone(), directories.clone(), origin)?;
        let (member_files, files_thread) =
            FileWriter::start(shared.clone(), dynamic_config::files(&shared.config))?;
        let core = Core::new(shared.clone(), node, disk, snapshots, post, peers, directories, member_files);
        shared.core.place(core);
        let (core, core_ended) = start_core(shared)?;
        let behind_core = [disk_thread, snapshot_thread].into_iter().chain(files_thread).collect();
        Ok((Threads { core, behind_core, purging }, core_ended))
    }

    /// Waits until all have ended. The core must have been told to stop.
    pub(crate) fn join(self) -> Result<(), Panicked> {
        let mut ended = vec![self.core.join()];
        ended.extend(self.behind_core.into_iter().map(JoinHandle::join));
        if let Some((handle, thread)) = self.purging {
            drop(handle);
            ended.push(thread.join());
        }
        if ended.iter().all(Result::is_ok) { Ok(()) } else { Err(Panicked) }
    }
}

fn start_core(shared: Arc<Shared>) -> std::io::Result<(JoinHandle<()>, CoreEnded)> {
    let (ended, receiver) = oneshot::channel();
    let thread = std::thread::Builder::new().name("zebu-core".to_owned()).spawn(move || {
        let result = shared.core.run(&shared.inbox, &shared.clock);
        // Nobody listens any more only when the process is ending anyway.
        let _ = ended.send(result);
    })?;
    Ok((thread, receiver))
}
