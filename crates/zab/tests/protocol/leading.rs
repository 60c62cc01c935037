//! Packets of learners to a leader.

use std::collections::VecDeque;

use zebu_proto::quorum::election::NotificationVersion;
use zebu_proto::quorum::packet::{LEARNER_PROTOCOL, LearnerInfo};
use zebu_proto::quorum::{Notification, Packet, ServerState};
use zebu_proto::{ServerId, SessionId, Zxid};
use zebu_zab::{
    Action, DiskCommand, EncodedTxn, LinkCloseReason, LinkId, LogPurpose, LogRead, PeerEffect, PeerEvent,
    ServingRole,
};

use crate::desk::{Desk, Disk, ME, entry, follower_info, recovered};

const LAST: Zxid = Zxid::new(5, 7);

fn ack(zxid: Zxid) -> Packet {
    Packet::Ack { zxid }
}

fn accept(desk: &mut Desk, count: u64, greeting: Packet) -> LinkId {
    let link = LinkId::accepted(count);
    desk.handle(PeerEvent::Accepted { link });
    desk.packet(link, greeting);
    link
}

#[test]
fn nobody_hears_of_an_epoch_before_the_leader_has_promised_it() {
    let mut desk = Desk::elected(recovered(LAST, 5));
    desk.disk = Disk::ByHand;
    let link = accept(&mut desk, 1, follower_info(1, 8));
    assert!(matches!(desk.actions[0], Action::Disk(DiskCommand::SaveAcceptedEpoch { epoch: 9, .. })));
    assert_eq!(desk.actions.len(), 1);
    desk.finish_disk();
    assert_eq!(
        desk.take_sent(link),
        [Packet::LeaderInfo { zxid: Zxid::new(9, 0), protocol: LEARNER_PROTOCOL, zebu: None }]
    );
}

/// Servers outside the config may learn, because their own config may be newer. They count for no quorum.
#[test]
fn servers_that_are_not_listed_raise_no_epoch_and_are_no_quorum() {
    let mut desk = Desk::elected(recovered(LAST, 5));
    let link = accept(&mut desk, 1, follower_info(ME.0, 1_000_000));
    assert_eq!(desk.closed(link), Some(LinkCloseReason::OwnId(ME)));
    let mut links = Vec::new();
    for (count, server) in [(2, 77), (3, -5), (4, 9)] {
        links.push(accept(&mut desk, count, follower_info(server, 1_000_000)));
    }
    let info = LearnerInfo { server: ServerId(3), protocol: LEARNER_PROTOCOL, config_version: 0, zebu: None };
    links.push(accept(&mut desk, 5, Packet::ObserverInfo { accepted: Zxid::new(1_000_000, 0), info }));
    assert!(links.iter().all(|link| desk.take_sent(*link).is_empty()), "no epoch without a quorum");
    accept(&mut desk, 6, follower_info(1, 5));
    assert_eq!(desk.peer.status().accepted_epoch, 6);
    for link in links {
        assert_eq!(desk.closed(link), None);
        desk.packet(link, Packet::AckEpoch { last: LAST, current_epoch: 5 });
    }
    assert_eq!(desk.peer.status().current_epoch, 5, "only one of three has promised the epoch");
}

/// A server outside the config is synchronized and serves; it never counts for a quorum.
#[test]
fn a_server_that_is_not_listed_is_served_and_not_counted() {
    let mut desk = Desk::elected(recovered(LAST, 5));
    let [listed, unlisted] =
        [(1, 1), (2, 77)].map(|(count, server)| accept(&mut desk, count, follower_info(server, 5)));
    for link in [listed, unlisted] {
        desk.packet(link, Packet::AckEpoch { last: LAST, current_epoch: 5 });
    }
    for link in [unlisted, listed] {
        assert_eq!(desk.peer.serving(), None);
        desk.packet(link, ack(Zxid::new(6, 0)));
    }
    assert_eq!(desk.peer.serving(), Some(ServingRole::Leading { epoch: 6 }));
    assert!(desk.take_sent(unlisted).contains(&Packet::UpToDate));
    desk.disk = Disk::ByHand;
    let zxid = desk.propose();
    desk.packet(unlisted, ack(zxid));
    desk.finish_disk();
    assert_eq!(
        desk.peer.status().committed,
        LAST,
        "the leader and a server that is not listed are no quorum"
    );
    desk.packet(listed, ack(zxid));
    assert_eq!(desk.peer.status().committed, zxid);
    assert!(desk.take_sent(unlisted).contains(&Packet::Commit { zxid }));
}

