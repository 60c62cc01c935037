//! Protocol errors: unexpected packets, histories that do not match, the last epochs. The sender loses its
//! connection; nothing is logged, accepted or committed.

use zebu_proto::quorum::Packet;
use zebu_proto::quorum::packet::{LEARNER_PROTOCOL, LearnerInfo};
use zebu_proto::{ServerId, SessionId, Zxid};
use zebu_zab::{
    Action, DiskCommand, LinkCloseReason, LinkId, LogRead, PeerEffect, PeerEvent, PeerWarning, Role,
};

use crate::desk::{Desk, Disk, entry, follower_info, proposal, recovered};

const LAST: Zxid = Zxid::new(5, 7);

/// The last epoch that fits into the 31 bits of the protocol.
const LAST_EPOCH: u32 = i32::MAX as u32 - 1;

fn leader_info(epoch: u32) -> Packet {
    Packet::LeaderInfo { zxid: Zxid::new(epoch, 0), protocol: LEARNER_PROTOCOL, zebu: None }
}

fn new_leader(epoch: u32) -> Packet {
    Packet::NewLeader { zxid: Zxid::new(epoch, 0), config: None }
}

fn inform_and_activate(zxid: Zxid) -> Packet {
    Packet::InformAndActivate { zxid, designated_leader: ServerId(3), entry: entry(zxid).bytes }
}

fn request() -> Packet {
    Packet::Request { session: SessionId(1), cxid: 1, op: 1, payload: [].into(), auth: None }
}

fn out_of_place(step: &'static str, packet: &'static str) -> LinkCloseReason {
    LinkCloseReason::UnexpectedPacket { step, packet }
}

/// A learner that has accepted epoch 6 and waits for synchronization.
fn promised(role: Role) -> (Desk, LinkId) {
    let (mut desk, link) = Desk::learner(recovered(LAST, 5), role);
    desk.packet(link, leader_info(6));
    desk.actions.clear();
    (desk, link)
}

/// A learner that has received a snapshot that ends with 5/20.
fn collecting() -> (Desk, LinkId) {
    let (mut desk, link) = promised(Role::Participant);
    desk.packet(link, Packet::Snap { zxid: Zxid::new(5, 20) });
    desk.handle(PeerEvent::SnapshotReceived { link });
    (desk, link)
}

/// Asserts that the connection ended for this reason and the history is unchanged.
fn assert_left(desk: &Desk, link: LinkId, reason: LinkCloseReason) {
    assert_eq!(desk.closed(link), Some(reason));
    assert_eq!((desk.peer.status().logged, desk.peer.status().current_epoch), (LAST, 5));
    assert_eq!(desk.peer.status().leader, None);
}

fn accept(desk: &mut Desk, count: u64) -> LinkId {
    let link = LinkId::accepted(count);
    desk.handle(PeerEvent::Accepted { link });
    link
}

#[test]
fn a_leader_says_its_epoch_first() {
    for (packet, name) in
        [(new_leader(6), "NEWLEADER"), (Packet::UpToDate, "UPTODATE"), (proposal(LAST), "PROPOSAL")]
    {
        let (mut desk, link) = Desk::learner(recovered(LAST, 5), Role::Participant);
        desk.packet(link, packet);
        assert_left(&desk, link, out_of_place("waiting for LEADERINFO", name));
        assert_eq!(desk.peer.status().accepted_epoch, 5, "nothing is promised");
    }
}

#[test]
fn a_leader_waits_for_the_promise_and_for_the_end_of_a_state() {
    let (mut desk, link) = Desk::learner(recovered(LAST, 5), Role::Participant);
    desk.disk = Disk::ByHand;
    desk.packet(link, leader_info(6));
    desk.packet(link, Packet::Diff { zxid: LAST });
    assert_eq!(desk.closed(link), Some(out_of_place("saving the accepted epoch", "DIFF")));

    let (mut desk, link) = promised(Role::Participant);
    desk.packet(link, Packet::Snap { zxid: Zxid::new(5, 20) });
    desk.packet(link, proposal(Zxid::new(5, 21)));
    assert_left(&desk, link, out_of_place("receiving a snapshot", "PROPOSAL"));
    assert!(desk.actions.contains(&Action::Peer(PeerEffect::DiscardSnapshot { link })));
}

