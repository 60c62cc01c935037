//! Packets of a leader while the disk of a learner changes the history: their memory is limited, and the
//! synchronization succeeds however slow the disk is.

use zebu_proto::quorum::packet::LEARNER_PROTOCOL;
use zebu_proto::quorum::{Packet, ServerState};
use zebu_proto::{ServerId, Zxid};
use zebu_zab::{Action, LinkId, PeerEffect, PeerEvent, Role};

use crate::desk::{Desk, Disk, HISTORY_BYTES, proposal, recovered};

const LAST: Zxid = Zxid::new(5, 7);
const SNAPSHOT: Zxid = Zxid::new(5, 20);

fn leader_info(epoch: u32) -> Packet {
    Packet::LeaderInfo { zxid: Zxid::new(epoch, 0), protocol: LEARNER_PROTOCOL, zebu: None }
}

/// A learner whose disk installs a snapshot of the leader of epoch 6.
fn installing() -> (Desk, LinkId) {
    let (mut desk, link) = Desk::learner(recovered(LAST, 5), Role::Participant);
    desk.packet(link, leader_info(6));
    desk.packet(link, Packet::Snap { zxid: SNAPSHOT });
    desk.handle(PeerEvent::SnapshotReceived { link });
    desk.disk = Disk::ByHand;
    desk.packet(link, Packet::NewLeader { zxid: Zxid::new(6, 0), config: None });
    (desk, link)
}

/// Whether the learner stopped (true) or continued (false) to read the link, in order.
fn pauses(desk: &Desk, on: LinkId) -> Vec<bool> {
    let pause = |action: &Action| match action {
        Action::Peer(PeerEffect::PauseReading { link }) if *link == on => Some(true),
        Action::Peer(PeerEffect::ResumeReading { link }) if *link == on => Some(false),
        _ => None,
    };
    desk.actions.iter().filter_map(pause).collect()
}

/// Sends proposals until the learner stops reading. Returns their number.
fn propose_until_paused(desk: &mut Desk, link: LinkId, bytes: usize) -> u32 {
    for counter in 1..=20_000 {
        let zxid = Zxid::new(6, counter);
        desk.packet(link, Packet::Proposal { zxid, entry: vec![7; bytes].into() });
        if pauses(desk, link) == [true] {
            return counter;
        }
    }
    panic!("the learner reads for ever")
}

#[test]
fn a_learner_stops_reading_when_the_bytes_reach_the_limit_and_continues_afterwards() {
    let (mut desk, link) = installing();
    let count = propose_until_paused(&mut desk, link, 10_000);
    let weight = desk.peer.status().blocked_weight;
    assert!((HISTORY_BYTES + 1..HISTORY_BYTES + 20_000).contains(&weight), "{weight}");
    assert_eq!(desk.closed(link), None);
    // The edge delivers packets that it had read.
    desk.packet(link, proposal(Zxid::new(6, count + 1)));
    assert_eq!(pauses(&desk, link), [true], "reading stops once");
    desk.finish_disk();
    assert_eq!(pauses(&desk, link), [true, false]);
    assert_eq!(desk.peer.status().blocked_weight, 0);
    desk.finish_disk();
    let acks = desk.take_sent(link).into_iter().filter(|packet| matches!(packet, Packet::Ack { .. }));
    assert_eq!(acks.count() as u32, 1 + count + 1, "NEWLEADER and each proposal are acknowledged");
}

#[test]
fn a_learner_stops_reading_when_the_number_of_packets_reaches_the_limit() {
    let (mut desk, link) = installing();
    assert_eq!(propose_until_paused(&mut desk, link, 0), 10_001);
}

/// A truncation may reload the tree, and the DIFF behind it is long.
#[test]
fn a_long_diff_waits_for_the_truncation() {
    let (mut desk, link) = Desk::learner(recovered(LAST, 5), Role::Participant);
    desk.packet(link, leader_info(6));
    desk.disk = Disk::ByHand;
    desk.packet(link, Packet::Trunc { zxid: Zxid::new(5, 5) });
    propose_until_paused(&mut desk, link, 10_000);
    // Proposals without commits do not belong to a DIFF of Zebu, but of an older leader.
    desk.finish_disk();
    assert_eq!(pauses(&desk, link), [true, false]);
    assert_eq!(desk.closed(link), None);
}

/// The leader waits only up to initLimit. The installed snapshot stays, and the next leader sends a DIFF.
#[test]
fn a_snapshot_whose_leader_did_not_wait_is_not_transferred_again() {
    let (mut desk, link) = installing();
    propose_until_paused(&mut desk, link, 10_000);
    desk.handle(PeerEvent::LinkDown { link });
    desk.finish_disk();
    assert_eq!(pauses(&desk, link), [true], "the link is closed");
    desk.actions.clear();
    desk.disk = Disk::Instant;
    desk.notify(1, ServerState::Following, ServerId(3));
    desk.notify(3, ServerState::Leading, ServerId(3));
    let link = desk.expect_dial();
    desk.handle(PeerEvent::Dialed { link });
    desk.packet(link, leader_info(7));
    assert_eq!(desk.peer.status().blocked_weight, 0);
    let ack = Packet::AckEpoch { last: SNAPSHOT, current_epoch: 5 };
    assert!(desk.take_sent(link).contains(&ack));
}
