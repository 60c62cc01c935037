//! Consensus of an ensemble member: the Zab peer, its committed and unapplied transactions, and its pending
//! actions.

use std::collections::{BTreeSet, VecDeque};

use zebu_proto::quorum::Packet;
use zebu_proto::txn::TxnEntry;
use zebu_proto::{ServerId, SessionId, Zxid};
use zebu_zab::{Action, EncodedTxn, LinkId, ServingRole};

use super::{ConsensusPeer, Proposal, RequestOrigin};
use crate::connection::ConnectionId;
use crate::core::CommitError;
use crate::ensemble::EffectQueue;
use crate::read_only::Leaderless;

/// An item that is processed when all transactions before it are applied.
#[derive(Debug)]
pub(crate) enum CommitItem {
    /// A transaction, with the origin of its request if it is known.
    Transaction(Proposal),
    /// A transaction that cannot be applied.
    Invalid(CommitError),
    /// This server begins to serve.
    Serve(ServingRole),
    /// A learner sent a packet before this server serves.
    FromLearner { link: LinkId, server: ServerId, packet: Packet },
    /// A snapshot is sent.
    StreamSnapshot { link: LinkId, zxid: Zxid },
}

/// The part of an ensemble member that outlives its roles.
#[derive(Debug)]
pub(crate) struct EnsembleMember {
    pub(crate) peer: Box<dyn ConsensusPeer>,
    /// Actions of the peer that are not processed yet.
    pub(crate) pending_actions: Vec<Action>,
    /// An empty list that is swapped with `pending_actions` during processing: this saves an allocation per
    /// packet.
    pub(crate) spare_actions: Vec<Action>,
    /// Buffer in which a transaction is encoded.
    pub(crate) encoded: Vec<u8>,
    pub(crate) commit_queue: VecDeque<CommitItem>,
    pub(crate) effects: EffectQueue,
    /// Connections that have sent a connect request since this server serves.
    pub(crate) connections: BTreeSet<ConnectionId>,
    /// Connections whose connect requests have waited for this role, and are answered next.
    pub(crate) kept_connects: Vec<ConnectionId>,
    pub(crate) leaderless: Leaderless,
}

impl EnsembleMember {
    pub(crate) fn new(peer: Box<dyn ConsensusPeer>, pending_actions: Vec<Action>) -> EnsembleMember {
        EnsembleMember {
            peer,
            pending_actions,
            spare_actions: Vec::new(),
            encoded: Vec::new(),
            commit_queue: VecDeque::new(),
            effects: EffectQueue::default(),
            connections: BTreeSet::new(),
            kept_connects: Vec::new(),
            leaderless: Leaderless::No,
        }
    }

    /// Sends a packet to the leader.
    pub(crate) fn send_to_leader(&mut self, packet: Packet) {
        self.peer.send_to_leader(packet, &mut self.pending_actions);
    }

    /// A session has ended.
    pub(crate) fn session_ended(&mut self, session: SessionId) {
        self.peer.session_ended(session);
    }

    /// Sends a packet to a learner, behind the commit of all transactions proposed so far.
    pub(crate) fn reply_to_learner(&mut self, link: LinkId, packet: Packet) {
        let after = self.peer.last_proposed();
        self.peer.reply_to_learner(link, after, packet, &mut self.pending_actions);
    }

    /// Whether this server will serve after it has applied pending transactions.
    pub(crate) fn is_about_to_serve(&self) -> bool {
        self.commit_queue.iter().any(|item| matches!(item, CommitItem::Serve(_)))
    }

    /// The number of committed transactions that are not applied yet.
    pub(crate) fn unapplied_txns(&self) -> usize {
        self.commit_queue.iter().filter(|item| matches!(item, CommitItem::Transaction(_))).count()
    }
}

/// Decodes a committed transaction.
pub(crate) fn decode_committed(entry: &EncodedTxn) -> CommitItem {
    match TxnEntry::decode(&entry.bytes) {
        Ok(decoded) if decoded.header.zxid == entry.zxid => {
            CommitItem::Transaction(Proposal { entry: decoded, origin: RequestOrigin::NoClient, copy: None })
        }
        Ok(decoded) => {
            CommitItem::Invalid(CommitError::ZxidMismatch { zxid: entry.zxid, found: decoded.header.zxid })
        }
        Err(reason) => CommitItem::Invalid(CommitError::Undecodable { zxid: entry.zxid, reason }),
    }
}
