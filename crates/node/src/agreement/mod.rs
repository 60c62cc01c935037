//! How a transaction becomes committed. A standalone server agrees with itself once its disk has it; a member of
//! an ensemble agrees by Zab. Both name a place first and are given the transaction that was prepared for it.

mod member;
mod membership;
mod standalone;

pub(crate) use member::{Decided, Member, read};
pub use membership::Membership;
pub(crate) use standalone::Standalone;

use zebu_proto::Zxid;
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::txn::TxnEntry;
use zebu_zab::Entry;

use crate::clock::Moment;
use crate::core::BatchBuilder;
use crate::lane::LaneId;

/// Who waits for a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A request in a slot of a connection.
    Request { lane: LaneId, slot: u64 },
    /// A connection that waits for its session, and what its connect request said.
    Connect { lane: LaneId, read_only: ReadOnlyField },
    /// Nobody here: the server itself asked (an expired session, an empty container), or a client of another one.
    Nobody,
}

/// A transaction on its way.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) entry: TxnEntry,
    pub(crate) origin: Origin,
}

/// The way to agreement of this server.
#[derive(Debug)]
pub(crate) enum Agreement {
    Standalone(Standalone),
    Member(Box<Member>),
}

impl Agreement {
    /// The place of the next transaction; `None` if there is none left.
    pub(crate) fn next_zxid(&self) -> Option<Zxid> {
        match self {
            Agreement::Standalone(standalone) => Some(standalone.next_zxid()),
            Agreement::Member(member) => member.peer.next_zxid(),
        }
    }

    /// Takes a transaction that was prepared for the next place.
    pub(crate) fn propose(&mut self, entry: &TxnEntry, batch: &mut BatchBuilder, now: Moment) {
        let zxid = entry.header.zxid;
        match self {
            Agreement::Standalone(standalone) => {
                batch.append(entry);
                standalone.proposed(zxid);
            }
            Agreement::Member(member) => {
                member.encoded.clear();
                entry.encode(&mut member.encoded);
                let entry = Entry { zxid, bytes: member.encoded.as_slice().into() };
                member.peer.propose(entry, now.monotonic_ms, &mut member.wanted);
            }
        }
    }
}
