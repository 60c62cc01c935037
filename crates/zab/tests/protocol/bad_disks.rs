//! A leader whose disk is full or slow hands over, and knows whether a quorum has room.

use zebu_proto::Zxid;
use zebu_proto::quorum::packet::LEARNER_PROTOCOL;
use zebu_proto::quorum::{DiskRoom, Packet, PeerAnnouncement};
use zebu_zab::{Action, HandOverReason, LinkCloseReason, LinkId, PeerEvent, PeerWarning, Role};

use crate::desk::{Desk, Disk, follower_info, recovered};

const LAST: Zxid = Zxid::new(5, 7);

/// A leader with the synced followers 1 and 3.
fn with_two_followers(slow_ms: Option<i64>) -> (Desk, [LinkId; 2]) {
    let (mut desk, first) = Desk::established_with(slow_ms);
    let second = LinkId::accepted(2);
    desk.handle(PeerEvent::Accepted { link: second });
    desk.packet(second, follower_info(3, 5));
    desk.packet(second, Packet::AckEpoch { last: LAST, current_epoch: 5 });
    desk.packet(second, Packet::Ack { zxid: Zxid::new(6, 0) });
    desk.actions.clear();
    (desk, [first, second])
}

fn tell_room(desk: &mut Desk, link: LinkId, room: Option<DiskRoom>) {
    desk.packet(link, Packet::PingReply { zxid: LAST, touched: vec![], room });
}

fn hand_over(desk: &Desk) -> Option<HandOverReason> {
    desk.actions.iter().find_map(|action| match action {
        Action::Report(PeerWarning::HandsOver { reason, .. }) => Some(*reason),
        _ => None,
    })
}

#[test]
fn a_leader_with_a_full_disk_hands_over_to_followers_with_room() {
    let (mut desk, [first, _]) = with_two_followers(None);
    desk.handle(PeerEvent::DiskRoom { room: DiskRoom::Low });
    assert_eq!((desk.peer.serving().is_some(), hand_over(&desk)), (true, None));
    desk.handle(PeerEvent::DiskRoom { room: DiskRoom::Full });
    assert_eq!(hand_over(&desk), Some(HandOverReason::FullDisk));
    assert_eq!(desk.closed(first), Some(LinkCloseReason::Resigned));
    assert_eq!(
        (desk.peer.serving(), desk.peer.has_resigned()),
        (None, false),
        "it takes part in the election"
    );
}

#[test]
fn a_leader_stays_if_no_quorum_has_room() {
    let (mut desk, [first, second]) = with_two_followers(None);
    tell_room(&mut desk, first, Some(DiskRoom::Full));
    assert!(desk.peer.quorum_has_room(), "the leader and the other follower have room");
    desk.handle(PeerEvent::DiskRoom { room: DiskRoom::Full });
    assert!(desk.peer.serving().is_some() && !desk.peer.quorum_has_room());
    tell_room(&mut desk, first, Some(DiskRoom::Low));
    assert!(desk.peer.quorum_has_room());
    tell_room(&mut desk, first, Some(DiskRoom::Full));
    tell_room(&mut desk, second, Some(DiskRoom::Full));
    desk.handle(PeerEvent::DiskRoom { room: DiskRoom::Enough });
    assert!(!desk.peer.quorum_has_room(), "the leader alone is no quorum");
    tell_room(&mut desk, second, None);
    assert!(desk.peer.quorum_has_room(), "a server that tells nothing counts as having room");
}

#[test]
fn a_disconnected_follower_has_no_room() {
    let (mut desk, [first, second]) = with_two_followers(None);
    tell_room(&mut desk, first, Some(DiskRoom::Full));
    desk.handle(PeerEvent::LinkDown { link: second });
    assert!(!desk.peer.quorum_has_room());
}

/// After an election a voter may join a moment later than the others.
#[test]
fn a_voter_that_has_not_joined_yet_counts_as_having_room_for_a_while() {
    let (mut desk, first) = Desk::established_with(None);
    tell_room(&mut desk, first, Some(DiskRoom::Full));
    assert!(desk.peer.quorum_has_room(), "voter 3 may have room");
    let limit_ms = 1_000;
    let begun_ms = desk.now;
    while desk.now < begun_ms + limit_ms + 200 {
        tell_room(&mut desk, first, Some(DiskRoom::Full));
        desk.wait(50);
    }
    assert!(desk.peer.serving().is_some() && !desk.peer.quorum_has_room(), "voter 3 did not come");
}

/// Proposes transactions that the followers acknowledge at once, and the own disk after `ms`.
fn write_slowly(desk: &mut Desk, links: [LinkId; 2], ms: i64) {
    desk.disk = Disk::ByHand;
    for _ in 0..4 {
        let zxid = desk.propose();
        for link in links {
            desk.packet(link, Packet::Ack { zxid });
        }
        desk.wait(ms);
        desk.finish_disk();
    }
}

#[test]
fn a_leader_with_a_slow_disk_hands_over_once() {
    let (mut desk, links) = with_two_followers(Some(60));
    write_slowly(&mut desk, links, 60);
    desk.wait(60);
    assert_eq!(hand_over(&desk), Some(HandOverReason::SlowDisk));
    assert_eq!(desk.peer.serving(), None);
    assert_eq!(desk.peer.status().disk.slow_hand_overs, 1);
}

#[test]
fn a_leader_with_a_disk_below_the_limit_stays() {
    let (mut desk, links) = with_two_followers(Some(61));
    write_slowly(&mut desk, links, 60);
    desk.wait(60);
    assert_eq!((hand_over(&desk), desk.peer.serving().is_some()), (None, true));
}

/// The packet of a follower's ping reply under a leader with this announcement.
fn told_room(zebu: Option<PeerAnnouncement>) -> Option<DiskRoom> {
    let (mut desk, link) = Desk::learner(recovered(LAST, 5), Role::Participant);
    desk.packet(link, Packet::LeaderInfo { zxid: Zxid::new(6, 0), protocol: LEARNER_PROTOCOL, zebu });
    desk.packet(link, Packet::Diff { zxid: LAST });
    desk.packet(link, Packet::NewLeader { zxid: Zxid::new(6, 0), config: None });
    desk.packet(link, Packet::UpToDate);
    desk.handle(PeerEvent::DiskRoom { room: DiskRoom::Full });
    let mut out = Vec::new();
    let reply = Packet::PingReply { zxid: LAST, touched: vec![], room: None };
    desk.peer.send_to_leader(reply, &mut out);
    desk.take(out);
    match desk.take_sent(link).pop() {
        Some(Packet::PingReply { room, .. }) => room,
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_a_leader_that_reads_it_is_told_the_room() {
    assert_eq!(told_room(Some(PeerAnnouncement::CURRENT)), Some(DiskRoom::Full));
    assert_eq!(told_room(None), None, "Apache ZooKeeper would read a session");
    let older = PeerAnnouncement { version: 1, capabilities: zebu_proto::quorum::Capabilities::STRICT_SYNC };
    assert_eq!(told_room(Some(older)), None);
}
