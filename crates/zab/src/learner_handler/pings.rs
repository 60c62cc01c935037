//! Matching of ping replies. Pings have no number; a learner answers each one in order and repeats its zxid.
//! A reply counts for the oldest ping with its zxid. If a reply is lost, later ones count for older pings,
//! never for newer ones, until the zxid changes. A proposal may stand for a ping; its ACK is the answer.

use std::collections::VecDeque;

use zebu_proto::Zxid;

/// The number of pings without a reply that are kept apart. Later ones are merged into the last entry.
const UNANSWERED_MAX: usize = 64;

/// The number and the time of a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PingStamp {
    pub(crate) number: u64,
    pub(crate) sent_ms: i64,
}

impl PingStamp {
    /// The value before the first ping.
    pub(crate) const NONE: PingStamp = PingStamp { number: 0, sent_ms: i64::MIN };
}

/// One ping, or several that were merged.
#[derive(Debug)]
struct UnansweredPings {
    /// The stamp of the first one.
    stamp: PingStamp,
    count: u64,
    /// The zxid of the first one and of the last one.
    first: Zxid,
    last: Zxid,
}

/// The pings of one connection.
#[derive(Debug)]
pub(crate) struct PingTracker {
    unanswered: VecDeque<UnansweredPings>,
    /// The newest ping that is known to be answered.
    newest_answered: PingStamp,
    /// The number of the newest ping.
    newest_sent: u64,
    /// The number of the newest on-demand ping.
    newest_on_demand: u64,
    /// A proposal that left in place of a ping, and is not acknowledged.
    proposal: Option<(Zxid, PingStamp)>,
}

impl PingTracker {
    pub(crate) fn new() -> PingTracker {
        PingTracker {
            unanswered: VecDeque::new(),
            newest_answered: PingStamp::NONE,
            newest_sent: 0,
            newest_on_demand: 0,
            proposal: None,
        }
    }

    /// Records a ping that the learner will answer.
    pub(crate) fn record_sent(&mut self, stamp: PingStamp, zxid: Zxid) {
        self.newest_sent = stamp.number;
        let is_full = self.unanswered.len() >= UNANSWERED_MAX;
        match self.unanswered.back_mut() {
            Some(newest) if is_full => {
                newest.count += 1;
                newest.last = zxid;
            }
            _ => self.unanswered.push_back(UnansweredPings { stamp, count: 1, first: zxid, last: zxid }),
        }
    }

    /// Records an on-demand ping.
    pub(crate) fn record_on_demand(&mut self, stamp: PingStamp, zxid: Zxid) {
        self.newest_on_demand = stamp.number;
        self.record_sent(stamp, zxid);
    }

    /// Records a reply, which repeats the zxid of its ping.
    pub(crate) fn record_reply(&mut self, zxid: Zxid) {
        while self.unanswered.front().is_some_and(|oldest| oldest.last < zxid) {
            self.unanswered.pop_front();
        }
        let Some(oldest) = self.unanswered.front_mut().filter(|oldest| oldest.first <= zxid) else { return };
        self.newest_answered = self.newest_answered.max(oldest.stamp);
        oldest.count -= 1;
        if oldest.count == 0 {
            self.unanswered.pop_front();
        }
    }

    /// Records a proposal that left, and counts as the ping of this stamp. One at a time does.
    pub(crate) fn record_proposal(&mut self, stamp: PingStamp, zxid: Zxid) {
        if self.proposal.is_none() && self.newest_sent < stamp.number {
            self.newest_sent = stamp.number;
            self.proposal = Some((zxid, stamp));
        }
    }

    /// Records an ACK. Returns whether it is the answer to a proposal that counts as a ping.
    pub(crate) fn record_ack(&mut self, acked: Zxid) -> bool {
        let Some((_, stamp)) = self.proposal.take_if(|(zxid, _)| *zxid <= acked) else { return false };
        self.newest_answered = self.newest_answered.max(stamp);
        true
    }

    /// The newest ping that is known to be answered.
    pub(crate) fn newest_answered(&self) -> PingStamp {
        self.newest_answered
    }

    /// Whether an on-demand ping is needed so that the learner answers `number` or a later one. At most one
    /// is in flight.
    pub(crate) fn needs_ping(&self, number: u64) -> bool {
        self.newest_sent < number && self.newest_on_demand <= self.newest_answered.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(pings: &mut PingTracker, number: u64, zxid: i64) {
        pings.record_sent(PingStamp { number, sent_ms: number as i64 * 10 }, Zxid(zxid));
    }

    fn answered(pings: &mut PingTracker, zxid: i64) -> u64 {
        pings.record_reply(Zxid(zxid));
        pings.newest_answered().number
    }

    #[test]
    fn answers_come_in_the_order_of_the_pings() {
        let mut pings = PingTracker::new();
        assert_eq!(answered(&mut pings, 5), 0, "nobody was asked");
        for (number, zxid) in [(1, 5), (2, 5), (4, 6)] {
            sent(&mut pings, number, zxid);
        }
        assert_eq!(answered(&mut pings, 5), 1);
        assert_eq!(answered(&mut pings, 5), 2);
        assert_eq!(answered(&mut pings, 5), 2, "one too many is an answer to nothing");
        assert_eq!(answered(&mut pings, 6), 4);
        assert_eq!(pings.newest_answered(), PingStamp { number: 4, sent_ms: 40 });
    }

    #[test]
    fn a_missing_answer_makes_the_others_older_until_another_transaction_is_named() {
        let mut pings = PingTracker::new();
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
        let mut pings = PingTracker::new();
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
    fn the_ack_of_a_proposal_that_left_in_its_place_answers_a_ping() {
        let mut pings = PingTracker::new();
        sent(&mut pings, 1, 5);
        pings.record_proposal(PingStamp { number: 2, sent_ms: 20 }, Zxid(7));
        assert!(!pings.needs_ping(2) && pings.needs_ping(3));
        pings.record_proposal(PingStamp { number: 3, sent_ms: 30 }, Zxid(8));
        assert!(!pings.record_ack(Zxid(6)), "an older one");
        assert!(pings.record_ack(Zxid(8)) && !pings.record_ack(Zxid(9)));
        assert_eq!(pings.newest_answered(), PingStamp { number: 2, sent_ms: 20 });
        assert_eq!(answered(&mut pings, 5), 2, "an older ping takes nothing back");
    }

    #[test]
    fn one_leaves_out_of_turn_at_a_time() {
        let mut pings = PingTracker::new();
        assert!(!pings.needs_ping(0) && pings.needs_ping(1));
        pings.record_on_demand(PingStamp { number: 1, sent_ms: 0 }, Zxid(5));
        assert!(!pings.needs_ping(1), "it is on its way");
        assert!(!pings.needs_ping(2), "one after the other");
        assert_eq!(answered(&mut pings, 5), 1);
        assert!(pings.needs_ping(2));
        sent(&mut pings, 2, 5);
        assert!(!pings.needs_ping(2), "the one of every half tick will do");
    }
}
