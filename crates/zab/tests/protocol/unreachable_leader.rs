//! A server that sends votes but receives nothing: it wins an election, and its voters cannot connect to it.

use zebu_proto::quorum::election::NotificationVersion;
use zebu_proto::quorum::{Notification, ServerState};
use zebu_proto::{ServerId, Zxid};
use zebu_zab::{Action, PeerEffect, PeerEvent, Role};

use crate::desk::{Desk, ME, recovered};

const LAST: Zxid = Zxid::new(5, 7);

/// The connect limit: seven ticks.
const CONNECT_MS: i64 = 700;

fn vote(leader: ServerId, zxid: Zxid, round: i64) -> Notification {
    let version = NotificationVersion::V2;
    Notification { state: ServerState::Looking, leader, zxid, round, epoch: 5, version, config: None }
}

/// The round of the last vote that was sent.
fn last_round(desk: &Desk) -> i64 {
    let round = |action: &Action| match action {
        Action::Peer(PeerEffect::Notify { notification, .. }) => Some(notification.round),
        _ => None,
    };
    desk.actions.iter().rev().find_map(round).unwrap()
}

/// Server 3 has the longest history. It never learns that a new round started, so its votes count only once.
#[test]
fn a_leader_that_hears_nothing_is_elected_once_and_waited_for_no_longer_than_for_a_connection() {
    let mut desk = Desk::new(recovered(LAST, 5), Role::Participant);
    let round = last_round(&desk);
    let deaf = vote(ServerId(3), Zxid::new(5, 9), round);
    for from in [3, 1] {
        desk.handle(PeerEvent::Notification { from: ServerId(from), notification: deaf.clone() });
    }
    desk.wait(30);
    assert_eq!(desk.peer.status().leader, Some(ServerId(3)));
    desk.expect_dial();
    desk.actions.clear();
    desk.wait(CONNECT_MS - 50);
    assert_eq!(desk.peer.status().leader, Some(ServerId(3)));
    desk.wait(100);
    assert_eq!(desk.peer.status().leader, None, "nothing has answered");
    let next = last_round(&desk);
    assert!(next > round);
    desk.handle(PeerEvent::Notification { from: ServerId(3), notification: deaf });
    desk.handle(PeerEvent::Notification { from: ServerId(1), notification: vote(ME, LAST, next) });
    desk.wait(30);
    assert_eq!(desk.peer.status().leader, Some(ME));
}
