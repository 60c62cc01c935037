//! The task of one feed. It ends with the feed, or with its connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use zebu_node::feed::{FeedCursor, FeedProgress, FeedSource};
use zebu_proto::Zxid;
use zebu_proto::client::FeedPush;

use super::log_source::{LogPart, LogSource};
use crate::core::context::ServerContext;
use crate::settings;

/// The time between two progress marks.
const MARK_INTERVAL: Duration = Duration::from_secs(1);

/// The pause before another attempt to push to a connection whose output waits.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

pub(super) struct FeedTask {
    shared: Arc<ServerContext>,
    cursor: FeedCursor,
    changed: watch::Receiver<()>,
    log: Option<LogSource>,
    /// When the next progress mark is due. The first one comes at once: the feed is proven to be complete.
    mark_at: Instant,
}

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FeedStep {
    /// The next step may follow at once.
    Moved,
    /// Nothing is left to push.
    CaughtUp,
    /// The client has granted no credit.
    NoCredit,
    Ended,
}

impl FeedTask {
    pub(super) fn new(
        shared: Arc<ServerContext>,
        cursor: FeedCursor,
        changed: watch::Receiver<()>,
    ) -> FeedTask {
        FeedTask { shared, cursor, changed, log: None, mark_at: Instant::now() }
    }

    /// Runs until the feed ends.
    pub(super) async fn run(mut self) {
        loop {
            // Commits from here on wake the task.
            self.changed.mark_unchanged();
            let step = self.step().await;
            let step = if step == FeedStep::NoCredit { step } else { self.mark_if_due(step).await };
            match step {
                FeedStep::Moved => tokio::task::yield_now().await,
                FeedStep::Ended => break,
                FeedStep::CaughtUp | FeedStep::NoCredit => {
                    // A feed without credit sends no marks, and must notice the end of its connection.
                    let is_marked = step == FeedStep::CaughtUp;
                    let until = if is_marked { self.mark_at } else { Instant::now() + MARK_INTERVAL };
                    tokio::select! {
                        changed = self.changed.changed() => if changed.is_err() { break },
                        () = tokio::time::sleep_until(until) => {}
                    }
                }
            }
        }
        self.shared.feeds.close(self.cursor.key());
    }

    async fn step(&mut self) -> FeedStep {
        let source = self.shared.read_replica().feed_source(&self.cursor);
        match source {
            FeedSource::Closed => FeedStep::Ended,
            FeedSource::NoCredit => FeedStep::NoCredit,
            FeedSource::Nothing => FeedStep::CaughtUp,
            FeedSource::Unknown => self.end(None).await,
            FeedSource::Recent(txns) => {
                self.log = None;
                let (push, unnamed) = self.cursor.advance(txns.iter().map(|txn| &**txn));
                self.moved(push, unnamed).await
            }
            FeedSource::Log { up_to } => self.read_log(up_to).await,
        }
    }

    async fn read_log(&mut self, up_to: Zxid) -> FeedStep {
        let position = self.cursor.position();
        let kept = self.log.take().filter(|log| log.is_at(position));
        let directories = settings::directories(&self.shared.config);
        let mut log = kept.unwrap_or_else(|| LogSource::new(&directories, position));
        self.shared.read_replica().metrics().feed_log_reads.increment();
        let read = tokio::task::spawn_blocking(move || {
            let part = log.read(up_to);
            (log, part)
        });
        match read.await {
            Ok((log, LogPart::Txns(txns))) => {
                self.log = Some(log);
                let (push, unnamed) = self.cursor.advance(txns);
                self.moved(push, unnamed).await
            }
            Ok((_, LogPart::Missing { oldest })) => self.end(oldest).await,
            // The server stops.
            Err(_) => FeedStep::Ended,
        }
    }

    /// Sends a batch. The feed ends before a transaction whose changes nothing names.
    async fn moved(&mut self, push: Option<FeedPush>, unnamed: Option<Zxid>) -> FeedStep {
        if let Some(push) = push {
            self.mark_at = Instant::now() + MARK_INTERVAL;
            if self.send(&push).await == FeedStep::Ended {
                return FeedStep::Ended;
            }
        }
        match unnamed {
            Some(zxid) => self.end(Some(zxid)).await,
            None => FeedStep::Moved,
        }
    }

    async fn mark_if_due(&mut self, step: FeedStep) -> FeedStep {
        if step == FeedStep::Ended || Instant::now() < self.mark_at {
            return step;
        }
        self.mark_at = Instant::now() + MARK_INTERVAL;
        let mark = self.cursor.mark();
        match self.send(&mark).await {
            FeedStep::Ended => FeedStep::Ended,
            FeedStep::Moved | FeedStep::CaughtUp | FeedStep::NoCredit => step,
        }
    }

    /// Ends a feed that cannot be continued here.
    async fn end(&mut self, oldest: Option<Zxid>) -> FeedStep {
        let (metrics, last) = {
            let replica = self.shared.read_replica();
            (replica.metrics().clone(), replica.last_zxid())
        };
        metrics.feeds_purged.increment();
        let push = self.cursor.purged(oldest.unwrap_or(last));
        self.send(&push).await;
        FeedStep::Ended
    }

    /// Puts a push into the outbox, as soon as it has room.
    async fn send(&mut self, push: &FeedPush) -> FeedStep {
        loop {
            let connection = self.shared.connections.read().get(&self.cursor.key().connection).cloned();
            let Some(entry) = connection else { return FeedStep::Ended };
            let progress = {
                let replica = self.shared.read_replica();
                let mut connection = entry.lock();
                replica.push_feed(&self.cursor, push, &mut connection)
            };
            match progress {
                FeedProgress::Pushed => {
                    entry.send_or_wake(&self.shared.stats);
                    return FeedStep::Moved;
                }
                FeedProgress::Closed => return FeedStep::Ended,
                FeedProgress::Later => tokio::time::sleep(RETRY_PAUSE).await,
            }
        }
    }
}
