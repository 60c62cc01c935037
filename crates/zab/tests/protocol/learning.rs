//! What a leader may say to a learner.

use zebu_proto::quorum::packet::LEARNER_PROTOCOL;
use zebu_proto::quorum::{Packet, PeerState};
use zebu_proto::{ServerId, Zxid};
use zebu_zab::{Action, CloseReason, Event, LinkId, Recovered, Role, Serving, Trust};

use crate::desk::{Desk, Disk, entry, proposal, recovered};

const LAST: Zxid = Zxid::new(5, 7);

fn leader_info(epoch: u32) -> Packet {
    Packet::LeaderInfo { zxid: Zxid::new(epoch, 0), protocol: LEARNER_PROTOCOL }
}

fn new_leader(epoch: u32) -> Packet {
    Packet::NewLeader { zxid: Zxid::new(epoch, 0), config: None }
}

fn ack(zxid: Zxid) -> Packet {
    Packet::Ack { zxid }
}

/// Has promised epoch 6 and waits for the history.
fn promised() -> (Desk, LinkId) {
    let (mut desk, link) = Desk::learner(recovered(LAST, 5), Role::Voter);
    desk.packet(link, leader_info(6));
    assert_eq!(desk.take_sent(link), [Packet::AckEpoch { last: LAST, current_epoch: 5 }]);
    (desk, link)
}

/// Serves in epoch 6 with nothing behind 5/7.
fn serving() -> (Desk, LinkId) {
    let (mut desk, link) = promised();
    for packet in [Packet::Diff { zxid: LAST }, new_leader(6), Packet::UpToDate] {
        desk.packet(link, packet);
    }
    assert!(matches!(desk.peer.serving(), Some(Serving::Following { epoch: 6, .. })));
    desk.actions.clear();
    (desk, link)
}

#[test]
fn an_epoch_is_promised_after_the_disk_has_it() {
    let (mut desk, link) = Desk::learner(recovered(LAST, 5), Role::Voter);
    desk.disk = Disk::ByHand;
    desk.packet(link, leader_info(6));
    assert!(matches!(desk.actions[0], Action::SaveAcceptedEpoch { epoch: 6, .. }));
    assert_eq!(desk.actions.len(), 1, "nothing is said before");
    desk.finish_disk();
    assert_eq!(desk.take_sent(link), [Packet::AckEpoch { last: LAST, current_epoch: 5 }]);
}

#[test]
fn an_epoch_that_was_promised_before_does_not_count_and_an_older_one_is_refused() {
    let found = Recovered { accepted_epoch: 6, ..recovered(LAST, 5) };
    let (mut desk, link) = Desk::learner(found, Role::Voter);
    desk.packet(link, leader_info(6));
    assert_eq!(desk.take_sent(link), [Packet::AckEpoch { last: LAST, current_epoch: -1 }]);

    let (mut desk, link) = Desk::learner(found, Role::Voter);
    desk.packet(link, leader_info(5));
    assert_eq!(desk.closed(link), Some(CloseReason::OldEpoch { proposed: 5, accepted: 6 }));
    assert_eq!(desk.peer.status().accepted_epoch, 6);
}

/// Its promise is counted by nobody. If it kept an observer away, one that had promised an epoch that came to
/// nothing could not come back before the ensemble had got there.
#[test]
fn an_observer_goes_back_behind_its_promise_but_not_behind_its_history() {
    let found = Recovered { accepted_epoch: 8, ..recovered(LAST, 5) };
    let (mut desk, link) = Desk::learner(found, Role::Observer);
    desk.packet(link, leader_info(6));
    assert_eq!(desk.take_sent(link), [Packet::AckEpoch { last: LAST, current_epoch: -1 }]);
    assert_eq!(desk.peer.status().accepted_epoch, 8);

    let (mut desk, link) = Desk::learner(found, Role::Observer);
    desk.packet(link, leader_info(4));
    assert_eq!(desk.closed(link), Some(CloseReason::OldEpoch { proposed: 4, accepted: 8 }));
}

