//! A member of an ensemble.

use zebu_proto::quorum::{Packet, PeerState};
use zebu_proto::{ServerId, Zxid};

use crate::action::Action;
use crate::entry::Entry;
use crate::event::{Event, LinkId};
use crate::settings::{PeerSettings, Recovered};

/// A member: looks for a leader, leads, follows or observes.
#[derive(Debug)]
pub struct Peer {
    settings: PeerSettings,
}

/// What a member is doing, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// What it tells others in elections.
    pub state: PeerState,
    /// Whom it follows; itself if it leads.
    pub leader: Option<ServerId>,
    /// The epoch that it has promised.
    pub accepted_epoch: i64,
    /// The epoch whose history it has accepted.
    pub current_epoch: i64,
    /// The last transaction of its log.
    pub logged: Zxid,
    /// The last transaction of its log that is durable.
    pub durable: Zxid,
    /// The last transaction that is known to be committed.
    pub committed: Zxid,
    /// If it leads: its learners.
    pub learners: Vec<LearnerStatus>,
}

/// A learner, as its leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnerStatus {
    /// Its connection.
    pub link: LinkId,
    /// Who it is.
    pub server: ServerId,
    /// Whether it has all that it needs to serve.
    pub synced: bool,
    /// The last transaction that it has acknowledged.
    pub acked: Zxid,
}

impl Peer {
    /// Starts to look for a leader.
    pub fn new(settings: PeerSettings, recovered: Recovered, now_ms: i64, out: &mut Vec<Action>) -> Peer {
        let _ = (recovered, now_ms, out);
        Peer { settings }
    }

    /// Takes an event.
    pub fn handle(&mut self, event: Event, now_ms: i64, out: &mut Vec<Action>) {
        let _ = (event, now_ms, out, &self.settings);
    }

    /// Does what time asks for.
    pub fn timeout(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        let _ = (now_ms, out);
    }

    /// When [`Peer::timeout`] has something to do.
    pub fn next_deadline(&self) -> i64 {
        i64::MAX
    }

    /// The place of the next transaction; `None` if this server does not lead, or if the epoch has no place
    /// left (then it has begun to hand over).
    pub fn next_zxid(&self) -> Option<Zxid> {
        None
    }

    /// Proposes a transaction, which has the place that [`Peer::next_zxid`] just named.
    pub fn propose(&mut self, entry: Entry, now_ms: i64, out: &mut Vec<Action>) {
        let _ = (entry, now_ms, out);
    }

    /// The last transaction that was proposed by this leader, or the last of the history it began with.
    pub fn last_proposed(&self) -> Zxid {
        Zxid::ZERO
    }

    /// Sends a packet to a learner behind the commit of `after`.
    pub fn answer_learner(&mut self, link: LinkId, after: Zxid, packet: Packet, out: &mut Vec<Action>) {
        let _ = (link, after, packet, out);
    }

    /// Sends a packet to the leader that this server serves under.
    pub fn tell_leader(&mut self, packet: Packet, out: &mut Vec<Action>) {
        let _ = (packet, out);
    }

    /// Leads no longer: what is proposed is finished, then the others choose again. For a server that stops.
    /// A server that does not lead just ends its role.
    pub fn hand_over(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        let _ = (now_ms, out);
    }

    /// Whether [`Peer::hand_over`] has nothing left to wait for.
    pub fn has_handed_over(&self) -> bool {
        true
    }

    /// What is going on.
    pub fn status(&self) -> Status {
        Status {
            state: PeerState::Looking,
            leader: None,
            accepted_epoch: 0,
            current_epoch: 0,
            logged: Zxid::ZERO,
            durable: Zxid::ZERO,
            committed: Zxid::ZERO,
            learners: Vec::new(),
        }
    }
}
