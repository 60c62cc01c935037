//! Reports panics of threads and tasks that a server needs. The core then ends the process with an
//! error: a server that answers reads and pings but no writes is worse than none.

use std::sync::Arc;

use tracing::error;

use crate::core::context::ServerContext;
use crate::core::inbox::ControlEvent;

/// A thread or task that panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} failed unexpectedly, and the server cannot go on without it; nothing that was acknowledged is lost. Start the \
     server again, and please report the message above"
)]
pub(crate) struct ComponentFailure(pub(crate) &'static str);

/// Reports a panic of the thread or task that owns it.
#[derive(Debug)]
pub(crate) struct PanicGuard {
    shared: Arc<ServerContext>,
    component: &'static str,
}

impl PanicGuard {
    pub(crate) fn new(shared: Arc<ServerContext>, part: &'static str) -> PanicGuard {
        PanicGuard { shared, component: part }
    }

    /// Runs a task that the server needs.
    pub(crate) async fn run_task<T>(
        shared: Arc<ServerContext>,
        part: &'static str,
        task: impl Future<Output = T>,
    ) -> T {
        let _panic_guard = PanicGuard::new(shared, part);
        task.await
    }
}

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            error!(part = self.component, "a part of the server failed unexpectedly; the server stops");
            self.shared.inbox.push_control(ControlEvent::ComponentFailed(ComponentFailure(self.component)));
        }
    }
}

#[cfg(test)]
mod tests {
    use zebu_runtime::DiskWorker;
    use zebu_storage::{Directories, FileDisk};
    use zebu_tree::{Tree, TreeOptions};

    use super::*;
    use crate::clock::Clock;
    use crate::config::ServerConfig;
    use crate::core::inbox::InboxBatch;
    use crate::core::node_builder::NodeParts;
    use crate::settings;

    fn shared() -> Arc<ServerContext> {
        let (config, clock) = (ServerConfig::built_in(), Clock::start());
        let NodeParts { replica, .. } =
            NodeParts::build(&config, Tree::new(TreeOptions::default()), None, &clock, 0);
        Arc::new(ServerContext::new(config, clock, replica, 0))
    }

    fn failed(shared: &ServerContext) -> Vec<&'static str> {
        let mut batch = InboxBatch::default();
        shared.inbox.drain_into(&mut batch);
        let part = |control_event: &ControlEvent| match control_event {
            ControlEvent::ComponentFailed(ComponentFailure(part)) => *part,
            other => panic!("{other:?}"),
        };
        batch.control_events.iter().map(part).collect()
    }

    #[tokio::test]
    async fn a_part_that_panics_is_reported_and_one_that_ends_is_not() {
        let shared = shared();
        tokio::spawn(PanicGuard::run_task(shared.clone(), "this part", async {})).await.unwrap();
        assert!(failed(&shared).is_empty());
        let fails = async { panic!("as asked") };
        assert!(tokio::spawn(PanicGuard::run_task(shared.clone(), "this part", fails)).await.is_err());
        assert_eq!(failed(&shared), ["this part"]);
    }

    fn without_log(shared: &ServerContext) -> DiskWorker<FileDisk> {
        let directories = Directories::new("/data", "/logs");
        let settings = settings::disk_settings(&shared.config, &directories, 0);
        let snapshots = settings::snapshot_store(&shared.config.storage, &directories);
        DiskWorker::new(directories, settings, snapshots, None, None)
    }

    /// A standalone server opens its log before it starts; without one the disk thread panics.
    #[test]
    fn a_panic_of_the_disk_thread_is_reported() {
        let shared = shared();
        let (disk, thread) =
            crate::disk::disk_thread::start_disk_thread(shared.clone(), without_log(&shared), None).unwrap();
        disk.append(
            None,
            zebu_node::LogBatch {
                first: zebu_proto::Zxid(1),
                last: zebu_proto::Zxid(1),
                bytes: Vec::new(),
                transactions: 1,
                after: zebu_node::AfterAppend::Continue,
            },
        );
        assert!(thread.join().is_err());
        assert_eq!(failed(&shared), ["the disk thread"]);
    }
}
