//! Dynamic reconfiguration: the quorums for it, the packets about it, and the leader afterwards.

use zebu_proto::quorum::election::NotificationVersion;
use zebu_proto::quorum::packet::{LEARNER_PROTOCOL, LearnerInfo};
use zebu_proto::quorum::{Notification, Packet, ServerState};
use zebu_proto::txn::{SetDataTxn, Txn, TxnEntry, TxnHeader};
use zebu_proto::{ServerId, SessionId, Zxid};
use zebu_zab::{
    Action, ConfigEffect, Configuration, EncodedTxn, LearnerPort, LinkCloseReason, LinkId, PeerEffect,
    PeerEvent, ServingRole,
};

use crate::desk::{Desk, ME, follower_info, proposal, recovered};

const LAST: Zxid = Zxid::new(5, 7);

/// Three voters; this server is the second.
const THREE: &str = "server.1=a:1:2;3\nserver.2=b:1:2;3\nserver.3=c:1:2;3\nversion=500000001";

fn list(voters: &[i64], observers: &[i64], version: Zxid) -> String {
    let line = |id: &i64, role: &str| format!("server.{id}=h{id}:1:2:{role};0.0.0.0:3\n");
    let mut lines: Vec<String> = voters.iter().map(|id| line(id, "participant")).collect();
    lines.extend(observers.iter().map(|id| line(id, "observer")));
    lines.sort();
    format!("{}version={:x}", lines.concat(), version.0)
}

fn reconfig(text: &str, zxid: Zxid) -> EncodedTxn {
    let header = TxnHeader { session: SessionId(1), cxid: 1, zxid, time_ms: 1 };
    let data = Some(text.as_bytes().to_vec().into());
    let txn = Txn::Reconfig(SetDataTxn { path: "/zookeeper/config".into(), data, version: -1 });
    let mut bytes = Vec::new();
    TxnEntry { header, txn, digest: None }.encode(&mut bytes);
    EncodedTxn { zxid, bytes: bytes.into() }
}

fn activated(desk: &Desk) -> Vec<String> {
    let text = |action: &Action| match action {
        Action::Config(ConfigEffect::Activate { configuration }) => Some(configuration.to_string()),
        _ => None,
    };
    desk.actions.iter().filter_map(text).collect()
}

impl Desk {
    fn propose_members(&mut self, voters: &[i64], observers: &[i64]) -> Zxid {
        let zxid = self.peer.next_zxid().unwrap();
        let mut out = Vec::new();
        self.peer.propose(reconfig(&list(voters, observers, zxid), zxid), self.now, &mut out);
        self.take(out);
        zxid
    }

    fn ack(&mut self, link: LinkId, zxid: Zxid) {
        self.packet(link, Packet::Ack { zxid });
    }

    /// A learner connects and is synchronized.
    fn join(&mut self, count: u64, server: i64) -> LinkId {
        let link = LinkId::accepted(count);
        self.handle(PeerEvent::Accepted { link });
        self.packet(link, follower_info(server, 5));
        let last = self.peer.last_proposed();
        self.packet(link, Packet::AckEpoch { last, current_epoch: 5 });
        self.ack(link, Zxid::new(6, 0));
        link
    }

    /// Leads servers 1 to 3 in epoch 6; 1 follows, and 4 and 5, which are not in the config.
    fn leader() -> (Desk, [LinkId; 3]) {
        let mut desk = Desk::changeable(recovered(LAST, 5), &list(&[1, 2, 3], &[], Zxid::new(5, 1)), None);
        let vote = desk.actions.iter().find_map(|action| match action {
            Action::Peer(PeerEffect::Notify { notification, .. }) => Some(notification.clone()),
            _ => None,
        });
        desk.handle(PeerEvent::Notification { from: ServerId(1), notification: vote.unwrap() });
        desk.wait(30);
        let links = [desk.join(1, 1), desk.join(2, 4), desk.join(3, 5)];
        assert_eq!(desk.peer.serving(), Some(ServingRole::Leading { epoch: 6 }));
        desk.actions.clear();
        (desk, links)
    }
}

