//! A running member hears votes and packets with numbers at the ends of what a field holds, from servers of
//! its list and from strangers, in any order. Its members may change. It closes connections; it neither falls
//! over nor breaks a promise.

use zebu_proto::quorum::election::NotificationVersion;
use zebu_proto::quorum::packet::{LEARNER_PROTOCOL, LearnerInfo, Touch};
use zebu_proto::quorum::{DiskRoom, Notification, Packet, ServerState};
use zebu_proto::{ServerId, SessionId, Zxid};
use zebu_zab::{Configuration, DynamicConfig, ObserverLog, PeerEvent, Role};

use super::peer::{Rig, settings, small_packet};
use crate::bits::Bits;

const NUMBERS: [i64; 16] = [
    0,
    1,
    2,
    3,
    -1,
    1 << 32,
    (1 << 32) - 1,
    0x1_0000_0003,
    0x1_0000_0004,
    0x2_0000_0000,
    0x7fff_ffff_0000_0000,
    0x7fff_ffff_ffff_fffe,
    i64::MAX,
    i64::MIN,
    i64::MIN + 1,
    1 << 62,
];

const TEXTS: [&str; 6] = [
    "",
    "version=7fffffffffffffff",
    "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\nversion=100000005",
    "server.2=b:1:2\nversion=200000000",
    "server.1=a:1:2\nserver.3=c:1:2\ngroup.1=1:3\nweight.1=9223372036854775807\nversion=300000000",
    "server.1=a:1:2:observer\nversion=ffffffffffffffff",
];

fn number(bits: &mut Bits<'_>) -> i64 {
    let number = NUMBERS[usize::from(bits.below(NUMBERS.len() as u8))];
    // Neighbours of the ends are ends too.
    if bits.below(8) == 0 { number.wrapping_add(i64::from(bits.byte()) - 128) } else { number }
}

fn zxid(bits: &mut Bits<'_>) -> Zxid {
    Zxid(number(bits))
}

fn server(bits: &mut Bits<'_>) -> ServerId {
    match bits.below(4) {
        0 => ServerId(number(bits)),
        _ => ServerId(i64::from(bits.below(6))),
    }
}

