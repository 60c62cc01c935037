//! How long a learner lacks the oldest transaction that it should have by now. A learner that is brought up to date is
//! measured by what was sent to it; once it has caught up, by what was proposed, sent or not: otherwise one that takes
//! less than the ensemble writes would show ever older data.

use std::collections::VecDeque;

use zebu_proto::Zxid;

/// Moments that are told apart for one learner. Without room for a new one, the older ones still count.
const MARKS_MAX: usize = 1000;

/// What a learner lacks, looked at now and then.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// At these moments everything up to these transactions was due. Oldest first; the learner has none of them.
    marks: VecDeque<Mark>,
    pace: Pace,
    /// The last transaction of the history when it was looked at before.
    last: Zxid,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    zxid: Zxid,
    at_ms: i64,
}

/// What a learner is measured by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Pace {
    /// What was sent.
    #[default]
    CatchingUp,
    /// What was proposed.
    KeepingUp,
}

/// Where a learner stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached {
    /// The last transaction that it has.
    pub(crate) has: Zxid,
    /// The last transaction that was sent.
    pub(crate) sent: Zxid,
    /// The last transaction that it should have sooner or later.
    pub(crate) last: Zxid,
}

impl Backlog {
    /// Since when at least the learner lacks a transaction that it should have.
    pub(crate) fn lacks_since(&mut self, reached: Reached, now_ms: i64) -> Option<i64> {
        let Reached { has, sent, last } = reached;
        while self.marks.front().is_some_and(|mark| mark.zxid <= has) {
            self.marks.pop_front();
        }
        if has >= last || (self.last > Zxid::ZERO && has >= self.last) {
            self.pace = Pace::KeepingUp;
        }
        self.last = last;
        let due = match self.pace {
            Pace::CatchingUp => sent,
            Pace::KeepingUp => last,
        };
        let is_new = self.marks.back().is_none_or(|mark| mark.zxid < due);
        if due > has && is_new && self.marks.len() < MARKS_MAX {
            self.marks.push_back(Mark { zxid: due, at_ms: now_ms });
        }
        self.marks.front().map(|mark| mark.at_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(has: i64, sent: i64, last: i64) -> Reached {
        Reached { has: Zxid(has), sent: Zxid(sent), last: Zxid(last) }
    }

    #[test]
    fn acknowledgements_that_come_late_do_not_hide_how_late() {
        let mut backlog = Backlog::default();
        assert_eq!(backlog.lacks_since(reached(5, 5, 5), 0), None);
        // It acknowledges one of ten that are proposed in the same time.
        let ages: Vec<Option<i64>> = (1..=5)
            .map(|time| backlog.lacks_since(reached(5 + time, 5 + 10 * time, 5 + 10 * time), time * 100))
            .collect();
        assert_eq!(ages, [Some(100); 5], "the tenth of them is not there yet");
        assert_eq!(backlog.lacks_since(reached(15, 65, 65), 600), Some(200));
        assert_eq!(backlog.lacks_since(reached(65, 65, 65), 700), None);
    }

    #[test]
    fn a_learner_that_comes_back_is_given_time_until_it_has_caught_up() {
        let mut backlog = Backlog::default();
        // It takes what it is sent, and is far behind.
        for time in 0..10 {
            let has = 100 * time;
            assert_eq!(backlog.lacks_since(reached(has, has, 5000 + time), time * 100), None);
        }
        assert_eq!(
            backlog.lacks_since(reached(5009, 5009, 5010), 1000),
            Some(1000),
            "it keeps up from here on"
        );
        assert_eq!(backlog.lacks_since(reached(5009, 5009, 6000), 1100), Some(1000), "not sent, and yet due");
    }

    #[test]
    fn what_was_sent_is_due_while_it_catches_up() {
        let mut backlog = Backlog::default();
        assert_eq!(backlog.lacks_since(reached(1, 50, 5000), 100), Some(100));
        assert_eq!(backlog.lacks_since(reached(20, 90, 5000), 200), Some(100));
        assert_eq!(backlog.lacks_since(reached(60, 90, 5000), 300), Some(200));
    }
}
