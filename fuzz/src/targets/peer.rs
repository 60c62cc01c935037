//! A member of an ensemble hears anything, as leader and as learner. It closes connections; it does not fall
//! over, and it keeps its promises.

use std::collections::BTreeSet;

use zebu_proto::quorum::packet::{LEARNER_PROTOCOL, LearnerInfo};
use zebu_proto::quorum::packet_length::{PacketLength, packet_length};
use zebu_proto::quorum::{Notification, Packet, PeerAnnouncement};
use zebu_proto::{Reader, ServerId, Zxid};
use zebu_zab::{
    Action, ConfigEffect, DiskCommand, DiskTrust, EncodedTxn, HistoryLimits, IoId, LinkId, LogRead,
    ObserverLog, ObserverMasters, ObserverSettings, Peer, PeerEffect, PeerEvent, PeerSettings, QuorumRule,
    RecoveredHistory, Role, packet_weight,
};

use crate::bits::Bits;
use crate::corpus;

/// Bytes as packets: measured, read, written and read again.
pub(super) fn packets(data: &[u8]) {
    let mut rest = data;
    while let PacketLength::Complete { length } = packet_length(rest, 1 << 20) {
        if let Ok(packet) = Packet::decode(&mut Reader::new(&rest[..length])) {
            let mut bytes = Vec::new();
            packet.encode(&mut bytes);
            assert_eq!(packet_length(&bytes, 1 << 20), PacketLength::Complete { length: bytes.len() });
            assert_eq!(Packet::decode(&mut Reader::new(&bytes)).as_ref(), Ok(&packet));
        }
        rest = &rest[length..];
    }
}

pub(super) struct Rig {
    pub(super) peer: Peer,
    log: ObserverLog,
    now_ms: i64,
    pub(super) io: Option<IoId>,
    pub(super) dialed: Option<LinkId>,
    accepted: u64,
    last: Zxid,
    delivered: Zxid,
    promised: i64,
}

pub(super) fn settings(role: Role, log: ObserverLog) -> PeerSettings {
    let observers = match role {
        Role::Participant => BTreeSet::from([ServerId(9)]),
        Role::Observer => BTreeSet::from([ServerId(2), ServerId(9)]),
    };
    PeerSettings {
        me: ServerId(2),
        role,
        quorum: QuorumRule::majority(
            if role == Role::Participant { [1, 2, 3] } else { [1, 3, 4] }.map(ServerId),
        ),
        observers,
        config: "version=0".into(),
        config_version: 0,
        tick_ms: 100,
        init_limit: 10,
        connect_limit: 10,
        sync_limit: 5,
        slow_disk_ms: Some(500),
        resend_ms_min: 20,
        resend_ms_max: 200,
        finalize_ms: 20,
        retry_ms: 30,
        history: HistoryLimits { entries: 3, bytes: 1000 },
        send_window: 500,
        proposal_bytes_max: 1 << 20,
        observer: ObserverSettings {
            log,
            masters: ObserverMasters::Followers,
            ..ObserverSettings::default()
        },
        last_counter: zebu_zab::LAST_COUNTER,
        dynamic_config: None,
        announcement: Some(PeerAnnouncement::CURRENT),
    }
}

impl Rig {
    fn new(role: Role, log: ObserverLog) -> Rig {
        Rig::with(settings(role, log), log)
    }

    pub(super) fn with(settings: PeerSettings, log: ObserverLog) -> Rig {
        let last = Zxid::new(1, 3);
        let recovered = RecoveredHistory {
            last,
            contiguous_from: Zxid::ZERO,
            accepted_epoch: 1,
            current_epoch: 1,
            trust: DiskTrust::Trusted,
        };
        let mut out = Vec::new();
        let peer = Peer::new(settings, recovered, 0, &mut out);
        let mut rig = Rig {
            peer,
            log,
            now_ms: 0,
            io: None,
            dialed: None,
            accepted: 0,
            last,
            delivered: last,
            promised: 1,
        };
        rig.perform(out);
        rig
    }

    pub(super) fn handle(&mut self, event: PeerEvent) {
        let mut out = Vec::new();
        self.peer.handle(event, self.now_ms, &mut out);
        self.perform(out);
    }

    fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Peer(PeerEffect::Dial { link, .. }) => self.dialed = Some(link),
                Action::Peer(PeerEffect::Send { link, packet }) => {
                    self.handle(PeerEvent::Sent { link, weight: packet_weight(&packet) })
                }
                Action::Peer(PeerEffect::StreamSnapshot { link, .. }) => {
                    self.handle(PeerEvent::SnapshotSent { link })
                }
                Action::Peer(PeerEffect::ReadLog { link, .. }) => {
                    self.handle(PeerEvent::LogRead { link, read: LogRead::Unavailable })
                }
                Action::Append { io, entry } => {
                    assert!(entry.zxid > self.last, "the log grows");
                    self.last = entry.zxid;
                    self.io = Some(io);
                }
                Action::Disk(DiskCommand::Truncate { io, to }) => {
                    let stays = to >= self.peer.status().committed || self.log == ObserverLog::InMemory;
                    assert!(stays, "what is committed stays, unless it was never on disk");
                    if to > self.last {
                        self.handle(PeerEvent::TruncateRefused { io });
                    } else {
                        self.last = to;
                        self.delivered = self.delivered.min(to);
                        self.io = Some(io);
                    }
                }
                Action::Disk(DiskCommand::InstallSnapshot { io, zxid, .. }) => {
                    (self.last, self.delivered) = (zxid, zxid);
                    self.io = Some(io);
                }
                Action::Disk(DiskCommand::Quarantine { io }) => {
                    (self.last, self.delivered) = (Zxid::ZERO, Zxid::ZERO);
                    self.io = Some(io);
                }
                Action::Disk(DiskCommand::SaveAcceptedEpoch { io, epoch }) => {
                    assert!(i64::from(epoch) > self.promised, "a promise is never taken back");
                    self.promised = i64::from(epoch);
                    self.io = Some(io);
                }
                Action::Disk(DiskCommand::SaveCurrentEpoch { io, epoch }) => {
                    assert!(i64::from(epoch) <= self.promised, "an epoch is promised before it is accepted");
                    self.io = Some(io);
                }
                Action::Disk(DiskCommand::MarkTrusted { io }) => self.io = Some(io),
                Action::Deliver(entry) | Action::Load(entry) => {
                    assert!(entry.zxid > self.delivered, "transactions are delivered in order");
                    self.delivered = entry.zxid;
                }
                Action::Peer(PeerEffect::Notify { .. })
                | Action::Config(ConfigEffect::PersistProposed { .. })
                | Action::Config(ConfigEffect::LearnAddresses { .. })
                | Action::Config(ConfigEffect::Activate { .. })
                | Action::Peer(PeerEffect::Close { .. })
                | Action::Peer(PeerEffect::PauseReading { .. } | PeerEffect::ResumeReading { .. })
                | Action::Peer(PeerEffect::LoadReceived { .. } | PeerEffect::DiscardSnapshot { .. })
                | Action::Serve(_)
                | Action::StopServing
                | Action::Report(_)
                | Action::FromLearner { .. }
                | Action::LearnerLost { .. }
                | Action::FromLeader { .. } => {}
            }
        }
    }

    pub(super) fn link(&self, bits: &mut Bits<'_>) -> LinkId {
        match self.dialed {
            Some(link) if bits.below(3) > 0 => link,
            _ => LinkId::accepted(u64::from(bits.below(4))),
        }
    }

    pub(super) fn accept(&mut self) {
        self.accepted += 1;
        let link = LinkId::accepted(self.accepted % 4);
        self.handle(match self.accepted / 4 % 2 {
            0 => PeerEvent::Accepted { link },
            _ => PeerEvent::ObserverAccepted { link },
        });
    }

    pub(super) fn propose(&mut self) {
        if let Some(zxid) = self.peer.next_zxid() {
            let mut out = Vec::new();
            self.peer.propose(EncodedTxn { zxid, bytes: [1].into() }, self.now_ms, &mut out);
            self.perform(out);
        }
    }

    pub(super) fn wait(&mut self, ms: i64) {
        self.now_ms += ms;
        let mut out = Vec::new();
        self.peer.timeout(self.now_ms, &mut out);
        self.perform(out);
    }
}

