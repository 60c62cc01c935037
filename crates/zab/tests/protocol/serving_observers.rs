//! Observer masters, and observers that choose among them.

use zebu_proto::quorum::packet::{LEARNER_PROTOCOL, LearnerInfo, Touch};
use zebu_proto::quorum::{Packet, PeerAnnouncement, ServerState};
use zebu_proto::{OpCode, ServerId, SessionId, Zxid};
use zebu_zab::{
    Action, LearnerPort, LinkCloseReason, LinkId, LogRead, ObserverMasters, ObserverSettings, PeerEffect,
    PeerEvent, Role, ServingRole,
};

use crate::desk::{Desk, entry, proposal, recovered};

const LAST: Zxid = Zxid::new(5, 7);
pub(crate) const OBSERVER: LinkId = LinkId::accepted(1);
const FOLLOWERS_SERVE: ObserverSettings = ObserverSettings {
    log: zebu_zab::ObserverLog::OnDisk,
    masters: ObserverMasters::Followers,
    election_delay_ms: 0,
    reconnect_delay_ms: 0,
    seed: 1,
};

fn leader_info(epoch: u32) -> Packet {
    Packet::LeaderInfo { zxid: Zxid::new(epoch, 0), protocol: LEARNER_PROTOCOL, zebu: None }
}

fn observer_info(server: i64, config_version: i64) -> Packet {
    let info =
        LearnerInfo { server: ServerId(server), protocol: LEARNER_PROTOCOL, config_version, zebu: None };
    Packet::ObserverInfo { accepted: Zxid::new(5, 0), info }
}

fn inform(zxid: Zxid) -> Packet {
    Packet::Inform { zxid, entry: entry(zxid).bytes }
}

fn request(op: OpCode) -> Packet {
    Packet::Request { session: SessionId(1), cxid: 1, op: op.wire(), payload: [1, 2].into(), auth: None }
}

/// A follower of server 3 in epoch 6, with no transaction after 5/7.
fn follower() -> (Desk, LinkId) {
    let (mut desk, link) = Desk::learner_with(FOLLOWERS_SERVE, recovered(LAST, 5), Role::Participant);
    let new_leader = Packet::NewLeader { zxid: Zxid::new(6, 0), config: None };
    for packet in [leader_info(6), Packet::Diff { zxid: LAST }, new_leader, Packet::UpToDate] {
        desk.packet(link, packet);
    }
    assert!(matches!(desk.peer.serving(), Some(ServingRole::Following { epoch: 6, .. })));
    desk.actions.clear();
    (desk, link)
}

/// A follower with one synced observer, server 9.
pub(crate) fn with_observer() -> (Desk, LinkId) {
    let (mut desk, link) = follower();
    desk.handle(PeerEvent::ObserverAccepted { link: OBSERVER });
    desk.packet(OBSERVER, observer_info(9, 0));
    desk.packet(OBSERVER, Packet::AckEpoch { last: LAST, current_epoch: 5 });
    desk.packet(OBSERVER, Packet::Ack { zxid: Zxid::new(6, 0) });
    assert_eq!(desk.peer.status().learners.len(), 1);
    assert!(desk.peer.status().learners[0].synced);
    desk.actions.clear();
    (desk, link)
}

/// A transaction arrives from the leader.
fn decide(desk: &mut Desk, link: LinkId, zxid: Zxid) {
    desk.packet(link, proposal(zxid));
    desk.packet(link, Packet::Commit { zxid });
}

fn sent(desk: &Desk, on: LinkId) -> Vec<Packet> {
    let packet = |action: &Action| match action {
        Action::Peer(PeerEffect::Send { link, packet }) if *link == on => Some(packet.clone()),
        _ => None,
    };
    desk.actions.iter().filter_map(packet).collect()
}

