//! The recent history in memory: transactions without gaps, shared by all learner handlers. Older
//! transactions are read from the log. Transactions that are not delivered yet always stay in memory.

use std::collections::VecDeque;

use zebu_proto::Zxid;

use crate::encoded_txn::EncodedTxn;
use crate::settings::HistoryLimits;

/// Whether `next` can directly follow `last`: the next counter of the epoch, or the first of a later epoch.
pub(crate) fn is_next_zxid(last: Zxid, next: Zxid) -> bool {
    if next.epoch() == last.epoch() {
        next.0.checked_sub(last.0) == Some(1)
    } else {
        next > last && next.counter() == 1
    }
}

/// The number of epochs whose last transaction is kept. A learner that is further behind lacks at least as
/// much.
const EPOCH_ENDS_MAX: usize = 1000;

/// The transactions after a floor.
#[derive(Debug)]
pub(crate) struct History {
    limits: HistoryLimits,
    /// The transaction before the first one in memory.
    floor: Zxid,
    /// The log has no gap after this transaction.
    contiguous_from: Zxid,
    entries: VecDeque<EncodedTxn>,
    bytes: usize,
    /// The last transaction of each epoch that ended since the history began, oldest first.
    epoch_ends: VecDeque<Zxid>,
}

impl History {
    pub(crate) fn new(limits: HistoryLimits, last: Zxid, proven: Zxid) -> History {
        let (entries, epoch_ends) = (VecDeque::new(), VecDeque::new());
        History { limits, floor: last, contiguous_from: proven, entries, bytes: 0, epoch_ends }
    }

    /// The last transaction of the log.
    pub(crate) fn last(&self) -> Zxid {
        self.entries.back().map_or(self.floor, |entry| entry.zxid)
    }

    /// Bytes of the transactions in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The transaction before the first one in memory.
    pub(crate) fn floor(&self) -> Zxid {
        self.floor
    }

    /// The log has no gap after this transaction.
    pub(crate) fn contiguous_from(&self) -> Zxid {
        self.contiguous_from
    }

    /// Whether a transaction is in memory or is the floor.
    pub(crate) fn contains(&self, zxid: Zxid) -> bool {
        zxid == self.floor || self.entries.binary_search_by_key(&zxid, |entry| entry.zxid).is_ok()
    }

    /// The last transaction at or before `zxid`; `None` if it is older than the floor.
    pub(crate) fn at_or_before(&self, zxid: Zxid) -> Option<Zxid> {
        let count = self.entries.partition_point(|entry| entry.zxid <= zxid);
        match count.checked_sub(1) {
            Some(index) => Some(self.entries[index].zxid),
            None => (self.floor <= zxid).then_some(self.floor),
        }
    }

    /// The transaction after `zxid`, which must not be before the floor.
    pub(crate) fn after(&self, zxid: Zxid) -> Option<&EncodedTxn> {
        debug_assert!(zxid >= self.floor, "{zxid} is before {}", self.floor);
        // The last epoch has no gap, so the index follows from the counter.
        let behind =
            usize::try_from(self.last().0.saturating_sub(zxid.0)).ok().filter(|behind| *behind > 0)?;
        match self.entries.len().checked_sub(behind).and_then(|index| self.entries.get(index)) {
            Some(entry) if is_next_zxid(zxid, entry.zxid) => Some(entry),
            _ => self.entries.get(self.entries.partition_point(|entry| entry.zxid <= zxid)),
        }
    }

    /// A lower bound for the number of transactions after `after` up to the floor. Epochs that ended before
    /// this history began have an unknown length.
    pub(crate) fn missing_at_least(&self, after: Zxid) -> u64 {
        let floor = self.floor;
        let counted_from = |epoch| if epoch == after.epoch() { after.counter() } else { 0 };
        let in_epoch = |end: Zxid| u64::from(end.counter().saturating_sub(counted_from(end.epoch())));
        let ended = self.epoch_ends.iter().filter(|end| **end > after && end.epoch() < floor.epoch());
        ended.map(|end| in_epoch(*end)).sum::<u64>() + in_epoch(floor)
    }