#[test]
fn only_so_many_servers_that_are_not_listed_are_served() {
    let mut desk = Desk::elected(recovered(LAST, 5));
    let links: Vec<_> =
        (0..40).map(|count| accept(&mut desk, count, follower_info(100 + count as i64, 5))).collect();
    let refused = links.iter().filter(|link| desk.closed(**link).is_some()).count();
    assert_eq!(refused, 40 - 32);
    let link = accept(&mut desk, 50, follower_info(100, 5));
    assert_eq!(desk.closed(link), None, "it has a place already");
    let link = accept(&mut desk, 51, follower_info(1, 5));
    assert_eq!(desk.closed(link), None, "a member");
}

#[test]
fn wrong_greetings_end_the_connection() {
    for (count, packet) in [ack(LAST), Packet::Sync, Packet::UpToDate].into_iter().enumerate() {
        let mut desk = Desk::elected(recovered(LAST, 5));
        let link = accept(&mut desk, count as u64, packet);
        assert!(desk.closed(link).is_some());
    }
    let mut desk = Desk::elected(recovered(LAST, 5));
    let info = LearnerInfo { server: ServerId(1), protocol: LEARNER_PROTOCOL, config_version: 7, zebu: None };
    let link = accept(&mut desk, 1, Packet::FollowerInfo { accepted: Zxid::ZERO, info });
    assert_eq!(desk.closed(link), Some(LinkCloseReason::NewerConfig(7)));
}

#[test]
fn a_leader_does_not_lead_those_who_know_more() {
    let mut desk = Desk::elected(recovered(LAST, 5));
    let link = accept(&mut desk, 1, follower_info(1, 5));
    desk.packet(link, Packet::AckEpoch { last: Zxid::new(5, 8), current_epoch: 5 });
    let reason = LinkCloseReason::AheadOfLeader { last: Zxid::new(5, 8), current_epoch: 5 };
    assert_eq!(desk.closed(link), Some(reason));
    assert_eq!(desk.peer.status().current_epoch, 5);
}

/// A learner may have accepted a later leader that proposed nothing: it is not ahead of this leader.
#[test]
fn who_ends_at_the_same_place_knows_no_more() {
    let mut desk = Desk::elected(recovered(LAST, 5));
    let link = accept(&mut desk, 1, follower_info(1, 6));
    desk.packet(link, Packet::AckEpoch { last: LAST, current_epoch: 6 });
    assert_eq!(desk.closed(link), None);
    assert_eq!(desk.peer.status().current_epoch, 7);
}

#[test]
fn voices_that_do_not_count_make_no_quorum() {
    for packet in [
        Packet::AckEpoch { last: LAST, current_epoch: -1 },
        Packet::AckEpoch { last: Zxid(-1), current_epoch: 5 },
    ] {
        let mut desk = Desk::elected(recovered(LAST, 5));
        let link = accept(&mut desk, 1, follower_info(1, 5));
        desk.packet(link, packet);
        assert_eq!(desk.peer.status().current_epoch, 5, "the epoch is not adopted");
        desk.wait(1001);
        assert_eq!(desk.peer.status().leader, None, "and the leader gives up");
    }
}

#[test]
fn nothing_is_decided_before_a_quorum_has_the_history() {
    let mut desk = Desk::elected(recovered(LAST, 5));
    let link = accept(&mut desk, 1, follower_info(1, 5));
    desk.packet(link, Packet::AckEpoch { last: LAST, current_epoch: 5 });
    assert_eq!((desk.peer.serving(), desk.peer.next_zxid()), (None, None));
    let sent = desk.take_sent(link);
    assert!(
        matches!(sent[..], [Packet::LeaderInfo { .. }, Packet::Diff { .. }, Packet::NewLeader { .. }]),
        "{sent:?}"
    );
    desk.packet(link, ack(Zxid::new(6, 0)));
    assert_eq!(desk.peer.serving(), Some(ServingRole::Leading { epoch: 6 }));
    assert_eq!(desk.take_sent(link), [Packet::UpToDate]);
    assert_eq!(desk.peer.next_zxid(), Some(Zxid::new(6, 1)));
}

