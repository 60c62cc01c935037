//! Commits transactions. A transaction of a standalone server is committed once it is durable; in an ensemble
//! Zab commits it. Both return the next zxid first and then take the transaction prepared for it.

mod consensus_peer;
mod ensemble_member;
mod standalone;

pub use consensus_peer::ConsensusPeer;
pub(crate) use ensemble_member::{CommitItem, EnsembleMember, decode_committed};
pub(crate) use standalone::Standalone;

use zebu_proto::Zxid;
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::txn::TxnEntry;
use zebu_zab::EncodedTxn;

use crate::clock::Now;
use crate::connection::ConnectionId;
use crate::core::BatchBuilder;
use crate::pending_request::PendingRequest;
use crate::request_copy::RequestCopy;

/// The origin of a transaction, which receives the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestOrigin {
    /// A request in a slot of a connection.
    Request(PendingRequest),
    /// A connection that waits for its session, and the read-only field of its connect request.
    Connect { connection: ConnectionId, read_only: ReadOnlyField },
    /// No client of this server: an internal request (an expired session, an empty container), or a client of
    /// another server.
    NoClient,
}

/// A transaction that is proposed and not applied yet.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) entry: TxnEntry,
    pub(crate) origin: RequestOrigin,
    /// The request of a client of this server, if the next leader may get it.
    pub(crate) copy: Option<Box<RequestCopy>>,
}

/// The consensus of this server.
#[derive(Debug)]
pub(crate) enum Consensus {
    Standalone(Standalone),
    Member(Box<EnsembleMember>),
}

impl Consensus {
    /// The zxid of the next transaction; `None` if this server cannot propose.
    pub(crate) fn next_zxid(&self) -> Option<Zxid> {
        match self {
            Consensus::Standalone(standalone) => Some(standalone.next_zxid()),
            Consensus::Member(member) => member.peer.next_zxid(),
        }
    }

    /// Proposes a transaction that was prepared with the next zxid.
    pub(crate) fn propose(&mut self, entry: &TxnEntry, batch: &mut BatchBuilder, now: Now) {
        let zxid = entry.header.zxid;
        match self {
            Consensus::Standalone(standalone) => {
                batch.append(entry);
                standalone.record_proposal(zxid);
            }
            Consensus::Member(member) => {
                member.encoded.clear();
                entry.encode(&mut member.encoded);
                let entry = EncodedTxn { zxid, bytes: member.encoded.as_slice().into() };
                member.peer.propose(entry, now.monotonic_ms, &mut member.pending_actions);
            }
        }
    }
}
