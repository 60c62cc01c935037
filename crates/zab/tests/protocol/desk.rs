//! A test harness for one peer: the test is the network, the disk and the clock.

use std::collections::VecDeque;

use zebu_proto::quorum::election::NotificationVersion;
use zebu_proto::quorum::packet::{LEARNER_PROTOCOL, LearnerInfo};
use zebu_proto::quorum::{Notification, Packet, ServerState};
use zebu_proto::{ServerId, Zxid};
use zebu_zab::{
    Action, Configuration, DiskCommand, DiskTrust, DynamicConfig, EncodedTxn, HistoryLimits, IoId,
    LinkCloseReason, LinkId, ObserverSettings, Peer, PeerEffect, PeerEvent, PeerSettings, QuorumRule,
    RecoveredHistory, Role,
};

pub(crate) const ME: ServerId = ServerId(2);

/// The bytes of the history that stay in memory.
pub(crate) const HISTORY_BYTES: usize = 1 << 20;

pub(crate) struct Desk {
    pub(crate) peer: Peer,
    pub(crate) now: i64,
    /// Actions that no test has read.
    pub(crate) actions: VecDeque<Action>,
    pub(crate) disk: Disk,
    /// A connection whose other side reads nothing: the test reports the sent packets.
    pub(crate) stalled: Option<LinkId>,
}

/// When disk writes finish.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disk {
    /// At once.
    Instant,
    /// When the test says so.
    ByHand,
}

pub(crate) fn recovered(last: Zxid, epoch: i64) -> RecoveredHistory {
    RecoveredHistory {
        last,
        contiguous_from: Zxid::ZERO,
        accepted_epoch: epoch,
        current_epoch: epoch,
        trust: DiskTrust::Trusted,
    }
}

pub(crate) fn entry(zxid: Zxid) -> EncodedTxn {
    EncodedTxn { zxid, bytes: zxid.0.to_be_bytes()[..].into() }
}

pub(crate) fn proposal(zxid: Zxid) -> Packet {
    Packet::Proposal { zxid, entry: entry(zxid).bytes }
}

pub(crate) fn follower_info(server: i64, accepted: u32) -> Packet {
    let info =
        LearnerInfo { server: ServerId(server), protocol: LEARNER_PROTOCOL, config_version: 0, zebu: None };
    Packet::FollowerInfo { accepted: Zxid::new(accepted, 0), info }
}

fn settings(role: Role) -> PeerSettings {
    PeerSettings {
        me: ME,
        role,
        quorum: match role {
            Role::Participant => QuorumRule::majority((1..=3).map(ServerId)),
            Role::Observer => QuorumRule::majority([1, 3, 4].map(ServerId)),
        },
        observers: [ServerId(9), ME].into_iter().filter(|id| role == Role::Observer || *id != ME).collect(),
        config: "version=0".into(),
        config_version: 0,
        tick_ms: 100,
        init_limit: 10,
        connect_limit: 7,
        sync_limit: 5,
        resend_ms_min: 20,
        resend_ms_max: 200,
        finalize_ms: 20,
        retry_ms: 30,
        history: HistoryLimits { entries: 4, bytes: HISTORY_BYTES },
        send_window: 1000,
        proposal_bytes_max: 1 << 20,
        observer: ObserverSettings::default(),
        last_counter: zebu_zab::LAST_COUNTER,
        dynamic_config: None,
        slow_disk_ms: None,
        announcement: None,
    }
}

impl Desk {
    pub(crate) fn new(recovered: RecoveredHistory, role: Role) -> Desk {
        Desk::start(settings(role), recovered)
    }

    /// A peer with dynamic reconfiguration: the committed config, and a proposed one in its log.
    pub(crate) fn changeable(recovered: RecoveredHistory, committed: &str, last_seen: Option<&str>) -> Desk {
        let read = |text: &str| Configuration::parse(text).unwrap();
        let dynamic = DynamicConfig { committed: read(committed), last_seen: last_seen.map(read) };
        Desk::start(PeerSettings { dynamic_config: Some(dynamic), ..settings(Role::Participant) }, recovered)
    }