#[test]
fn a_new_list_needs_a_quorum_of_the_old_and_of_the_new_one() {
    let (mut desk, [one, four, five]) = Desk::leader();
    let before = desk.propose();
    let change = desk.propose_members(&[2, 4, 5], &[]);
    let after = desk.propose();
    assert!(desk.peer.pending_configuration().is_some());
    for zxid in [before, change, after] {
        desk.ack(one, zxid);
    }
    assert_eq!(desk.delivered(), [before], "what came before the list is decided by the old one alone");
    assert!(activated(&desk).is_empty());
    desk.ack(four, before);
    desk.ack(four, change);
    assert_eq!(desk.delivered(), [before, change]);
    assert_eq!(activated(&desk), [list(&[2, 4, 5], &[], change)]);
    assert_eq!(desk.peer.pending_configuration(), None);
    // Server 1 has it, but has no vote any more.
    desk.ack(five, before);
    desk.ack(five, change);
    assert_eq!(desk.peer.status().committed, change);
    desk.ack(five, after);
    assert_eq!(desk.peer.status().committed, after);
}

#[test]
fn the_old_quorum_is_needed_too() {
    let (mut desk, [one, four, five]) = Desk::leader();
    let change = desk.propose_members(&[4, 5], &[]);
    for link in [four, five] {
        desk.ack(link, change);
    }
    assert!(activated(&desk).is_empty(), "this server alone is no quorum of the old list");
    desk.ack(one, change);
    assert_eq!(activated(&desk).len(), 1);
}

/// A server that knows the new config may already need a quorum of it; one that does not needs the old one.
#[test]
fn both_quorums_say_whether_a_leader_still_leads() {
    let (mut desk, [one, four, five]) = Desk::leader();
    let change = desk.propose_members(&[2, 4, 5], &[]);
    let mut out = Vec::new();
    let ping = desk.peer.start_quorum_check(desk.now, &mut out);
    desk.take(out);
    let answer = Packet::PingReply { zxid: change, touched: vec![], room: None };
    desk.packet(four, answer.clone());
    desk.packet(five, answer.clone());
    assert!(!desk.peer.quorum_has_answered(ping), "nobody of the old list");
    desk.packet(one, answer);
    assert!(desk.peer.quorum_has_answered(ping));
}

/// The commit position is always a transaction: the position before the first one of an epoch is not.
#[test]
fn a_list_that_is_the_first_of_its_epoch_waits_like_any_other() {
    let (mut desk, [one, four, _]) = Desk::leader();
    let change = desk.propose_members(&[2, 4, 5], &[]);
    assert_eq!(change, Zxid::new(6, 1));
    desk.ack(one, change);
    assert_eq!(desk.peer.status().committed, LAST);
    let told = |packet: &Packet| matches!(packet, Packet::Commit { .. } | Packet::CommitAndActivate { .. });
    assert!(!desk.take_sent(one).iter().any(told));
    desk.ack(four, change);
    assert_eq!(desk.peer.status().committed, change);
}

#[test]
fn everybody_is_told_who_leads_and_a_leader_that_stays_goes_on() {
    let (mut desk, [one, four, _]) = Desk::leader();
    let change = desk.propose_members(&[1, 2, 4], &[3]);
    desk.ack(one, change);
    desk.ack(four, change);
    let activate = Packet::CommitAndActivate { zxid: change, designated_leader: ME };
    assert!(desk.take_sent(one).contains(&activate));
    assert!(desk.peer.next_zxid().is_some(), "it goes on");
}

#[test]
fn a_leader_without_a_place_names_the_one_that_has_most_and_follows_him() {
    let (mut desk, [one, four, five]) = Desk::leader();
    let change = desk.propose_members(&[1, 4, 5], &[]);
    let after = desk.propose();
    desk.ack(four, change);
    desk.ack(four, after);
    desk.ack(five, change);
    desk.ack(one, change);
    let activate = Packet::CommitAndActivate { zxid: change, designated_leader: ServerId(4) };
    assert_eq!(desk.peer.next_zxid(), None, "it proposes nothing more");
    desk.ack(five, after);
    desk.ack(one, after);
    assert_eq!(desk.peer.status().committed, change, "and decides nothing more");
    assert!(desk.actions.contains(&Action::Peer(PeerEffect::Send { link: one, packet: activate.clone() })));
    assert!(desk.actions.contains(&Action::Peer(PeerEffect::Send { link: five, packet: activate })));
    desk.notify(5, ServerState::Following, ServerId(4));
    assert!(desk.peer.serving().is_some(), "that they go to him does not make it go sooner");
    desk.wait(35);
    assert!(desk.actions.contains(&Action::StopServing));
    let dialed = |action: &Action| matches!(action, Action::Peer(PeerEffect::Dial { to: ServerId(4), .. }));
    assert!(desk.actions.iter().any(dialed), "without an election");
}

