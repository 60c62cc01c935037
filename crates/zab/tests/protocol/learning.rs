//! Packets of a leader to a learner.

use zebu_proto::quorum::packet::LEARNER_PROTOCOL;
use zebu_proto::quorum::{Packet, ServerState};
use zebu_proto::{ServerId, Zxid};
use zebu_zab::{
    Action, DiskCommand, DiskTrust, IoId, LinkCloseReason, LinkId, PeerEffect, PeerEvent, RecoveredHistory,
    Role, ServingRole,
};

use crate::desk::{Desk, Disk, HISTORY_BYTES, entry, proposal, recovered};

const LAST: Zxid = Zxid::new(5, 7);

fn leader_info(epoch: u32) -> Packet {
    Packet::LeaderInfo { zxid: Zxid::new(epoch, 0), protocol: LEARNER_PROTOCOL, zebu: None }
}

fn new_leader(epoch: u32) -> Packet {
    Packet::NewLeader { zxid: Zxid::new(epoch, 0), config: None }
}

fn ack(zxid: Zxid) -> Packet {
    Packet::Ack { zxid }
}

/// A learner that has accepted epoch 6 and waits for synchronization.
fn promised() -> (Desk, LinkId) {
    let (mut desk, link) = Desk::learner(recovered(LAST, 5), Role::Participant);
    desk.packet(link, leader_info(6));
    assert_eq!(desk.take_sent(link), [Packet::AckEpoch { last: LAST, current_epoch: 5 }]);
    (desk, link)
}

/// A learner that serves in epoch 6, with no transaction after 5/7.
fn serving() -> (Desk, LinkId) {
    let (mut desk, link) = promised();
    for packet in [Packet::Diff { zxid: LAST }, new_leader(6), Packet::UpToDate] {
        desk.packet(link, packet);
    }
    assert!(matches!(desk.peer.serving(), Some(ServingRole::Following { epoch: 6, .. })));
    desk.actions.clear();
    (desk, link)
}

#[test]
fn an_epoch_that_was_promised_before_does_not_count_and_an_older_one_is_refused() {
    let found = RecoveredHistory { accepted_epoch: 6, ..recovered(LAST, 5) };
    let (mut desk, link) = Desk::learner(found, Role::Participant);
    desk.packet(link, leader_info(6));
    assert_eq!(desk.take_sent(link), [Packet::AckEpoch { last: LAST, current_epoch: -1 }]);

    let (mut desk, link) = Desk::learner(found, Role::Participant);
    desk.packet(link, leader_info(5));
    assert_eq!(desk.closed(link), Some(LinkCloseReason::OldEpoch { proposed: 5, accepted: 6 }));
    assert_eq!(desk.peer.status().accepted_epoch, 6);
}

/// The accepted epoch of an observer counts for no quorum. If it excluded the observer, it could not return
/// before the ensemble reached that epoch.
#[test]
fn an_observer_goes_back_behind_its_promise_but_not_behind_its_history() {
    let found = RecoveredHistory { accepted_epoch: 8, ..recovered(LAST, 5) };
    let (mut desk, link) = Desk::learner(found, Role::Observer);
    desk.packet(link, leader_info(6));
    assert_eq!(desk.take_sent(link), [Packet::AckEpoch { last: LAST, current_epoch: -1 }]);
    assert_eq!(desk.peer.status().accepted_epoch, 8);

    let (mut desk, link) = Desk::learner(found, Role::Observer);
    desk.packet(link, leader_info(4));
    assert_eq!(desk.closed(link), Some(LinkCloseReason::OldEpoch { proposed: 4, accepted: 8 }));
}

/// A closed connection may still deliver packets of its former leader.
#[test]
fn packets_of_a_former_connection_are_ignored() {
    let (mut desk, link) = serving();
    let former = LinkId(link.0 + 2);
    let zxid = Zxid::new(6, 1);
    for packet in [proposal(zxid), Packet::Commit { zxid }, Packet::Ping { zxid: LAST }] {
        desk.packet(former, packet);
    }
    desk.handle(PeerEvent::LinkDown { link: former });
    assert_eq!(desk.actions, []);
    assert_eq!(desk.peer.status().logged, LAST);
    assert!(matches!(desk.peer.serving(), Some(ServingRole::Following { epoch: 6, .. })));
}