#[test]
fn wrong_acknowledgements_end_the_connection_and_decide_nothing() {
    for counter in [2, 3, 9] {
        let (mut desk, link) = Desk::established();
        desk.disk = Disk::ByHand;
        desk.propose();
        desk.propose();
        desk.packet(link, ack(Zxid::new(6, counter)));
        assert_eq!(desk.closed(link), Some(LinkCloseReason::UnknownZxid(Zxid::new(6, counter))));
        desk.finish_disk();
        assert_eq!(desk.peer.status().committed, LAST);
    }
    let (mut desk, link) = Desk::established();
    desk.disk = Disk::ByHand;
    desk.propose();
    desk.packet(link, ack(Zxid::new(5, 3)));
    assert_eq!(desk.closed(link), None, "what was decided before may be acknowledged");
    desk.packet(link, ack(Zxid::new(7, 1)));
    assert_eq!(desk.closed(link), Some(LinkCloseReason::UnknownZxid(Zxid::new(7, 1))));
}

#[test]
fn no_commit_between_the_history_and_the_permission_to_serve() {
    let (mut desk, link) = Desk::established();
    let joiner = accept(&mut desk, 2, follower_info(3, 5));
    desk.packet(joiner, Packet::AckEpoch { last: LAST, current_epoch: 5 });
    desk.take_sent(joiner);
    let zxid = desk.propose();
    desk.packet(link, ack(zxid));
    assert_eq!(desk.take_sent(joiner), [Packet::Proposal { zxid, entry: entry(zxid).bytes }]);
    desk.packet(joiner, ack(zxid));
    assert_eq!(desk.closed(joiner), None, "some acknowledge proposals first");
    desk.packet(joiner, ack(Zxid::new(6, 0)));
    assert_eq!(desk.take_sent(joiner), [Packet::UpToDate, Packet::Commit { zxid }]);
}

#[test]
fn the_same_server_again_replaces_its_connection() {
    let (mut desk, link) = Desk::established();
    let again = accept(&mut desk, 2, follower_info(1, 6));
    assert_eq!(desk.closed(link), Some(LinkCloseReason::Replaced));
    assert!(desk.actions.contains(&Action::LearnerLost { link }));
    assert_eq!(desk.closed(again), None);
}

#[test]
fn observers_have_no_vote() {
    let (mut desk, link) = Desk::established();
    desk.handle(PeerEvent::LinkDown { link });
    let info = LearnerInfo { server: ServerId(9), protocol: LEARNER_PROTOCOL, config_version: 0, zebu: None };
    let observer = accept(&mut desk, 2, Packet::ObserverInfo { accepted: Zxid::new(6, 0), info });
    desk.packet(observer, Packet::AckEpoch { last: LAST, current_epoch: 5 });
    desk.packet(observer, ack(Zxid::new(6, 0)));
    let zxid = desk.propose();
    desk.packet(observer, ack(zxid));
    assert_eq!(desk.peer.status().committed, LAST);
    desk.wait(100);
    assert_eq!(desk.peer.serving(), None, "nor do they make a quorum");
}

#[test]
fn a_learner_that_is_far_behind_is_fed_from_the_log() {
    let (mut desk, link) = Desk::established();
    // Four transactions stay in memory.
    for _ in 0..10 {
        let zxid = desk.propose();
        desk.packet(link, ack(zxid));
    }
    desk.actions.clear();
    let behind = accept(&mut desk, 2, follower_info(3, 5));
    desk.packet(behind, Packet::AckEpoch { last: Zxid::new(6, 2), current_epoch: 5 });
    let up_to = Zxid::new(6, 6);
    let purpose = LogPurpose::BeginDiff { entries_max: 100_000 };
    let asked = Action::Peer(PeerEffect::ReadLog { link: behind, after: Zxid::new(6, 2), up_to, purpose });
    assert_eq!(desk.actions.back(), Some(&asked));
    let read = |from, to| LogRead::Entries((from..=to).map(|counter| entry(Zxid::new(6, counter))).collect());
    desk.take_sent(behind);
    desk.handle(PeerEvent::LogRead { link: behind, read: read(3, 4) });
    let purpose = LogPurpose::Continue;
    let asked = Action::Peer(PeerEffect::ReadLog { link: behind, after: Zxid::new(6, 4), up_to, purpose });
    assert_eq!(desk.actions.back(), Some(&asked), "the rest of it");
    desk.handle(PeerEvent::LogRead { link: behind, read: read(5, 6) });
    let sent = desk.take_sent(behind);
    let proposals: Vec<u32> = sent
        .iter()
        .filter_map(|packet| match packet {
            Packet::Proposal { zxid, .. } => Some(zxid.counter()),
            _ => None,
        })
        .collect();
    assert!(matches!(sent[0], Packet::Diff { .. }));
    assert_eq!(proposals, [3, 4, 5, 6, 7, 8, 9, 10]);
    assert!(matches!(sent.last(), Some(Packet::NewLeader { .. })));
}

