//! A member on a desk: the test is the network, the disk and the clock.

use std::collections::VecDeque;

use zebu_proto::quorum::election::NotificationVersion;
use zebu_proto::quorum::packet::{LEARNER_PROTOCOL, LearnerInfo};
use zebu_proto::quorum::{Notification, Packet, PeerState};
use zebu_proto::{ServerId, Zxid};
use zebu_zab::{
    Action, CloseReason, Configuration, Dynamic, Entry, Event, HistoryLimits, IoId, LinkId, Observing, Peer,
    PeerSettings, QuorumRule, Recovered, Role, Trust,
};

pub(crate) const ME: ServerId = ServerId(2);

pub(crate) struct Desk {
    pub(crate) peer: Peer,
    pub(crate) now: i64,
    /// Actions that no test has looked at.
    pub(crate) actions: VecDeque<Action>,
    pub(crate) disk: Disk,
}

/// Who finishes the work of the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disk {
    /// At once.
    Instant,
    /// The test.
    ByHand,
}

pub(crate) fn recovered(last: Zxid, epoch: i64) -> Recovered {
    Recovered { last, proven: Zxid::ZERO, accepted_epoch: epoch, current_epoch: epoch, trust: Trust::Trusted }
}

pub(crate) fn entry(zxid: Zxid) -> Entry {
    Entry { zxid, bytes: zxid.0.to_be_bytes()[..].into() }
}

pub(crate) fn proposal(zxid: Zxid) -> Packet {
    Packet::Proposal { zxid, entry: entry(zxid).bytes }
}

pub(crate) fn follower_info(server: i64, accepted: u32) -> Packet {
    let info = LearnerInfo { server: ServerId(server), protocol: LEARNER_PROTOCOL, config_version: 0 };
    Packet::FollowerInfo { accepted: Zxid::new(accepted, 0), info }
}

