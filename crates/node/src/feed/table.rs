//! The open feeds of a server with their credit, and the recent transactions that they share. Without a feed
//! the table holds nothing, and a commit pays one look at a number.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zebu_proto::{ErrorCode, Zxid};

use super::cursor::FeedCursor;
use super::feed_txn::FeedTxn;
use super::filter::FeedFilter;
use super::recent::{AfterRecent, RecentTxns};
use crate::connection::ConnectionId;

/// Bytes of transactions that become one batch. One transaction may exceed them.
pub const FEED_BATCH_BYTES: usize = 64 << 10;

/// The most credit that a feed can have.
pub const FEED_CREDIT_MAX: i64 = 16 << 20;

/// A feed of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FeedKey {
    /// The connection of the feed.
    pub connection: ConnectionId,
    /// Its number on the connection.
    pub feed: i32,
}

/// Where the next transactions of a feed come from.
#[derive(Debug)]
pub enum FeedSource {
    /// The feed is closed.
    Closed,
    /// The client has granted no credit.
    NoCredit,
    /// There is nothing behind the cursor.
    Nothing,
    /// These transactions are next.
    Recent(Vec<Arc<FeedTxn>>),
    /// The log has what is next, up to this transaction.
    Log {
        /// The last transaction to read.
        up_to: Zxid,
    },
    /// No transaction of the history has the zxid of the cursor.
    Unknown,
}

#[derive(Debug, Default)]
struct FeedTableState {
    last_feed: i32,
    /// The credit of each feed. One push may exceed it.
    credits: BTreeMap<FeedKey, i64>,
    /// Cursors that the edge has not taken yet.
    begun: Vec<FeedCursor>,
    recent: RecentTxns,
}

/// The feeds of a server.
#[derive(Debug, Default)]
pub struct FeedTable {
    open: AtomicUsize,
    /// Whether a client has opened a feed or granted credit since the edge has looked.
    has_news: AtomicBool,
    state: Mutex<FeedTableState>,
}

impl FeedTable {
    /// The number of open feeds.
    pub fn open_feeds(&self) -> usize {
        self.open.load(Relaxed)
    }

    /// Whether a client has opened a feed or granted credit since the last call. If so, the edge runs the
    /// feeds.
    pub fn take_news(&self) -> bool {
        self.has_news.load(Relaxed) && self.has_news.swap(false, Relaxed)
    }

    /// Keeps a transaction that was applied directly after `before`.
    pub(crate) fn push(&self, before: Zxid, txn: FeedTxn) {
        self.lock().recent.push(before, txn);
    }

    /// The tree was replaced.
    pub(crate) fn forget_recent(&self) {
        self.lock().recent.clear();
    }

    /// Opens a feed behind `after`, unless the server has as many as it may have.
    pub(super) fn open(&self, opening: FeedOpening, feeds_max: usize) -> Result<i32, ErrorCode> {
        let mut state = self.lock();
        if state.credits.len() >= feeds_max {
            return Err(ErrorCode::TooManyFeeds);
        }
        state.last_feed = state.last_feed.checked_add(1).unwrap_or(1);
        let key = FeedKey { connection: opening.connection, feed: state.last_feed };
        state.credits.insert(key, opening.credit.min(FEED_CREDIT_MAX));
        state.begun.push(FeedCursor::new(key, opening.reply_slot, opening.filter, opening.after));
        self.open.store(state.credits.len(), Relaxed);
        self.has_news.store(true, Relaxed);
        Ok(key.feed)
    }

    /// The feeds that were opened since the last call.
    pub fn take_begun(&self) -> Vec<FeedCursor> {
        std::mem::take(&mut self.lock().begun)
    }

    /// Grants bytes to a feed. Nothing happens if it has ended.
    pub(super) fn grant(&self, key: FeedKey, bytes: i32) {
        if let Some(credit) = self.lock().credits.get_mut(&key) {
            *credit = (*credit + i64::from(bytes)).min(FEED_CREDIT_MAX);
            self.has_news.store(true, Relaxed);
        }
    }

    /// Takes the bytes of a push from the credit of its feed.
    pub(super) fn charge(&self, key: FeedKey, bytes: usize) {
        if let Some(credit) = self.lock().credits.get_mut(&key) {
            *credit -= i64::try_from(bytes).unwrap_or(i64::MAX / 2);
        }
    }