#[test]
fn proposals_are_acknowledged_when_durable_in_order_and_behind_the_history() {
    let (mut desk, link) = promised();
    desk.disk = Disk::ByHand;
    let zxids = [1, 2].map(|counter| Zxid::new(6, counter));
    // One of them comes before NEWLEADER, uncommitted; one after it.
    for packet in [Packet::Diff { zxid: LAST }, proposal(zxids[0]), new_leader(6), proposal(zxids[1])] {
        desk.packet(link, packet);
    }
    desk.finish_disk();
    assert_eq!(desk.take_sent(link), [ack(Zxid::new(6, 0)), ack(zxids[0]), ack(zxids[1])]);
    desk.packet(link, Packet::UpToDate);
    assert_eq!(desk.delivered(), []);
    desk.packet(link, Packet::Commit { zxid: zxids[0] });
    assert_eq!(desk.delivered(), [zxids[0]]);
}

#[test]
fn a_commit_is_delivered_after_the_own_disk_has_it() {
    let (mut desk, link) = serving();
    desk.disk = Disk::ByHand;
    let zxid = Zxid::new(6, 1);
    desk.packet(link, proposal(zxid));
    desk.packet(link, Packet::Commit { zxid });
    desk.packet(link, Packet::Sync);
    assert_eq!(desk.delivered(), []);
    let answer = Action::FromLeader { packet: Packet::Sync, after: zxid };
    assert!(!desk.actions.contains(&answer), "a sync tells of the commit");
    desk.finish_disk();
    assert_eq!(desk.delivered(), [zxid]);
    assert!(desk.actions.contains(&answer));
}

/// The leader answers a sync between two commits; one disk sync makes both durable.
#[test]
fn an_answer_stands_between_the_transactions_where_the_leader_put_it() {
    let (mut desk, link) = serving();
    desk.disk = Disk::ByHand;
    let [first, second] = [1, 2].map(|counter| Zxid::new(6, counter));
    for packet in [
        proposal(first),
        proposal(second),
        Packet::Commit { zxid: first },
        Packet::Sync,
        Packet::Commit { zxid: second },
    ] {
        desk.packet(link, packet);
    }
    desk.finish_disk();
    let order: Vec<_> = desk
        .actions
        .iter()
        .filter(|action| matches!(action, Action::Deliver(_) | Action::FromLeader { .. }))
        .cloned()
        .collect();
    let answer = Action::FromLeader { packet: Packet::Sync, after: first };
    assert_eq!(order, [Action::Deliver(entry(first)), answer, Action::Deliver(entry(second))]);
}

/// Replies of a leader that wait for a commit are dropped when the connection ends.
#[test]
fn answers_of_a_leader_that_is_lost_are_forgotten() {
    let (mut desk, link) = serving();
    desk.disk = Disk::ByHand;
    let zxid = Zxid::new(6, 1);
    for packet in [proposal(zxid), Packet::Commit { zxid }, Packet::Sync] {
        desk.packet(link, packet);
    }
    desk.handle(PeerEvent::LinkDown { link });
    desk.finish_disk();
    assert_eq!(desk.delivered(), [zxid]);
    assert!(!desk.actions.iter().any(|action| matches!(action, Action::FromLeader { .. })));
}

#[test]
fn broken_broadcasts_end_the_connection() {
    let zxid = Zxid::new;
    let cases = [
        (proposal(zxid(6, 2)), LinkCloseReason::Gap { after: LAST, found: zxid(6, 2) }),
        (proposal(zxid(5, 8)), LinkCloseReason::Gap { after: LAST, found: zxid(5, 8) }),
        (proposal(zxid(7, 1)), LinkCloseReason::Gap { after: LAST, found: zxid(7, 1) }),
        (Packet::Commit { zxid: zxid(6, 1) }, LinkCloseReason::UnknownZxid(zxid(6, 1))),
        (Packet::Commit { zxid: Zxid(i64::MAX) }, LinkCloseReason::UnknownZxid(Zxid(i64::MAX))),
        (
            Packet::Inform { zxid: zxid(6, 1), entry: [].into() },
            LinkCloseReason::UnexpectedPacket { step: "broadcast", packet: "INFORM" },
        ),
        (leader_info(7), LinkCloseReason::UnexpectedPacket { step: "broadcast", packet: "LEADERINFO" }),
        (
            Packet::Snap { zxid: zxid(6, 1) },
            LinkCloseReason::UnexpectedPacket { step: "broadcast", packet: "SNAP" },
        ),
    ];
    for (packet, reason) in cases {
        let (mut desk, link) = serving();
        desk.packet(link, packet);
        assert_eq!(desk.closed(link), Some(reason));
        assert!(desk.actions.contains(&Action::StopServing));
        desk.wait(100);
        assert_eq!(desk.peer.status().leader, None, "it looks for a leader again");
    }
}

