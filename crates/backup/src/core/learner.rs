//! One stay of the backup at a leader, as an observer. The shipped peer speaks the protocol; here is what a
//! server would do for it: the state in memory, and the point from which that state is exact.
//!
//! A leader streams its state while it commits, so a received state is fuzzy: it may contain effects of later
//! transactions. The first ping behind UPTODATE names the last proposal at a time when the stream was over.
//! When that proposal is applied, the state is exact, and a base can be written.

use zebu_proto::Zxid;
use zebu_proto::quorum::election::NotificationVersion;
use zebu_proto::quorum::{Notification, Packet, ServerState};
use zebu_proto::txn::{DIGEST_VERSION, TxnEntry};
use zebu_runtime::apply_tail;
use zebu_tree::Tree;
use zebu_zab::{
    Action, DiskCommand, DiskTrust, EncodedTxn, IoId, LinkCloseReason, LinkId, Peer, PeerEffect, PeerEvent,
    RecoveredHistory,
};

use super::learner_settings::{LEADER, LearnerSettings, peer_settings};
use super::stay_end::{OtherHistory, StayEnd, WrongDigest};

/// An exact state, from which the backup continues.
#[derive(Debug)]
pub struct ExactState {
    /// The tree.
    pub tree: Tree,
    /// The highest epoch that was seen.
    pub epoch: u32,
}

/// An event of the connection.
#[derive(Debug)]
pub enum LearnerInput {
    /// The connection is established.
    Connected,
    /// A packet.
    Packet(Packet),
    /// A part of a snapshot was received.
    SnapshotProgress,
    /// A whole snapshot was received.
    Snapshot(Box<Tree>),
    /// The connection failed or ended.
    Closed,
}

/// What the caller has to do.
#[derive(Debug, PartialEq)]
pub enum LearnerOutput {
    /// Connect to the leader's quorum port.
    Connect,
    /// Send a packet.
    Send(Packet),
    /// A new history begins: the state is exact now. The caller writes a base.
    NewHistory,
    /// A transaction of the present history is committed.
    Committed {
        /// The transaction.
        entry: EncodedTxn,
        /// The clock of the leader that proposed it, milliseconds since 1970.
        time_ms: i64,
    },
    /// The leader has confirmed that the backup has its history.
    Synchronized,
    /// The tree differs from the ensemble's tree.
    DigestMismatch {
        /// The transaction after which it differs.
        zxid: Zxid,
    },
    /// The stay is over.
    Ended(StayEnd),
}

/// The state of the backup during a stay.
#[derive(Debug)]
enum Copy {
    /// No state yet.
    Absent,
    /// It may contain effects of later transactions. Exact at `until`, as soon as that is known.
    Fuzzy { tree: Box<Tree>, applied: Zxid, until: Option<Zxid> },
    /// It is that of its last transaction.
    Exact { tree: Box<Tree> },
    /// The caller writes a base from it; transactions wait.
    Lent { waiting: Vec<EncodedTxn>, bytes: usize },
}

/// A stay at a leader.
#[derive(Debug)]
pub struct BackupLearner {
    peer: Peer,
    link: LinkId,
    copy: Copy,
    /// The last received snapshot, until the peer installs it.
    received: Option<Box<Tree>>,
    /// Transactions of a DIFF that no quorum has confirmed yet.
    unconfirmed: Vec<EncodedTxn>,
    is_serving: bool,
    has_ended: bool,
    has_mismatch: bool,
    wrong_digest: WrongDigest,
    /// The latest time of an applied transaction, milliseconds since 1970.
    time_ms: Option<i64>,
    epoch: u32,
}

impl BackupLearner {
    /// Begins a stay. Without a state the leader is asked for a whole one.
    pub fn new(
        settings: LearnerSettings,
        state: Option<ExactState>,
        wrong_digest: WrongDigest,
        now_ms: i64,
    ) -> (BackupLearner, Vec<LearnerOutput>) {
        let last = state.as_ref().map_or(Zxid::ZERO, |state| state.tree.last_zxid());
        let epoch = state.as_ref().map_or(0, |state| state.epoch.max(last.epoch()));
        let recovered = RecoveredHistory {
            last,
            contiguous_from: last,
            accepted_epoch: i64::from(epoch),
            current_epoch: i64::from(last.epoch()),
            trust: if state.is_some() { DiskTrust::Trusted } else { DiskTrust::Untrusted },
        };
        let mut actions = Vec::new();
        let peer = Peer::new(peer_settings(settings), recovered, now_ms, &mut actions);
        let copy = state.map_or(Copy::Absent, |state| Copy::Exact { tree: Box::new(state.tree) });
        let mut learner = BackupLearner {
            peer,
            link: LinkId::dialed(0),
            copy,
            received: None,
            unconfirmed: Vec::new(),
            is_serving: false,
            has_ended: false,
            has_mismatch: false,
            wrong_digest,
            time_ms: None,
            epoch,
        };
        let mut outputs = Vec::new();
        learner.execute(actions, now_ms, &mut outputs);
        // The caller found the leader without an election.
        let found = Notification {
            state: ServerState::Leading,
            leader: LEADER,
            zxid: last,
            round: 1,
            epoch: i64::from(epoch),
            version: NotificationVersion::V2,
            config: None,
        };
        learner.feed(PeerEvent::Notification { from: LEADER, notification: found }, now_ms, &mut outputs);
        (learner, outputs)
    }

