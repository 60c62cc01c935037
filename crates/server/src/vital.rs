//! Parts of a server without which it must not go on. One that panics is reported to the core, which ends the process
//! with an error: a server that answers reads and pings for ever, and no write, is worse than none.

use std::sync::Arc;

use tracing::error;

use crate::inbox::Urgent;
use crate::shared::Shared;

/// A part of the server that failed unexpectedly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} failed unexpectedly, and the server cannot go on without it; nothing that was acknowledged is lost. Start the \
     server again, and please report the message above"
)]
pub(crate) struct PartFailure(pub(crate) &'static str);

/// Lives as long as the part; reports its panic.
#[derive(Debug)]
pub(crate) struct Vital {
    shared: Arc<Shared>,
    part: &'static str,
}

impl Vital {
    pub(crate) fn new(shared: Arc<Shared>, part: &'static str) -> Vital {
        Vital { shared, part }
    }

    /// Runs a task that is such a part.
    pub(crate) async fn task<T>(shared: Arc<Shared>, part: &'static str, task: impl Future<Output = T>) -> T {
        let _vital = Vital::new(shared, part);
        task.await
    }
}

impl Drop for Vital {
    fn drop(&mut self) {
        if std::thread::panicking() {
            error!(part = self.part, "a part of the server failed unexpectedly; the server stops");
            self.shared.inbox.push_urgent(Urgent::PartFailed(PartFailure(self.part)));
        }
    }
}

#[cfg(test)]
mod tests {
    use zebu_tree::{Tree, TreeOptions};

    use super::*;
    use crate::brain::Brain;
    use crate::clock::Clock;
    use crate::config::ServerConfig;
    use crate::inbox::Delivery;

    fn shared() -> Arc<Shared> {
        let (config, clock) = (ServerConfig::built_in(), Clock::start());
        let Brain { replica, .. } = Brain::new(&config, Tree::new(TreeOptions::default()), None, &clock, 0);
        Arc::new(Shared::new(config, clock, replica, 0))
    }

    fn failed(shared: &Shared) -> Vec<&'static str> {
        let mut delivery = Delivery::default();
        shared.inbox.take(&mut delivery);
        let part = |urgent: &Urgent| match urgent {
            Urgent::PartFailed(PartFailure(part)) => *part,
            other => panic!("{other:?}"),
        };
        delivery.urgent.iter().map(part).collect()
    }

    #[tokio::test]
    async fn a_part_that_panics_is_reported_and_one_that_ends_is_not() {
        let shared = shared();
        tokio::spawn(Vital::task(shared.clone(), "this part", async {})).await.unwrap();
        assert!(failed(&shared).is_empty());
        let fails = async { panic!("as asked") };
        assert!(tokio::spawn(Vital::task(shared.clone(), "this part", fails)).await.is_err());
        assert_eq!(failed(&shared), ["this part"]);
    }

    /// A standalone server has its log before it starts; without one the thread cannot go on.
    #[test]
    fn a_panic_of_the_disk_thread_is_reported() {
        let shared = shared();
        let (disk, thread) = crate::disk::start(shared.clone(), None, None).unwrap();
        disk.append(zebu_node::LogBatch {
            first: zebu_proto::Zxid(1),
            last: zebu_proto::Zxid(1),
            bytes: Vec::new(),
            transactions: 1,
            after: zebu_node::AfterAppend::Continue,
        });
        assert!(thread.join().is_err());
        assert_eq!(failed(&shared), ["the disk thread"]);
    }
}