#[test]
fn a_gap_during_synchronisation_ends_the_connection() {
    let (mut desk, link) = promised();
    desk.packet(link, Packet::Diff { zxid: Zxid::new(5, 9) });
    desk.packet(link, proposal(Zxid::new(5, 9)));
    assert_eq!(desk.closed(link), Some(LinkCloseReason::Gap { after: LAST, found: Zxid::new(5, 9) }));
    assert_eq!(desk.peer.status().logged, LAST, "nothing was taken");
}

#[test]
fn wrong_first_packets_end_the_connection() {
    for packet in [new_leader(6), Packet::UpToDate, proposal(Zxid::new(5, 8)), Packet::Sync, ack(LAST)] {
        let (mut desk, link) = promised();
        desk.packet(link, packet);
        assert!(matches!(desk.closed(link), Some(LinkCloseReason::UnexpectedPacket { .. })));
    }
    let (mut desk, link) = promised();
    desk.packet(link, Packet::Diff { zxid: LAST });
    desk.packet(link, new_leader(7));
    assert_eq!(desk.closed(link), Some(LinkCloseReason::UnknownZxid(Zxid::new(7, 0))));
}

/// The limits of the harness: 7 ticks to connect, 10 for initLimit.
#[test]
fn a_leader_that_cannot_be_reached_is_given_up_after_the_limit_for_connections() {
    let looks_for_three = || {
        let mut desk = Desk::new(recovered(LAST, 5), Role::Participant);
        for (from, state) in [(1, ServerState::Following), (3, ServerState::Leading)] {
            desk.notify(from, state, ServerId(3));
        }
        let link = desk.expect_dial();
        (desk, link)
    };
    let (mut desk, link) = looks_for_three();
    desk.wait(699);
    assert_eq!(desk.closed(link), None);
    desk.wait(1);
    assert_eq!(desk.closed(link), Some(LinkCloseReason::TimedOut));
    let (mut desk, link) = looks_for_three();
    desk.handle(PeerEvent::Dialed { link });
    desk.wait(999);
    assert_eq!(desk.closed(link), None);
    desk.wait(1);
    assert_eq!(desk.closed(link), Some(LinkCloseReason::TimedOut));
}

/// A server that accepted it would lead an epoch before its own history.
#[test]
fn a_history_holds_nothing_of_a_later_epoch_than_the_leader() {
    let later = Zxid::new(7, 1);
    for begin in [Packet::Snap { zxid: later }, Packet::Diff { zxid: LAST }, Packet::Snap { zxid: LAST }] {
        let (mut desk, link) = promised();
        let whole = matches!(begin, Packet::Snap { .. });
        desk.packet(link, begin);
        if desk.closed(link).is_none() {
            if whole {
                desk.handle(PeerEvent::SnapshotReceived { link });
            }
            desk.packet(link, proposal(later));
        }
        assert!(matches!(desk.closed(link), Some(LinkCloseReason::UnknownZxid(zxid)) if zxid == later));
        assert_eq!(desk.peer.status().logged, LAST);
    }
}