#[test]
fn the_history_is_durable_before_the_epoch_and_both_before_the_word() {
    let (mut desk, link) = promised();
    desk.disk = Disk::ByHand;
    let next = Zxid::new(5, 8);
    for packet in [Packet::Diff { zxid: next }, proposal(next), Packet::Commit { zxid: next }, new_leader(6)]
    {
        desk.packet(link, packet);
    }
    let order: Vec<_> = desk.actions.iter().collect();
    assert!(
        matches!(order[..], [Action::Append { .. }, Action::SaveCurrentEpoch { epoch: 6, .. }]),
        "{order:?}"
    );
    desk.finish_disk();
    assert_eq!(desk.delivered(), [], "it is not decided yet");
    assert_eq!(desk.take_sent(link), [ack(Zxid::new(6, 0))]);
    desk.packet(link, Packet::UpToDate);
    assert_eq!(desk.delivered(), [next]);
}

/// A connection that was given up may still deliver what its former leader had sent.
#[test]
fn packets_of_a_former_connection_are_ignored() {
    let (mut desk, link) = serving();
    let former = LinkId(link.0 + 2);
    let zxid = Zxid::new(6, 1);
    for packet in [proposal(zxid), Packet::Commit { zxid }, Packet::Ping { zxid: LAST }] {
        desk.packet(former, packet);
    }
    desk.handle(Event::LinkDown { link: former });
    assert_eq!(desk.actions, []);
    assert_eq!(desk.peer.status().logged, LAST);
    assert!(matches!(desk.peer.serving(), Some(Serving::Following { epoch: 6, .. })));
}

