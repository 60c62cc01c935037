//! How a transaction becomes committed. A standalone server agrees with itself once its disk has it; an
//! ensemble will agree by Zab. Both reserve a zxid first, are given the transaction that was prepared with
//! it, and hand it back when it is committed.

mod standalone;

pub use standalone::Standalone;

use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::txn::TxnEntry;

use crate::lane::LaneId;

/// Who waits for a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A request in a slot of a connection.
    Request {
        /// The connection.
        lane: LaneId,
        /// The slot.
        slot: u64,
    },
    /// A connection that waits for its session.
    Connect {
        /// The connection.
        lane: LaneId,
        /// What its connect request said.
        read_only: ReadOnlyField,
    },
    /// The server itself: an expired session, an empty container.
    Housekeeping,
}

/// A transaction on its way.
#[derive(Debug)]
pub struct Proposal {
    /// The transaction.
    pub entry: TxnEntry,
    /// Who waits for it.
    pub origin: Origin,
}