#[test]
fn a_committed_transaction_is_never_truncated() {
    let (mut desk, link) = serving();
    let zxid = Zxid::new(6, 1);
    desk.packet(link, proposal(zxid));
    desk.packet(link, Packet::Commit { zxid });
    desk.handle(PeerEvent::LinkDown { link });
    desk.actions.clear();
    for from in [1, 3] {
        let state = if from == 3 {
            zebu_proto::quorum::ServerState::Leading
        } else {
            zebu_proto::quorum::ServerState::Following
        };
        desk.notify(from, state, zebu_proto::ServerId(3));
    }
    let link = LinkId::dialed(2);
    desk.handle(PeerEvent::Dialed { link });
    desk.packet(link, leader_info(7));
    desk.packet(link, Packet::Trunc { zxid: LAST });
    assert_eq!(desk.closed(link), Some(LinkCloseReason::TruncatesCommitted { to: LAST, committed: zxid }));
}

/// A learner whose disk refused the TRUNC of the leader.
fn refused() -> (Desk, LinkId) {
    let (mut desk, link) = promised();
    desk.disk = Disk::ByHand;
    desk.packet(link, Packet::Trunc { zxid: Zxid::new(5, 5) });
    desk.packet(link, proposal(Zxid::new(6, 1)));
    let Some(Action::Disk(DiskCommand::Truncate { io, .. })) = desk.actions.pop_front() else {
        panic!("it truncates")
    };
    desk.handle(PeerEvent::TruncateRefused { io });
    desk.disk = Disk::Instant;
    (desk, link)
}

/// A learner whose disk refused a TRUNC, and that reconnected to the leader of this epoch.
fn come_again(epoch: u32) -> (Desk, LinkId, Vec<Packet>) {
    let (mut desk, _) = refused();
    desk.wait(1);
    let link = desk.expect_dial();
    desk.handle(PeerEvent::Dialed { link });
    desk.packet(link, leader_info(epoch));
    let sent = desk.take_sent(link);
    (desk, link, sent)
}

fn last_vote(desk: &Desk) -> Option<Zxid> {
    desk.actions.iter().rev().find_map(|action| match action {
        Action::Peer(PeerEffect::Notify { notification, .. }) => Some(notification.zxid),
        _ => None,
    })
}

#[test]
fn a_server_that_cannot_truncate_comes_again_for_a_whole_state() {
    let (mut desk, old) = refused();
    assert_eq!(desk.closed(old), Some(LinkCloseReason::CannotTruncate(Zxid::new(5, 5))));
    assert_eq!(desk.actions.len(), 1, "nothing is set aside");
    // Packets in flight on the connection that it closed.
    desk.packet(old, proposal(Zxid::new(6, 2)));
    desk.handle(PeerEvent::LinkDown { link: old });
    assert_eq!(desk.peer.status().leader, Some(ServerId(3)), "it looks for nobody else");

    let (mut desk, link, sent) = come_again(6);
    assert_eq!(sent[1..], [Packet::AckEpoch { last: Zxid(-1), current_epoch: -1 }]);
    desk.packet(link, Packet::Snap { zxid: Zxid::new(5, 5) });
    desk.handle(PeerEvent::SnapshotReceived { link });
    assert_eq!(desk.peer.status().logged, LAST, "what it has stays until the state is complete");
    desk.packet(link, new_leader(6));
    desk.packet(link, Packet::UpToDate);
    assert!(desk.peer.serving().is_some());
    assert_eq!(desk.peer.status().logged, Zxid::new(5, 5));
    assert!(
        !desk.actions.iter().any(|action| matches!(action, Action::Disk(DiskCommand::Quarantine { .. })))
    );

    desk.handle(PeerEvent::LinkDown { link });
    desk.actions.clear();
    for (from, state) in [(1, ServerState::Following), (3, ServerState::Leading)] {
        desk.notify(from, state, ServerId(3));
    }
    let link = desk.expect_dial();
    desk.handle(PeerEvent::Dialed { link });
    desk.packet(link, leader_info(6));
    let told = Packet::AckEpoch { last: Zxid::new(5, 5), current_epoch: -1 };
    assert_eq!(desk.take_sent(link)[1..], [told], "with the new state the leader hears the truth again");
}