/// Without servers 1 and 3 the proposed config has no quorum, and it could only wait.
#[test]
fn who_cannot_have_both_quorums_does_not_wait_for_them() {
    for (proposed, leads) in [(&[1, 2, 3][..], false), (&[2, 4, 5], true)] {
        let committed = list(&[1, 2, 3, 4, 5], &[], Zxid::new(5, 1));
        let last_seen = list(proposed, &[], Zxid::new(5, 6));
        let mut desk = Desk::changeable(recovered(LAST, 5), &committed, Some(&last_seen));
        let vote = desk.actions.iter().find_map(|action| match action {
            Action::Peer(PeerEffect::Notify { notification, .. }) => Some(notification.clone()),
            _ => None,
        });
        for from in [1, 3, 4] {
            let notification = vote.clone().unwrap();
            desk.handle(PeerEvent::Notification { from: ServerId(from), notification });
        }
        desk.wait(30);
        assert_eq!(desk.peer.status().leader, Some(ME));
        desk.notify(1, ServerState::Following, ServerId(3));
        assert_eq!(desk.peer.status().leader.is_some(), leads, "{proposed:?}");
    }
}

#[test]
fn a_new_address_is_a_new_place() {
    let (mut desk, [one, four, _]) = Desk::leader();
    let zxid = desk.peer.next_zxid().unwrap();
    let text = list(&[1, 2, 4], &[], zxid).replace("h2:1", "elsewhere:1");
    let mut out = Vec::new();
    desk.peer.propose(reconfig(&text, zxid), desk.now, &mut out);
    desk.take(out);
    desk.ack(one, zxid);
    desk.ack(four, zxid);
    assert_eq!(desk.peer.next_zxid(), None);
}

#[test]
fn quorums_of_a_list_are_those_who_follow() {
    let (desk, _) = Desk::leader();
    let has = |voters: &[i64]| {
        let text = list(voters, &[], Zxid::new(6, 1));
        desk.peer.has_quorum_of(&Configuration::parse(&text).unwrap())
    };
    assert!(has(&[1, 2, 3]) && has(&[1, 2]) && has(&[4, 5]) && has(&[2]));
    assert!(!has(&[3, 6]) && !has(&[2, 3, 6]) && !has(&[3]));
}

#[test]
fn the_first_leader_names_the_first_version() {
    let first = list(&[1, 2, 3], &[], Zxid::ZERO);
    let mut desk = Desk::changeable(recovered(Zxid::ZERO, 0), &first, None);
    let vote = desk.actions.iter().find_map(|action| match action {
        Action::Peer(PeerEffect::Notify { notification, .. }) => Some(notification.clone()),
        _ => None,
    });
    desk.handle(PeerEvent::Notification { from: ServerId(1), notification: vote.unwrap() });
    desk.wait(30);
    let link = LinkId::accepted(1);
    desk.handle(PeerEvent::Accepted { link });
    desk.packet(link, follower_info(1, 0));
    desk.packet(link, Packet::AckEpoch { last: Zxid::ZERO, current_epoch: 0 });
    let named = list(&[1, 2, 3], &[], Zxid::new(1, 0));
    let config = Some(named.as_bytes().into());
    assert!(desk.take_sent(link).contains(&Packet::NewLeader { zxid: Zxid::new(1, 0), config }));
    desk.ack(link, Zxid::new(1, 0));
    assert_eq!(activated(&desk), [named]);
}

/// A follower of server 3 before NEWLEADER.
fn follows_three() -> (Desk, LinkId) {
    let mut desk = Desk::changeable(recovered(LAST, 5), THREE, None);
    for (from, state) in [(1, ServerState::Following), (3, ServerState::Leading)] {
        desk.notify(from, state, ServerId(3));
    }
    let link = desk.expect_dial();
    desk.handle(PeerEvent::Dialed { link });
    let info =
        LearnerInfo { server: ME, protocol: LEARNER_PROTOCOL, config_version: 0x5_0000_0001, zebu: None };
    assert!(desk.take_sent(link).contains(&Packet::FollowerInfo { accepted: Zxid::new(5, 0), info }));
    desk.packet(link, Packet::LeaderInfo { zxid: Zxid::new(6, 0), protocol: LEARNER_PROTOCOL, zebu: None });
    desk.packet(link, Packet::Diff { zxid: LAST });
    (desk, link)
}