#[test]
fn an_observer_is_brought_up_to_date_without_anybody_else() {
    let (mut desk, link) = follower();
    decide(&mut desk, link, Zxid::new(6, 1));
    desk.packet(link, proposal(Zxid::new(6, 2)));
    desk.actions.clear();
    desk.handle(PeerEvent::ObserverAccepted { link: OBSERVER });
    desk.packet(OBSERVER, observer_info(9, 0));
    assert_eq!(desk.take_sent(OBSERVER), [leader_info(6)]);
    desk.packet(OBSERVER, Packet::AckEpoch { last: LAST, current_epoch: 5 });
    let new_leader = Packet::NewLeader { zxid: Zxid::new(6, 0), config: Some(b"version=0".to_vec().into()) };
    let (first, decided) = (Zxid::new(6, 1), Packet::Diff { zxid: Zxid::new(6, 1) });
    assert_eq!(
        desk.take_sent(OBSERVER),
        [decided, inform(first), new_leader],
        "what is proposed is not told"
    );
    desk.packet(OBSERVER, Packet::Ack { zxid: Zxid::new(6, 0) });
    assert_eq!(desk.take_sent(OBSERVER), [Packet::UpToDate]);
    desk.packet(OBSERVER, Packet::Ack { zxid: Zxid::new(6, 0) });
    desk.packet(link, Packet::Commit { zxid: Zxid::new(6, 2) });
    assert_eq!(desk.take_sent(OBSERVER), [inform(Zxid::new(6, 2))]);
}

#[test]
fn who_is_far_behind_gets_the_log_or_the_whole_state() {
    let (mut desk, _) = follower();
    desk.handle(PeerEvent::ObserverAccepted { link: OBSERVER });
    desk.packet(OBSERVER, observer_info(9, 0));
    desk.packet(OBSERVER, Packet::AckEpoch { last: Zxid::new(5, 3), current_epoch: 5 });
    let reads = |action: &Action| matches!(action, Action::Peer(PeerEffect::ReadLog { link: OBSERVER, .. }));
    assert!(desk.actions.iter().any(reads), "{:?}", desk.actions);
    desk.actions.clear();
    desk.handle(PeerEvent::LogRead { link: OBSERVER, read: LogRead::Unavailable });
    assert_eq!(sent(&desk, OBSERVER), [Packet::Snap { zxid: LAST }]);
    desk.actions.clear();
    desk.handle(PeerEvent::SnapshotSent { link: OBSERVER });
    assert!(matches!(sent(&desk, OBSERVER)[..], [Packet::NewLeader { .. }]));
}

/// It comes from a faster follower: its transactions are committed and must not be truncated.
#[test]
fn who_has_heard_more_is_waited_for() {
    let (mut desk, link) = follower();
    desk.handle(PeerEvent::ObserverAccepted { link: OBSERVER });
    desk.packet(OBSERVER, observer_info(9, 0));
    desk.take_sent(OBSERVER);
    desk.packet(OBSERVER, Packet::AckEpoch { last: Zxid::new(6, 2), current_epoch: 6 });
    decide(&mut desk, link, Zxid::new(6, 1));
    assert_eq!(sent(&desk, OBSERVER), []);
    decide(&mut desk, link, Zxid::new(6, 2));
    assert!(matches!(sent(&desk, OBSERVER)[..], [Packet::Diff { .. }, Packet::NewLeader { .. }]));
}

#[test]
fn requests_go_to_the_leader_and_answers_to_who_asked() {
    let (mut desk, link) = with_observer();
    let mut out = Vec::new();
    desk.peer.send_to_leader(request(OpCode::Sync), &mut out);
    desk.packet(OBSERVER, request(OpCode::Create));
    desk.packet(OBSERVER, request(OpCode::Sync));
    let revalidate = Packet::Revalidate { session: SessionId(7), timeout_ms: 4000 };
    desk.packet(OBSERVER, revalidate.clone());
    assert_eq!(desk.take_sent(link), [request(OpCode::Create), request(OpCode::Sync), revalidate]);

    // Transactions that are committed before a reply reach the observer before the reply.
    desk.packet(link, proposal(Zxid::new(6, 1)));
    desk.packet(link, Packet::Sync);
    let is_own = |action: &Action| matches!(action, Action::FromLeader { packet: Packet::Sync, .. });
    assert!(desk.actions.iter().any(is_own), "the first one was its own");
    desk.actions.clear();
    desk.packet(link, Packet::Commit { zxid: Zxid::new(6, 1) });
    desk.packet(link, Packet::Sync);
    let valid = Packet::Revalidated { session: SessionId(7), valid: true };
    desk.packet(link, valid.clone());
    assert_eq!(sent(&desk, OBSERVER), [inform(Zxid::new(6, 1)), Packet::Sync, valid]);
    assert!(!desk.actions.iter().any(|action| matches!(action, Action::FromLeader { .. })));
}