    /// Whether memory holds more than the limits allow.
    fn is_over_limits(&self) -> bool {
        self.entries.len() > self.limits.entries || self.is_over_bytes()
    }

    /// Whether memory holds more bytes than the limit allows.
    pub(crate) fn is_over_bytes(&self) -> bool {
        self.bytes > self.limits.bytes
    }

    pub(crate) fn append(&mut self, entry: EncodedTxn) {
        let last = self.last();
        assert!(is_next_zxid(last, entry.zxid), "{} does not follow {last}", entry.zxid);
        if entry.zxid.epoch() != last.epoch() {
            if self.epoch_ends.len() == EPOCH_ENDS_MAX {
                self.epoch_ends.pop_front();
            }
            self.epoch_ends.push_back(last);
        }
        self.bytes += entry.bytes.len();
        self.entries.push_back(entry);
    }

    /// Removes all transactions after `to`.
    pub(crate) fn truncate(&mut self, to: Zxid) {
        let stay = self.entries.partition_point(|entry| entry.zxid <= to);
        for entry in self.entries.drain(stay..) {
            self.bytes -= entry.bytes.len();
        }
        while self.epoch_ends.back().is_some_and(|end| *end >= to) {
            self.epoch_ends.pop_back();
        }
        if self.entries.is_empty() && self.floor > to {
            self.floor = to;
            self.contiguous_from = self.contiguous_from.min(to);
        }
    }

    /// Restarts the history after a snapshot that ends at `at`.
    pub(crate) fn reset_to(&mut self, at: Zxid) {
        *self = History::new(self.limits, at, at);
    }