/// A follower of server 3 that has its complete history.
fn follower(config: &str) -> (Desk, LinkId) {
    let (mut desk, link) = follows_three();
    desk.packet(link, Packet::NewLeader { zxid: Zxid::new(6, 0), config: Some(config.as_bytes().into()) });
    (desk, link)
}

#[test]
fn what_a_leader_announces_takes_effect_with_his_history() {
    let announced = list(&[1, 2, 4], &[], LAST);
    let (mut desk, link) = follower(&announced);
    assert!(activated(&desk).is_empty());
    desk.packet(link, Packet::UpToDate);
    assert_eq!(activated(&desk), [announced]);
    // A config that the history does not commit is not activated.
    let proposed = list(&[1, 2, 4], &[], Zxid::new(6, 1));
    let (mut desk, link) = follower(&proposed);
    desk.packet(link, Packet::UpToDate);
    assert!(activated(&desk).is_empty());
    assert!(desk.peer.pending_configuration().is_some());
    desk.handle(PeerEvent::LinkDown { link });
    assert_eq!(desk.peer.pending_configuration(), None, "it is not in the log");
}

/// Apache leaders without reconfiguration send no config; an invalid one is ignored.
#[test]
fn a_leader_without_a_list_that_can_be_read_announces_nothing() {
    let without_voters = list(&[], &[1, 2], LAST);
    for config in [None, Some(&b"\xff\xfe"[..]), Some(b"server.1=x"), Some(without_voters.as_bytes())] {
        let (mut desk, link) = follows_three();
        desk.packet(
            link,
            Packet::NewLeader { zxid: Zxid::new(6, 0), config: config.map(|text| text.into()) },
        );
        desk.packet(link, Packet::UpToDate);
        assert!(matches!(desk.peer.serving(), Some(ServingRole::Following { epoch: 6, .. })), "{config:?}");
        assert_eq!((activated(&desk), desk.peer.pending_configuration()), (vec![], None), "{config:?}");
        assert_eq!(desk.peer.configuration().map(|it| it.version), Some(0x5_0000_0001));
    }
}

#[test]
fn a_follower_activates_at_the_commit_and_goes_where_it_belongs() {
    for (observers, voters, leader) in [(&[][..], &[1, 2, 4][..], 1), (&[2][..], &[1, 3][..], 3)] {
        let (mut desk, link) = follower(THREE);
        desk.packet(link, Packet::UpToDate);
        let zxid = Zxid::new(6, 1);
        let text = list(voters, observers, zxid);
        desk.packet(link, Packet::Proposal { zxid, entry: reconfig(&text, zxid).bytes });
        assert!(activated(&desk).is_empty());
        desk.packet(link, Packet::CommitAndActivate { zxid, designated_leader: ServerId(leader) });
        assert_eq!(activated(&desk), [text]);
        assert_eq!(desk.delivered(), [zxid], "clients hear of it before it goes");
        assert!(!desk.actions.contains(&Action::StopServing));
        desk.actions.clear();
        desk.wait(25);
        assert!(desk.actions.contains(&Action::StopServing));
        let link = desk.expect_dial();
        assert!(desk.actions.contains(&Action::Peer(PeerEffect::Dial {
            link,
            to: ServerId(leader),
            port: LearnerPort::Quorum
        })));
        desk.handle(PeerEvent::Dialed { link });
        let greeting = desk.take_sent(link).pop().unwrap();
        assert_eq!(matches!(greeting, Packet::ObserverInfo { .. }), !observers.is_empty(), "{greeting:?}");
    }
}

#[test]
fn a_list_that_was_never_proposed_cannot_take_effect() {
    let (mut desk, link) = follower(THREE);
    desk.packet(link, Packet::UpToDate);
    let zxid = Zxid::new(6, 1);
    desk.packet(link, Packet::CommitAndActivate { zxid, designated_leader: ServerId(3) });
    assert_eq!(desk.closed(link), Some(LinkCloseReason::UnknownZxid(zxid)));
    assert!(activated(&desk).is_empty());
}

