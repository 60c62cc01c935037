//! The last applied transactions, while there are feeds. It has no gap: the entries directly follow `base`
//! and each other.

use std::collections::VecDeque;
use std::sync::Arc;

use zebu_proto::Zxid;

use super::feed_txn::FeedTxn;

/// Bytes of recent transactions. Feeds that are behind them are served from the log.
pub const RECENT_BYTES_MAX: usize = 8 << 20;

/// Number of recent transactions.
pub const RECENT_TXNS_MAX: usize = 16_384;

/// The recent transactions.
#[derive(Debug, Default)]
pub(super) struct RecentTxns {
    /// The transaction before the first entry.
    base: Zxid,
    entries: VecDeque<Arc<FeedTxn>>,
    bytes: usize,
}

/// The transactions after one that was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AfterRecent {
    /// They are here.
    Txns(Vec<Arc<FeedTxn>>),
    /// The place is before the recent transactions, which begin behind this one.
    Before(Zxid),
    /// No transaction of the history has this zxid.
    Unknown,
}

impl RecentTxns {
    /// Appends a transaction that was applied directly after `before`.
    pub(super) fn push(&mut self, before: Zxid, txn: FeedTxn) {
        if self.entries.back().is_none_or(|last| last.zxid != before) {
            *self = RecentTxns { base: before, ..RecentTxns::default() };
        }
        self.bytes += txn.bytes();
        self.entries.push_back(Arc::new(txn));
        while self.bytes > RECENT_BYTES_MAX || self.entries.len() > RECENT_TXNS_MAX {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.bytes -= oldest.bytes();
            self.base = oldest.zxid;
        }
    }

    /// Forgets all: there is no feed, or the tree was replaced.
    pub(super) fn clear(&mut self) {
        *self = RecentTxns::default();
    }

    /// The transactions directly after `after`, at least one, within this number of bytes. The last applied
    /// transaction is later than `after`.
    pub(super) fn after(&self, after: Zxid, applied: Zxid, bytes_max: usize) -> AfterRecent {
        if self.entries.back().is_none_or(|last| last.zxid != applied) {
            return AfterRecent::Before(applied);
        }
        if after < self.base {
            return AfterRecent::Before(self.base);
        }
        let start = self.entries.partition_point(|txn| txn.zxid <= after);
        let previous = start.checked_sub(1).map_or(self.base, |index| self.entries[index].zxid);
        if previous != after {
            return AfterRecent::Unknown;
        }
        let mut bytes = 0;
        let within = |txn: &&Arc<FeedTxn>| {
            let fits = bytes < bytes_max;
            bytes += txn.bytes();
            fits
        };
        AfterRecent::Txns(self.entries.range(start..).take_while(within).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn txn(zxid: i64) -> FeedTxn {
        FeedTxn { zxid: Zxid(zxid), time_ms: 0, session: 0, changes: Some(Box::default()) }
    }

    fn recent(zxids: std::ops::RangeInclusive<i64>) -> RecentTxns {
        let mut recent = RecentTxns::default();
        zxids.for_each(|zxid| recent.push(Zxid(zxid - 1), txn(zxid)));
        recent
    }

    fn zxids(after: AfterRecent) -> Vec<i64> {
        match after {
            AfterRecent::Txns(txns) => txns.iter().map(|txn| txn.zxid.0).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_first_is_the_one_directly_behind() {
        let recent = recent(5..=8);
        let after = |zxid, bytes| recent.after(Zxid(zxid), Zxid(8), bytes);
        assert_eq!(zxids(after(4, usize::MAX)), [5, 6, 7, 8]);
        assert_eq!(zxids(after(6, usize::MAX)), [7, 8]);
        assert_eq!(zxids(after(4, 1)), [5], "one at least");
        assert_eq!(after(3, 1), AfterRecent::Before(Zxid(4)));
    }

    #[test]
    fn a_gap_begins_anew_and_what_is_not_here_is_told() {
        let mut recent = recent(5..=8);
        let epoch = Zxid::new(2, 1);
        recent.push(Zxid(8), FeedTxn { zxid: epoch, ..txn(0) });
        let unknown = Zxid(100);
        assert_eq!(recent.after(unknown, epoch, 1), AfterRecent::Unknown);
        assert_eq!(zxids(recent.after(Zxid(8), epoch, 1)), [epoch.0]);
        // The tree was replaced by a later one.
        assert_eq!(recent.after(Zxid(8), Zxid::new(2, 9), 1), AfterRecent::Before(Zxid::new(2, 9)));
        let (before, next) = (Zxid::new(2, 9), Zxid::new(2, 10));
        recent.push(before, FeedTxn { zxid: next, ..txn(0) });
        assert_eq!(recent.after(Zxid(8), next, 1), AfterRecent::Before(before));
        recent.clear();
        assert_eq!(recent.after(before, next, 1), AfterRecent::Before(next));
    }

    #[test]
    fn number_and_bytes_are_limited() {
        let last = RECENT_TXNS_MAX as i64 + 10;
        let recent = recent(1..=last);
        assert_eq!(recent.after(Zxid(9), Zxid(last), 1), AfterRecent::Before(Zxid(10)));
        assert_eq!(zxids(recent.after(Zxid(10), Zxid(last), 1)), [11]);
    }
}