/// An observer that reads slowly gets a reply of the leader after the transactions that precede the reply.
#[test]
fn an_answer_waits_behind_transactions_that_an_observer_has_not_taken() {
    for answer in [Packet::Sync, Packet::Revalidated { session: SessionId(7), valid: true }] {
        let (mut desk, link) = with_observer();
        desk.stalled = Some(OBSERVER);
        desk.packet(OBSERVER, request(OpCode::Sync));
        desk.packet(OBSERVER, Packet::Revalidate { session: SessionId(7), timeout_ms: 4000 });
        desk.actions.clear();
        let (first, second) = (Zxid::new(6, 1), Zxid::new(6, 2));
        desk.packet(link, Packet::Proposal { zxid: first, entry: vec![0; 1000].into() });
        desk.packet(link, Packet::Commit { zxid: first });
        decide(&mut desk, link, second);
        desk.packet(link, answer.clone());
        let [large] = &sent(&desk, OBSERVER)[..] else { panic!("the window is full: {:?}", desk.actions) };
        assert!(matches!(large, Packet::Inform { zxid, .. } if *zxid == first));
        let weight = zebu_zab::packet_weight(large);
        desk.actions.clear();
        desk.handle(PeerEvent::Sent { link: OBSERVER, weight });
        assert_eq!(sent(&desk, OBSERVER), [inform(second), answer]);
    }
}

#[test]
fn sessions_of_observers_are_told_with_the_own_ones() {
    let (mut desk, _) = with_observer();
    desk.wait(60);
    assert_eq!(sent(&desk, OBSERVER), [Packet::Ping { zxid: LAST }]);
    let touch = |id| Touch { session: SessionId(id), timeout_ms: 4000 };
    desk.packet(OBSERVER, Packet::PingReply { zxid: LAST, touched: vec![touch(5), touch(6)], room: None });
    let mut out = Vec::new();
    desk.peer.send_to_leader(Packet::PingReply { zxid: LAST, touched: vec![touch(1)], room: None }, &mut out);
    let Some(Action::Peer(PeerEffect::Send { packet: Packet::PingReply { touched, .. }, .. })) = out.pop()
    else {
        panic!()
    };
    assert_eq!(touched, [touch(1), touch(5), touch(6)]);
}

#[test]
fn a_new_list_takes_effect_at_observers_with_its_commit() {
    let (mut desk, link) = with_observer();
    let zxid = Zxid::new(6, 1);
    desk.packet(link, proposal(zxid));
    desk.packet(link, Packet::CommitAndActivate { zxid, designated_leader: ServerId(3) });
    let packet = Packet::InformAndActivate { zxid, designated_leader: ServerId(3), entry: entry(zxid).bytes };
    assert_eq!(sent(&desk, OBSERVER), [packet]);
}