#[test]
fn a_server_that_cannot_truncate_keeps_its_vote() {
    let (mut desk, link, _) = come_again(6);
    desk.packet(link, Packet::Snap { zxid: Zxid::new(5, 5) });
    desk.handle(PeerEvent::LinkDown { link });
    assert_eq!(last_vote(&desk), Some(LAST), "the state did not come, so it votes with what it has");

    let (mut desk, link) = promised();
    desk.disk = Disk::ByHand;
    desk.packet(link, Packet::Trunc { zxid: Zxid::new(5, 5) });
    desk.handle(PeerEvent::LinkDown { link });
    let Some(Action::Disk(DiskCommand::Truncate { io, .. })) = desk.actions.pop_front() else {
        panic!("it truncates")
    };
    desk.handle(PeerEvent::TruncateRefused { io });
    assert_eq!(last_vote(&desk), Some(LAST), "the leader went while the disk looked");
}

/// Only the leader that sent the TRUNC is known to have no voter ahead of it.
#[test]
fn another_leader_hears_the_truth() {
    let (_, _, sent) = come_again(7);
    assert_eq!(sent[1..], [Packet::AckEpoch { last: LAST, current_epoch: 5 }]);
}

#[test]
fn a_leader_that_has_no_whole_state_for_it_makes_a_server_start_anew_without_a_vote() {
    for packet in [Packet::Trunc { zxid: Zxid::new(5, 5) }, Packet::Diff { zxid: Zxid::new(5, 5) }] {
        let (mut desk, link, _) = come_again(6);
        desk.packet(link, packet);
        assert!(matches!(desk.actions.front(), Some(Action::Disk(DiskCommand::Quarantine { .. }))));
        desk.wait(40);
        assert_eq!(last_vote(&desk), Some(Zxid(-1)), "everybody ignores such a vote");
        assert_eq!(desk.peer.status().accepted_epoch, 6, "promises stay");
    }
}

#[test]
fn an_untrusted_server_is_trusted_again_once_it_has_a_history() {
    let found = RecoveredHistory { trust: DiskTrust::Untrusted, ..recovered(Zxid::ZERO, 5) };
    let (mut desk, link) = Desk::learner(found, Role::Participant);
    desk.packet(link, leader_info(6));
    assert_eq!(desk.take_sent(link), [Packet::AckEpoch { last: Zxid(-1), current_epoch: 5 }]);
    desk.packet(link, Packet::Snap { zxid: LAST });
    desk.handle(PeerEvent::SnapshotReceived { link });
    desk.packet(link, new_leader(6));
    let marked = desk
        .actions
        .iter()
        .position(|action| matches!(action, Action::Disk(DiskCommand::MarkTrusted { .. })));
    let word = desk.actions.iter().position(|action| matches!(action, Action::Peer(PeerEffect::Send { .. })));
    assert!(marked.unwrap() < word.unwrap());
}

/// A large snapshot takes longer than any limit. While it makes progress, neither side times out.
#[test]
fn a_state_that_comes_is_waited_for() {
    let (mut desk, link) = promised();
    desk.packet(link, Packet::Snap { zxid: Zxid::new(5, 20) });
    for _ in 0..30 {
        desk.wait(500);
        desk.handle(PeerEvent::SnapshotProgress { link });
    }
    assert_eq!(desk.actions.len(), 0);
    desk.wait(1000);
    assert!(
        desk.actions.iter().any(|action| matches!(action, Action::Peer(PeerEffect::Close { .. }))),
        "it has stopped"
    );
}

#[test]
fn a_state_reaches_the_disk_only_when_it_is_complete() {
    let (mut desk, link) = promised();
    desk.packet(link, Packet::Snap { zxid: Zxid::new(5, 20) });
    desk.handle(PeerEvent::SnapshotReceived { link });
    // The snapshot already contains the first one.
    for counter in [19, 20, 21, 22] {
        desk.packet(link, proposal(Zxid::new(5, counter)));
    }
    desk.packet(link, Packet::Commit { zxid: Zxid::new(5, 21) });
    assert_eq!(desk.actions.len(), 0, "nothing is written");
    desk.packet(link, new_leader(6));
    let Some(Action::Disk(DiskCommand::InstallSnapshot { tail, zxid, .. })) = desk.actions.pop_front() else {
        panic!("installs")
    };
    assert_eq!((tail.len(), zxid), (1, Zxid::new(5, 21)));
    assert!(matches!(desk.actions[0], Action::Append { .. }), "what is not committed goes to the log");
    assert!(matches!(desk.actions[1], Action::Disk(DiskCommand::SaveCurrentEpoch { .. })));
    let zxids = [Zxid::new(6, 0), Zxid::new(5, 22)];
    assert_eq!(desk.take_sent(link), zxids.map(ack));
}