    /// Ends a feed. Returns whether it was open.
    pub fn close(&self, key: FeedKey) -> bool {
        let mut state = self.lock();
        let was_open = state.credits.remove(&key).is_some();
        self.closed(&mut state);
        was_open
    }

    /// Ends the feeds of a connection.
    pub(crate) fn close_connection(&self, connection: ConnectionId) {
        if self.open_feeds() > 0 {
            let mut state = self.lock();
            state.credits.retain(|key, _| key.connection != connection);
            state.begun.retain(|cursor| cursor.key().connection != connection);
            self.closed(&mut state);
        }
    }

    fn closed(&self, state: &mut FeedTableState) {
        self.open.store(state.credits.len(), Relaxed);
        if state.credits.is_empty() {
            state.recent.clear();
        }
    }

    /// Where the next transactions of a feed come from. The caller holds the replica, whose last transaction
    /// is `applied`.
    pub(super) fn source(&self, key: FeedKey, after: Zxid, applied: Zxid) -> FeedSource {
        let state = self.lock();
        match state.credits.get(&key) {
            None => return FeedSource::Closed,
            Some(..=0) => return FeedSource::NoCredit,
            Some(_) => {}
        }
        if after >= applied {
            return FeedSource::Nothing;
        }
        match state.recent.after(after, applied, FEED_BATCH_BYTES) {
            AfterRecent::Txns(txns) => FeedSource::Recent(txns),
            AfterRecent::Before(up_to) => FeedSource::Log { up_to },
            AfterRecent::Unknown => FeedSource::Unknown,
        }
    }

    fn lock(&self) -> MutexGuard<'_, FeedTableState> {
        // Every operation leaves the table consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A feed to be opened.
pub(super) struct FeedOpening {
    pub(super) connection: ConnectionId,
    pub(super) filter: FeedFilter,
    pub(super) after: Zxid,
    pub(super) credit: i64,
    /// The slot of the reply.
    pub(super) reply_slot: Option<u64>,
}

#[cfg(test)]
mod tests {
    use zebu_proto::client::FeedOptions;

    use super::*;

    fn opening(connection: u64, credit: i64) -> FeedOpening {
        let filter = FeedFilter::new(Vec::new(), FeedOptions::default());
        let connection = ConnectionId(connection);
        FeedOpening { connection, filter, after: Zxid(1), credit, reply_slot: None }
    }

    #[test]
    fn the_number_of_feeds_is_limited() {
        let table = FeedTable::default();
        let first = table.open(opening(1, 1), 2).unwrap();
        table.open(opening(2, 1), 2).unwrap();
        assert_eq!(table.open(opening(3, 1), 2), Err(ErrorCode::TooManyFeeds));
        assert_eq!(table.take_begun().len(), 2);
        assert!(table.close(FeedKey { connection: ConnectionId(1), feed: first }));
        assert!(table.open(opening(3, 1), 2).is_ok());
        table.close_connection(ConnectionId(3));
        table.close_connection(ConnectionId(2));
        assert_eq!((table.open_feeds(), table.take_begun().len()), (0, 0));
    }

    #[test]
    fn a_feed_without_credit_stands_still() {
        let table = FeedTable::default();
        let feed = table.open(opening(1, 10), 1).unwrap();
        let key = FeedKey { connection: ConnectionId(1), feed };
        let changes = Some(Box::default());
        table.push(Zxid(1), FeedTxn { zxid: Zxid(2), time_ms: 0, session: 0, changes });
        let source = |after, applied| table.source(key, Zxid(after), Zxid(applied));
        assert!(matches!(source(2, 2), FeedSource::Nothing));
        assert!(matches!(source(3, 2), FeedSource::Nothing), "this server is behind");
        assert!(matches!(source(1, 2), FeedSource::Recent(txns) if txns.len() == 1));
        assert!(matches!(source(0, 2), FeedSource::Log { up_to: Zxid(1) }));
        table.charge(key, 10);
        assert!(matches!(source(1, 2), FeedSource::NoCredit));
        table.grant(key, i32::MAX);
        table.grant(key, i32::MAX);
        table.charge(key, FEED_CREDIT_MAX as usize - 1);
        assert!(matches!(source(1, 2), FeedSource::Recent(_)));
        table.charge(key, 1);
        assert!(matches!(source(1, 2), FeedSource::NoCredit), "credit has a limit");
        table.close(key);
        assert!(matches!(source(1, 2), FeedSource::Closed));
    }
}