#[test]
fn who_is_no_observer_or_breaks_the_rules_is_closed() {
    let out_of_place = |step, packet| Some(LinkCloseReason::UnexpectedPacket { step, packet });
    let closed = |desk: &mut Desk, packets: &[Packet]| {
        desk.handle(PeerEvent::ObserverAccepted { link: OBSERVER });
        packets.iter().for_each(|packet| desk.packet(OBSERVER, packet.clone()));
        let reason = desk.closed(OBSERVER);
        desk.actions.clear();
        desk.handle(PeerEvent::LinkDown { link: OBSERVER });
        reason
    };
    let (mut desk, _) = follower();
    let follows = crate::desk::follower_info(1, 5);
    assert_eq!(
        closed(&mut desk, &[follows]),
        out_of_place("waiting for FOLLOWERINFO or OBSERVERINFO", "FOLLOWERINFO")
    );
    assert_eq!(
        closed(&mut desk, &[observer_info(crate::desk::ME.0, 0)]),
        Some(LinkCloseReason::OwnId(crate::desk::ME))
    );
    assert_eq!(closed(&mut desk, &[observer_info(77, 0)]), None, "it is not listed here");
    assert_eq!(closed(&mut desk, &[observer_info(9, 5)]), Some(LinkCloseReason::NewerConfig(5)));
    let early = Packet::AckEpoch { last: LAST, current_epoch: 5 };
    assert_eq!(
        closed(&mut desk, &[early]),
        out_of_place("waiting for FOLLOWERINFO or OBSERVERINFO", "ACKEPOCH")
    );
    let twice = [observer_info(9, 0), observer_info(9, 0)];
    assert_eq!(closed(&mut desk, &twice), out_of_place("waiting for ACKEPOCH", "OBSERVERINFO"));
    let asks = [observer_info(9, 0), request(OpCode::Create)];
    assert_eq!(closed(&mut desk, &asks), out_of_place("waiting for ACKEPOCH", "REQUEST"));
    let acks = [observer_info(9, 0), Packet::Ack { zxid: LAST }];
    assert_eq!(closed(&mut desk, &acks), out_of_place("waiting for ACKEPOCH", "ACK"));
    assert!(
        matches!(desk.peer.serving(), Some(ServingRole::Following { .. })),
        "nothing happened to the follower"
    );

    let (mut desk, _) = with_observer();
    desk.packet(OBSERVER, Packet::Ack { zxid: Zxid::new(6, 1) });
    assert_eq!(desk.closed(OBSERVER), Some(LinkCloseReason::UnknownZxid(Zxid::new(6, 1))));
}

#[test]
fn silent_observers_are_closed_and_newer_connections_win() {
    let (mut desk, link) = with_observer();
    let other = LinkId::accepted(2);
    desk.handle(PeerEvent::ObserverAccepted { link: other });
    desk.packet(other, observer_info(9, 0));
    assert_eq!(desk.closed(OBSERVER), Some(LinkCloseReason::Replaced));
    desk.packet(other, Packet::AckEpoch { last: LAST, current_epoch: 5 });
    desk.packet(other, Packet::Ack { zxid: Zxid::new(6, 0) });
    desk.actions.clear();
    for _ in 0..12 {
        desk.wait(50);
        desk.packet(link, Packet::Ping { zxid: LAST });
    }
    assert_eq!(desk.closed(other), Some(LinkCloseReason::TimedOut));
    assert!(desk.peer.status().learners.is_empty());
}

#[test]
fn observers_are_served_only_by_those_who_follow_and_are_to() {
    let mut desk = Desk::new(recovered(LAST, 5), Role::Participant);
    desk.handle(PeerEvent::ObserverAccepted { link: OBSERVER });
    assert_eq!(desk.closed(OBSERVER), Some(LinkCloseReason::NotFollowing));
    let (mut desk, _) = Desk::established();
    desk.handle(PeerEvent::ObserverAccepted { link: LinkId::accepted(7) });
    assert_eq!(desk.closed(LinkId::accepted(7)), Some(LinkCloseReason::NotFollowing));
    let (mut desk, _) = Desk::learner(recovered(LAST, 5), Role::Participant);
    desk.handle(PeerEvent::ObserverAccepted { link: OBSERVER });
    assert_eq!(desk.closed(OBSERVER), Some(LinkCloseReason::NotFollowing));

    let (mut desk, link) = with_observer();
    desk.handle(PeerEvent::LinkDown { link });
    assert_eq!(
        desk.closed(OBSERVER),
        Some(LinkCloseReason::RoleEnded),
        "without a leader it knows nothing new"
    );
}

