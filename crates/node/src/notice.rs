//! Decisions that an operator should read about. The node has no log; whoever runs it fetches them after a round.

use zebu_proto::SessionId;

/// Notices that are kept between two rounds. Later ones are dropped: a client can cause one with every request.
const NOTICES_MAX: usize = 16;

/// Something for the server's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A request was refused because its transaction is longer than servers read.
    TransactionTooLong {
        /// The session that asked.
        session: SessionId,
        /// The length of the transaction, as far as it was counted.
        bytes: usize,
        /// The longest one that is allowed.
        bytes_max: usize,
    },
    /// The transaction that ends a session does not list its ephemeral nodes, because the list would be too long.
    UnlistedEnd {
        /// The session that ends.
        session: SessionId,
    },
}

/// Notices since the last round.
#[derive(Debug, Default)]
pub(crate) struct Notices(Vec<Notice>);

impl Notices {
    pub(crate) fn push(&mut self, notice: Notice) {
        if self.0.len() < NOTICES_MAX {
            self.0.push(notice);
        }
    }

    pub(crate) fn take(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.0)
    }
}