    /// Handles what came from the connection.
    pub fn handle(&mut self, input: LearnerInput, now_ms: i64) -> Vec<LearnerOutput> {
        let mut outputs = Vec::new();
        let link = self.link;
        let event = match input {
            LearnerInput::Connected => PeerEvent::Dialed { link },
            LearnerInput::Packet(packet) => PeerEvent::Packet { link, packet },
            LearnerInput::SnapshotProgress => PeerEvent::SnapshotProgress { link },
            LearnerInput::Snapshot(tree) => {
                self.received = Some(tree);
                PeerEvent::SnapshotReceived { link }
            }
            LearnerInput::Closed => PeerEvent::LinkDown { link },
        };
        self.feed(event, now_ms, &mut outputs);
        outputs
    }

    /// Does the work that is due now.
    pub fn timeout(&mut self, now_ms: i64) -> Vec<LearnerOutput> {
        let (mut actions, mut outputs) = (Vec::new(), Vec::new());
        self.peer.timeout(now_ms, &mut actions);
        self.execute(actions, now_ms, &mut outputs);
        outputs
    }

    /// When [`BackupLearner::timeout`] has work to do.
    pub fn deadline(&self) -> i64 {
        self.peer.next_deadline()
    }

    /// The highest epoch that was seen.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The latest time of a transaction that was applied in this stay, milliseconds since 1970.
    pub fn time_ms(&self) -> Option<i64> {
        self.time_ms
    }

    /// What a wrong digest would do now. The next stay begins with it.
    pub fn wrong_digest(&self) -> WrongDigest {
        self.wrong_digest
    }

    /// Whether the leader has confirmed the history of the backup.
    pub fn is_serving(&self) -> bool {
        self.is_serving
    }

    /// The exact state, if there is one.
    pub fn exact(&self) -> Option<&Tree> {
        match &self.copy {
            Copy::Exact { tree } => Some(tree),
            Copy::Absent | Copy::Fuzzy { .. } | Copy::Lent { .. } => None,
        }
    }

    /// Lends the exact state for a base. Transactions wait until it is returned.
    pub fn lend(&mut self) -> Option<Box<Tree>> {
        match std::mem::replace(&mut self.copy, Copy::Absent) {
            Copy::Exact { tree } => {
                self.copy = Copy::Lent { waiting: Vec::new(), bytes: 0 };
                Some(tree)
            }
            other => {
                self.copy = other;
                None
            }
        }
    }

    /// Bytes of the transactions that wait for the lent state. The caller reads no more packets above its
    /// limit.
    pub fn waiting_bytes(&self) -> usize {
        match &self.copy {
            Copy::Lent { bytes, .. } => *bytes,
            Copy::Absent | Copy::Fuzzy { .. } | Copy::Exact { .. } => 0,
        }
    }

    /// Returns the lent state. The transactions that have waited are applied to it.
    pub fn give_back(&mut self, tree: Box<Tree>) -> Vec<LearnerOutput> {
        let mut outputs = Vec::new();
        if let Copy::Lent { waiting, .. } = std::mem::replace(&mut self.copy, Copy::Exact { tree }) {
            for entry in waiting {
                self.apply(&entry, &mut outputs);
            }
        }
        outputs
    }

    /// Ends the stay and returns the exact state for the next one.
    pub fn into_state(self) -> Option<ExactState> {
        match self.copy {
            Copy::Exact { tree } => Some(ExactState { tree: *tree, epoch: self.epoch }),
            Copy::Absent | Copy::Fuzzy { .. } | Copy::Lent { .. } => None,
        }
    }

    fn feed(&mut self, event: PeerEvent, now_ms: i64, outputs: &mut Vec<LearnerOutput>) {
        if self.has_ended {
            return;
        }
        let mut actions = Vec::new();
        self.peer.handle(event, now_ms, &mut actions);
        self.execute(actions, now_ms, outputs);
    }