pub(super) fn run(data: &[u8]) {
    let mut bits = Bits::new(data);
    let (role, log) = match bits.below(8) {
        0 => (Role::Observer, ObserverLog::OnDisk),
        1 => (Role::Observer, ObserverLog::InMemory),
        _ => (Role::Participant, ObserverLog::OnDisk),
    };
    let mut rig = Rig::new(role, log);
    while !bits.is_empty() {
        match bits.below(10) {
            0 => rig.wait(i64::from(bits.byte()) * 10),
            1 => {
                if let Some(io) = rig.io.take() {
                    rig.handle(PeerEvent::Persisted { io });
                }
            }
            2 => rig.accept(),
            3 => {
                if let Some(link) = rig.dialed {
                    rig.handle(PeerEvent::Dialed { link });
                }
            }
            4 => {
                let link = rig.link(&mut bits);
                rig.handle(PeerEvent::LinkDown { link });
            }
            5 => {
                let link = rig.link(&mut bits);
                rig.handle(PeerEvent::SnapshotReceived { link });
            }
            6 => {
                let length = usize::from(bits.byte());
                if let Ok(notification) = Notification::decode(bits.take(length)) {
                    let from = ServerId(i64::from(bits.below(5)));
                    rig.handle(PeerEvent::Notification { from, notification });
                }
            }
            7 => rig.propose(),
            8 => {
                let link = rig.link(&mut bits);
                let packet = small_packet(&mut bits);
                rig.handle(PeerEvent::Packet { link, packet });
            }
            _ => {
                let link = rig.link(&mut bits);
                let length = usize::from(bits.short());
                if let Ok(packet) = Packet::decode(&mut Reader::new(bits.take(length))) {
                    rig.handle(PeerEvent::Packet { link, packet });
                }
            }
        }
    }
}

/// A packet about small numbers: the ones that have a meaning here.
pub(super) fn small_packet(bits: &mut Bits<'_>) -> Packet {
    let zxid = Zxid::new(u32::from(bits.below(4)), u32::from(bits.below(8)));
    let entry = [7].into();
    let info = LearnerInfo {
        server: ServerId(i64::from(bits.below(10))),
        protocol: LEARNER_PROTOCOL,
        config_version: 0,
        zebu: (bits.below(2) == 0).then_some(PeerAnnouncement::CURRENT),
    };
    match bits.below(16) {
        0 => Packet::Proposal { zxid, entry },
        1 | 2 => Packet::Ack { zxid },
        3 => Packet::Commit { zxid },
        4 => Packet::Inform { zxid, entry },
        5 => Packet::NewLeader { zxid, config: None },
        6 => Packet::FollowerInfo { accepted: zxid, info },
        7 => Packet::ObserverInfo { accepted: zxid, info },
        8 => Packet::UpToDate,
        9 => Packet::Diff { zxid },
        10 => Packet::Trunc { zxid },
        11 => Packet::Snap { zxid },
        12 => Packet::LeaderInfo { zxid, protocol: LEARNER_PROTOCOL, zebu: None },
        13 => Packet::AckEpoch { last: zxid, current_epoch: i32::from(bits.below(4)) - 1 },
        14 => Packet::Sync,
        _ => Packet::PingReply { zxid, touched: Vec::new(), room: None },
    }
}

/// Recorded votes and packets, each behind the choice that feeds it.
pub(super) fn corpus() -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    let votes = corpus::quorum_messages("election");
    let packets = corpus::quorum_messages("learner");
    for (index, chunk) in packets.chunks(6).enumerate() {
        let mut input = vec![1];
        for vote in votes.iter().cycle().skip(index).take(3) {
            let payload = vote.get(4..).unwrap_or_default();
            input.extend_from_slice(&[6, payload.len().min(255) as u8]);
            input.extend_from_slice(&payload[..payload.len().min(255)]);
            input.push(index as u8);
        }
        input.extend_from_slice(&[0, 5, 2, 3]);
        for packet in chunk {
            input.extend_from_slice(&[9, 1]);
            input.extend_from_slice(&(packet.len().min(65_535) as u16).to_be_bytes());
            input.extend_from_slice(&packet[..packet.len().min(65_535)]);
            input.push(1);
        }
        inputs.push(input);
    }
    inputs
}
