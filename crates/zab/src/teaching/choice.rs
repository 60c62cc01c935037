//! How a learner is brought up to date. Whatever is not certain is a whole state.

use zebu_proto::Zxid;

use crate::history::History;

/// Transactions that are read back from the log for one learner. Whoever lacks more has a whole state sooner,
/// however old the log is.
const LOG_ENTRIES_MAX: u64 = 100_000;

/// How a learner gets the leader's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// It has a part of it; the rest follows.
    Diff { after: Zxid },
    /// It has more than that: the rest goes first.
    Truncate { to: Zxid },
    /// The log may reach back to its last transaction, with no more entries than this.
    Log { after: Zxid, entries_max: u64 },
    /// It gets a whole state.
    Snapshot,
}

/// Chooses for a learner with this last transaction. `decided` is the end of what may be committed to it.
pub(super) fn choose(history: &History, decided: Zxid, last: Zxid) -> Choice {
    if last < Zxid::ZERO {
        return Choice::Snapshot;
    }
    if last.counter() == 0 && last.epoch() > 0 {
        // The position of a leader before its first transaction. It had everything that was decided before
        // its epoch, and there is nothing to cut.
        return if last >= history.floor() { Choice::Diff { after: last } } else { Choice::Snapshot };
    }
    if last > decided {
        return truncate_to(Some(decided), last);
    }
    if last >= history.floor() {
        if history.contains(last) {
            return Choice::Diff { after: last };
        }
        return truncate_to(history.at_or_before(last), last);
    }
    if last >= history.proven() && history.missing_at_least(last) <= LOG_ENTRIES_MAX {
        Choice::Log { after: last, entries_max: LOG_ENTRIES_MAX }
    } else {
        Choice::Snapshot
    }
}

/// Inside one epoch every log is a prefix of its leader's, so a learner that went further has what was before.
/// Across epochs it may not.
fn truncate_to(to: Option<Zxid>, last: Zxid) -> Choice {
    match to {
        Some(to) if to.epoch() == last.epoch() => Choice::Truncate { to },
        _ => Choice::Snapshot,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Entry;
    use crate::settings::HistoryLimits;

    fn log(after: Zxid) -> Choice {
        Choice::Log { after, entries_max: LOG_ENTRIES_MAX }
    }

    /// Epoch 1 had forty million transactions, of which the learner has a thousand.
    #[test]
    fn a_server_that_lacks_very_much_of_an_earlier_epoch_gets_a_whole_state() {
        let limits = HistoryLimits { entries: 100, bytes: 1000 };
        let mut history = History::new(limits, Zxid::new(1, 40_000_000), Zxid::ZERO);
        for counter in 1..=700 {
            history.append(Entry { zxid: Zxid::new(2, counter), bytes: [].into() });
        }
        history.trim(Zxid::new(2, 700));
        assert_eq!(history.floor(), Zxid::new(2, 600));
        assert_eq!(choose(&history, Zxid::new(2, 700), Zxid::new(1, 1000)), Choice::Snapshot);
        let near = Zxid::new(1, 39_999_999);
        assert_eq!(choose(&history, Zxid::new(2, 700), near), log(near));
    }

    /// The log of a leader that was never cleaned reaches back to the first transaction.
    #[test]
    fn a_server_that_lacks_very_much_gets_a_whole_state() {
        let limits = HistoryLimits { entries: 100, bytes: 1000 };
        let history = History::new(limits, Zxid::new(1, 200_000), Zxid::ZERO);
        let choose = |last| choose(&history, Zxid::new(1, 200_000), last);
        assert_eq!(choose(Zxid::ZERO), Choice::Snapshot);
        assert_eq!(choose(Zxid::new(1, 99_999)), Choice::Snapshot);
        assert_eq!(choose(Zxid::new(1, 100_000)), log(Zxid::new(1, 100_000)));
    }

    /// In memory 1/6, 1/7, 3/1, 3/2 behind 1/5; on disk from 1/2 on.
    fn history() -> History {
        let limits = HistoryLimits { entries: 100, bytes: 1000 };
        let mut history = History::new(limits, Zxid::new(1, 5), Zxid::new(1, 2));
        for zxid in [Zxid::new(1, 6), Zxid::new(1, 7), Zxid::new(3, 1), Zxid::new(3, 2)] {
            history.append(Entry { zxid, bytes: [].into() });
        }
        history
    }

    #[test]
    fn every_position() {
        let history = history();
        let choose = |last| choose(&history, Zxid::new(3, 1), last);
        let zxid = Zxid::new;
        assert_eq!(choose(zxid(1, 5)), Choice::Diff { after: zxid(1, 5) });
        assert_eq!(choose(zxid(1, 7)), Choice::Diff { after: zxid(1, 7) });
        assert_eq!(choose(zxid(3, 1)), Choice::Diff { after: zxid(3, 1) });
        assert_eq!(choose(zxid(3, 2)), Choice::Truncate { to: zxid(3, 1) }, "known, but not decided");
        assert_eq!(choose(zxid(3, 9)), Choice::Truncate { to: zxid(3, 1) });
        assert_eq!(choose(zxid(1, 9)), Choice::Truncate { to: zxid(1, 7) });
        assert_eq!(choose(zxid(2, 4)), Choice::Snapshot, "1/7 may not be in its history");
        assert_eq!(choose(zxid(4, 1)), Choice::Snapshot, "3/1 may not be in its history");
        assert_eq!(choose(zxid(1, 3)), log(zxid(1, 3)));
        assert_eq!(choose(zxid(1, 1)), Choice::Snapshot);
        assert_eq!(choose(zxid(0, 0)), Choice::Snapshot);
        assert_eq!(choose(Zxid(-1)), Choice::Snapshot);
        assert_eq!(choose(zxid(3, 0)), Choice::Diff { after: zxid(3, 0) });
        assert_eq!(choose(zxid(4, 0)), Choice::Diff { after: zxid(4, 0) });
        assert_eq!(choose(zxid(1, 0)), Choice::Snapshot);
    }
}