    /// The only server of its ensemble.
    pub(crate) fn alone(recovered: RecoveredHistory) -> Desk {
        Desk::start(
            PeerSettings { quorum: QuorumRule::majority([ME]), ..settings(Role::Participant) },
            recovered,
        )
    }

    /// A peer in an election, with these observer settings.
    pub(crate) fn started(observing: ObserverSettings, recovered: RecoveredHistory, role: Role) -> Desk {
        Desk::start(PeerSettings { observer: observing, ..settings(role) }, recovered)
    }

    fn start(settings: PeerSettings, recovered: RecoveredHistory) -> Desk {
        let mut actions = Vec::new();
        let peer = Peer::new(settings, recovered, 0, &mut actions);
        Desk { peer, now: 0, actions: actions.into(), disk: Disk::Instant, stalled: None }
    }

    /// A follower or observer of server 3, established by the votes of server 3 and another one.
    pub(crate) fn learner(recovered: RecoveredHistory, role: Role) -> (Desk, LinkId) {
        Desk::learner_with(ObserverSettings::default(), recovered, role)
    }

    /// The same with other observer settings.
    pub(crate) fn learner_with(
        observing: ObserverSettings,
        recovered: RecoveredHistory,
        role: Role,
    ) -> (Desk, LinkId) {
        let mut desk = Desk::started(observing, recovered, role);
        for from in [1, 3] {
            let state = if from == 3 { ServerState::Leading } else { ServerState::Following };
            desk.notify(from, state, ServerId(3));
        }
        let link = desk.expect_dial();
        desk.handle(PeerEvent::Dialed { link });
        desk.take_sent(link);
        (desk, link)
    }

    /// A leader that server 1 elected.
    pub(crate) fn elected(recovered: RecoveredHistory) -> Desk {
        Desk::new(recovered, Role::Participant).elect()
    }

    /// A leader that server 1 elected; its epochs have this many transactions.
    pub(crate) fn elected_for(last_counter: u32, recovered: RecoveredHistory) -> Desk {
        Desk::start(PeerSettings { last_counter, ..settings(Role::Participant) }, recovered).elect()
    }

    fn elect(self) -> Desk {
        let mut desk = self;
        let vote = desk.actions.iter().find_map(|action| match action {
            Action::Peer(PeerEffect::Notify { notification, .. }) => Some(notification.clone()),
            _ => None,
        });
        desk.handle(PeerEvent::Notification { from: ServerId(1), notification: vote.unwrap() });
        desk.wait(30);
        assert_eq!(desk.peer.status().leader, Some(ME));
        desk.actions.clear();
        desk
    }

    /// A leader of epoch 6 with one synced follower, server 1.
    pub(crate) fn established() -> (Desk, LinkId) {
        Desk::established_with(None)
    }

    /// The same with a limit for its own disk.
    pub(crate) fn established_with(slow_disk_ms: Option<i64>) -> (Desk, LinkId) {
        let last = Zxid::new(5, 7);
        let settings = PeerSettings { slow_disk_ms, ..settings(Role::Participant) };
        let mut desk = Desk::start(settings, recovered(last, 5)).elect();
        let link = LinkId::accepted(1);
        desk.handle(PeerEvent::Accepted { link });
        desk.packet(link, follower_info(1, 5));
        desk.packet(link, Packet::AckEpoch { last, current_epoch: 5 });
        desk.packet(link, Packet::Ack { zxid: Zxid::new(6, 0) });
        assert!(desk.peer.serving().is_some());
        desk.actions.clear();
        (desk, link)
    }

