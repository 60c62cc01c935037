//! The time for which a learner has lacked the oldest transaction that is due. During synchronization the
//! sent transactions are due. After it has caught up, the proposed ones are due, sent or not. Otherwise a
//! slow learner would serve ever older data.

use std::collections::VecDeque;

use zebu_proto::Zxid;

/// The number of marks for one learner. If it is reached, no new mark is added, and the older ones still
/// count.
const MARKS_MAX: usize = 1000;

/// The lag of one learner, sampled at every ping.
#[derive(Debug, Default)]
pub(crate) struct LagTracker {
    /// Each mark is a transaction and the time since which it is due, oldest first. The learner has none of
    /// them.
    marks: VecDeque<LagMark>,
    mode: LagMode,
    /// The last transaction of the history at the previous sample.
    last: Zxid,
}

#[derive(Clone, Copy, Debug)]
struct LagMark {
    zxid: Zxid,
    at_ms: i64,
}

/// Which transactions are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LagMode {
    /// The sent ones.
    #[default]
    CatchingUp,
    /// The proposed ones.
    CaughtUp,
}

/// The position of a learner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LagSample {
    /// The last transaction that the learner has.
    pub(crate) acked: Zxid,
    /// The last transaction that was sent.
    pub(crate) sent: Zxid,
    /// The last transaction that the learner is expected to have.
    pub(crate) last: Zxid,
}

impl LagTracker {
    /// The time since which the learner has lacked a due transaction, at least; in milliseconds.
    pub(crate) fn lagging_since(&mut self, sample: LagSample, now_ms: i64) -> Option<i64> {
        let LagSample { acked: has, sent, last } = sample;
        while self.marks.front().is_some_and(|mark| mark.zxid <= has) {
            self.marks.pop_front();
        }
        if has >= last || (self.last > Zxid::ZERO && has >= self.last) {
            self.mode = LagMode::CaughtUp;
        }
        self.last = last;
        let due = match self.mode {
            LagMode::CatchingUp => sent,
            LagMode::CaughtUp => last,
        };
        let is_new = self.marks.back().is_none_or(|mark| mark.zxid < due);
        if due > has && is_new && self.marks.len() < MARKS_MAX {
            self.marks.push_back(LagMark { zxid: due, at_ms: now_ms });
        }
        self.marks.front().map(|mark| mark.at_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(has: i64, sent: i64, last: i64) -> LagSample {
        LagSample { acked: Zxid(has), sent: Zxid(sent), last: Zxid(last) }
    }

    #[test]
    fn acknowledgements_that_come_late_do_not_hide_how_late() {
        let mut backlog = LagTracker::default();
        assert_eq!(backlog.lagging_since(sample(5, 5, 5), 0), None);
        // The learner acknowledges one transaction while ten are proposed.
        let ages: Vec<Option<i64>> = (1..=5)
            .map(|time| backlog.lagging_since(sample(5 + time, 5 + 10 * time, 5 + 10 * time), time * 100))
            .collect();
        assert_eq!(ages, [Some(100); 5], "the tenth of them is not there yet");
        assert_eq!(backlog.lagging_since(sample(15, 65, 65), 600), Some(200));
        assert_eq!(backlog.lagging_since(sample(65, 65, 65), 700), None);
    }

    #[test]
    fn a_learner_that_comes_back_is_given_time_until_it_has_caught_up() {
        let mut backlog = LagTracker::default();
        // The learner takes what is sent, and is far behind.
        for time in 0..10 {
            let has = 100 * time;
            assert_eq!(backlog.lagging_since(sample(has, has, 5000 + time), time * 100), None);
        }
        assert_eq!(
            backlog.lagging_since(sample(5009, 5009, 5010), 1000),
            Some(1000),
            "it keeps up from here on"
        );
        assert_eq!(
            backlog.lagging_since(sample(5009, 5009, 6000), 1100),
            Some(1000),
            "not sent, and yet due"
        );
    }

    #[test]
    fn what_was_sent_is_due_while_it_catches_up() {
        let mut backlog = LagTracker::default();
        assert_eq!(backlog.lagging_since(sample(1, 50, 5000), 100), Some(100));
        assert_eq!(backlog.lagging_since(sample(20, 90, 5000), 200), Some(100));
        assert_eq!(backlog.lagging_since(sample(60, 90, 5000), 300), Some(200));
    }
}