#[test]
fn what_follows_a_state_fits_to_it() {
    let zxid = Zxid::new;
    for (packet, reason) in [
        (proposal(zxid(5, 22)), LinkCloseReason::Gap { after: zxid(5, 20), found: zxid(5, 22) }),
        (proposal(zxid(6, 2)), LinkCloseReason::Gap { after: zxid(5, 20), found: zxid(6, 2) }),
        (Packet::Commit { zxid: zxid(5, 21) }, LinkCloseReason::UnknownZxid(zxid(5, 21))),
        (new_leader(5), LinkCloseReason::UnknownZxid(zxid(5, 0))),
        (Packet::Sync, out_of_place("receiving transactions after a snapshot", "SYNC")),
        (Packet::UpToDate, out_of_place("receiving transactions after a snapshot", "UPTODATE")),
    ] {
        let (mut desk, link) = collecting();
        desk.packet(link, packet);
        assert_left(&desk, link, reason);
        assert!(desk.actions.contains(&Action::Peer(PeerEffect::DiscardSnapshot { link })));
    }
    // A transaction exists, but it is not the next one.
    let (mut desk, link) = collecting();
    for counter in [21, 22] {
        desk.packet(link, proposal(zxid(5, counter)));
    }
    desk.packet(link, Packet::Commit { zxid: zxid(5, 22) });
    assert_left(&desk, link, LinkCloseReason::UnknownZxid(zxid(5, 22)));
}

#[test]
fn what_is_missing_comes_and_nothing_else() {
    let (mut desk, link) = promised(Role::Participant);
    desk.packet(link, Packet::Diff { zxid: LAST });
    desk.packet(link, Packet::Sync);
    assert_left(&desk, link, out_of_place("receiving a DIFF", "SYNC"));

    // A transaction between two that the history contains.
    let (mut desk, link) = promised(Role::Participant);
    desk.packet(link, Packet::Diff { zxid: LAST });
    for zxid in [Zxid::new(5, 8), Zxid::new(6, 1), Zxid::new(5, 9)] {
        desk.packet(link, proposal(zxid));
    }
    let reason = LinkCloseReason::Gap { after: Zxid::new(6, 1), found: Zxid::new(5, 9) };
    assert_eq!(desk.closed(link), Some(reason));
    assert_eq!(desk.peer.status().logged, Zxid::new(6, 1));
}

#[test]
fn what_waited_for_the_disk_is_judged_like_anything_else() {
    let (mut desk, link) = promised(Role::Participant);
    desk.disk = Disk::ByHand;
    desk.packet(link, Packet::Trunc { zxid: Zxid::new(5, 5) });
    desk.packet(link, proposal(Zxid::new(5, 9)));
    assert_eq!(desk.closed(link), None);
    desk.finish_disk();
    let reason = LinkCloseReason::Gap { after: Zxid::new(5, 5), found: Zxid::new(5, 9) };
    assert_eq!(desk.closed(link), Some(reason));
    assert_eq!(desk.peer.status().logged, Zxid::new(5, 5));
}

#[test]
fn an_observer_takes_new_members_in_their_place_only() {
    let (mut desk, link) = promised(Role::Observer);
    for packet in [Packet::Diff { zxid: LAST }, new_leader(6), Packet::UpToDate] {
        desk.packet(link, packet);
    }
    let later = Zxid::new(6, 2);
    desk.packet(link, inform_and_activate(later));
    assert_eq!(desk.closed(link), Some(LinkCloseReason::Gap { after: LAST, found: later }));
    assert_eq!(desk.peer.status().logged, LAST);

    // An earlier proposal is logged and not committed.
    let (mut desk, link) = promised(Role::Observer);
    for packet in [Packet::Diff { zxid: LAST }, new_leader(6), proposal(Zxid::new(6, 1))] {
        desk.packet(link, packet);
    }
    desk.packet(link, inform_and_activate(later));
    assert_eq!(desk.closed(link), Some(LinkCloseReason::UnknownZxid(later)));
    assert_eq!(desk.delivered(), []);
}

#[test]
fn learners_keep_to_the_order_of_the_conversation() {
    let promise = Packet::AckEpoch { last: LAST, current_epoch: 5 };
    let mut desk = Desk::elected(recovered(LAST, 5));
    let stranger = accept(&mut desk, 1);
    assert_eq!(desk.peer.status().learners, [], "it has not said who it is");
    desk.packet(stranger, promise.clone());
    assert_eq!(
        desk.closed(stranger),
        Some(out_of_place("waiting for FOLLOWERINFO or OBSERVERINFO", "ACKEPOCH"))
    );

    let old = accept(&mut desk, 2);
    let info =
        LearnerInfo { server: ServerId(1), protocol: LEARNER_PROTOCOL - 1, config_version: 0, zebu: None };
    desk.packet(old, Packet::FollowerInfo { accepted: LAST, info });
    assert_eq!(
        desk.closed(old),
        Some(out_of_place("waiting for FOLLOWERINFO or OBSERVERINFO", "FOLLOWERINFO"))
    );

    let early = accept(&mut desk, 3);
    desk.packet(early, follower_info(1, 5));
    desk.packet(early, Packet::Ack { zxid: Zxid::new(6, 0) });
    assert_eq!(desk.closed(early), Some(out_of_place("waiting for ACKEPOCH", "ACK")));

    let twice = accept(&mut desk, 4);
    desk.packet(twice, follower_info(1, 5));
    desk.packet(twice, follower_info(1, 5));
    assert_eq!(desk.closed(twice), Some(out_of_place("waiting for ACKEPOCH", "FOLLOWERINFO")));

    let hasty = accept(&mut desk, 5);
    desk.packet(hasty, follower_info(1, 5));
    desk.packet(hasty, request());
    assert_eq!(desk.closed(hasty), Some(out_of_place("waiting for ACKEPOCH", "REQUEST")));
    assert_eq!(desk.peer.serving(), None, "nobody was counted");

    let (mut desk, _) = Desk::established();
    let behind = accept(&mut desk, 2);
    desk.packet(behind, follower_info(3, 5));
    desk.packet(behind, promise);
    desk.packet(behind, request());
    assert_eq!(desk.closed(behind), Some(out_of_place("replication", "REQUEST")));
    let forwards = |action: &Action| matches!(action, Action::FromLearner { .. });
    assert!(!desk.actions.iter().any(forwards), "it does not serve yet");
}

