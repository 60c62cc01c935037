//! Runs the feeds of clients outside of the core: a task per feed moves its cursor and pushes. Transactions
//! that the server no longer has in memory come from the log, on blocking threads.

mod feed_task;
mod log_source;

use std::sync::Arc;

use tokio::sync::{Notify, watch};

use crate::core::context::ServerContext;
use feed_task::FeedTask;

/// Wakes the tasks of feeds. Without a feed it is never used.
#[derive(Debug)]
pub(crate) struct FeedSignals {
    /// A feed was opened.
    opened: Notify,
    /// There may be something to push.
    changed: watch::Sender<()>,
}

impl Default for FeedSignals {
    fn default() -> FeedSignals {
        FeedSignals { opened: Notify::new(), changed: watch::Sender::new(()) }
    }
}

impl FeedSignals {
    /// A client has opened a feed or granted credit.
    pub(crate) fn requested(&self) {
        self.opened.notify_one();
        self.committed();
    }

    /// Transactions were applied.
    pub(crate) fn committed(&self) {
        self.changed.send_replace(());
    }
}

/// Starts a task for each feed that a client opens.
pub(crate) async fn run_feeds(shared: Arc<ServerContext>) {
    loop {
        shared.feed_signals.opened.notified().await;
        let begun = shared.feeds.take_begun();
        for cursor in begun {
            let changed = shared.feed_signals.changed.subscribe();
            tokio::spawn(FeedTask::new(shared.clone(), cursor, changed).run());
        }
    }
}