#[test]
fn proposals_are_acknowledged_when_durable_in_order_and_behind_the_history() {
    let (mut desk, link) = promised();
    desk.disk = Disk::ByHand;
    let zxids = [1, 2].map(|counter| Zxid::new(6, counter));
    // One of them comes before the leader's word, uncommitted; one behind it.
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

/// A sync is answered by the leader between two commits; both become durable here in one sync of the disk.
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

/// What a leader has answered and this server has not applied is void when the connection ends.
#[test]
fn answers_of_a_leader_that_is_lost_are_forgotten() {
    let (mut desk, link) = serving();
    desk.disk = Disk::ByHand;
    let zxid = Zxid::new(6, 1);
    for packet in [proposal(zxid), Packet::Commit { zxid }, Packet::Sync] {
        desk.packet(link, packet);
    }
    desk.handle(Event::LinkDown { link });
    desk.finish_disk();
    assert_eq!(desk.delivered(), [zxid]);
    assert!(!desk.actions.iter().any(|action| matches!(action, Action::FromLeader { .. })));
}

#[test]
fn broken_broadcasts_end_the_connection() {
    let zxid = Zxid::new;
    let cases = [
        (proposal(zxid(6, 2)), CloseReason::Gap { after: LAST, found: zxid(6, 2) }),
        (proposal(zxid(5, 8)), CloseReason::Gap { after: LAST, found: zxid(5, 8) }),
        (proposal(zxid(7, 1)), CloseReason::Gap { after: LAST, found: zxid(7, 1) }),
        (Packet::Commit { zxid: zxid(6, 1) }, CloseReason::UnknownZxid(zxid(6, 1))),
        (Packet::Commit { zxid: Zxid(i64::MAX) }, CloseReason::UnknownZxid(Zxid(i64::MAX))),
        (
            Packet::Inform { zxid: zxid(6, 1), entry: [].into() },
            CloseReason::OutOfPlace { step: "following", packet: "INFORM" },
        ),
        (leader_info(7), CloseReason::OutOfPlace { step: "following", packet: "LEADERINFO" }),
        (Packet::Snap { zxid: zxid(6, 1) }, CloseReason::OutOfPlace { step: "following", packet: "SNAP" }),
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
    assert_eq!(desk.closed(link), Some(CloseReason::Gap { after: LAST, found: Zxid::new(5, 9) }));
    assert_eq!(desk.peer.status().logged, LAST, "nothing was taken");
}

#[test]
fn wrong_first_packets_end_the_connection() {
    for packet in [new_leader(6), Packet::UpToDate, proposal(Zxid::new(5, 8)), Packet::Sync, ack(LAST)] {
        let (mut desk, link) = promised();
        desk.packet(link, packet);
        assert!(matches!(desk.closed(link), Some(CloseReason::OutOfPlace { .. })));
    }
    let (mut desk, link) = promised();
    desk.packet(link, Packet::Diff { zxid: LAST });
    desk.packet(link, new_leader(7));
    assert_eq!(desk.closed(link), Some(CloseReason::UnknownZxid(Zxid::new(7, 0))));
}

/// The limits of the desk: 7 ticks for the connection, 10 for the beginning.
#[test]
fn a_leader_that_cannot_be_reached_is_given_up_after_the_limit_for_connections() {
    let looks_for_three = || {
        let mut desk = Desk::new(recovered(LAST, 5), Role::Voter);
        for (from, state) in [(1, PeerState::Following), (3, PeerState::Leading)] {
            desk.notify(from, state, ServerId(3));
        }
        let link = desk.expect_dial();
        (desk, link)
    };
    let (mut desk, link) = looks_for_three();
    desk.wait(699);
    assert_eq!(desk.closed(link), None);
    desk.wait(1);
    assert_eq!(desk.closed(link), Some(CloseReason::Silent));
    let (mut desk, link) = looks_for_three();
    desk.handle(Event::Dialed { link });
    desk.wait(999);
    assert_eq!(desk.closed(link), None);
    desk.wait(1);
    assert_eq!(desk.closed(link), Some(CloseReason::Silent));
}

/// Whoever believed it would lead an epoch before its own history.
#[test]
fn a_history_holds_nothing_of_a_later_epoch_than_the_leader() {
    let later = Zxid::new(7, 1);
    for begin in [Packet::Snap { zxid: later }, Packet::Diff { zxid: LAST }, Packet::Snap { zxid: LAST }] {
        let (mut desk, link) = promised();
        let whole = matches!(begin, Packet::Snap { .. });
        desk.packet(link, begin);
        if desk.closed(link).is_none() {
            if whole {
                desk.handle(Event::SnapshotReceived { link });
            }
            desk.packet(link, proposal(later));
        }
        assert!(matches!(desk.closed(link), Some(CloseReason::UnknownZxid(zxid)) if zxid == later));
        assert_eq!(desk.peer.status().logged, LAST);
    }
}

#[test]
fn a_committed_transaction_is_never_truncated() {
    let (mut desk, link) = serving();
    let zxid = Zxid::new(6, 1);
    desk.packet(link, proposal(zxid));
    desk.packet(link, Packet::Commit { zxid });
    desk.handle(Event::LinkDown { link });
    desk.actions.clear();
    for from in [1, 3] {
        let state = if from == 3 {
            zebu_proto::quorum::PeerState::Leading
        } else {
            zebu_proto::quorum::PeerState::Following
        };
        desk.notify(from, state, zebu_proto::ServerId(3));
    }
    let link = LinkId::dialed(2);
    desk.handle(Event::Dialed { link });
    desk.packet(link, leader_info(7));
    desk.packet(link, Packet::Trunc { zxid: LAST });
    assert_eq!(desk.closed(link), Some(CloseReason::TruncatesCommitted { to: LAST, committed: zxid }));
}

#[test]
fn truncation_waits_for_the_disk_and_what_follows_waits_with_it() {
    let (mut desk, link) = promised();
    desk.disk = Disk::ByHand;
    let to = Zxid::new(5, 5);
    desk.packet(link, Packet::Trunc { zxid: to });
    desk.packet(link, proposal(Zxid::new(6, 1)));
    assert!(matches!(desk.actions.make_contiguous(), [Action::Truncate { .. }]));
    desk.finish_disk();
    assert_eq!(desk.peer.status().logged, Zxid::new(6, 1));
    assert!(matches!(desk.actions.back(), Some(Action::Append { .. })));
}

/// Was asked for a cut that its disk has refused.
fn refused() -> (Desk, LinkId) {
    let (mut desk, link) = promised();
    desk.disk = Disk::ByHand;
    desk.packet(link, Packet::Trunc { zxid: Zxid::new(5, 5) });
    desk.packet(link, proposal(Zxid::new(6, 1)));
    let Some(Action::Truncate { io, .. }) = desk.actions.pop_front() else { panic!("it truncates") };
    desk.handle(Event::TruncateRefused { io });
    desk.disk = Disk::Instant;
    (desk, link)
}

/// Was asked for a cut that its disk has refused, and has come again to the leader of this epoch.
fn come_again(epoch: u32) -> (Desk, LinkId, Vec<Packet>) {
    let (mut desk, _) = refused();
    desk.wait(1);
    let link = desk.expect_dial();
    desk.handle(Event::Dialed { link });
    desk.packet(link, leader_info(epoch));
    let sent = desk.take_sent(link);
    (desk, link, sent)
}

fn last_vote(desk: &Desk) -> Option<Zxid> {
    desk.actions.iter().rev().find_map(|action| match action {
        Action::Notify { notification, .. } => Some(notification.zxid),
        _ => None,
    })
}

#[test]
fn a_server_that_cannot_truncate_comes_again_for_a_whole_state() {
    let (mut desk, old) = refused();
    assert_eq!(desk.closed(old), Some(CloseReason::CannotTruncate(Zxid::new(5, 5))));
    assert_eq!(desk.actions.len(), 1, "nothing is set aside");
    // What was on its way on the connection that it has closed.
    desk.packet(old, proposal(Zxid::new(6, 2)));
    desk.handle(Event::LinkDown { link: old });
    assert_eq!(desk.peer.status().leader, Some(ServerId(3)), "it looks for nobody else");

    let (mut desk, link, sent) = come_again(6);
    assert_eq!(sent[1..], [Packet::AckEpoch { last: Zxid(-1), current_epoch: -1 }]);
    desk.packet(link, Packet::Snap { zxid: Zxid::new(5, 5) });
    desk.handle(Event::SnapshotReceived { link });
    assert_eq!(desk.peer.status().logged, LAST, "what it has stays until the state is complete");
    desk.packet(link, new_leader(6));
    desk.packet(link, Packet::UpToDate);
    assert!(desk.peer.serving().is_some());
    assert_eq!(desk.peer.status().logged, Zxid::new(5, 5));
    assert!(!desk.actions.iter().any(|action| matches!(action, Action::SetAside { .. })));

    desk.handle(Event::LinkDown { link });
    desk.actions.clear();
    for (from, state) in [(1, PeerState::Following), (3, PeerState::Leading)] {
        desk.notify(from, state, ServerId(3));
    }
    let link = desk.expect_dial();
    desk.handle(Event::Dialed { link });
    desk.packet(link, leader_info(6));
    let told = Packet::AckEpoch { last: Zxid::new(5, 5), current_epoch: -1 };
    assert_eq!(desk.take_sent(link)[1..], [told], "with the new state the leader hears the truth again");
}

#[test]
fn a_server_that_cannot_truncate_keeps_its_vote() {
    let (mut desk, link, _) = come_again(6);
    desk.packet(link, Packet::Snap { zxid: Zxid::new(5, 5) });
    desk.handle(Event::LinkDown { link });
    assert_eq!(last_vote(&desk), Some(LAST), "the state did not come, so it votes with what it has");

    let (mut desk, link) = promised();
    desk.disk = Disk::ByHand;
    desk.packet(link, Packet::Trunc { zxid: Zxid::new(5, 5) });
    desk.handle(Event::LinkDown { link });
    let Some(Action::Truncate { io, .. }) = desk.actions.pop_front() else { panic!("it truncates") };
    desk.handle(Event::TruncateRefused { io });
    assert_eq!(last_vote(&desk), Some(LAST), "the leader went while the disk looked");
}

/// Only the leader who has asked for the cut is known to have nobody ahead of him.
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
        assert!(matches!(desk.actions.front(), Some(Action::SetAside { .. })));
        desk.wait(40);
        assert_eq!(last_vote(&desk), Some(Zxid(-1)), "everybody ignores such a vote");
        assert_eq!(desk.peer.status().accepted_epoch, 6, "promises stay");
    }
}

