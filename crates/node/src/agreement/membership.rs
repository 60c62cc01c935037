//! What the brain needs of its membership in an ensemble: [`zebu_zab::Peer`], or a script in a test.

use std::fmt::Debug;

use zebu_proto::Zxid;
use zebu_proto::quorum::Packet;
use zebu_zab::{Action, Configuration, Entry, Event, LinkId, Peer, PingNumber, Status};

/// A place in an ensemble. See [`Peer`] for what each function promises.
pub trait Membership: Debug + Send {
    /// Takes an event.
    fn handle(&mut self, event: Event, now_ms: i64, out: &mut Vec<Action>);
    /// Does what time asks for.
    fn timeout(&mut self, now_ms: i64, out: &mut Vec<Action>);
    /// When [`Membership::timeout`] has something to do.
    fn next_deadline(&self) -> i64;
    /// The place of the next transaction.
    fn next_zxid(&self) -> Option<Zxid>;
    /// Proposes a transaction for that place.
    fn propose(&mut self, entry: Entry, now_ms: i64, out: &mut Vec<Action>);
    /// The last transaction that was proposed.
    fn last_proposed(&self) -> Zxid;
    /// Sends a packet to a learner behind the commit of `after`.
    fn answer_learner(&mut self, link: LinkId, after: Zxid, packet: Packet, out: &mut Vec<Action>);
    /// Sends a packet to the leader.
    fn tell_leader(&mut self, packet: Packet, out: &mut Vec<Action>);
    /// Leads no longer.
    fn hand_over(&mut self, now_ms: i64, out: &mut Vec<Action>);
    /// Whether [`Membership::hand_over`] has nothing left to wait for.
    fn has_handed_over(&self) -> bool;
    /// What is going on.
    fn status(&self) -> Status;
    /// Asks whether a quorum is still there.
    fn ask_quorum(&mut self, now_ms: i64, out: &mut Vec<Action>) -> PingNumber;
    /// Whether a quorum has answered this ping, or a later one.
    fn has_answered(&self, ping: PingNumber) -> bool;
    /// The state that the member started with is not the leader's. Returns whether it is given up.
    fn give_up_state(&mut self, _: i64, _: &mut Vec<Action>) -> bool {
        false
    }
    /// Whether it looks for a leader, and has a state that could be shown meanwhile.
    fn is_cut_off(&self) -> bool {
        false
    }
    /// The members, if they may change.
    fn configuration(&self) -> Option<&Configuration> {
        None
    }
    /// New members that were proposed, and about which nothing is decided.
    fn pending_configuration(&self) -> Option<&Configuration> {
        None
    }
    /// Whether those who follow this leader now could decide in a configuration.
    fn has_quorum_of(&self, _: &Configuration) -> bool {
        false
    }
}

impl Membership for Peer {
    fn handle(&mut self, event: Event, now_ms: i64, out: &mut Vec<Action>) {
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

    fn propose(&mut self, entry: Entry, now_ms: i64, out: &mut Vec<Action>) {
        self.propose(entry, now_ms, out);
    }

    fn last_proposed(&self) -> Zxid {
        self.last_proposed()
    }

    fn answer_learner(&mut self, link: LinkId, after: Zxid, packet: Packet, out: &mut Vec<Action>) {
        self.answer_learner(link, after, packet, out);
    }

    fn tell_leader(&mut self, packet: Packet, out: &mut Vec<Action>) {
        self.tell_leader(packet, out);
    }

    fn hand_over(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        self.hand_over(now_ms, out);
    }

    fn has_handed_over(&self) -> bool {
        self.has_handed_over()
    }

    fn status(&self) -> Status {
        self.status()
    }

    fn ask_quorum(&mut self, now_ms: i64, out: &mut Vec<Action>) -> PingNumber {
        self.ask_quorum(now_ms, out)
    }

    fn has_answered(&self, ping: PingNumber) -> bool {
        self.has_answered(ping)
    }

    fn give_up_state(&mut self, now_ms: i64, out: &mut Vec<Action>) -> bool {
        self.give_up_state(now_ms, out)
    }

    fn is_cut_off(&self) -> bool {
        self.is_cut_off()
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
