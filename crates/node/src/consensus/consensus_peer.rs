//! The interface between a node and Zab: [`zebu_zab::Peer`], or a script in a test.

use std::fmt::Debug;

use zebu_proto::quorum::{Packet, PeerAnnouncement};
use zebu_proto::{SessionId, Zxid};
use zebu_zab::{
    Action, Configuration, EncodedTxn, HandOverRefusal, LinkId, Peer, PeerEvent, PeerStatus, PingNumber,
};

/// A peer of an ensemble. [`Peer`] documents the guarantees of each function.
pub trait ConsensusPeer: Debug + Send {
    /// Handles an event.
    fn handle(&mut self, event: PeerEvent, now_ms: i64, out: &mut Vec<Action>);
    /// Handles expired deadlines.
    fn timeout(&mut self, now_ms: i64, out: &mut Vec<Action>);
    /// The next deadline of [`ConsensusPeer::timeout`], in monotonic milliseconds.
    fn next_deadline(&self) -> i64;
    /// The zxid of the next transaction; `None` if this peer cannot propose.
    fn next_zxid(&self) -> Option<Zxid>;
    /// Proposes a transaction with that zxid.
    fn propose(&mut self, entry: EncodedTxn, now_ms: i64, out: &mut Vec<Action>);
    /// The last proposed transaction.
    fn last_proposed(&self) -> Zxid;
    /// Sends a packet to a learner behind the commit of `after`.
    fn reply_to_learner(&mut self, link: LinkId, after: Zxid, packet: Packet, out: &mut Vec<Action>);
    /// Sends a packet to the leader.
    fn send_to_leader(&mut self, packet: Packet, out: &mut Vec<Action>);
    /// A session has ended.
    fn session_ended(&mut self, _: SessionId) {}
    /// Resigns leadership.
    fn resign(&mut self, now_ms: i64, out: &mut Vec<Action>);
    /// Hands over the leadership, and goes on as a follower.
    fn hand_over(&mut self, _: i64, _: &mut Vec<Action>) -> Result<(), HandOverRefusal> {
        Err(HandOverRefusal::NotLeader)
    }
    /// Whether the resignation is complete.
    fn has_resigned(&self) -> bool;
    /// Whether a quorum has room on its disks for a larger tree, as far as this leader knows.
    fn quorum_has_room(&self) -> bool {
        true
    }
    /// The current status.
    fn status(&self) -> PeerStatus;
    /// Whether the peer is without a role.
    fn is_looking(&self) -> bool {
        false
    }
    /// Starts a check that a quorum still follows this leader.
    fn start_quorum_check(&mut self, now_ms: i64, out: &mut Vec<Action>) -> PingNumber;
    /// Whether a quorum has answered this ping or a later one.
    fn quorum_has_answered(&self, ping: PingNumber) -> bool;
    /// What the leader has told about itself; the own announcement of a leader.
    fn leader_announcement(&self) -> Option<PeerAnnouncement> {
        None
    }
    /// Reports that the recovered data differs from the leader's. Returns whether the data is quarantined.
    fn quarantine_data(&mut self, _: i64, _: &mut Vec<Action>) -> bool {
        false
    }
    /// Whether the peer looks for a leader and has a state that clients may read meanwhile.
    fn can_serve_read_only(&self) -> bool {
        false
    }
    /// Whether the leader sees each move of a session between this server and another one.
    fn shows_moves(&self) -> bool {
        true
    }
    /// The committed config, if reconfig is possible.
    fn configuration(&self) -> Option<&Configuration> {
        None
    }
    /// The proposed config, if its reconfig is not committed yet.
    fn pending_configuration(&self) -> Option<&Configuration> {
        None
    }
    /// Whether the current followers form a quorum of a config.
    fn has_quorum_of(&self, _: &Configuration) -> bool {
        false
    }
}

impl ConsensusPeer for Peer {
    fn is_looking(&self) -> bool {
        self.is_looking()
    }

    fn handle(&mut self, event: PeerEvent, now_ms: i64, out: &mut Vec<Action>) {
        self.handle(event, now_ms, out);
    }

    fn timeout(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        self.timeout(now_ms, out);
    }

    fn next_deadline(&self) -> i64 {
        self.next_deadline()
    }

    fn next_zxid(&self) -> Option<Zxid> {
        self.next_zxid()
    }

    fn propose(&mut self, entry: EncodedTxn, now_ms: i64, out: &mut Vec<Action>) {
        self.propose(entry, now_ms, out);
    }

    fn last_proposed(&self) -> Zxid {
        self.last_proposed()
    }

    fn reply_to_learner(&mut self, link: LinkId, after: Zxid, packet: Packet, out: &mut Vec<Action>) {
        self.reply_to_learner(link, after, packet, out);
    }

    fn send_to_leader(&mut self, packet: Packet, out: &mut Vec<Action>) {
        self.send_to_leader(packet, out);
    }

    fn session_ended(&mut self, session: SessionId) {
        self.session_ended(session);
    }

    fn resign(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        self.resign(now_ms, out);
    }

    fn hand_over(&mut self, now_ms: i64, out: &mut Vec<Action>) -> Result<(), HandOverRefusal> {
        self.hand_over(now_ms, out)
    }

    fn has_resigned(&self) -> bool {
        self.has_resigned()
    }

    fn quorum_has_room(&self) -> bool {
        self.quorum_has_room()
    }

    fn status(&self) -> PeerStatus {
        self.status()
    }

    fn start_quorum_check(&mut self, now_ms: i64, out: &mut Vec<Action>) -> PingNumber {
        self.start_quorum_check(now_ms, out)
    }

    fn quorum_has_answered(&self, ping: PingNumber) -> bool {
        self.quorum_has_answered(ping)
    }

    fn leader_announcement(&self) -> Option<PeerAnnouncement> {
        self.leader_announcement()
    }

    fn quarantine_data(&mut self, now_ms: i64, out: &mut Vec<Action>) -> bool {
        self.quarantine_data(now_ms, out)
    }

    fn can_serve_read_only(&self) -> bool {
        self.can_serve_read_only()
    }

    fn shows_moves(&self) -> bool {
        self.shows_moves()
    }

    fn configuration(&self) -> Option<&Configuration> {
        self.configuration()
    }

    fn pending_configuration(&self) -> Option<&Configuration> {
        self.pending_configuration()
    }

    fn has_quorum_of(&self, configuration: &Configuration) -> bool {
        self.has_quorum_of(configuration)
    }
}