/// A leader without the limit has logged it, and ZooKeeper's servers could not read it.
#[test]
fn a_learner_that_lacks_a_transaction_that_is_too_long_gets_a_whole_state() {
    let (mut desk, link) = Desk::established();
    for _ in 0..10 {
        let zxid = desk.propose();
        desk.packet(link, ack(zxid));
    }
    let come = |desk: &mut Desk, count, last| {
        let behind = accept(desk, count, follower_info(3, 5));
        desk.packet(behind, Packet::AckEpoch { last: Zxid::new(6, last), current_epoch: 5 });
        desk.take_sent(behind);
        behind
    };
    let long = |counter| EncodedTxn { zxid: Zxid::new(6, counter), bytes: vec![0; (1 << 20) + 1].into() };
    let snap = [Packet::Snap { zxid: Zxid::new(6, 10) }];

    // It is found after others were sent: this connection ends, and the next one gets a SNAP.
    let first = come(&mut desk, 2, 2);
    desk.handle(PeerEvent::LogRead { link: first, read: LogRead::Entries(vec![entry(Zxid::new(6, 3))]) });
    let read = LogRead::Entries(vec![long(4), entry(Zxid::new(6, 5))]);
    desk.handle(PeerEvent::LogRead { link: first, read });
    assert_eq!(desk.closed(first), Some(LinkCloseReason::NeedsSnapshot));
    let again = accept(&mut desk, 3, follower_info(3, 5));
    desk.take_sent(again);
    desk.packet(again, Packet::AckEpoch { last: Zxid::new(6, 3), current_epoch: 5 });
    assert_eq!(desk.take_sent(again), snap);

    // After it, learners get a DIFF again, unless there is another one.
    let behind = come(&mut desk, 4, 4);
    desk.handle(PeerEvent::LogRead { link: behind, read: LogRead::Entries(vec![long(5)]) });
    assert_eq!(desk.take_sent(behind), snap);
    let behind = come(&mut desk, 5, 5);
    desk.handle(PeerEvent::LogRead { link: behind, read: LogRead::Entries(vec![entry(Zxid::new(6, 6))]) });
    assert!(matches!(desk.take_sent(behind)[0], Packet::Diff { .. }));
}

#[test]
fn a_log_that_does_not_reach_back_makes_it_a_whole_state() {
    let (mut desk, link) = Desk::established();
    for _ in 0..10 {
        let zxid = desk.propose();
        desk.packet(link, ack(zxid));
    }
    let behind = accept(&mut desk, 2, follower_info(3, 5));
    desk.packet(behind, Packet::AckEpoch { last: Zxid::new(6, 2), current_epoch: 5 });
    desk.actions.clear();
    desk.handle(PeerEvent::LogRead { link: behind, read: LogRead::Unavailable });
    let zxid = Zxid::new(6, 10);
    let snap = Action::Peer(PeerEffect::Send { link: behind, packet: Packet::Snap { zxid } });
    assert_eq!(
        desk.actions.make_contiguous(),
        [snap, Action::Peer(PeerEffect::StreamSnapshot { link: behind, zxid })]
    );
    desk.actions.clear();
    // Transactions that are committed during the snapshot follow it, before NEWLEADER.
    let next = desk.propose();
    desk.packet(link, ack(next));
    assert_eq!(desk.take_sent(behind), []);
    desk.handle(PeerEvent::SnapshotSent { link: behind });
    let sent = desk.take_sent(behind);
    assert!(
        matches!(sent[..], [Packet::Proposal { .. }, Packet::Commit { .. }, Packet::NewLeader { .. }]),
        "{sent:?}"
    );
}