/// Its leader treats it as a follower until it reconnects, and its replies to clients stay correct.
#[test]
fn who_becomes_an_observer_learns_like_a_follower_until_it_goes() {
    let (mut desk, link) = follower(THREE);
    desk.packet(link, Packet::UpToDate);
    let (zxid, next) = (Zxid::new(6, 1), Zxid::new(6, 2));
    desk.packet(link, Packet::Proposal { zxid, entry: reconfig(&list(&[1, 3], &[2], zxid), zxid).bytes });
    desk.packet(link, Packet::CommitAndActivate { zxid, designated_leader: ServerId(3) });
    desk.packet(link, proposal(next));
    desk.packet(link, Packet::Commit { zxid: next });
    desk.packet(link, Packet::Sync);
    let at = |wanted: &dyn Fn(&Action) -> bool| desk.actions.iter().position(wanted);
    let delivered = at(&|action| matches!(action, Action::Deliver(entry) if entry.zxid == next));
    let answered = at(&|action| matches!(action, Action::FromLeader { packet: Packet::Sync, .. }));
    assert!(delivered.is_some() && delivered < answered, "{delivered:?} {answered:?}");
    assert!(!desk.take_sent(link).contains(&Packet::Ack { zxid: next }), "it has no say any more");
}

#[test]
fn who_keeps_its_place_keeps_its_connection_even_if_it_is_no_member() {
    for voters in [&[1, 2, 3, 4][..], &[1, 3][..]] {
        let (mut desk, link) = follower(THREE);
        desk.packet(link, Packet::UpToDate);
        let zxid = Zxid::new(6, 1);
        desk.packet(link, Packet::Proposal { zxid, entry: reconfig(&list(voters, &[], zxid), zxid).bytes });
        desk.packet(link, Packet::CommitAndActivate { zxid, designated_leader: ServerId(3) });
        desk.packet(link, proposal(Zxid::new(6, 2)));
        desk.wait(100);
        assert!(!desk.actions.contains(&Action::StopServing));
        assert!(desk.take_sent(link).contains(&Packet::Ack { zxid: Zxid::new(6, 2) }));
    }
}

#[test]
fn what_the_leader_does_not_have_is_pending_no_more() {
    let pending = list(&[1, 2, 4], &[], LAST);
    let mut desk = Desk::changeable(recovered(LAST, 5), THREE, Some(&pending));
    assert!(desk.peer.pending_configuration().is_some());
    // Servers 1 and 3 have a leader without it: a quorum of the committed config, but not of the pending
    // one.
    for (from, state) in [(1, ServerState::Following), (3, ServerState::Leading)] {
        desk.notify(from, state, ServerId(3));
    }
    let link = desk.expect_dial();
    desk.handle(PeerEvent::Dialed { link });
    desk.packet(link, Packet::LeaderInfo { zxid: Zxid::new(6, 0), protocol: LEARNER_PROTOCOL, zebu: None });
    desk.packet(link, Packet::Trunc { zxid: Zxid::new(5, 6) });
    assert_eq!(desk.peer.pending_configuration(), None);
}

/// The snapshot of a leader reaches beyond the zxid of a config that was proposed here, and does not contain
/// it.
#[test]
fn what_is_not_in_the_state_of_a_leader_is_pending_no_more() {
    let pending = list(&[1, 2, 4], &[], LAST);
    for (announced, stays) in [(THREE, false), (pending.as_str(), true)] {
        let mut desk = Desk::changeable(recovered(LAST, 5), THREE, Some(&pending));
        for (from, state) in [(1, ServerState::Following), (3, ServerState::Leading)] {
            desk.notify(from, state, ServerId(3));
        }
        let link = desk.expect_dial();
        desk.handle(PeerEvent::Dialed { link });
        desk.packet(
            link,
            Packet::LeaderInfo { zxid: Zxid::new(7, 0), protocol: LEARNER_PROTOCOL, zebu: None },
        );
        desk.packet(link, Packet::Snap { zxid: Zxid::new(6, 9) });
        desk.handle(PeerEvent::SnapshotReceived { link });
        let config = Some(announced.as_bytes().into());
        desk.packet(link, Packet::NewLeader { zxid: Zxid::new(7, 0), config });
        assert_eq!(desk.peer.pending_configuration().is_some(), stays);
        desk.handle(PeerEvent::LinkDown { link });
        assert_eq!(desk.peer.pending_configuration().is_some(), stays, "the history has it, or has not");
    }
}

