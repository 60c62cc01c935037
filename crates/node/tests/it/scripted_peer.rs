//! An ensemble member whose Zab peer is a script: the test commits transactions and reads the packets that
//! the node has sent.

use std::sync::{Arc, Mutex, MutexGuard};

use zebu_node::{AuthEnforcement, ConsensusPeer, Effect, Node, NodeSettings, Replica, ServeContext};
use zebu_proto::quorum::{Packet, PeerAnnouncement, ServerState};
use zebu_proto::txn::{Txn, TxnDigest, TxnEntry, TxnHeader};
use zebu_proto::{ServerId, SessionId, Zxid};
use zebu_tree::{Policy, Tree};
use zebu_zab::{Action, EncodedTxn, IoId, LinkId, PeerEvent, PeerStatus, PingNumber, ServingRole};

use crate::node_fixture::{NodeFixture, START, START_MS, settings, tree_options};

pub(crate) const EPOCH: u32 = 1;
pub(crate) const LINK: LinkId = LinkId(2);
pub(crate) const OTHER_LINK: LinkId = LinkId(4);

pub(crate) fn zxid(counter: u32) -> Zxid {
    Zxid::new(EPOCH, counter)
}

#[derive(Debug, Default)]
pub(crate) struct Script {
    /// Actions of the peer at the next event.
    wanted: Vec<Action>,
    /// Packets to the leader.
    pub(crate) said: Vec<Packet>,
    /// Packets to learners, each with the transaction before it.
    pub(crate) answers: Vec<(LinkId, Zxid, Packet)>,
    /// Proposed transactions.
    pub(crate) proposed: Vec<EncodedTxn>,
    /// Whether the epoch has no zxid left.
    pub(crate) is_exhausted: bool,
    /// The last proposed transaction.
    pub(crate) last: Zxid,
    /// The last committed transaction.
    pub(crate) committed: Zxid,
    /// Whether the peer looks for a leader.
    pub(crate) is_cut_off: bool,
    /// The number of leadership checks.
    pub(crate) asked: u64,
    /// The last ping that a quorum has answered; `None` if each is answered at once.
    pub(crate) answered: Option<u64>,
    /// The announcement of the leader.
    pub(crate) announcement: Option<PeerAnnouncement>,
    io: u64,
    /// Whether the peer looks for a leader when its role has ended; otherwise it stops.
    pub(crate) goes_on: bool,
    /// Whether no quorum has room on its disks.
    pub(crate) lacks_room: bool,
}

#[derive(Clone, Debug, Default)]
struct Scripted(Arc<Mutex<Script>>);

impl Scripted {
    fn script(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap()
    }
}

impl ConsensusPeer for Scripted {
    fn handle(&mut self, _: PeerEvent, _: i64, out: &mut Vec<Action>) {
        out.append(&mut self.script().wanted);
    }

    fn timeout(&mut self, _: i64, _: &mut Vec<Action>) {}

    fn next_deadline(&self) -> i64 {
        i64::MAX
    }

    fn next_zxid(&self) -> Option<Zxid> {
        let script = self.script();
        if script.is_exhausted { None } else { script.last.next() }
    }

    fn propose(&mut self, entry: EncodedTxn, _: i64, out: &mut Vec<Action>) {
        let mut script = self.script();
        assert_eq!(script.last.next(), Some(entry.zxid));
        script.last = entry.zxid;
        script.proposed.push(entry.clone());
        script.io += 1;
        out.push(Action::Append { io: IoId(script.io), entry });
    }

    fn last_proposed(&self) -> Zxid {
        self.script().last
    }

    fn reply_to_learner(&mut self, link: LinkId, after: Zxid, packet: Packet, _: &mut Vec<Action>) {
        self.script().answers.push((link, after, packet));
    }

    fn send_to_leader(&mut self, packet: Packet, _: &mut Vec<Action>) {
        self.script().said.push(packet);
    }

    fn resign(&mut self, _: i64, _: &mut Vec<Action>) {}

    fn has_resigned(&self) -> bool {
        !self.script().goes_on
    }

    fn start_quorum_check(&mut self, _: i64, _: &mut Vec<Action>) -> PingNumber {
        let mut script = self.script();
        script.asked += 1;
        PingNumber(script.asked)
    }

    fn quorum_has_answered(&self, ping: PingNumber) -> bool {
        self.script().answered.is_none_or(|answered| answered >= ping.0)
    }

    fn quorum_has_room(&self) -> bool {
        !self.script().lacks_room
    }

    fn leader_announcement(&self) -> Option<PeerAnnouncement> {
        self.script().announcement
    }

    fn can_serve_read_only(&self) -> bool {
        self.script().is_cut_off
    }

    fn status(&self) -> PeerStatus {
        let script = self.script();
        PeerStatus {
            disk: Default::default(),
            history_bytes: 0,
            collected_bytes: 0,
            blocked_weight: 0,
            state: ServerState::Following,
            leader: None,
            accepted_epoch: 1,
            current_epoch: 1,
            logged: script.committed,
            durable: script.committed,
            committed: script.committed,
            master: None,
            learners: Vec::new(),
        }
    }
}

/// An ensemble member and its fixture.
pub(crate) struct Member {
    pub(crate) fixture: NodeFixture,
    peer: Scripted,
    pub(crate) orders: Vec<Effect>,
    /// The next transaction that another server proposes.
    counter: u32,
}