/// The log was purged or damaged while it was read for a learner: the DIFF cannot be completed.
#[test]
fn a_log_that_is_gone_in_the_middle_ends_the_connection() {
    let (mut desk, link) = Desk::established();
    for _ in 0..10 {
        let zxid = desk.propose();
        desk.packet(link, Packet::Ack { zxid });
    }
    let behind = accept(&mut desk, 2);
    desk.packet(behind, follower_info(3, 5));
    desk.packet(behind, Packet::AckEpoch { last: Zxid::new(6, 2), current_epoch: 5 });
    let read = LogRead::Entries(vec![entry(Zxid::new(6, 3))]);
    desk.handle(PeerEvent::LogRead { link: behind, read });
    desk.handle(PeerEvent::LogRead { link: behind, read: LogRead::Unavailable });
    assert_eq!(desk.closed(behind), Some(LinkCloseReason::NeedsSnapshot));
    assert_eq!(desk.closed(link), None, "it concerns nobody else");
}

/// A server with the last possible accepted epoch does not count, and nothing overflows.
#[test]
fn behind_the_last_epoch_there_is_no_other() {
    let mut desk = Desk::elected(recovered(LAST, 5));
    let link = accept(&mut desk, 1);
    desk.packet(link, follower_info(1, LAST_EPOCH));
    assert_eq!((desk.closed(link), desk.peer.status().accepted_epoch), (None, 5));
    let other = accept(&mut desk, 2);
    desk.packet(other, follower_info(3, 5));
    assert_eq!(desk.peer.status().accepted_epoch, 6, "the others are a quorum");

    let mut desk = Desk::elected(recovered(LAST, i64::from(LAST_EPOCH)));
    let link = accept(&mut desk, 1);
    desk.packet(link, follower_info(1, 5));
    assert_eq!(desk.closed(link), Some(LinkCloseReason::RoleEnded));
    let finding = PeerWarning::EpochsExhausted { highest: i64::from(LAST_EPOCH) };
    assert!(desk.actions.contains(&Action::Report(finding)));
    assert!(desk.peer.next_deadline() > desk.now, "it does not try again at once");
    desk.wait(1000);
    assert!(
        desk.actions.iter().any(|action| matches!(action, Action::Peer(PeerEffect::Notify { .. }))),
        "it goes on"
    );

    let mut desk = Desk::elected(recovered(LAST, 5));
    let link = accept(&mut desk, 1);
    desk.packet(link, follower_info(1, LAST_EPOCH - 1));
    assert_eq!(desk.peer.status().accepted_epoch, i64::from(LAST_EPOCH), "this one can be");
}

#[test]
fn a_server_alone_at_the_end_of_epochs_does_not_lead() {
    let mut desk = Desk::alone(recovered(LAST, i64::from(LAST_EPOCH)));
    desk.wait(10_000);
    assert_eq!((desk.peer.serving(), desk.peer.next_zxid()), (None, None));
    assert_eq!(desk.peer.status().accepted_epoch, i64::from(LAST_EPOCH));
    assert!(
        !desk
            .actions
            .iter()
            .any(|action| matches!(action, Action::Disk(DiskCommand::SaveAcceptedEpoch { .. })))
    );
}

#[test]
fn who_is_not_established_has_nothing_to_hand_over() {
    let mut elected = Desk::elected(recovered(LAST, 5));
    let link = accept(&mut elected, 1);
    elected.packet(link, follower_info(1, 5));
    let (learner, _) = promised(Role::Participant);
    for mut desk in [elected, learner, Desk::new(recovered(LAST, 5), Role::Participant)] {
        let mut out = Vec::new();
        desk.peer.resign(desk.now, &mut out);
        assert!(desk.peer.has_resigned());
        desk.take(out);
        desk.actions.clear();
        desk.wait(5000);
        assert!(desk.actions.is_empty(), "it takes no part in anything: {:?}", desk.actions);
    }
}