/// A large snapshot takes longer than any limit. While it makes progress, neither side times out.
#[test]
fn a_state_that_moves_is_waited_for() {
    for (sign, stays) in [(true, true), (false, false)] {
        let (mut desk, link) = Desk::established();
        let behind = accept(&mut desk, 2, follower_info(3, 5));
        desk.packet(behind, Packet::AckEpoch { last: Zxid(-1), current_epoch: 5 });
        assert!(
            desk.actions
                .iter()
                .any(|action| matches!(action, Action::Peer(PeerEffect::StreamSnapshot { .. })))
        );
        for _ in 0..30 {
            desk.wait(50);
            desk.packet(link, Packet::PingReply { zxid: Zxid::ZERO, touched: vec![], room: None });
            if sign {
                desk.handle(PeerEvent::SnapshotProgress { link: behind });
            }
        }
        let closed =
            desk.actions.iter().any(|action| matches!(action, Action::Peer(PeerEffect::Close { .. })));
        assert_eq!(closed, !stays);
    }
}

#[test]
fn an_answer_follows_the_commit_that_it_tells_of() {
    for answer in [Packet::Sync, Packet::Revalidated { session: SessionId(7), valid: true }] {
        let (mut desk, link) = Desk::established();
        let zxid = desk.propose();
        desk.take_sent(link);
        let mut out = Vec::new();
        desk.peer.reply_to_learner(link, zxid, answer.clone(), &mut out);
        assert_eq!(out, []);
        desk.packet(link, ack(zxid));
        assert_eq!(desk.take_sent(link), [Packet::Commit { zxid }, answer]);
    }
}

#[test]
fn a_leader_without_a_quorum_steps_down() {
    let (mut desk, link) = Desk::established();
    desk.handle(PeerEvent::LinkDown { link });
    desk.wait(60);
    assert_eq!(desk.peer.serving(), None);
    assert!(desk.actions.contains(&Action::StopServing));
}

#[test]
fn a_leader_whose_disk_hangs_steps_down_and_does_not_vote_before_it_is_back() {
    let (mut desk, link) = Desk::established();
    desk.disk = Disk::ByHand;
    desk.propose();
    for _ in 0..8 {
        desk.wait(100);
        desk.packet(link, Packet::PingReply { zxid: LAST, touched: vec![], room: None });
    }
    assert_eq!(desk.peer.serving(), None);
    assert!(!desk.actions.iter().any(|action| matches!(action, Action::Peer(PeerEffect::Notify { .. }))));
    desk.finish_disk();
    assert!(desk.actions.iter().any(|action| matches!(action, Action::Peer(PeerEffect::Notify { .. }))));
}

#[test]
fn a_learner_that_answers_but_does_not_log_is_cut_off() {
    let (mut desk, link) = Desk::established();
    desk.propose();
    for _ in 0..8 {
        desk.packet(link, Packet::PingReply { zxid: LAST, touched: vec![], room: None });
        desk.wait(100);
    }
    assert!(matches!(desk.closed(link), Some(LinkCloseReason::TooFarBehind { server: ServerId(1), .. })));
}

/// The disk is slower than the ensemble writes: every ack arrives, each later than the one before.
#[test]
fn a_follower_that_acknowledges_ever_later_is_given_up() {
    let (mut desk, link) = Desk::established();
    let mut proposed = VecDeque::new();
    let mut closed_at = None;
    for time in 0..40 {
        proposed.extend([desk.propose(), desk.propose(), desk.propose(), desk.propose()]);
        desk.packet(link, Packet::PingReply { zxid: LAST, touched: vec![], room: None });
        desk.packet(link, ack(proposed.pop_front().unwrap()));
        desk.wait(50);
        if let Some(reason) = desk.closed(link) {
            assert!(matches!(reason, LinkCloseReason::TooFarBehind { .. }), "{reason}");
            closed_at = Some(time * 50);
            break;
        }
    }
    // It has a quarter of the proposals. The limit is five ticks of 100 ms.
    assert!(closed_at.is_some_and(|ms| (500..1500).contains(&ms)), "{closed_at:?}");
}