#[test]
fn an_untrusted_server_is_trusted_again_once_it_has_a_history() {
    let found = Recovered { trust: Trust::Untrusted, ..recovered(Zxid::ZERO, 5) };
    let (mut desk, link) = Desk::learner(found, Role::Voter);
    desk.packet(link, leader_info(6));
    assert_eq!(desk.take_sent(link), [Packet::AckEpoch { last: Zxid(-1), current_epoch: 5 }]);
    desk.packet(link, Packet::Snap { zxid: LAST });
    desk.handle(Event::SnapshotReceived { link });
    desk.packet(link, new_leader(6));
    let marked = desk.actions.iter().position(|action| matches!(action, Action::MarkTrusted { .. }));
    let word = desk.actions.iter().position(|action| matches!(action, Action::Send { .. }));
    assert!(marked.unwrap() < word.unwrap());
}

/// A large state takes longer than any limit. As long as it moves, nobody gives up.
#[test]
fn a_state_that_comes_is_waited_for() {
    let (mut desk, link) = promised();
    desk.packet(link, Packet::Snap { zxid: Zxid::new(5, 20) });
    for _ in 0..30 {
        desk.wait(500);
        desk.handle(Event::SnapshotMoves { link });
    }
    assert_eq!(desk.actions.len(), 0);
    desk.wait(1000);
    assert!(desk.actions.iter().any(|action| matches!(action, Action::Close { .. })), "it has stopped");
}