#[test]
fn an_interrupted_state_leaves_nothing_behind() {
    let (mut desk, link) = promised();
    desk.packet(link, Packet::Snap { zxid: Zxid::new(5, 20) });
    desk.handle(PeerEvent::SnapshotReceived { link });
    desk.packet(link, proposal(Zxid::new(5, 21)));
    desk.handle(PeerEvent::LinkDown { link });
    assert!(desk.actions.contains(&Action::Peer(PeerEffect::DiscardSnapshot { link })));
    assert_eq!((desk.peer.status().logged, desk.peer.status().current_epoch), (LAST, 5));
}

#[test]
fn an_observer_takes_what_is_decided_and_acknowledges_nothing_else() {
    let (mut desk, link) = Desk::learner(recovered(LAST, 5), Role::Observer);
    desk.packet(link, leader_info(6));
    for packet in [Packet::Diff { zxid: LAST }, new_leader(6), Packet::UpToDate] {
        desk.packet(link, packet);
    }
    desk.actions.clear();
    let zxid = Zxid::new(6, 1);
    desk.packet(link, proposal(zxid));
    desk.packet(link, Packet::Commit { zxid });
    assert_eq!(desk.peer.status().logged, LAST, "proposals do not concern it");
    desk.packet(link, Packet::Inform { zxid, entry: [1].into() });
    assert_eq!(desk.delivered(), [zxid]);
    assert_eq!(desk.take_sent(link), []);
}

#[test]
fn a_silent_leader_is_left() {
    let (mut desk, link) = serving();
    desk.wait(499);
    assert_eq!(desk.closed(link), None);
    desk.wait(2);
    assert_eq!(desk.closed(link), Some(LinkCloseReason::TimedOut));
}

/// The disk executes its commands even if the leader is lost: the next vote must name the result.
#[test]
fn a_leader_that_goes_while_the_log_is_cut_does_not_leave_a_wrong_idea_of_it() {
    let (mut desk, link) = promised();
    desk.disk = Disk::ByHand;
    desk.packet(link, Packet::Trunc { zxid: Zxid::new(5, 3) });
    desk.handle(PeerEvent::LinkDown { link });
    desk.finish_disk();
    assert_eq!(desk.peer.status().logged, Zxid::new(5, 3));
    assert_eq!(desk.peer.status().state, ServerState::Looking);
}

#[test]
fn a_leader_that_goes_while_its_state_is_installed_does_not_leave_a_wrong_idea_of_it() {
    let (mut desk, link) = promised();
    desk.disk = Disk::ByHand;
    let state = Zxid::new(5, 9);
    desk.packet(link, Packet::Snap { zxid: state });
    desk.handle(PeerEvent::SnapshotReceived { link });
    desk.packet(link, new_leader(6));
    desk.handle(PeerEvent::LinkDown { link });
    let discarded = |action: &Action| matches!(action, Action::Peer(PeerEffect::DiscardSnapshot { .. }));
    assert!(!desk.actions.iter().any(discarded), "the disk still needs it");
    desk.finish_disk();
    assert_eq!(desk.peer.status().logged, state);
    assert_eq!(desk.peer.status().state, ServerState::Looking);
}

/// The marker of untrusted data is removed when the disk has done so, even if the leader is lost.
#[test]
fn a_leader_that_goes_while_the_mark_is_removed_does_not_leave_a_silent_server() {
    let found = RecoveredHistory { trust: DiskTrust::Untrusted, ..recovered(LAST, 5) };
    let (mut desk, link) = Desk::learner(found, Role::Participant);
    desk.packet(link, leader_info(6));
    desk.disk = Disk::ByHand;
    for packet in [Packet::Diff { zxid: LAST }, new_leader(6)] {
        desk.packet(link, packet);
    }
    desk.handle(PeerEvent::LinkDown { link });
    desk.finish_disk();
    desk.wait(1000);
    let votes = |action: &Action| match action {
        Action::Peer(PeerEffect::Notify { notification, .. }) => Some(notification.zxid),
        _ => None,
    };
    assert_eq!(desk.actions.iter().rev().find_map(votes), Some(LAST));
}