fn text(bits: &mut Bits<'_>) -> &'static str {
    TEXTS[usize::from(bits.below(TEXTS.len() as u8))]
}

fn rig(bits: &mut Bits<'_>) -> Rig {
    let (role, log) = match bits.below(8) {
        0 => (Role::Observer, ObserverLog::OnDisk),
        1 => (Role::Observer, ObserverLog::InMemory),
        _ => (Role::Participant, ObserverLog::OnDisk),
    };
    let mut settings = settings(role, log);
    if role == Role::Participant && bits.below(2) == 0 {
        let list =
            "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\nserver.9=d:1:2:observer\nversion=100000000";
        let committed = Configuration::parse(list).expect("a list");
        settings.config = committed.to_string().into();
        settings.config_version = committed.version;
        settings.dynamic_config = Some(DynamicConfig { committed, last_seen: None });
    }
    Rig::with(settings, log)
}

fn vote(bits: &mut Bits<'_>) -> PeerEvent {
    let states = [
        ServerState::Looking,
        ServerState::Looking,
        ServerState::Following,
        ServerState::Leading,
        ServerState::Observing,
    ];
    let state = states[usize::from(bits.below(states.len() as u8))];
    let from = server(bits);
    // Most of all agree, so that the member gets somewhere.
    let (leader, zxid, round, epoch) = match bits.below(3) {
        0 => (server(bits), zxid(bits), number(bits), number(bits)),
        1 => (ServerId(3), Zxid::new(1, 3), number(bits), 1),
        _ => (ServerId(3), Zxid::new(1, 3), 1, 1),
    };
    let version = match bits.below(3) {
        0 => NotificationVersion::V0,
        1 => NotificationVersion::V1,
        _ => NotificationVersion::V2,
    };
    let config = (version == NotificationVersion::V2).then(|| text(bits).into());
    let notification = Notification { state, leader, zxid, round, epoch, version, config };
    PeerEvent::Notification { from, notification }
}

fn packet(bits: &mut Bits<'_>) -> Packet {
    let zxid = zxid(bits);
    let info = LearnerInfo {
        server: server(bits),
        protocol: LEARNER_PROTOCOL,
        config_version: number(bits),
        zebu: None,
    };
    let entry = bits.take(40).into();
    let int = number(bits) as i32;
    let session = SessionId(number(bits));
    match bits.below(22) {
        0 => Packet::Request { session, cxid: int, op: int, payload: entry, auth: None },
        1 => Packet::Proposal { zxid, entry },
        2 => Packet::Ack { zxid },
        3 => Packet::Commit { zxid },
        4 => Packet::Ping { zxid },
        5 => Packet::PingReply {
            zxid,
            touched: vec![Touch { session, timeout_ms: int }],
            room: DiskRoom::from_number(int as u8),
        },
        6 => Packet::Revalidate { session, timeout_ms: int },
        7 => Packet::Revalidated { session, valid: int % 2 == 0 },
        8 => Packet::Sync,
        9 => Packet::Inform { zxid, entry },
        10 => Packet::CommitAndActivate { zxid, designated_leader: info.server },
        11 => Packet::NewLeader { zxid, config: Some(text(bits).as_bytes().into()) },
        12 => Packet::NewLeader { zxid, config: None },
        13 => Packet::FollowerInfo { accepted: zxid, info },
        14 => Packet::ObserverInfo { accepted: zxid, info },
        15 => Packet::UpToDate,
        16 => Packet::Diff { zxid },
        17 => Packet::Trunc { zxid },
        18 => Packet::Snap { zxid },
        19 => Packet::LeaderInfo { zxid, protocol: int, zebu: None },
        20 => Packet::AckEpoch { last: zxid, current_epoch: int },
        _ => Packet::InformAndActivate { zxid, designated_leader: info.server, entry },
    }
}

pub(super) fn run(data: &[u8]) {
    let mut bits = Bits::new(data);
    let mut rig = rig(&mut bits);
    while !bits.is_empty() {
        match bits.below(12) {
            0 => rig.wait(i64::from(bits.byte()) * 10),
            1 | 2 => {
                if let Some(io) = rig.io.take() {
                    rig.handle(PeerEvent::Persisted { io });
                }
            }
            3 => rig.accept(),
            4 => {
                if let Some(link) = rig.dialed {
                    rig.handle(PeerEvent::Dialed { link });
                }
            }
            5 => {
                let link = rig.link(&mut bits);
                rig.handle(match bits.below(3) {
                    0 => PeerEvent::LinkDown { link },
                    1 => PeerEvent::SnapshotReceived { link },
                    _ => PeerEvent::DialFailed { link },
                });
            }
            6 => rig.propose(),
            7 | 8 => {
                let vote = vote(&mut bits);
                rig.handle(vote);
            }
            9 => {
                let link = rig.link(&mut bits);
                let packet = small_packet(&mut bits);
                rig.handle(PeerEvent::Packet { link, packet });
            }
            _ => {
                let link = rig.link(&mut bits);
                let packet = packet(&mut bits);
                rig.handle(PeerEvent::Packet { link, packet });
            }
        }
    }
}

/// Ways to begin: bytes that make every choice once, in several orders, of which variations are made.
pub(super) fn corpus() -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for step in [1u8, 3, 7, 11, 29, 53] {
        for start in [0u8, 2, 5, 100] {
            inputs.push((0..=255u8).map(|index| start.wrapping_add(index.wrapping_mul(step))).collect());
        }
    }
    // An election that succeeds, a dialled link, and then anything.
    let elected = [5u8, 1, 7, 2, 1, 3, 2, 2, 0, 7, 3, 1, 3, 2, 2, 0, 0, 30, 4, 0, 20, 1, 1];
    inputs.push(elected.into_iter().chain((0..200).map(|index: u8| index.wrapping_mul(37))).collect());
    inputs
}
