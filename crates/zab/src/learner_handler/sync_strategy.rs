//! The choice between DIFF, TRUNC and SNAP. In doubt the learner gets a SNAP.

use zebu_proto::Zxid;

use crate::history::History;

/// The number of transactions that are read from the log for one learner. Beyond it a snapshot is faster.
const LOG_ENTRIES_MAX: u64 = 100_000;

/// How a learner gets the leader's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncStrategy {
    /// It has a prefix of the history: the transactions after it follow.
    Diff { after: Zxid },
    /// It has more than a prefix: its log is truncated first.
    Truncate { to: Zxid },
    /// The log may reach back to its last transaction, with at most `entries_max` transactions.
    DiffFromLog { after: Zxid, entries_max: u64 },
    /// It gets a snapshot.
    Snapshot,
}

/// Chooses for a learner whose last transaction is `last`. `committable` is the last transaction that it may
/// commit.
pub(super) fn choose_sync(history: &History, committable: Zxid, last: Zxid) -> SyncStrategy {
    if last < Zxid::ZERO {
        return SyncStrategy::Snapshot;
    }
    if last.counter() == 0 && last.epoch() > 0 {
        // The position of a leader before its first transaction. That leader had everything that was
        // committed before its epoch, and there is nothing to truncate.
        return if last >= history.floor() {
            SyncStrategy::Diff { after: last }
        } else {
            SyncStrategy::Snapshot
        };
    }
    if last > committable {
        return truncate_to(Some(committable), last);
    }
    if last >= history.floor() {
        if history.contains(last) {
            return SyncStrategy::Diff { after: last };
        }
        return truncate_to(history.at_or_before(last), last);
    }
    if last >= history.contiguous_from() && history.missing_at_least(last) <= LOG_ENTRIES_MAX {
        SyncStrategy::DiffFromLog { after: last, entries_max: LOG_ENTRIES_MAX }
    } else {
        SyncStrategy::Snapshot
    }
}

/// Inside one epoch every log is a prefix of the leader's, so a learner that is ahead has all earlier
/// transactions. Across epochs it may not.
fn truncate_to(to: Option<Zxid>, last: Zxid) -> SyncStrategy {
    match to {
        Some(to) if to.epoch() == last.epoch() => SyncStrategy::Truncate { to },
        _ => SyncStrategy::Snapshot,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoded_txn::EncodedTxn;
    use crate::settings::HistoryLimits;

    fn log(after: Zxid) -> SyncStrategy {
        SyncStrategy::DiffFromLog { after, entries_max: LOG_ENTRIES_MAX }
    }

    /// Epoch 1 had forty million transactions; the learner has a thousand of them.
    #[test]
    fn a_server_that_lacks_very_much_of_an_earlier_epoch_gets_a_snapshot() {
        let limits = HistoryLimits { entries: 100, bytes: 1000 };
        let mut history = History::new(limits, Zxid::new(1, 40_000_000), Zxid::ZERO);
        for counter in 1..=700 {
            history.append(EncodedTxn { zxid: Zxid::new(2, counter), bytes: [].into() });
        }
        history.trim(Zxid::new(2, 700));
        assert_eq!(history.floor(), Zxid::new(2, 600));
        assert_eq!(choose_sync(&history, Zxid::new(2, 700), Zxid::new(1, 1000)), SyncStrategy::Snapshot);
        let near = Zxid::new(1, 39_999_999);
        assert_eq!(choose_sync(&history, Zxid::new(2, 700), near), log(near));
    }

    /// The log of a leader that was never purged reaches back to the first transaction.
    #[test]
    fn a_server_that_lacks_very_much_gets_a_snapshot() {
        let limits = HistoryLimits { entries: 100, bytes: 1000 };
        let history = History::new(limits, Zxid::new(1, 200_000), Zxid::ZERO);
        let choose = |last| choose_sync(&history, Zxid::new(1, 200_000), last);
        assert_eq!(choose(Zxid::ZERO), SyncStrategy::Snapshot);
        assert_eq!(choose(Zxid::new(1, 99_999)), SyncStrategy::Snapshot);
        assert_eq!(choose(Zxid::new(1, 100_000)), log(Zxid::new(1, 100_000)));
    }

    /// In memory 1/6, 1/7, 3/1, 3/2 after 1/5; on disk from 1/2 on.
    fn history() -> History {
        let limits = HistoryLimits { entries: 100, bytes: 1000 };
        let mut history = History::new(limits, Zxid::new(1, 5), Zxid::new(1, 2));
        for zxid in [Zxid::new(1, 6), Zxid::new(1, 7), Zxid::new(3, 1), Zxid::new(3, 2)] {
            history.append(EncodedTxn { zxid, bytes: [].into() });
        }
        history
    }

    #[test]
    fn every_position() {
        let history = history();
        let choose = |last| choose_sync(&history, Zxid::new(3, 1), last);
        let zxid = Zxid::new;
        assert_eq!(choose(zxid(1, 5)), SyncStrategy::Diff { after: zxid(1, 5) });
        assert_eq!(choose(zxid(1, 7)), SyncStrategy::Diff { after: zxid(1, 7) });
        assert_eq!(choose(zxid(3, 1)), SyncStrategy::Diff { after: zxid(3, 1) });
        assert_eq!(choose(zxid(3, 2)), SyncStrategy::Truncate { to: zxid(3, 1) }, "known, but not committed");
        assert_eq!(choose(zxid(3, 9)), SyncStrategy::Truncate { to: zxid(3, 1) });
        assert_eq!(choose(zxid(1, 9)), SyncStrategy::Truncate { to: zxid(1, 7) });
        assert_eq!(choose(zxid(2, 4)), SyncStrategy::Snapshot, "1/7 may not be in its history");
        assert_eq!(choose(zxid(4, 1)), SyncStrategy::Snapshot, "3/1 may not be in its history");
        assert_eq!(choose(zxid(1, 3)), log(zxid(1, 3)));
        assert_eq!(choose(zxid(1, 1)), SyncStrategy::Snapshot);
        assert_eq!(choose(zxid(0, 0)), SyncStrategy::Snapshot);
        assert_eq!(choose(Zxid(-1)), SyncStrategy::Snapshot);
        assert_eq!(choose(zxid(3, 0)), SyncStrategy::Diff { after: zxid(3, 0) });
        assert_eq!(choose(zxid(4, 0)), SyncStrategy::Diff { after: zxid(4, 0) });
        assert_eq!(choose(zxid(1, 0)), SyncStrategy::Snapshot);
    }
}