    pub(crate) fn notify(&mut self, from: i64, state: ServerState, leader: ServerId) {
        let notification = Notification {
            state,
            leader,
            zxid: Zxid::new(5, 7),
            round: 1,
            epoch: 6,
            version: NotificationVersion::V2,
            config: None,
        };
        self.handle(PeerEvent::Notification { from: ServerId(from), notification });
    }

    pub(crate) fn handle(&mut self, event: PeerEvent) {
        let mut out = Vec::new();
        self.peer.handle(event, self.now, &mut out);
        self.take(out);
    }

    pub(crate) fn packet(&mut self, link: LinkId, packet: Packet) {
        self.handle(PeerEvent::Packet { link, packet });
    }

    pub(crate) fn propose(&mut self) -> Zxid {
        let zxid = self.peer.next_zxid().unwrap();
        let mut out = Vec::new();
        self.peer.propose(entry(zxid), self.now, &mut out);
        self.take(out);
        zxid
    }

    /// Advances the time, one deadline at a time.
    pub(crate) fn wait(&mut self, ms: i64) {
        let end = self.now + ms;
        while self.peer.next_deadline() <= end {
            self.now = self.peer.next_deadline().max(self.now + 1);
            let mut out = Vec::new();
            self.peer.timeout(self.now, &mut out);
            self.take(out);
        }
        self.now = end;
    }

    pub(crate) fn take(&mut self, out: Vec<Action>) {
        for action in out {
            let io = io_of(&action);
            let sent = match &action {
                Action::Peer(PeerEffect::Send { link, packet }) => {
                    Some((*link, zebu_zab::packet_weight(packet)))
                }
                _ => None,
            };
            self.actions.push_back(action);
            if let Some(io) = io.filter(|_| self.disk == Disk::Instant) {
                self.handle(PeerEvent::Persisted { io });
            }
            if let Some((link, weight)) = sent.filter(|(link, _)| self.stalled != Some(*link)) {
                self.handle(PeerEvent::Sent { link, weight });
            }
        }
    }

    /// Finishes all disk writes that the test has not read yet.
    pub(crate) fn finish_disk(&mut self) {
        if let Some(io) = self.actions.iter().filter_map(io_of).max() {
            self.handle(PeerEvent::Persisted { io });
        }
    }

    pub(crate) fn expect_dial(&mut self) -> LinkId {
        let dial = self.actions.iter().find_map(|action| match action {
            Action::Peer(PeerEffect::Dial { link, .. }) => Some(*link),
            _ => None,
        });
        dial.expect("it turns to its leader")
    }

    /// The packets sent on a connection since the last call; drops all other actions.
    pub(crate) fn take_sent(&mut self, on: LinkId) -> Vec<Packet> {
        let sent = |action| match action {
            Action::Peer(PeerEffect::Send { link, packet }) if link == on => Some(packet),
            _ => None,
        };
        self.actions.drain(..).filter_map(sent).collect()
    }

    pub(crate) fn closed(&self, on: LinkId) -> Option<LinkCloseReason> {
        self.actions.iter().find_map(|action| match action {
            Action::Peer(PeerEffect::Close { link, reason }) if *link == on => Some(reason.clone()),
            _ => None,
        })
    }

    pub(crate) fn delivered(&self) -> Vec<Zxid> {
        let zxid = |action: &Action| match action {
            Action::Deliver(entry) => Some(entry.zxid),
            _ => None,
        };
        self.actions.iter().filter_map(zxid).collect()
    }
}

fn io_of(action: &Action) -> Option<IoId> {
    match action {
        Action::Append { io, .. }
        | Action::Disk(DiskCommand::Truncate { io, .. })
        | Action::Disk(DiskCommand::InstallSnapshot { io, .. })
        | Action::Disk(DiskCommand::Quarantine { io })
        | Action::Disk(DiskCommand::MarkTrusted { io })
        | Action::Disk(DiskCommand::SaveAcceptedEpoch { io, .. })
        | Action::Disk(DiskCommand::SaveCurrentEpoch { io, .. }) => Some(*io),
        _ => None,
    }
}
