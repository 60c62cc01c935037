//! Agreement of one: a transaction is committed when the disk has it.

use zebu_proto::Zxid;

/// The history between its last place and the disk.
#[derive(Debug)]
pub(crate) struct Standalone {
    last: Zxid,
    /// The disk has everything up to here.
    pub(crate) persisted: Zxid,
}

impl Standalone {
    /// Continues after the last transaction of the history.
    pub(crate) fn new(last: Zxid) -> Standalone {
        Standalone { last, persisted: last }
    }

    pub(super) fn next_zxid(&self) -> Zxid {
        Zxid(self.last.0.checked_add(1).expect("2^63 transactions are never reached"))
    }

    pub(super) fn proposed(&mut self, zxid: Zxid) {
        assert_eq!(zxid, self.next_zxid(), "a proposal has the place that was named for it");
        self.last = zxid;
    }
}
