//! Agreement in an ensemble: the peer, what it has decided and is not applied yet, and what it wants done.

use std::collections::{BTreeSet, VecDeque};

use zebu_proto::quorum::Packet;
use zebu_proto::txn::TxnEntry;
use zebu_proto::{ServerId, Zxid};
use zebu_zab::{Action, Entry, LinkId, Serving};

use super::{Membership, Origin, Proposal};
use crate::core::CommitError;
use crate::ensemble::OrderQueue;
use crate::lane::LaneId;
use crate::reading::Solitude;

/// Something whose turn comes only when all transactions before it are applied.
#[derive(Debug)]
pub(crate) enum Decided {
    /// A transaction, and who waits for it if that is known already.
    Transaction(Proposal),
    /// A transaction that cannot be applied.
    Broken(CommitError),
    /// This server is to serve from here on.
    Serve(Serving),
    /// A learner spoke before this server serves.
    FromLearner { link: LinkId, server: ServerId, packet: Packet },
    /// The state is to be sent from here on.
    StreamSnapshot { link: LinkId, zxid: Zxid },
}

/// The part of a member that outlives its roles.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) peer: Box<dyn Membership>,
    /// What the peer wants done and nobody has looked at yet.
    pub(crate) wanted: Vec<Action>,
    /// An empty list that takes the place of `wanted` while somebody looks: it happens for every packet.
    pub(crate) spare: Vec<Action>,
    /// Room in which a transaction is encoded.
    pub(crate) encoded: Vec<u8>,
    pub(crate) decided: VecDeque<Decided>,
    pub(crate) orders: OrderQueue,
    /// Connections that have asked for a session since this server serves.
    pub(crate) lanes: BTreeSet<LaneId>,
    pub(crate) solitude: Solitude,
}

impl Member {
    pub(crate) fn new(peer: Box<dyn Membership>, wanted: Vec<Action>) -> Member {
        Member {
            peer,
            wanted,
            spare: Vec::new(),
            encoded: Vec::new(),
            decided: VecDeque::new(),
            orders: OrderQueue::default(),
            lanes: BTreeSet::new(),
            solitude: Solitude::Over,
        }
    }

    /// Sends a packet to the leader.
    pub(crate) fn tell_leader(&mut self, packet: Packet) {
        self.peer.tell_leader(packet, &mut self.wanted);
    }

    /// Sends a packet to a learner, behind the commit of everything that is proposed now.
    pub(crate) fn answer_learner(&mut self, link: LinkId, packet: Packet) {
        let after = self.peer.last_proposed();
        self.peer.answer_learner(link, after, packet, &mut self.wanted);
    }

    /// Whether this server is told to serve and has transactions to apply first.
    pub(crate) fn is_about_to_serve(&self) -> bool {
        self.decided.iter().any(|decided| matches!(decided, Decided::Serve(_)))
    }

    /// How many decided transactions are not applied yet.
    pub(crate) fn to_apply(&self) -> usize {
        self.decided.iter().filter(|decided| matches!(decided, Decided::Transaction(_))).count()
    }
}

/// Reads a transaction that came from elsewhere.
pub(crate) fn read(entry: &Entry) -> Decided {
    match TxnEntry::decode(&entry.bytes) {
        Ok(decoded) if decoded.header.zxid == entry.zxid => {
            Decided::Transaction(Proposal { entry: decoded, origin: Origin::Nobody })
        }
        Ok(decoded) => {
            Decided::Broken(CommitError::Misplaced { zxid: entry.zxid, found: decoded.header.zxid })
        }
        Err(reason) => Decided::Broken(CommitError::Undecodable { zxid: entry.zxid, reason }),
    }
}