#[test]
fn a_stopping_leader_finishes_what_it_began() {
    let (mut desk, link) = Desk::established();
    let zxid = desk.propose();
    let mut out = Vec::new();
    desk.peer.resign(desk.now, &mut out);
    assert_eq!((desk.peer.next_zxid(), desk.peer.has_resigned()), (None, false));
    desk.packet(link, ack(zxid));
    assert_eq!(desk.delivered(), [zxid]);
    assert!(desk.peer.has_resigned());
    assert!(desk.actions.contains(&Action::Peer(PeerEffect::Send { link, packet: Packet::Commit { zxid } })));
    desk.wait(5000);
    assert_eq!(desk.peer.status().leader, None, "it takes no part in the election");
}

#[test]
fn an_epoch_that_is_used_up_is_left_without_losing_anything() {
    assert_eq!(zebu_zab::LAST_COUNTER, 0xffff_fffe);
    let mut desk = Desk::elected_for(1, recovered(LAST, 5));
    let link = accept(&mut desk, 1, follower_info(1, 5));
    desk.packet(link, Packet::AckEpoch { last: LAST, current_epoch: 5 });
    desk.packet(link, ack(Zxid::new(6, 0)));
    let zxid = desk.propose();
    assert_eq!(zxid.counter(), 1);
    assert_eq!(desk.peer.next_zxid(), None);
    desk.packet(link, ack(zxid));
    assert_eq!(desk.delivered(), [zxid]);
    assert_eq!(desk.peer.serving(), None, "a new epoch is needed");
}

/// No server accepted this epoch, but the log contains it, and proposals must come after it.
#[test]
fn an_epoch_is_later_than_all_of_the_history() {
    let mut desk = Desk::elected(recovered(Zxid::new(9, 7), 5));
    let link = LinkId::accepted(1);
    desk.handle(PeerEvent::Accepted { link });
    desk.packet(link, follower_info(1, 5));
    assert_eq!(desk.peer.status().accepted_epoch, 10);
}

#[test]
fn who_does_not_lead_closes_learners() {
    let mut desk = Desk::new(recovered(LAST, 5), zebu_zab::Role::Participant);
    let link = LinkId::accepted(1);
    desk.handle(PeerEvent::Accepted { link });
    assert_eq!(desk.closed(link), Some(LinkCloseReason::NotLeading));
}

/// Its vote from the election of this leader has a smaller round, and changes nothing.
#[test]
fn a_leader_whose_voter_elects_again_does_not_wait_for_him() {
    let vote = |desk: &mut Desk, round| {
        let notification = Notification {
            state: ServerState::Looking,
            leader: ServerId(1),
            zxid: Zxid::new(5, 6),
            round,
            epoch: 5,
            version: NotificationVersion::V2,
            config: None,
        };
        desk.handle(PeerEvent::Notification { from: ServerId(1), notification });
        desk.peer.status().leader
    };
    let mut desk = Desk::elected(recovered(LAST, 5));
    assert_eq!(vote(&mut desk, 1), Some(ME));
    assert_eq!(vote(&mut desk, 2), None, "he will not come");

    let mut desk = Desk::elected(recovered(LAST, 5));
    accept(&mut desk, 1, follower_info(3, 5));
    assert_eq!(vote(&mut desk, 2), Some(ME), "another one has come");
}

/// Two servers looked at the same time: one voted for this server and then found an established leader.
#[test]
fn a_leader_whose_voter_follows_another_one_does_not_wait_for_him() {
    let follow = |desk: &mut Desk, leader| {
        let notification = Notification {
            state: ServerState::Following,
            leader,
            zxid: Zxid::new(5, 6),
            round: 1,
            epoch: 5,
            version: NotificationVersion::V2,
            config: None,
        };
        desk.handle(PeerEvent::Notification { from: ServerId(1), notification });
        desk.peer.status().leader
    };
    let mut desk = Desk::elected(recovered(LAST, 5));
    assert_eq!(follow(&mut desk, ME), Some(ME), "he is on his way");
    assert_eq!(follow(&mut desk, ServerId(3)), None, "neither he nor his leader will come");
}