/// The zxids of the transactions that were loaded before the history was accepted.
fn loaded(desk: &Desk) -> Vec<Zxid> {
    let zxid = |action: &Action| match action {
        Action::Load(entry) => Some(entry.zxid),
        _ => None,
    };
    desk.actions.iter().filter_map(zxid).collect()
}

/// A transaction of a quarter of what may stay in memory.
fn long_proposal(zxid: Zxid) -> Packet {
    let mut bytes = zxid.0.to_be_bytes().to_vec();
    bytes.resize(HISTORY_BYTES / 4, 0);
    Packet::Proposal { zxid, entry: bytes[..].into() }
}

/// Four of these transactions may stay in memory.
#[test]
fn a_long_history_does_not_stay_in_memory_until_it_is_accepted() {
    let (mut desk, link) = promised();
    desk.disk = Disk::ByHand;
    let zxids: Vec<Zxid> = (8..=17).map(|counter| Zxid::new(5, counter)).collect();
    desk.packet(link, Packet::Diff { zxid: zxids[9] });
    for &zxid in &zxids[..6] {
        desk.packet(link, long_proposal(zxid));
        desk.packet(link, Packet::Commit { zxid });
    }
    assert_eq!(loaded(&desk), [], "none of it is in the log yet");
    desk.finish_disk();
    assert_eq!(loaded(&desk), zxids[..2]);
    desk.disk = Disk::Instant;
    for &zxid in &zxids[6..] {
        desk.packet(link, long_proposal(zxid));
        desk.packet(link, Packet::Commit { zxid });
    }
    // The leader itself may still truncate uncommitted transactions.
    let uncommitted = Zxid::new(6, 1);
    desk.packet(link, proposal(uncommitted));
    assert_eq!(loaded(&desk), zxids[..7]);
    desk.packet(link, new_leader(6));
    assert_eq!(desk.delivered(), [], "nothing of it is decided");
    desk.packet(link, Packet::UpToDate);
    assert_eq!(desk.delivered(), zxids[7..]);
    desk.packet(link, Packet::Commit { zxid: uncommitted });
    assert_eq!(desk.delivered().last(), Some(&uncommitted));
}

/// More transactions than other learners are served from memory: the clients of the server must not notice.
#[test]
fn a_learner_that_comes_late_loads_nothing_before_it_is_accepted() {
    let (mut desk, link) = promised();
    let zxids: Vec<Zxid> = (8..=37).map(|counter| Zxid::new(5, counter)).collect();
    desk.packet(link, Packet::Diff { zxid: zxids[29] });
    for &zxid in &zxids {
        desk.packet(link, proposal(zxid));
        desk.packet(link, Packet::Commit { zxid });
    }
    desk.packet(link, new_leader(6));
    assert_eq!((loaded(&desk), desk.delivered()), (vec![], vec![]));
    desk.packet(link, Packet::UpToDate);
    assert_eq!((loaded(&desk), desk.delivered()), (vec![], zxids));
}

/// Four transactions may stay in memory; the ensemble may write more during a long transfer.
#[test]
fn a_long_tail_behind_a_state_does_not_stay_in_memory() {
    let (mut desk, link) = promised();
    desk.packet(link, Packet::Snap { zxid: Zxid::new(5, 20) });
    desk.handle(PeerEvent::SnapshotReceived { link });
    let mut most = 0;
    for counter in 20..=40 {
        let zxid = Zxid::new(5, counter);
        desk.packet(link, proposal(zxid));
        desk.packet(link, Packet::Commit { zxid });
        most = most.max(desk.peer.status().collected_bytes);
    }
    assert_eq!(most, 4 * 8, "four of eight bytes");
    // Uncommitted transactions are not loaded, and more committed ones may precede them.
    let uncommitted = Zxid::new(6, 1);
    desk.packet(link, proposal(uncommitted));
    desk.packet(link, new_leader(6));
    let mut state = vec![];
    let mut orders = desk.actions.iter();
    let (tail, end) = loop {
        match orders.next().unwrap() {
            Action::Peer(PeerEffect::LoadReceived { link: on, entries }) if *on == link => {
                state.extend(entries.clone())
            }
            Action::Disk(DiskCommand::InstallSnapshot { tail, zxid, .. }) => break (tail.clone(), *zxid),
            other => panic!("{other:?}"),
        }
    };
    assert!(state.len() >= 16 && tail.len() <= 4, "{} and {}", state.len(), tail.len());
    state.extend(tail);
    let zxids: Vec<Zxid> = state.iter().map(|entry| entry.zxid).collect();
    let expected: Vec<Zxid> = (21..=40).map(|counter| Zxid::new(5, counter)).collect();
    assert_eq!((zxids, end), (expected, Zxid::new(5, 40)));
    assert!(matches!(orders.next(), Some(Action::Append { entry, .. }) if entry.zxid == uncommitted));
    assert_eq!(desk.take_sent(link), [ack(Zxid::new(6, 0)), ack(uncommitted)]);
}

