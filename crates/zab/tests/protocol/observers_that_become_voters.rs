//! A proposed config in the log whose voters are observers in the committed one. A new leader counts their
//! acks for the quorum of the proposed config, and for nothing else.

use zebu_proto::quorum::Packet;
use zebu_proto::quorum::packet::{LEARNER_PROTOCOL, LearnerInfo};
use zebu_proto::{ServerId, Zxid};
use zebu_zab::{Action, LinkId, PeerEffect, PeerEvent, ServingRole};

use crate::desk::{Desk, follower_info, recovered};

const LAST: Zxid = Zxid::new(5, 7);
const NOT_COUNTED: i32 = -1;

const ONE: LinkId = LinkId::accepted(1);
const THREE: LinkId = LinkId::accepted(3);
const FOUR: LinkId = LinkId::accepted(4);

/// Voters 1 and 2, observer 3.
const IN_EFFECT: &str = "server.1=a:1:2;3\nserver.2=b:1:2;3\nserver.3=c:1:2:observer;3\nversion=500000001";

fn observer_info(server: i64, accepted: u32) -> Packet {
    let info =
        LearnerInfo { server: ServerId(server), protocol: LEARNER_PROTOCOL, config_version: 0, zebu: None };
    Packet::ObserverInfo { accepted: Zxid::new(accepted, 0), info }
}

/// A leader elected by 1, 3 and 4, with a proposed config of these lines in its log.
fn elected(proposed: &str) -> Desk {
    let proposed = format!("{proposed}\nversion=500000006");
    let mut desk = Desk::changeable(recovered(LAST, 5), IN_EFFECT, Some(&proposed));
    let vote = desk.actions.iter().find_map(|action| match action {
        Action::Peer(PeerEffect::Notify { notification, .. }) => Some(notification.clone()),
        _ => None,
    });
    for from in [1, 3, 4] {
        let notification = vote.clone().unwrap();
        desk.handle(PeerEvent::Notification { from: ServerId(from), notification });
    }
    desk.wait(30);
    assert_eq!(desk.peer.status().leader, Some(crate::desk::ME));
    for (link, info) in
        [(ONE, follower_info(1, 5)), (THREE, observer_info(3, 5)), (FOUR, follower_info(4, 5))]
    {
        desk.handle(PeerEvent::Accepted { link });
        desk.packet(link, info);
    }
    desk
}

fn accept(desk: &mut Desk, link: LinkId, current_epoch: i32) {
    desk.packet(link, Packet::AckEpoch { last: LAST, current_epoch });
}

fn acknowledge(desk: &mut Desk, link: LinkId) {
    desk.packet(link, Packet::Ack { zxid: Zxid::new(6, 0) });
}

fn is_designated(desk: &Desk, server: i64) -> bool {
    desk.actions
        .iter()
        .any(|it| matches!(it, Action::Peer(PeerEffect::Dial { to, .. }) if *to == ServerId(server)))
}

#[test]
fn an_observer_counts_for_the_configuration_that_makes_it_a_voter() {
    let mut desk = elected("server.3=c:1:2;3\nserver.4=d:1:2;3");
    for link in [ONE, THREE, FOUR] {
        accept(&mut desk, link, 5);
    }
    for link in [ONE, FOUR] {
        acknowledge(&mut desk, link);
    }
    assert_eq!(desk.peer.serving(), None, "one of two is no quorum of the proposed configuration");
    acknowledge(&mut desk, THREE);
    assert_eq!(desk.peer.serving(), Some(ServingRole::Leading { epoch: 6 }));
    assert_eq!(desk.peer.configuration().unwrap().version, 0x5_0000_0006);
    assert_eq!(desk.peer.next_zxid(), None, "it has no place in the new configuration");
    desk.wait(40);
    assert!(is_designated(&desk, 4), "{:?}", desk.actions);
}

/// The only other voter of the new config accepted the history as an observer.
#[test]
fn a_leader_without_a_place_may_name_a_former_observer() {
    let mut desk = elected("server.3=c:1:2;3");
    for link in [ONE, THREE] {
        accept(&mut desk, link, 5);
    }
    for link in [ONE, THREE] {
        acknowledge(&mut desk, link);
    }
    assert_eq!(desk.peer.next_zxid(), None);
    desk.wait(40);
    assert!(is_designated(&desk, 3), "{:?}", desk.actions);
}

#[test]
fn an_observer_does_not_count_for_the_configuration_in_effect() {
    let mut desk = elected("server.2=b:1:2;3\nserver.3=c:1:2;3");
    accept(&mut desk, THREE, 5);
    let asked = desk.take_sent(THREE);
    assert!(!asked.iter().any(|packet| matches!(packet, Packet::NewLeader { .. })), "{asked:?}");
    accept(&mut desk, ONE, 5);
    acknowledge(&mut desk, THREE);
    assert_eq!(desk.peer.serving(), None, "2 alone is no quorum of 1 and 2");
    acknowledge(&mut desk, ONE);
    assert_eq!(desk.peer.serving(), Some(ServingRole::Leading { epoch: 6 }));
    assert!(desk.peer.next_zxid().is_some(), "it has its place");
}

/// It has accepted a later epoch, or its disk keeps no transactions.
#[test]
fn an_observer_whose_promise_does_not_count_does_not_count_for_the_history_either() {
    // Its ACKEPOCH is not needed: 2 and 4 are a quorum of three.
    let mut desk = elected("server.2=b:1:2;3\nserver.3=c:1:2;3\nserver.4=d:1:2;3");
    for (link, current_epoch) in [(ONE, 5), (THREE, NOT_COUNTED), (FOUR, 5)] {
        accept(&mut desk, link, current_epoch);
    }
    for link in [ONE, THREE] {
        acknowledge(&mut desk, link);
    }
    assert_eq!(desk.peer.serving(), None);
    acknowledge(&mut desk, FOUR);
    assert_eq!(desk.peer.serving(), Some(ServingRole::Leading { epoch: 6 }));
}