    /// Executes actions. There is no disk: a command is done when it was read.
    fn execute(&mut self, actions: Vec<Action>, now_ms: i64, outputs: &mut Vec<LearnerOutput>) {
        let mut done: Option<IoId> = None;
        for action in actions {
            if self.has_ended {
                return;
            }
            match action {
                Action::Peer(effect) => self.execute_network(effect, outputs),
                Action::Disk(command) => match self.execute_disk(command) {
                    Some(io) => done = done.max(Some(io)),
                    None => self.end(StayEnd::OtherHistory(OtherHistory::SetBack), outputs),
                },
                Action::Append { io, .. } => done = done.max(Some(io)),
                Action::Deliver(entry) => {
                    self.confirm(outputs);
                    self.commit(entry, outputs);
                }
                Action::Load(entry) => self.unconfirmed.push(entry),
                Action::Serve(role) => {
                    self.confirm(outputs);
                    self.is_serving = true;
                    self.epoch = self.epoch.max(role.epoch());
                    outputs.push(LearnerOutput::Synchronized);
                }
                // The end of the connection follows with its reason.
                Action::StopServing => self.is_serving = false,
                Action::FromLeader { packet: Packet::Ping { zxid }, .. } => {
                    self.note_ping(zxid);
                    let reply = Packet::PingReply { zxid, touched: Vec::new(), room: None };
                    let mut sent = Vec::new();
                    self.peer.send_to_leader(reply, &mut sent);
                    self.execute(sent, now_ms, outputs);
                }
                // A backup has no clients and no learners, and it belongs to no config.
                Action::Config(_)
                | Action::Report(_)
                | Action::FromLearner { .. }
                | Action::LearnerLost { .. }
                | Action::FromLeader { .. } => {}
            }
            self.finish_fuzzy(outputs);
        }
        if let Some(io) = done {
            self.feed(PeerEvent::Persisted { io }, now_ms, outputs);
        }
        // The election that would follow is the caller's search for the leader.
        if !self.has_ended && self.link != LinkId::dialed(0) && self.peer.is_looking() {
            self.end_closed("the leader does not take this observer", outputs);
        }
    }

    fn execute_network(&mut self, effect: PeerEffect, outputs: &mut Vec<LearnerOutput>) {
        match effect {
            PeerEffect::Dial { link, .. } if self.link == LinkId::dialed(0) => {
                self.link = link;
                outputs.push(LearnerOutput::Connect);
            }
            // The peer would try the same server again. The caller knows more servers.
            PeerEffect::Dial { .. } => self.end_closed("the server does not lead", outputs),
            PeerEffect::Send { packet, .. } => outputs.push(LearnerOutput::Send(packet)),
            PeerEffect::Close { reason, .. } => self.close(&reason, outputs),
            PeerEffect::LoadReceived { entries, .. } => {
                if let Some(tree) = &mut self.received
                    && let Err(error) = apply_tail(tree, &entries)
                {
                    self.end_closed(&error.to_string(), outputs);
                }
            }
            PeerEffect::DiscardSnapshot { .. } => self.received = None,
            // The disk of a backup is never slow, so the peer never pauses; the others are a leader's.
            PeerEffect::PauseReading { .. }
            | PeerEffect::ResumeReading { .. }
            | PeerEffect::Notify { .. }
            | PeerEffect::StreamSnapshot { .. }
            | PeerEffect::ReadLog { .. } => {}
        }
    }

    /// Returns the id of the finished command; `None` if the ensemble has another history.
    fn execute_disk(&mut self, command: DiskCommand) -> Option<IoId> {
        match command {
            DiskCommand::InstallSnapshot { io, tail, zxid, .. } => {
                let mut tree = self.received.take()?;
                apply_tail(&mut tree, &tail).ok()?;
                // The leader's SNAP may end at the start of an epoch, which is no transaction of the tree.
                let tree = if tree.last_zxid() < zxid { at_zxid(tree, zxid) } else { tree };
                self.unconfirmed.clear();
                self.copy = Copy::Fuzzy { tree, applied: zxid, until: None };
                Some(io)
            }
            DiskCommand::Truncate { .. } | DiskCommand::Quarantine { .. } => None,
            DiskCommand::MarkTrusted { io } | DiskCommand::SaveCurrentEpoch { io, .. } => Some(io),
            DiskCommand::SaveAcceptedEpoch { io, epoch } => {
                self.epoch = self.epoch.max(epoch);
                Some(io)
            }
        }
    }

    fn close(&mut self, reason: &LinkCloseReason, outputs: &mut Vec<LearnerOutput>) {
        match reason {
            LinkCloseReason::OldEpoch { proposed, .. } => {
                self.end(StayEnd::EarlierEpoch { leader: *proposed, known: self.epoch }, outputs);
            }
            reason => self.end_closed(&reason.to_string(), outputs),
        }
    }

