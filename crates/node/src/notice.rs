//! Notices for the operator. The node writes no log; the caller fetches the notices after each round.

use zebu_proto::SessionId;

/// Notices that are kept between two rounds. Later ones are dropped: a client can cause one with each
/// request.
const NOTICES_MAX: usize = 16;

/// A line for the server's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorNotice {
    /// A request was refused because its transaction exceeds the length limit.
    TransactionTooLong {
        /// The session of the request.
        session: SessionId,
        /// The length of the transaction, as far as it was counted.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// A closeSession transaction does not list the ephemeral nodes because the list would be too long.
    EphemeralsNotListed {
        /// The session.
        session: SessionId,
    },
}

/// Notices since the last round.
#[derive(Debug, Default)]
pub(crate) struct OperatorNotices(Vec<OperatorNotice>);

impl OperatorNotices {
    pub(crate) fn push(&mut self, notice: OperatorNotice) {
        if self.0.len() < NOTICES_MAX {
            self.0.push(notice);
        }
    }

    pub(crate) fn take(&mut self) -> Vec<OperatorNotice> {
        std::mem::take(&mut self.0)
    }
}