impl Member {
    pub(crate) fn new() -> Member {
        Member::with(settings(), Policy::default())
    }

    pub(crate) fn with(settings: NodeSettings, policy: Policy) -> Member {
        Member::over(Tree::new(tree_options()), settings, policy)
    }

    pub(crate) fn over(tree: Tree, settings: NodeSettings, policy: Policy) -> Member {
        Member::around(Replica::new(tree, policy, AuthEnforcement::Off, 3), settings)
    }

    /// A member with an existing replica.
    pub(crate) fn around(replica: Replica, settings: NodeSettings) -> Member {
        let peer = Scripted::default();
        let node = Node::with_peer(settings.clone(), Box::new(peer.clone()), &replica, START);
        let fixture = NodeFixture::around(node, replica, settings);
        Member { fixture, peer, orders: Vec::new(), counter: 0 }
    }

    pub(crate) fn learner() -> Member {
        let mut member = Member::new();
        member.follow();
        member
    }

    pub(crate) fn leader() -> Member {
        let mut member = Member::new();
        member.lead();
        member
    }

    pub(crate) fn follow(&mut self) {
        self.want([Action::Serve(ServingRole::Following { leader: ServerId(3), epoch: EPOCH })]);
    }

    pub(crate) fn lead(&mut self) {
        self.script().last = zxid(0);
        self.want([Action::Serve(ServingRole::Leading { epoch: EPOCH })]);
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.peer.0.lock().unwrap()
    }

    /// Lets the peer return these actions.
    pub(crate) fn want(&mut self, actions: impl IntoIterator<Item = Action>) {
        self.script().wanted.extend(actions);
        let event = PeerEvent::LinkDown { link: LinkId(0) };
        let NodeFixture { node, replica, connections, now, .. } = &mut self.fixture;
        node.handle_peer(event, &mut ServeContext { replica, connections, now: *now });
        self.collect();
    }

    /// Applies the committed transactions.
    pub(crate) fn apply(&mut self) -> usize {
        let NodeFixture { node, replica, connections, now, .. } = &mut self.fixture;
        let applied = node.commit(replica, connections, *now).unwrap();
        assert!(!node.has_committed());
        self.collect();
        applied
    }

    pub(crate) fn collect(&mut self) {
        self.fixture.collect();
        self.fixture.node.take_effects(&mut self.orders);
    }

    /// Advances the clock and runs all deadlines.
    pub(crate) fn pass(&mut self, ms: i64) {
        self.fixture.pass(ms);
        self.fixture.tick();
        self.collect();
    }

    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        self.collect();
        std::mem::take(&mut self.orders)
    }

    /// Packets to the leader since the last call.
    pub(crate) fn said(&mut self) -> Vec<Packet> {
        std::mem::take(&mut self.script().said)
    }

    /// Packets to learners since the last call.
    pub(crate) fn answers(&mut self) -> Vec<(LinkId, Zxid, Packet)> {
        std::mem::take(&mut self.script().answers)
    }

    /// Proposals since the last call.
    pub(crate) fn proposed(&mut self) -> Vec<TxnEntry> {
        let proposed = std::mem::take(&mut self.script().proposed);
        proposed.iter().map(|entry| TxnEntry::decode(&entry.bytes).unwrap()).collect()
    }

    /// Commits and applies all proposals of this leader.
    pub(crate) fn decide_all(&mut self) -> Vec<TxnEntry> {
        let proposed = std::mem::take(&mut self.script().proposed);
        self.want(proposed.iter().cloned().map(Action::Deliver));
        self.apply();
        proposed.iter().map(|entry| TxnEntry::decode(&entry.bytes).unwrap()).collect()
    }

    /// A transaction with the next zxid.
    pub(crate) fn transaction(&mut self, session: SessionId, cxid: i32, txn: Txn) -> Action {
        self.transaction_with(session, cxid, txn, None)
    }

    pub(crate) fn transaction_with(
        &mut self,
        session: SessionId,
        cxid: i32,
        txn: Txn,
        digest: Option<TxnDigest>,
    ) -> Action {
        self.counter += 1;
        let zxid = zxid(self.counter);
        let header = TxnHeader { session, cxid, zxid, time_ms: START_MS };
        let mut bytes = Vec::new();
        TxnEntry { header, txn, digest }.encode(&mut bytes);
        Action::Deliver(EncodedTxn { zxid, bytes: bytes.into() })
    }

    /// Commits and applies a transaction of the leader.
    pub(crate) fn deliver(&mut self, session: SessionId, cxid: i32, txn: Txn) {
        let delivery = self.transaction(session, cxid, txn);
        self.want([delivery]);
        assert_eq!(self.apply(), 1);
    }

    pub(crate) fn hear_leader(&mut self, packet: Packet) {
        let after = self.script().committed;
        self.want([Action::FromLeader { packet, after }]);
    }

    pub(crate) fn hear_learner(&mut self, link: LinkId, packet: Packet) {
        self.want([Action::FromLearner { link, server: ServerId(1), packet }]);
    }
}

/// The id and the transactions of an append.
pub(crate) fn appended(order: &Effect) -> Option<(IoId, Zxid, Zxid, u64)> {
    match order {
        Effect::Append { io, batch } => Some(((*io)?, batch.first, batch.last, batch.transactions)),
        _ => None,
    }
}