    /// Removes the oldest delivered transactions while the limits are exceeded.
    pub(crate) fn trim(&mut self, delivered: Zxid) {
        while self.is_over_limits() {
            if self.entries.front().is_none_or(|entry| entry.zxid > delivered) {
                return;
            }
            if let Some(entry) = self.entries.pop_front() {
                self.bytes -= entry.bytes.len();
                self.floor = entry.zxid;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(zxid: Zxid) -> EncodedTxn {
        EncodedTxn { zxid, bytes: [0; 10].into() }
    }

    fn history(zxids: &[Zxid]) -> History {
        let mut history =
            History::new(HistoryLimits { entries: 3, bytes: 1000 }, Zxid::new(1, 4), Zxid::ZERO);
        zxids.iter().for_each(|&zxid| history.append(entry(zxid)));
        history
    }

    #[test]
    fn what_follows_what() {
        assert!(is_next_zxid(Zxid::ZERO, Zxid::new(1, 1)));
        assert!(is_next_zxid(Zxid::new(1, 1), Zxid::new(1, 2)));
        assert!(is_next_zxid(Zxid::new(1, 9), Zxid::new(3, 1)));
        assert!(
            is_next_zxid(Zxid::new(3, 0), Zxid::new(3, 1)),
            "a state of a leader without a transaction yet"
        );
        assert!(!is_next_zxid(Zxid::new(1, 1), Zxid::new(1, 3)));
        assert!(!is_next_zxid(Zxid::new(1, 1), Zxid::new(2, 2)));
        assert!(!is_next_zxid(Zxid::new(2, 1), Zxid::new(1, 1)));
        assert!(!is_next_zxid(Zxid::new(1, 1), Zxid::new(1, 1)));
        assert!(!is_next_zxid(Zxid(i64::MAX), Zxid(i64::MIN)));
    }

    #[test]
    fn finds_its_way() {
        let history = history(&[Zxid::new(1, 5), Zxid::new(1, 6), Zxid::new(3, 1)]);
        assert_eq!(history.last(), Zxid::new(3, 1));
        assert!(history.contains(Zxid::new(1, 4)) && history.contains(Zxid::new(3, 1)));
        assert!(!history.contains(Zxid::new(1, 7)) && !history.contains(Zxid::new(1, 3)));
        assert_eq!(history.at_or_before(Zxid::new(1, 9)), Some(Zxid::new(1, 6)));
        assert_eq!(history.at_or_before(Zxid::new(1, 4)), Some(Zxid::new(1, 4)));
        assert_eq!(history.at_or_before(Zxid::new(1, 3)), None);
        assert_eq!(history.after(Zxid::new(1, 6)).map(|entry| entry.zxid), Some(Zxid::new(3, 1)));
        assert_eq!(history.after(Zxid::new(3, 1)), None);
    }

    /// `after` returns the next transaction for every position, by index and by search.
    #[test]
    fn goes_from_one_to_the_next() {
        let zxids: Vec<_> =
            (5..=8).map(|counter| Zxid::new(1, counter)).chain((1..=3).map(|c| Zxid::new(4, c))).collect();
        let mut history = history(&zxids);
        for pair in [Zxid::new(1, 4)].iter().chain(&zxids).zip(&zxids) {
            assert_eq!(history.after(*pair.0).map(|entry| entry.zxid), Some(*pair.1));
        }
        assert_eq!(history.after(Zxid::new(4, 3)), None);
        assert_eq!(history.after(Zxid::new(1, 7_000)).map(|entry| entry.zxid), Some(Zxid::new(4, 1)));
        history.trim(Zxid::new(4, 3));
        assert_eq!(history.after(Zxid::new(1, 8)).map(|entry| entry.zxid), Some(Zxid::new(4, 1)));
        assert_eq!(history.after(Zxid::new(4, 1)).map(|entry| entry.zxid), Some(Zxid::new(4, 2)));
    }

    /// Epoch 1 ends with 1/9, epoch 3 with 3/4. The lengths of the epochs before 1/4 are unknown.
    #[test]
    fn counts_what_is_missing_across_epochs() {
        let zxid = Zxid::new;
        let zxids: Vec<_> = (5..=9)
            .map(|counter| zxid(1, counter))
            .chain((1..=4).map(|counter| zxid(3, counter)))
            .chain((1..=9).map(|counter| zxid(4, counter)))
            .collect();
        let mut history = history(&zxids);
        history.trim(zxid(4, 9));
        assert_eq!(history.floor(), zxid(4, 6));
        assert_eq!(history.missing_at_least(zxid(4, 2)), 4);
        assert_eq!(history.missing_at_least(zxid(3, 1)), 3 + 6);
        assert_eq!(history.missing_at_least(zxid(2, 7)), 4 + 6);
        assert_eq!(history.missing_at_least(zxid(1, 2)), 7 + 4 + 6);
        assert_eq!(history.missing_at_least(Zxid::ZERO), 9 + 4 + 6);
        history.truncate(zxid(3, 4));
        history.append(entry(zxid(5, 1)));
        assert_eq!(history.missing_at_least(zxid(1, 9)), 4, "3/4 is the last of its epoch again");
    }

    #[test]
    fn keeps_what_is_not_delivered() {
        let zxids: Vec<_> = (5..=10).map(|counter| Zxid::new(1, counter)).collect();
        let mut history = history(&zxids);
        history.trim(Zxid::new(1, 6));
        assert_eq!(history.floor(), Zxid::new(1, 6));
        history.trim(Zxid::new(1, 10));
        assert_eq!(history.floor(), Zxid::new(1, 7), "three stay");
        history.truncate(Zxid::new(1, 8));
        assert_eq!(history.last(), Zxid::new(1, 8));
        history.truncate(Zxid::new(1, 2));
        assert_eq!((history.floor(), history.last()), (Zxid::new(1, 2), Zxid::new(1, 2)));
    }
}
