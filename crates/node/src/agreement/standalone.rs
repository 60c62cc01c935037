//! Agreement of one: a transaction is committed when the disk has it.

use std::collections::VecDeque;

use zebu_proto::Zxid;

use super::Proposal;

/// Transactions between their zxid and their disk.
#[derive(Debug)]
pub struct Standalone {
    last: Zxid,
    in_flight: VecDeque<Proposal>,
}

impl Standalone {
    /// Continues after the last transaction of the history.
    pub fn new(last: Zxid) -> Standalone {
        Standalone { last, in_flight: VecDeque::new() }
    }

    /// The zxid of the next transaction. It is taken, whatever becomes of the request.
    pub fn reserve(&mut self) -> Zxid {
        self.last = Zxid(self.last.0.checked_add(1).expect("2^63 transactions are never reached"));
        self.last
    }

    /// The zxid that was reserved last.
    pub fn last(&self) -> Zxid {
        self.last
    }

    /// Takes a transaction that was prepared with the zxid reserved last.
    pub fn propose(&mut self, proposal: Proposal) {
        assert_eq!(proposal.entry.header.zxid, self.last, "a proposal has the zxid that was reserved for it");
        self.in_flight.push_back(proposal);
    }

    /// The next transaction that the disk has, in order.
    pub fn next_committed(&mut self, persisted: Zxid) -> Option<Proposal> {
        let first = self.in_flight.front()?;
        if first.entry.header.zxid <= persisted { self.in_flight.pop_front() } else { None }
    }

    /// Whether there is one.
    pub fn has_committed(&self, persisted: Zxid) -> bool {
        self.in_flight.front().is_some_and(|first| first.entry.header.zxid <= persisted)
    }

    /// Transactions that are not committed yet.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }
}