    fn end_closed(&mut self, reason: &str, outputs: &mut Vec<LearnerOutput>) {
        self.end(StayEnd::Closed { reason: reason.to_owned() }, outputs);
    }

    fn end(&mut self, end: StayEnd, outputs: &mut Vec<LearnerOutput>) {
        if !self.has_ended {
            self.has_ended = true;
            if matches!(end, StayEnd::OtherHistory(_)) {
                self.copy = Copy::Absent;
            }
            outputs.push(LearnerOutput::Ended(end));
        }
    }

    /// A quorum has the transactions that came with the DIFF.
    fn confirm(&mut self, outputs: &mut Vec<LearnerOutput>) {
        for entry in std::mem::take(&mut self.unconfirmed) {
            self.commit(entry, outputs);
        }
    }

    fn commit(&mut self, entry: EncodedTxn, outputs: &mut Vec<LearnerOutput>) {
        self.epoch = self.epoch.max(entry.zxid.epoch());
        match &mut self.copy {
            Copy::Lent { waiting, bytes } => {
                *bytes += entry.bytes.len();
                waiting.push(entry.clone());
            }
            Copy::Exact { .. } | Copy::Fuzzy { .. } => self.apply(&entry, outputs),
            Copy::Absent => return self.end(StayEnd::OtherHistory(OtherHistory::SetBack), outputs),
        }
        // Transactions before the exact point belong to the base.
        if !self.has_ended && matches!(self.copy, Copy::Exact { .. } | Copy::Lent { .. }) {
            let time_ms = TxnEntry::decode(&entry.bytes).map_or(0, |decoded| decoded.header.time_ms);
            outputs.push(LearnerOutput::Committed { entry, time_ms });
        }
    }

    fn apply(&mut self, entry: &EncodedTxn, outputs: &mut Vec<LearnerOutput>) {
        let (tree, is_exact) = match &mut self.copy {
            Copy::Exact { tree } => (tree, true),
            Copy::Fuzzy { tree, applied, .. } => {
                *applied = entry.zxid;
                (tree, false)
            }
            Copy::Absent | Copy::Lent { .. } => return,
        };
        let decoded = match TxnEntry::decode(&entry.bytes) {
            Ok(decoded) => decoded,
            Err(error) => {
                let reason = format!("transaction {} cannot be decoded: {error}", entry.zxid);
                return self.end_closed(&reason, outputs);
            }
        };
        tree.apply(&decoded.header, &decoded.txn, &mut |_| ());
        self.time_ms = self.time_ms.max(Some(decoded.header.time_ms));
        let digest = decoded.digest.filter(|digest| is_exact && digest.version == DIGEST_VERSION);
        let Some(digest) = digest else { return };
        if digest.tree_digest == tree.digest() {
            self.wrong_digest = WrongDigest::BeginAgain;
            return;
        }
        if !self.has_mismatch {
            self.has_mismatch = true;
            outputs.push(LearnerOutput::DigestMismatch { zxid: entry.zxid });
        }
        if self.wrong_digest == WrongDigest::BeginAgain {
            self.wrong_digest = WrongDigest::GoOn;
            self.end(StayEnd::OtherHistory(OtherHistory::Digest(entry.zxid)), outputs);
        }
    }

    fn note_ping(&mut self, proposed: Zxid) {
        if let Copy::Fuzzy { until: until @ None, .. } = &mut self.copy
            && self.is_serving
        {
            *until = Some(proposed);
        }
    }

    fn finish_fuzzy(&mut self, outputs: &mut Vec<LearnerOutput>) {
        let Copy::Fuzzy { applied, until: Some(until), .. } = &self.copy else { return };
        // Counter zero: the epoch has no proposal, so that the state is the initial history.
        if applied < until && until.counter() != 0 {
            return;
        }
        if let Copy::Fuzzy { tree, .. } = std::mem::replace(&mut self.copy, Copy::Absent) {
            self.copy = Copy::Exact { tree };
            outputs.push(LearnerOutput::NewHistory);
        }
    }
}

/// The tree with a later last zxid, without a change.
fn at_zxid(mut tree: Box<Tree>, zxid: Zxid) -> Box<Tree> {
    use zebu_proto::txn::{Txn, TxnHeader};
    use zebu_proto::{ErrorCode, SessionId};
    let header = TxnHeader { session: SessionId::NONE, cxid: 0, zxid, time_ms: 0 };
    tree.apply(&header, &Txn::Error(ErrorCode::RuntimeInconsistency.wire()), &mut |_| ());
    tree
}
