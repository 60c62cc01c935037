//! Consensus of a standalone server: a transaction is committed when it is durable.

use zebu_proto::Zxid;

/// The last proposed and the last durable transaction.
#[derive(Debug)]
pub(crate) struct Standalone {
    last: Zxid,
    /// The log is durable up to this transaction.
    pub(crate) persisted: Zxid,
}

impl Standalone {
    /// Continues after the last transaction of the log.
    pub(crate) fn new(last: Zxid) -> Standalone {
        Standalone { last, persisted: last }
    }

    pub(super) fn next_zxid(&self) -> Zxid {
        Zxid(self.last.0.checked_add(1).expect("2^63 transactions are never reached"))
    }

    pub(super) fn record_proposal(&mut self, zxid: Zxid) {
        assert_eq!(zxid, self.next_zxid(), "a proposal has the place that was named for it");
        self.last = zxid;
    }
}
