//! The recent history in memory: transactions without a hole, once for all learners. What is older is read
//! back from the log; what is not delivered yet always stays.

use std::collections::VecDeque;

use zebu_proto::Zxid;

use crate::entry::Entry;
use crate::settings::HistoryLimits;

/// Whether `next` can come directly behind `last`: the next of the epoch, or the first of a later one.
pub(crate) fn follows(last: Zxid, next: Zxid) -> bool {
    if next.epoch() == last.epoch() {
        next.0.checked_sub(last.0) == Some(1)
    } else {
        next > last && next.counter() == 1
    }
}

/// Transactions from a floor on.
#[derive(Debug)]
pub(crate) struct History {
    limits: HistoryLimits,
    /// The transaction before the first one here.
    floor: Zxid,
    /// The log has no hole from here on.
    proven: Zxid,
    entries: VecDeque<Entry>,
    bytes: usize,
}

impl History {
    pub(crate) fn new(limits: HistoryLimits, last: Zxid, proven: Zxid) -> History {
        History { limits, floor: last, proven, entries: VecDeque::new(), bytes: 0 }
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

    /// From here on the log has no hole.
    pub(crate) fn proven(&self) -> Zxid {
        self.proven
    }

    /// Whether a transaction is in the part of the history that is in memory, its floor included.
    pub(crate) fn contains(&self, zxid: Zxid) -> bool {
        zxid == self.floor || self.entries.binary_search_by_key(&zxid, |entry| entry.zxid).is_ok()
    }

    /// The last transaction that is not behind `zxid`; `None` if that is older than the memory.
    pub(crate) fn at_or_before(&self, zxid: Zxid) -> Option<Zxid> {
        let count = self.entries.partition_point(|entry| entry.zxid <= zxid);
        match count.checked_sub(1) {
            Some(index) => Some(self.entries[index].zxid),
            None => (self.floor <= zxid).then_some(self.floor),
        }
    }

    /// The transaction behind `zxid`, which must not be before the floor.
    pub(crate) fn after(&self, zxid: Zxid) -> Option<&Entry> {
        debug_assert!(zxid >= self.floor, "{zxid} is before {}", self.floor);
        // In the epoch of the last one there is no hole: its place can be counted.
        let behind =
            usize::try_from(self.last().0.saturating_sub(zxid.0)).ok().filter(|behind| *behind > 0)?;
        match self.entries.len().checked_sub(behind).and_then(|index| self.entries.get(index)) {
            Some(entry) if follows(zxid, entry.zxid) => Some(entry),
            _ => self.entries.get(self.entries.partition_point(|entry| entry.zxid <= zxid)),
        }
    }

    pub(crate) fn append(&mut self, entry: Entry) {
        assert!(follows(self.last(), entry.zxid), "{} does not follow {}", entry.zxid, self.last());
        self.bytes += entry.bytes.len();
        self.entries.push_back(entry);
    }

    /// Forgets everything behind a transaction.
    pub(crate) fn truncate(&mut self, to: Zxid) {
        let stay = self.entries.partition_point(|entry| entry.zxid <= to);
        for entry in self.entries.drain(stay..) {
            self.bytes -= entry.bytes.len();
        }
        if self.entries.is_empty() && self.floor > to {
            self.floor = to;
            self.proven = self.proven.min(to);
        }
    }

    /// Begins anew behind a state that ends here.
    pub(crate) fn restart(&mut self, at: Zxid) {
        *self = History::new(self.limits, at, at);
    }

    /// Drops the oldest transactions beyond the limits, of those that are delivered.
    pub(crate) fn trim(&mut self, delivered: Zxid) {
        while self.entries.len() > self.limits.entries || self.bytes > self.limits.bytes {
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

    fn entry(zxid: Zxid) -> Entry {
        Entry { zxid, bytes: [0; 10].into() }
    }

    fn history(zxids: &[Zxid]) -> History {
        let mut history =
            History::new(HistoryLimits { entries: 3, bytes: 1000 }, Zxid::new(1, 4), Zxid::ZERO);
        zxids.iter().for_each(|&zxid| history.append(entry(zxid)));
        history
    }

    #[test]
    fn what_follows_what() {
        assert!(follows(Zxid::ZERO, Zxid::new(1, 1)));
        assert!(follows(Zxid::new(1, 1), Zxid::new(1, 2)));
        assert!(follows(Zxid::new(1, 9), Zxid::new(3, 1)));
        assert!(follows(Zxid::new(3, 0), Zxid::new(3, 1)), "a state of a leader without a transaction yet");
        assert!(!follows(Zxid::new(1, 1), Zxid::new(1, 3)));
        assert!(!follows(Zxid::new(1, 1), Zxid::new(2, 2)));
        assert!(!follows(Zxid::new(2, 1), Zxid::new(1, 1)));
        assert!(!follows(Zxid::new(1, 1), Zxid::new(1, 1)));
        assert!(!follows(Zxid(i64::MAX), Zxid(i64::MIN)));
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

    /// Behind every transaction stands the next one, whether its place was counted or searched.
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