/// Followers in turn while time is left; then the leader.
#[test]
fn an_observer_tries_followers_and_the_leader_last() {
    let mut desk = Desk::started(FOLLOWERS_SERVE, recovered(LAST, 5), Role::Observer);
    desk.notify(1, ServerState::Following, ServerId(3));
    desk.notify(3, ServerState::Leading, ServerId(3));
    let began = desk.now;
    let mut tried = Vec::new();
    while tried.last() != Some(&(ServerId(3), LearnerPort::Quorum)) {
        let dial = desk.actions.iter().find_map(|action| match action {
            Action::Peer(PeerEffect::Dial { link, to, port }) => Some((*link, *to, *port)),
            _ => None,
        });
        let (link, to, port) = dial.expect("it goes on");
        tried.push((to, port));
        desk.actions.clear();
        desk.handle(PeerEvent::DialFailed { link });
        desk.wait(30);
    }
    assert!((350..450).contains(&(desk.now - began)), "half of the limit for that");
    let followers: Vec<i64> = tried[..tried.len() - 1].iter().map(|(to, _)| to.0).collect();
    assert!(followers.len() > 8, "{tried:?}");
    assert!(followers.windows(2).all(|pair| pair[0] != pair[1] && [1, 4].contains(&pair[0])), "{tried:?}");
}

#[test]
fn an_observer_that_loses_its_follower_begins_with_another() {
    let mut desk = Desk::started(FOLLOWERS_SERVE, recovered(LAST, 5), Role::Observer);
    let mut first = Vec::new();
    for _ in 0..2 {
        desk.notify(1, ServerState::Following, ServerId(3));
        desk.notify(3, ServerState::Leading, ServerId(3));
        let link = desk.expect_dial();
        first.push(desk.peer.status().master);
        assert_eq!(desk.peer.status().leader, Some(ServerId(3)));
        desk.handle(PeerEvent::Dialed { link });
        desk.packet(link, leader_info(6));
        desk.handle(PeerEvent::LinkDown { link });
        desk.actions.clear();
    }
    assert_ne!(first[0], first[1]);
}

#[test]
fn observers_that_are_cut_off_do_not_come_back_all_at_once() {
    let slow = ObserverSettings { election_delay_ms: 1000, reconnect_delay_ms: 1000, ..FOLLOWERS_SERVE };
    let wait = |seed| {
        let observing = ObserverSettings { seed, ..slow };
        let mut desk = Desk::started(observing, recovered(LAST, 5), Role::Observer);
        desk.notify(1, ServerState::Following, ServerId(3));
        desk.notify(3, ServerState::Leading, ServerId(3));
        desk.peer.next_deadline()
    };
    let waits: std::collections::BTreeSet<i64> = (0..20).map(wait).collect();
    assert!(waits.len() > 10 && waits.iter().all(|wait| (0..1000).contains(wait)), "{waits:?}");
}

/// An observer master passes the announcement of the leader on, and may be of an older release.
#[test]
fn an_observer_tells_its_room_to_the_leader_only() {
    for (masters, is_told) in [(ObserverMasters::LeaderOnly, true), (ObserverMasters::Followers, false)] {
        let observing = ObserverSettings { masters, ..FOLLOWERS_SERVE };
        let (mut desk, link) = Desk::learner_with(observing, recovered(LAST, 5), Role::Observer);
        let zebu = Some(PeerAnnouncement::CURRENT);
        let leader = Packet::LeaderInfo { zxid: Zxid::new(6, 0), protocol: LEARNER_PROTOCOL, zebu };
        let new_leader = Packet::NewLeader { zxid: Zxid::new(6, 0), config: None };
        for packet in [leader, Packet::Diff { zxid: LAST }, new_leader, Packet::UpToDate] {
            desk.packet(link, packet);
        }
        assert!(matches!(desk.peer.serving(), Some(ServingRole::Observing { .. })));
        let mut out = Vec::new();
        let reply = Packet::PingReply { zxid: LAST, touched: vec![], room: None };
        desk.peer.send_to_leader(reply, &mut out);
        let [Action::Peer(PeerEffect::Send { packet: Packet::PingReply { room, .. }, .. })] = &out[..] else {
            panic!("{out:?}");
        };
        assert_eq!(room.is_some(), is_told, "{masters:?}");
    }
}
