//! Learners whose epochs or whose state differ from the leader's.

use zebu_proto::quorum::Packet;
use zebu_proto::quorum::packet::LEARNER_PROTOCOL;
use zebu_proto::{ServerId, Zxid};
use zebu_zab::{
    Action, DiskCommand, DiskTrust, LinkCloseReason, LinkId, PeerEffect, PeerEvent, PeerWarning,
    RecoveredHistory, Role, ServingRole,
};

use crate::desk::{Desk, Disk, entry, recovered};

const LAST: Zxid = Zxid::new(5, 7);

fn leader_info(epoch: u32) -> Packet {
    Packet::LeaderInfo { zxid: Zxid::new(epoch, 0), protocol: LEARNER_PROTOCOL, zebu: None }
}

fn new_leader(epoch: u32) -> Packet {
    Packet::NewLeader { zxid: Zxid::new(epoch, 0), config: None }
}

/// An accepted epoch that was never established does not exclude a server: it learns as an observer does.
#[test]
fn a_voter_that_has_promised_a_later_epoch_learns_without_a_vote() {
    let found = RecoveredHistory { accepted_epoch: 6, ..recovered(LAST, 5) };
    let (mut desk, link) = Desk::learner(found, Role::Participant);
    desk.packet(link, leader_info(5));
    assert_eq!(desk.closed(link), Some(LinkCloseReason::OldEpoch { proposed: 5, accepted: 6 }));
    let finding = PeerWarning::FollowingWithoutVote { leader: ServerId(3), epoch: 5, accepted: 6 };
    assert!(desk.actions.contains(&Action::Report(finding)));
    let link = dial_again(&mut desk);
    let sent = desk.take_sent(link);
    assert!(
        matches!(sent[..], [Packet::ObserverInfo { accepted, .. }] if accepted == Zxid::new(6, 0)),
        "{sent:?}"
    );
    desk.packet(link, leader_info(5));
    assert_eq!(desk.take_sent(link), [Packet::AckEpoch { last: LAST, current_epoch: -1 }]);
    for packet in [Packet::Diff { zxid: LAST }, new_leader(5), Packet::UpToDate] {
        desk.packet(link, packet);
    }
    assert_eq!(desk.peer.serving(), Some(ServingRole::Observing { leader: ServerId(3), epoch: 5 }));
    let next = Zxid::new(5, 8);
    desk.actions.clear();
    desk.packet(link, Packet::Inform { zxid: next, entry: entry(next).bytes });
    assert_eq!(desk.delivered(), [next]);
    assert_eq!(desk.take_sent(link), [], "its acknowledgement must not count");
    assert_eq!(desk.peer.status().accepted_epoch, 6);
}

/// A new leader was elected before the learner reconnected: with the later epoch it is a normal follower.
#[test]
fn a_learner_without_a_vote_has_it_again_in_a_later_epoch() {
    let found = RecoveredHistory { accepted_epoch: 6, ..recovered(LAST, 5) };
    let (mut desk, link) = Desk::learner(found, Role::Participant);
    desk.packet(link, leader_info(5));
    let link = dial_again(&mut desk);
    desk.actions.clear();
    desk.packet(link, leader_info(7));
    let link = dial_again(&mut desk);
    assert!(matches!(desk.take_sent(link)[..], [Packet::FollowerInfo { .. }]));
}

/// Its epoch files are damaged: it takes the snapshot of a leader of an earlier epoch.
#[test]
fn an_untrusted_learner_goes_back_behind_its_epochs() {
    let found = RecoveredHistory { trust: DiskTrust::Untrusted, ..recovered(LAST, 50) };
    let (mut desk, link) = Desk::learner(found, Role::Participant);
    desk.packet(link, leader_info(6));
    let link = dial_again(&mut desk);
    desk.actions.clear();
    desk.packet(link, leader_info(6));
    assert_eq!(desk.take_sent(link), [Packet::AckEpoch { last: Zxid(-1), current_epoch: -1 }]);
    let state = Zxid::new(6, 3);
    desk.packet(link, Packet::Snap { zxid: state });
    desk.handle(PeerEvent::SnapshotReceived { link });
    desk.packet(link, new_leader(6));
    desk.packet(link, Packet::UpToDate);
    assert_eq!(desk.peer.serving(), Some(ServingRole::Observing { leader: ServerId(3), epoch: 6 }));
    let status = desk.peer.status();
    assert_eq!((status.current_epoch, status.accepted_epoch, status.logged), (6, 50, state));
}

#[test]
fn a_learner_with_a_later_history_stays_out_and_says_why() {
    let (mut desk, link) = Desk::learner(recovered(LAST, 9), Role::Participant);
    desk.packet(link, leader_info(6));
    let finding = PeerWarning::CannotFollow { leader: ServerId(3), epoch: 6, accepted: 9, current: 9 };
    assert!(desk.actions.contains(&Action::Report(finding)));
    assert_eq!(desk.closed(link), Some(LinkCloseReason::OldEpoch { proposed: 6, accepted: 9 }));
}

fn dial_again(desk: &mut Desk) -> LinkId {
    desk.actions.clear();
    desk.wait(30);
    let link = desk.expect_dial();
    desk.handle(PeerEvent::Dialed { link });
    link
}

/// The votes that led to the leader name the epoch of a leader that already had its quorum.
#[test]
fn a_state_that_is_not_the_leaders_is_given_up_if_he_had_his_quorum_without_this_server() {
    for (epoch, gives_up) in [(6, true), (7, false)] {
        let (mut desk, link) = Desk::learner(recovered(LAST, 5), Role::Participant);
        desk.packet(link, leader_info(epoch));
        for packet in [Packet::Diff { zxid: LAST }, new_leader(epoch), Packet::UpToDate] {
            desk.packet(link, packet);
        }
        assert!(desk.peer.serving().is_some());
        desk.actions.clear();
        desk.disk = Disk::ByHand;
        let mut out = Vec::new();
        assert_eq!(desk.peer.quarantine_data(desk.now, &mut out), gives_up, "epoch {epoch}");
        desk.take(out);
        if gives_up {
            assert!(matches!(
                desk.actions.make_contiguous(),
                [Action::StopServing, Action::Disk(DiskCommand::Quarantine { .. })]
            ));
            assert_eq!(desk.peer.serving(), None);
            desk.finish_disk();
            let votes = |action: &Action| match action {
                Action::Peer(PeerEffect::Notify { notification, .. }) => Some(notification.zxid),
                _ => None,
            };
            assert_eq!(desk.actions.iter().find_map(votes), Some(Zxid(-1)), "it has no vote");
        } else {
            assert!(desk.peer.serving().is_some());
        }
    }
}
