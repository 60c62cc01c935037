//! Which ping an answer belongs to. Pings carry no number; a learner answers each one, in their order, and repeats the
//! transaction that the ping named. An answer is taken for one to the oldest ping that it can belong to: should one be
//! missing, the others are taken for older than they are, never for newer, until another transaction sets it right.

use std::collections::VecDeque;

use zebu_proto::Zxid;

/// How many pings without an answer are told apart; those behind them count as the last of them.
const UNANSWERED_MAX: usize = 64;

/// A ping, by its place among all pings of a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp {
    pub(crate) number: u64,
    pub(crate) sent_ms: i64,
}

impl Stamp {
    /// Before the first one.
    pub(crate) const NONE: Stamp = Stamp { number: 0, sent_ms: i64::MIN };
}

/// One ping, or several if there are many.
#[derive(Debug)]
struct Unanswered {
    /// Of the first one.
    stamp: Stamp,
    count: u64,
    /// What the first one named, and the last one.
    first: Zxid,
    last: Zxid,
}

/// The pings of one connection.
#[derive(Debug)]
pub(crate) struct Pings {
    unanswered: VecDeque<Unanswered>,
    /// The newest one that is known to have been answered.
    answered: Stamp,
    /// The newest one.
    sent: u64,
    /// The newest one that did not wait for its time.
    asked: u64,
}

impl Pings {
    pub(crate) fn new() -> Pings {
        Pings { unanswered: VecDeque::new(), answered: Stamp::NONE, sent: 0, asked: 0 }
    }

    /// A ping leaves for a learner that will answer it.
    pub(crate) fn sent(&mut self, stamp: Stamp, zxid: Zxid) {
        self.sent = stamp.number;
        let is_full = self.unanswered.len() >= UNANSWERED_MAX;
        match self.unanswered.back_mut() {
            Some(newest) if is_full => {
                newest.count += 1;
                newest.last = zxid;
            }
            _ => self.unanswered.push_back(Unanswered { stamp, count: 1, first: zxid, last: zxid }),
        }
    }

    /// A ping leaves out of turn.
    pub(crate) fn asked(&mut self, stamp: Stamp, zxid: Zxid) {
        self.asked = stamp.number;
        self.sent(stamp, zxid);
    }

    /// An answer has come, which repeats what its ping had named.
    pub(crate) fn answered(&mut self, zxid: Zxid) {
        while self.unanswered.front().is_some_and(|oldest| oldest.last < zxid) {
            self.unanswered.pop_front();
        }
        let Some(oldest) = self.unanswered.front_mut().filter(|oldest| oldest.first <= zxid) else { return };
        self.answered = oldest.stamp;
        oldest.count -= 1;
        if oldest.count == 0 {
            self.unanswered.pop_front();
        }
    }

    /// The newest ping that is known to have been answered.
    pub(crate) fn newest_answered(&self) -> Stamp {
        self.answered
    }

    /// Whether one is to leave so that the learner answers this number or a later one. No more than one leaves out of
    /// turn at a time.
    pub(crate) fn lacks(&self, number: u64) -> bool {
        self.sent < number && self.asked <= self.answered.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(pings: &mut Pings, number: u64, zxid: i64) {
        pings.sent(Stamp { number, sent_ms: number as i64 * 10 }, Zxid(zxid));
    }

    fn answered(pings: &mut Pings, zxid: i64) -> u64 {
        pings.answered(Zxid(zxid));
        pings.newest_answered().number
    }

    #[test]
    fn answers_come_in_the_order_of_the_pings() {
        let mut pings = Pings::new();
        assert_eq!(answered(&mut pings, 5), 0, "nobody was asked");
        for (number, zxid) in [(1, 5), (2, 5), (4, 6)] {
            sent(&mut pings, number, zxid);
        }
        assert_eq!(answered(&mut pings, 5), 1);
        assert_eq!(answered(&mut pings, 5), 2);
        assert_eq!(answered(&mut pings, 5), 2, "one too many is an answer to nothing");
        assert_eq!(answered(&mut pings, 6), 4);
        assert_eq!(pings.newest_answered(), Stamp { number: 4, sent_ms: 40 });
    }

    #[test]
    fn a_missing_answer_makes_the_others_older_until_another_transaction_is_named() {
        let mut pings = Pings::new();
        for number in 1..=3 {
            sent(&mut pings, number, 5);
        }
        assert_eq!(answered(&mut pings, 5), 1, "it may be the answer to the second");
        assert_eq!(answered(&mut pings, 5), 2);
        sent(&mut pings, 4, 6);
        sent(&mut pings, 5, 6);
        assert_eq!(answered(&mut pings, 6), 4, "there is no answer to the third any more");
        assert_eq!(answered(&mut pings, 6), 5);
    }

    #[test]
    fn of_too_many_pings_the_last_count_as_one_that_is_older() {
        let mut pings = Pings::new();
        let max = UNANSWERED_MAX as u64;
        for number in 1..=max + 3 {
            sent(&mut pings, number, number as i64);
        }
        for number in 1..max {
            assert_eq!(answered(&mut pings, number as i64), number);
        }
        for number in max..=max + 3 {
            assert_eq!(answered(&mut pings, number as i64), max);
        }
        sent(&mut pings, max + 4, 1000);
        assert_eq!(answered(&mut pings, 1000), max + 4);
        assert!(pings.unanswered.is_empty());
    }

    #[test]
    fn one_leaves_out_of_turn_at_a_time() {
        let mut pings = Pings::new();
        assert!(!pings.lacks(0) && pings.lacks(1));
        pings.asked(Stamp { number: 1, sent_ms: 0 }, Zxid(5));
        assert!(!pings.lacks(1), "it is on its way");
        assert!(!pings.lacks(2), "one after the other");
        assert_eq!(answered(&mut pings, 5), 1);
        assert!(pings.lacks(2));
        sent(&mut pings, 2, 5);
        assert!(!pings.lacks(2), "the one of every half tick will do");
    }
}