/// Loaded transactions that the next leader's history lacks are removed with the log, as after a restart.
#[test]
fn what_was_loaded_early_can_be_truncated() {
    let (mut desk, link) = promised();
    let zxids: Vec<Zxid> = (8..=17).map(|counter| Zxid::new(5, counter)).collect();
    desk.packet(link, Packet::Diff { zxid: zxids[9] });
    for &zxid in &zxids {
        desk.packet(link, long_proposal(zxid));
        desk.packet(link, Packet::Commit { zxid });
    }
    assert_eq!(loaded(&desk), zxids[..6]);
    desk.handle(PeerEvent::LinkDown { link });
    desk.notify(1, ServerState::Following, ServerId(3));
    desk.notify(3, ServerState::Leading, ServerId(3));
    let link = desk.expect_dial();
    desk.handle(PeerEvent::Dialed { link });
    desk.packet(link, leader_info(7));
    desk.actions.clear();
    desk.packet(link, Packet::Trunc { zxid: zxids[2] });
    assert!(matches!(desk.actions[0], Action::Disk(DiskCommand::Truncate { to, .. }) if to == zxids[2]));
    let next = Zxid::new(7, 1);
    for packet in [new_leader(7), Packet::UpToDate, proposal(next), Packet::Commit { zxid: next }] {
        desk.packet(link, packet);
    }
    assert_eq!(desk.delivered(), [next]);
}

/// Its state becomes ever older while its disk is slower than the ensemble writes. The leader of an observer
/// does not notice.
#[test]
fn a_learner_whose_disk_is_too_slow_stops_serving() {
    for role in [Role::Participant, Role::Observer] {
        let (mut desk, link) = Desk::learner(recovered(LAST, 5), role);
        for packet in [leader_info(6), Packet::Diff { zxid: LAST }, new_leader(6), Packet::UpToDate] {
            desk.packet(link, packet);
        }
        desk.disk = Disk::ByHand;
        let mut finished = 0;
        for counter in 1..=30 {
            let zxid = Zxid::new(6, counter);
            match role {
                Role::Participant => desk.packet(link, proposal(zxid)),
                Role::Observer => desk.packet(link, Packet::Inform { zxid, entry: entry(zxid).bytes }),
            }
            desk.wait(50);
            // The disk finishes one of three writes.
            if counter % 3 == 0 {
                finished += 1;
                let appends: Vec<_> = desk.actions.iter().filter_map(append_of).collect();
                desk.handle(PeerEvent::Persisted { io: appends[finished - 1] });
            }
        }
        assert!(matches!(desk.closed(link), Some(LinkCloseReason::SlowDisk { ms: 500.. })));
        assert!(desk.actions.contains(&Action::StopServing));
        assert!(
            !desk.actions.iter().any(|action| matches!(action, Action::Peer(PeerEffect::Notify { .. }))),
            "the disk is at work"
        );
        desk.finish_disk();
        assert!(
            desk.actions.iter().any(|action| matches!(action, Action::Peer(PeerEffect::Notify { .. }))),
            "it looks again"
        );
    }
}

fn append_of(action: &Action) -> Option<IoId> {
    match action {
        Action::Append { io, .. } => Some(*io),
        _ => None,
    }
}
