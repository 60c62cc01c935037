//! Observers without a log: what they say, what they keep, and what they give up.

use zebu_proto::quorum::packet::LEARNER_PROTOCOL;
use zebu_proto::quorum::{Packet, PeerState};
use zebu_proto::{ServerId, Zxid};
use zebu_zab::{Action, Event, LinkId, ObserverLog, Observing, Role, Serving};

use crate::desk::{Desk, entry, recovered};

const LAST: Zxid = Zxid::new(5, 7);
const IN_MEMORY: Observing = Observing {
    log: ObserverLog::InMemory,
    masters: zebu_zab::ObserverMasters::LeaderOnly,
    election_delay_ms: 0,
    reconnect_delay_ms: 0,
    seed: 1,
};

fn inform(zxid: Zxid) -> Packet {
    Packet::Inform { zxid, entry: entry(zxid).bytes }
}

fn orders_of_disk(desk: &Desk) -> Vec<&Action> {
    let is_order = |action: &&Action| {
        matches!(action, Action::Append { .. } | Action::Truncate { .. } | Action::SaveCurrentEpoch { .. })
    };
    desk.actions.iter().filter(is_order).collect()
}

/// Serves in epoch 6, with one transaction behind 5/7 that came with the history.
fn observing() -> (Desk, LinkId) {
    let (mut desk, link) = Desk::learner_with(IN_MEMORY, recovered(LAST, 5), Role::Observer);
    let leader = Packet::LeaderInfo { zxid: Zxid::new(6, 0), protocol: LEARNER_PROTOCOL };
    let new_leader = Packet::NewLeader { zxid: Zxid::new(6, 0), config: None };
    for packet in [leader, Packet::Diff { zxid: Zxid::new(6, 1) }, inform(Zxid::new(6, 1)), new_leader] {
        desk.packet(link, packet);
    }
    desk.packet(link, Packet::UpToDate);
    assert!(matches!(desk.peer.serving(), Some(Serving::Observing { epoch: 6, .. })));
    (desk, link)
}

#[test]
fn it_applies_what_it_does_not_write_and_does_not_say_that_it_has_it() {
    let (mut desk, link) = observing();
    desk.packet(link, inform(Zxid::new(6, 2)));
    assert_eq!(desk.delivered(), [Zxid::new(6, 1), Zxid::new(6, 2)]);
    assert_eq!(
        orders_of_disk(&desk),
        Vec::<&Action>::new(),
        "not even the epoch: its history is not on disk"
    );
    let acks = desk.take_sent(link);
    assert_eq!(acks.iter().filter(|packet| matches!(packet, Packet::Ack { .. })).count(), 2, "{acks:?}");
}

#[test]
fn a_history_that_is_on_disk_as_a_whole_is_accepted_there() {
    let (mut desk, link) = Desk::learner_with(IN_MEMORY, recovered(LAST, 5), Role::Observer);
    let leader = Packet::LeaderInfo { zxid: Zxid::new(6, 0), protocol: LEARNER_PROTOCOL };
    for packet in [leader, Packet::Diff { zxid: LAST }] {
        desk.packet(link, packet);
    }
    desk.packet(link, Packet::NewLeader { zxid: Zxid::new(6, 0), config: None });
    assert!(matches!(orders_of_disk(&desk)[..], [Action::SaveCurrentEpoch { epoch: 6, .. }]));
}

#[test]
fn it_comes_again_with_all_that_it_knows() {
    let (mut desk, link) = observing();
    desk.handle(Event::LinkDown { link });
    desk.actions.clear();
    desk.notify(1, PeerState::Following, ServerId(3));
    desk.notify(3, PeerState::Leading, ServerId(3));
    let link = desk.expect_dial();
    desk.handle(Event::Dialed { link });
    desk.packet(link, Packet::LeaderInfo { zxid: Zxid::new(7, 0), protocol: LEARNER_PROTOCOL });
    let last = Packet::AckEpoch { last: Zxid::new(6, 1), current_epoch: 6 };
    assert!(desk.take_sent(link).contains(&last));
}

/// Its disk ends before the place to which it is to go back: it forgets everything that is not there, and comes again.
#[test]
fn a_cut_in_what_is_only_in_memory_makes_it_go_back_to_its_disk() {
    let (mut desk, link) = Desk::learner_with(IN_MEMORY, recovered(LAST, 5), Role::Observer);
    let leader = Packet::LeaderInfo { zxid: Zxid::new(6, 0), protocol: LEARNER_PROTOCOL };
    for packet in [leader, Packet::Diff { zxid: LAST }, inform(Zxid::new(6, 1)), inform(Zxid::new(6, 2))] {
        desk.packet(link, packet);
    }
    desk.handle(Event::LinkDown { link });
    desk.actions.clear();
    desk.notify(1, PeerState::Following, ServerId(3));
    desk.notify(3, PeerState::Leading, ServerId(3));
    let link = desk.expect_dial();
    desk.handle(Event::Dialed { link });
    desk.packet(link, Packet::LeaderInfo { zxid: Zxid::new(6, 0), protocol: LEARNER_PROTOCOL });
    desk.actions.clear();
    desk.packet(link, Packet::Trunc { zxid: Zxid::new(6, 1) });
    let [Action::Truncate { to, .. }] = orders_of_disk(&desk)[..] else { panic!("{:?}", desk.actions) };
    assert_eq!(*to, LAST);
    assert_eq!(desk.peer.status().logged, LAST);
    assert_eq!(desk.peer.status().current_epoch, 5);
}
