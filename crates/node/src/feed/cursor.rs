//! The place of a feed in the history. It moves over transactions in order and makes a batch of those that
//! its filter shows.

use std::borrow::Borrow;

use zebu_proto::Zxid;
use zebu_proto::client::{FeedBatch, FeedEnd, FeedPush};

use super::feed_txn::FeedTxn;
use super::filter::FeedFilter;
use super::table::{FeedKey, FeedSource};
use crate::connection::{ClientConnection, ConnectionPhase};
use crate::limits::OUTBOX_PAUSE_BYTES;
use crate::replica::Replica;

/// The place of one feed. One task of the edge moves it.
#[derive(Debug)]
pub struct FeedCursor {
    key: FeedKey,
    /// The slot of the reply that opens the feed. No push comes before it.
    reply_slot: Option<u64>,
    filter: FeedFilter,
    /// The last transaction that the filter has seen.
    position: Zxid,
    /// The end of the last batch.
    sent: Zxid,
}

/// The result of an attempt to push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedProgress {
    /// The push is in the outbox.
    Pushed,
    /// The outbox is full, or the reply that opens the feed is not in it yet. The caller tries again.
    Later,
    /// The connection is closed or closes.
    Closed,
}

impl FeedCursor {
    pub(super) fn new(key: FeedKey, reply_slot: Option<u64>, filter: FeedFilter, after: Zxid) -> FeedCursor {
        FeedCursor { key, reply_slot, filter, position: after, sent: after }
    }

    /// The feed of the cursor.
    pub fn key(&self) -> FeedKey {
        self.key
    }

    /// The last transaction that the cursor has passed.
    pub fn position(&self) -> Zxid {
        self.position
    }

    /// Moves over transactions that directly follow. Returns the batch of those that are shown, if there is
    /// one, and the transaction whose changes are not known, which the cursor cannot pass.
    pub fn advance(
        &mut self,
        txns: impl IntoIterator<Item = impl Borrow<FeedTxn>>,
    ) -> (Option<FeedPush>, Option<Zxid>) {
        let (mut records, mut unnamed) = (Vec::new(), None);
        for txn in txns {
            let txn = txn.borrow();
            debug_assert!(txn.zxid > self.position, "transactions come in order");
            if txn.changes.is_none() {
                unnamed = Some(txn.zxid);
                break;
            }
            records.extend(self.filter.record(txn));
            self.position = txn.zxid;
        }
        if records.is_empty() {
            return (None, unnamed);
        }
        let (feed, from, to) = (self.key.feed, self.sent.0, self.position.0);
        self.sent = self.position;
        (Some(FeedPush::Batch(FeedBatch { feed, from, to, records })), unnamed)
    }

    /// A batch without records: nothing was shown since the last one.
    pub fn mark(&mut self) -> FeedPush {
        let (feed, from, to) = (self.key.feed, self.sent.0, self.position.0);
        self.sent = self.position;
        FeedPush::Batch(FeedBatch { feed, from, to, records: Vec::new() })
    }

    /// The end of a feed that this server cannot continue. It may have what is behind `oldest`.
    pub fn purged(&self, oldest: Zxid) -> FeedPush {
        FeedPush::End(FeedEnd::purged(self.key.feed, oldest.0))
    }
}

impl Replica {
    /// Where the next transactions of a feed come from.
    pub fn feed_source(&self, cursor: &FeedCursor) -> FeedSource {
        self.feeds.source(cursor.key, cursor.position, self.last_zxid())
    }

    /// Puts a push into the outbox of its connection, and takes its bytes from the credit.
    pub fn push_feed(
        &self,
        cursor: &FeedCursor,
        push: &FeedPush,
        connection: &mut ClientConnection,
    ) -> FeedProgress {
        match connection.phase {
            ConnectionPhase::Serving => {}
            ConnectionPhase::Handshake | ConnectionPhase::Draining | ConnectionPhase::Closed(_) => {
                return FeedProgress::Closed;
            }
        }
        let is_open = cursor.reply_slot.is_none_or(|slot| connection.has_answered(slot));
        if connection.outbox_len() >= OUTBOX_PAUSE_BYTES || !is_open {
            return FeedProgress::Later;
        }
        let bytes = connection.push_feed(cursor.sent, push);
        self.feeds.charge(cursor.key, bytes);
        if let FeedPush::Batch(batch) = push {
            self.metrics.feed_records.add(batch.records.len() as u64);
        }
        self.metrics.feed_bytes.add(bytes as u64);
        FeedProgress::Pushed
    }
}

#[cfg(test)]
mod tests {
    use zebu_proto::client::{ChangeKind, CreatedOwner, FeedChange, FeedOptions};

    use super::*;
    use crate::connection::ConnectionId;

    fn txn(zxid: i64, path: Option<&str>) -> FeedTxn {
        let change = |path: &str| FeedChange {
            kind: ChangeKind::Created,
            path: path.into(),
            version: 0,
            data: None,
            owner: CreatedOwner::Plain,
        };
        let changes = path.map(|path| [change(path)].into());
        FeedTxn { zxid: Zxid(zxid), time_ms: 0, session: 0, changes }
    }

    fn batch(push: Option<FeedPush>) -> (i64, i64, Vec<i64>) {
        match push {
            Some(FeedPush::Batch(batch)) => {
                (batch.from, batch.to, batch.records.iter().map(|record| record.zxid).collect())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn batches_follow_each_other() {
        let key = FeedKey { connection: ConnectionId(1), feed: 1 };
        let filter = FeedFilter::new(vec!["/a".into()], FeedOptions::default());
        let mut cursor = FeedCursor::new(key, None, filter, Zxid(4));
        let (push, unnamed) = cursor.advance([txn(5, Some("/b")), txn(6, Some("/b"))]);
        assert_eq!((push, unnamed, cursor.position()), (None, None, Zxid(6)));
        let (push, _) = cursor.advance([txn(7, Some("/a")), txn(8, Some("/b"))]);
        assert_eq!(batch(push), (4, 8, vec![7]));
        let (push, unnamed) = cursor.advance([txn(9, Some("/a/b")), txn(10, None), txn(11, Some("/a"))]);
        assert_eq!((batch(push), unnamed, cursor.position()), ((8, 9, vec![9]), Some(Zxid(10)), Zxid(9)));
        assert_eq!(batch(Some(cursor.mark())), (9, 9, vec![]));
    }
}