/// A leader announces a config that is older than the end of the own history and not in it, then is lost.
#[test]
fn what_a_leader_has_only_spoken_of_goes_with_him() {
    let (mut desk, link) = follower(&list(&[1, 2, 4], &[], Zxid(LAST.0 - 1)));
    assert!(desk.peer.pending_configuration().is_some());
    desk.handle(PeerEvent::LinkDown { link });
    assert_eq!(desk.peer.pending_configuration(), None);
}

#[test]
fn one_that_looks_takes_the_newer_list_of_others() {
    let mut desk = Desk::changeable(recovered(LAST, 5), THREE, None);
    let newer = list(&[7, 8], &[], Zxid::new(6, 9));
    let notification = |text: &str| Notification {
        state: ServerState::Following,
        leader: ServerId(8),
        zxid: LAST,
        round: 1,
        epoch: 6,
        version: NotificationVersion::V2,
        config: Some(text.into()),
    };
    for bad in ["", "version=zz", "nonsense=1\nversion=700000000", "version=700000000"] {
        desk.handle(PeerEvent::Notification { from: ServerId(1), notification: notification(bad) });
    }
    assert!(activated(&desk).is_empty(), "not what is no list");
    desk.actions.clear();
    desk.handle(PeerEvent::Notification { from: ServerId(1), notification: notification(&newer) });
    assert_eq!(activated(&desk), std::slice::from_ref(&newer));
    let asked: Vec<ServerId> = desk
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::Peer(PeerEffect::Notify { to, .. }) => Some(*to),
            _ => None,
        })
        .collect();
    assert_eq!(asked, [ServerId(7), ServerId(8)], "the search begins anew among the new members");
    // It has no vote any more, and joins the leader of the voters.
    for (from, state) in [(7, ServerState::Following), (8, ServerState::Leading)] {
        let notification = Notification { state, ..notification(&newer) };
        desk.handle(PeerEvent::Notification { from: ServerId(from), notification });
    }
    assert_eq!(desk.peer.status().leader, Some(ServerId(8)));
}

/// Votes carry the addresses of a proposed config. A server that lacks the proposal can then connect to its
/// candidates; nothing else counts.
#[test]
fn votes_tell_where_those_are_who_may_become_members() {
    let proposed = list(&[1, 4], &[], LAST);
    let knows = Desk::changeable(recovered(LAST, 5), THREE, Some(&proposed));
    let vote = knows.actions.iter().find_map(|action| match action {
        Action::Peer(PeerEffect::Notify { to: ServerId(1), notification }) => Some(notification.clone()),
        _ => None,
    });
    let vote = vote.unwrap();
    let mut desk = Desk::changeable(recovered(Zxid::new(5, 2), 5), THREE, None);
    let mut located = |from| {
        desk.actions.clear();
        desk.handle(PeerEvent::Notification { from: ServerId(from), notification: vote.clone() });
        assert!(activated(&desk).is_empty() && desk.peer.pending_configuration().is_none());
        let text = |action: &Action| match action {
            Action::Config(ConfigEffect::LearnAddresses { configuration }) => Some(configuration.to_string()),
            _ => None,
        };
        desk.actions.iter().find_map(text)
    };
    assert_eq!(located(9), None, "not from a stranger");
    assert_eq!(located(1), Some(proposed));
    assert_eq!(located(3), None, "it knows");
}

#[test]
fn a_leader_refuses_who_knows_a_newer_list() {
    let (mut desk, _) = Desk::leader();
    let link = LinkId::accepted(9);
    desk.handle(PeerEvent::Accepted { link });
    let info = LearnerInfo {
        server: ServerId(9),
        protocol: LEARNER_PROTOCOL,
        config_version: 0x7_0000_0000,
        zebu: None,
    };
    desk.packet(link, Packet::FollowerInfo { accepted: Zxid::ZERO, info });
    assert_eq!(desk.closed(link), Some(LinkCloseReason::NewerConfig(0x7_0000_0000)));
}