#[test]
fn a_state_reaches_the_disk_only_when_it_is_complete() {
    let (mut desk, link) = promised();
    desk.packet(link, Packet::Snap { zxid: Zxid::new(5, 20) });
    desk.handle(Event::SnapshotReceived { link });
    // The first is in the state already.
    for counter in [19, 20, 21, 22] {
        desk.packet(link, proposal(Zxid::new(5, counter)));
    }
    desk.packet(link, Packet::Commit { zxid: Zxid::new(5, 21) });
    assert_eq!(desk.actions.len(), 0, "nothing is written");
    desk.packet(link, new_leader(6));
    let Some(Action::InstallSnapshot { tail, zxid, .. }) = desk.actions.pop_front() else {
        panic!("installs")
    };
    assert_eq!((tail.len(), zxid), (1, Zxid::new(5, 21)));
    assert!(matches!(desk.actions[0], Action::Append { .. }), "what is not committed goes to the log");
    assert!(matches!(desk.actions[1], Action::SaveCurrentEpoch { .. }));
    let zxids = [Zxid::new(6, 0), Zxid::new(5, 22)];
    assert_eq!(desk.take_sent(link), zxids.map(ack));
}

#[test]
fn an_interrupted_state_leaves_nothing_behind() {
    let (mut desk, link) = promised();
    desk.packet(link, Packet::Snap { zxid: Zxid::new(5, 20) });
    desk.handle(Event::SnapshotReceived { link });
    desk.packet(link, proposal(Zxid::new(5, 21)));
    desk.handle(Event::LinkDown { link });
    assert!(desk.actions.contains(&Action::DiscardSnapshot { link }));
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
    assert_eq!(desk.closed(link), Some(CloseReason::Silent));
}

/// The disk carries out what it was told, whether the leader is still there or not: the next vote must name what
/// it has left.
#[test]
fn a_leader_that_goes_while_the_log_is_cut_does_not_leave_a_wrong_idea_of_it() {
    let (mut desk, link) = promised();
    desk.disk = Disk::ByHand;
    desk.packet(link, Packet::Trunc { zxid: Zxid::new(5, 3) });
    desk.handle(Event::LinkDown { link });
    desk.finish_disk();
    assert_eq!(desk.peer.status().logged, Zxid::new(5, 3));
    assert_eq!(desk.peer.status().state, PeerState::Looking);
}

#[test]
fn a_leader_that_goes_while_its_state_is_installed_does_not_leave_a_wrong_idea_of_it() {
    let (mut desk, link) = promised();
    desk.disk = Disk::ByHand;
    let state = Zxid::new(5, 9);
    desk.packet(link, Packet::Snap { zxid: state });
    desk.handle(Event::SnapshotReceived { link });
    desk.packet(link, new_leader(6));
    desk.handle(Event::LinkDown { link });
    let discarded = |action: &Action| matches!(action, Action::DiscardSnapshot { .. });
    assert!(!desk.actions.iter().any(discarded), "the disk still needs it");
    desk.finish_disk();
    assert_eq!(desk.peer.status().logged, state);
    assert_eq!(desk.peer.status().state, PeerState::Looking);
}

/// The mark of a server without trusted data goes when the disk has done so, not when the leader is still there.
#[test]
fn a_leader_that_goes_while_the_mark_is_removed_does_not_leave_a_silent_server() {
    let found = Recovered { trust: Trust::Untrusted, ..recovered(LAST, 5) };
    let (mut desk, link) = Desk::learner(found, Role::Voter);
    desk.packet(link, leader_info(6));
    desk.disk = Disk::ByHand;
    for packet in [Packet::Diff { zxid: LAST }, new_leader(6)] {
        desk.packet(link, packet);
    }
    desk.handle(Event::LinkDown { link });
    desk.finish_disk();
    desk.wait(1000);
    let votes = |action: &Action| match action {
        Action::Notify { notification, .. } => Some(notification.zxid),
        _ => None,
    };
    assert_eq!(desk.actions.iter().rev().find_map(votes), Some(LAST));
}