fn settings(role: Role) -> PeerSettings {
    PeerSettings {
        me: ME,
        role,
        quorum: match role {
            Role::Voter => QuorumRule::majority((1..=3).map(ServerId)),
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
        history: HistoryLimits { entries: 4, bytes: 1 << 20 },
        window: 1000,
        proposal_bytes_max: 1 << 20,
        observing: Observing::default(),
        last_counter: zebu_zab::LAST_COUNTER,
        dynamic: None,
    }
}

impl Desk {
    pub(crate) fn new(recovered: Recovered, role: Role) -> Desk {
        Desk::start(settings(role), recovered)
    }

    /// A member of an ensemble whose members may change: the list in effect, and one that is in its log.
    pub(crate) fn changeable(recovered: Recovered, committed: &str, last_seen: Option<&str>) -> Desk {
        let read = |text: &str| Configuration::parse(text).unwrap();
        let dynamic = Dynamic { committed: read(committed), last_seen: last_seen.map(read) };
        Desk::start(PeerSettings { dynamic: Some(dynamic), ..settings(Role::Voter) }, recovered)
    }

    /// The only member of its ensemble.
    pub(crate) fn alone(recovered: Recovered) -> Desk {
        Desk::start(PeerSettings { quorum: QuorumRule::majority([ME]), ..settings(Role::Voter) }, recovered)
    }

    /// One that looks for a leader, with these settings about observers.
    pub(crate) fn started(observing: Observing, recovered: Recovered, role: Role) -> Desk {
        Desk::start(PeerSettings { observing, ..settings(role) }, recovered)
    }

    fn start(settings: PeerSettings, recovered: Recovered) -> Desk {
        let mut actions = Vec::new();
        let peer = Peer::new(settings, recovered, 0, &mut actions);
        Desk { peer, now: 0, actions: actions.into(), disk: Disk::Instant }
    }

    /// A follower (or observer) of server 3 in an epoch, that was told so by 3 and another.
    pub(crate) fn learner(recovered: Recovered, role: Role) -> (Desk, LinkId) {
        Desk::learner_with(Observing::default(), recovered, role)
    }

    /// The same with other settings about observers.
    pub(crate) fn learner_with(observing: Observing, recovered: Recovered, role: Role) -> (Desk, LinkId) {
        let mut desk = Desk::started(observing, recovered, role);
        for from in [1, 3] {
            let state = if from == 3 { PeerState::Leading } else { PeerState::Following };
            desk.notify(from, state, ServerId(3));
        }
        let link = desk.expect_dial();
        desk.handle(Event::Dialed { link });
        desk.take_sent(link);
        (desk, link)
    }

    /// Elected by server 1.
    pub(crate) fn elected(recovered: Recovered) -> Desk {
        Desk::new(recovered, Role::Voter).elect()
    }

    /// Elected by server 1; its epochs have so many transactions.
    pub(crate) fn elected_for(last_counter: u32, recovered: Recovered) -> Desk {
        Desk::start(PeerSettings { last_counter, ..settings(Role::Voter) }, recovered).elect()
    }

    fn elect(self) -> Desk {
        let mut desk = self;
        let vote = desk.actions.iter().find_map(|action| match action {
            Action::Notify { notification, .. } => Some(notification.clone()),
            _ => None,
        });
        desk.handle(Event::Notification { from: ServerId(1), notification: vote.unwrap() });
        desk.wait(30);
        assert_eq!(desk.peer.status().leader, Some(ME));
        desk.actions.clear();
        desk
    }

    /// A leader of epoch 6 with a follower, server 1, that has everything.
    pub(crate) fn established() -> (Desk, LinkId) {
        let last = Zxid::new(5, 7);
        let mut desk = Desk::elected(recovered(last, 5));
        let link = LinkId::accepted(1);
        desk.handle(Event::Accepted { link });
        desk.packet(link, follower_info(1, 5));
        desk.packet(link, Packet::AckEpoch { last, current_epoch: 5 });
        desk.packet(link, Packet::Ack { zxid: Zxid::new(6, 0) });
        assert!(desk.peer.serving().is_some());
        desk.actions.clear();
        (desk, link)
    }

    pub(crate) fn notify(&mut self, from: i64, state: PeerState, leader: ServerId) {
        let notification = Notification {
            state,
            leader,
            zxid: Zxid::new(5, 7),
            round: 1,
            epoch: 6,
            version: NotificationVersion::V2,
            config: None,
        };
        self.handle(Event::Notification { from: ServerId(from), notification });
    }

    pub(crate) fn handle(&mut self, event: Event) {
        let mut out = Vec::new();
        self.peer.handle(event, self.now, &mut out);
        self.take(out);
    }

    pub(crate) fn packet(&mut self, link: LinkId, packet: Packet) {
        self.handle(Event::Packet { link, packet });
    }

    pub(crate) fn propose(&mut self) -> Zxid {
        let zxid = self.peer.next_zxid().unwrap();
        let mut out = Vec::new();
        self.peer.propose(entry(zxid), self.now, &mut out);
        self.take(out);
        zxid
    }

    /// Lets time pass, a deadline at a time.
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
                Action::Send { link, packet } => Some((*link, zebu_zab::weight(packet))),
                _ => None,
            };
            self.actions.push_back(action);
            if let Some(io) = io.filter(|_| self.disk == Disk::Instant) {
                self.handle(Event::Persisted { io });
            }
            if let Some((link, weight)) = sent {
                self.handle(Event::Sent { link, weight });
            }
        }
    }

    /// Finishes all work of the disk that a test has not looked at yet.
    pub(crate) fn finish_disk(&mut self) {
        if let Some(io) = self.actions.iter().filter_map(io_of).max() {
            self.handle(Event::Persisted { io });
        }
    }

    pub(crate) fn expect_dial(&mut self) -> LinkId {
        let dial = self.actions.iter().find_map(|action| match action {
            Action::Dial { link, .. } => Some(*link),
            _ => None,
        });
        dial.expect("it turns to its leader")
    }

    /// The packets that were sent on a connection since the last call; forgets everything else.
    pub(crate) fn take_sent(&mut self, on: LinkId) -> Vec<Packet> {
        let sent = |action| match action {
            Action::Send { link, packet } if link == on => Some(packet),
            _ => None,
        };
        self.actions.drain(..).filter_map(sent).collect()
    }

    pub(crate) fn closed(&self, on: LinkId) -> Option<CloseReason> {
        self.actions.iter().find_map(|action| match action {
            Action::Close { link, reason } if *link == on => Some(reason.clone()),
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
        | Action::Truncate { io, .. }
        | Action::InstallSnapshot { io, .. }
        | Action::SetAside { io }
        | Action::MarkTrusted { io }
        | Action::SaveAcceptedEpoch { io, .. }
        | Action::SaveCurrentEpoch { io, .. } => Some(*io),
        _ => None,
    }
}
