//! The feeds of a server, as its feed tasks move them: outside of the core, with pauses between the look at
//! the history and the push. Older transactions come from the log files.

use zebu_node::feed::{FEED_BATCH_BYTES, FeedCursor, FeedKey, FeedProgress, FeedSource, FeedTxn};
use zebu_proto::Zxid;
use zebu_proto::client::FeedPush;
use zebu_proto::txn::TxnEntry;
use zebu_storage::LogReader;

use super::Process;
use crate::context::SimContext;
use crate::coverage::CoveredPath;
use crate::queue::{MS, SECOND, SimEvent, VirtualTime};
use crate::server::disk::FaultyDisk;

/// The time between two progress marks.
const MARK_INTERVAL: VirtualTime = SECOND;

/// The feeds of a process.
#[derive(Default)]
pub(crate) struct ProcessFeeds {
    open: Vec<ProcessFeed>,
    /// Whether the next step is scheduled.
    is_scheduled: bool,
}

struct ProcessFeed {
    cursor: FeedCursor,
    log: Option<LogReader<FaultyDisk>>,
    /// Pushes that wait for room in the outbox.
    unsent: Vec<FeedPush>,
    /// The feed ends when these are sent.
    ends: bool,
    mark_at: VirtualTime,
}

/// What a step of a feed has found.
enum FoundTxns {
    Caught,
    NoCredit,
    Txns(Vec<FeedTxn>),
    Missing(Zxid),
    Closed,
}

impl Process {
    /// Schedules the next step of the feeds, if there are any.
    pub(super) fn schedule_feeds(&mut self, core: &mut SimContext) {
        let has_news = self.replica.feeds().take_news();
        if (has_news || !self.feeds.open.is_empty()) && !self.feeds.is_scheduled {
            self.feeds.is_scheduled = true;
            let pause = core.parameters.tick() / 50 + MS / 20;
            let (server, incarnation) = (self.server, self.incarnation);
            core.push(core.now + pause, SimEvent::FeedStep { server, incarnation });
        }
    }

    /// Moves every feed by one step.
    pub(crate) fn run_feeds(&mut self, core: &mut SimContext) {
        self.feeds.is_scheduled = false;
        let begun = self.replica.feeds().take_begun().into_iter().map(|cursor| ProcessFeed {
            cursor,
            log: None,
            unsent: Vec::new(),
            ends: false,
            mark_at: core.now,
        });
        self.feeds.open.extend(begun);
        let mut open = std::mem::take(&mut self.feeds.open);
        open.retain_mut(|feed| {
            let goes_on = self.step_feed(feed, core);
            if !goes_on {
                self.replica.feeds().close(feed.cursor.key());
            }
            goes_on
        });
        self.feeds.open = open;
        self.pump_clients(core);
        self.schedule_feeds(core);
    }

    /// Sends what an earlier step has found, or looks for more. Returns whether the feed goes on.
    fn step_feed(&mut self, feed: &mut ProcessFeed, core: &mut SimContext) -> bool {
        while let Some(push) = feed.unsent.first() {
            match self.push_feed(&feed.cursor, push) {
                FeedProgress::Pushed => drop(feed.unsent.remove(0)),
                FeedProgress::Later => return true,
                FeedProgress::Closed => return false,
            }
        }
        if feed.ends {
            return false;
        }
        let found = self.find(feed, core);
        let has_credit = !matches!(found, FoundTxns::NoCredit);
        match found {
            FoundTxns::Closed => return false,
            FoundTxns::Caught | FoundTxns::NoCredit => {}
            FoundTxns::Missing(oldest) => {
                feed.unsent.push(feed.cursor.purged(oldest));
                feed.ends = true;
            }
            FoundTxns::Txns(txns) => {
                let (push, unnamed) = feed.cursor.advance(txns);
                feed.unsent.extend(push);
                if let Some(zxid) = unnamed {
                    feed.unsent.push(feed.cursor.purged(zxid));
                    feed.ends = true;
                }
            }
        }
        if has_credit && !feed.ends && core.now >= feed.mark_at {
            feed.mark_at = core.now + MARK_INTERVAL;
            let mark = feed.cursor.mark();
            feed.unsent.push(mark);
        }
        true
    }

    fn find(&mut self, feed: &mut ProcessFeed, core: &mut SimContext) -> FoundTxns {
        match self.replica.feed_source(&feed.cursor) {
            FeedSource::Closed => FoundTxns::Closed,
            FeedSource::NoCredit => FoundTxns::NoCredit,
            FeedSource::Nothing => FoundTxns::Caught,
            FeedSource::Unknown => FoundTxns::Missing(self.replica.last_zxid()),
            FeedSource::Recent(txns) => {
                feed.log = None;
                FoundTxns::Txns(txns.iter().map(|txn| (**txn).clone()).collect())
            }
            FeedSource::Log { up_to } => {
                core.count(CoveredPath::FeedLogRead);
                let position = feed.cursor.position();
                let kept = feed.log.take().filter(|log| log.last() == position);
                let mut log =
                    kept.unwrap_or_else(|| LogReader::new(self.disk.clone(), &self.directories, position));
                let found = log.next(up_to, FEED_BATCH_BYTES).ok().flatten();
                let txns = found.filter(|entries| !entries.is_empty()).and_then(|entries| {
                    let decode = |bytes: &[u8]| TxnEntry::decode(bytes).map(|entry| FeedTxn::of(&entry)).ok();
                    entries.iter().map(|entry| decode(&entry.bytes)).collect::<Option<Vec<_>>>()
                });
                let oldest = || log.oldest().ok().flatten().unwrap_or(self.replica.last_zxid());
                let found = txns.map_or_else(|| FoundTxns::Missing(oldest()), FoundTxns::Txns);
                feed.log = Some(log);
                found
            }
        }
    }

    fn push_feed(&mut self, cursor: &FeedCursor, push: &FeedPush) -> FeedProgress {
        let FeedKey { connection, .. } = cursor.key();
        let Some(lane) = self.lanes.0.get_mut(&connection) else { return FeedProgress::Closed };
        self.replica.push_feed(cursor, push, lane)
    }
}
