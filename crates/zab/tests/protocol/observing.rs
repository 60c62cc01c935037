//! Observers without a log: their packets, the data they keep, and the data they discard.

use zebu_proto::quorum::packet::LEARNER_PROTOCOL;
use zebu_proto::quorum::{Packet, ServerState};
use zebu_proto::{ServerId, Zxid};
use zebu_zab::{Action, DiskCommand, LinkId, ObserverLog, ObserverSettings, PeerEvent, Role, ServingRole};

use crate::desk::{Desk, entry, recovered};

const LAST: Zxid = Zxid::new(5, 7);
const IN_MEMORY: ObserverSettings = ObserverSettings {
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
        matches!(
            action,
            Action::Append { .. }
                | Action::Disk(DiskCommand::Truncate { .. })
                | Action::Disk(DiskCommand::SaveCurrentEpoch { .. })
        )
    };
    desk.actions.iter().filter(is_order).collect()
}

/// An observer that serves in epoch 6, with one transaction after 5/7 from the synchronization.
fn observing() -> (Desk, LinkId) {
    let (mut desk, link) = Desk::learner_with(IN_MEMORY, recovered(LAST, 5), Role::Observer);
    let leader = Packet::LeaderInfo { zxid: Zxid::new(6, 0), protocol: LEARNER_PROTOCOL, zebu: None };
    let new_leader = Packet::NewLeader { zxid: Zxid::new(6, 0), config: None };
    for packet in [leader, Packet::Diff { zxid: Zxid::new(6, 1) }, inform(Zxid::new(6, 1)), new_leader] {
        desk.packet(link, packet);
    }
    desk.packet(link, Packet::UpToDate);
    assert!(matches!(desk.peer.serving(), Some(ServingRole::Observing { epoch: 6, .. })));
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

/// A proposed config may make it a voter, and its leader must not rely on a disk that keeps no transactions.
#[test]
fn its_promise_is_not_counted() {
    let (mut desk, link) = Desk::learner_with(IN_MEMORY, recovered(LAST, 5), Role::Observer);
    desk.packet(link, Packet::LeaderInfo { zxid: Zxid::new(6, 0), protocol: LEARNER_PROTOCOL, zebu: None });
    assert_eq!(desk.take_sent(link), [Packet::AckEpoch { last: LAST, current_epoch: -1 }]);
}

#[test]
fn a_history_that_is_on_disk_as_a_whole_is_accepted_there() {
    let (mut desk, link) = Desk::learner_with(IN_MEMORY, recovered(LAST, 5), Role::Observer);
    let leader = Packet::LeaderInfo { zxid: Zxid::new(6, 0), protocol: LEARNER_PROTOCOL, zebu: None };
    for packet in [leader, Packet::Diff { zxid: LAST }] {
        desk.packet(link, packet);
    }
    desk.packet(link, Packet::NewLeader { zxid: Zxid::new(6, 0), config: None });
    assert!(matches!(
        orders_of_disk(&desk)[..],
        [Action::Disk(DiskCommand::SaveCurrentEpoch { epoch: 6, .. })]
    ));
}

#[test]
fn it_comes_again_with_all_that_it_knows() {
    let (mut desk, link) = observing();
    desk.handle(PeerEvent::LinkDown { link });
    desk.actions.clear();
    desk.notify(1, ServerState::Following, ServerId(3));
    desk.notify(3, ServerState::Leading, ServerId(3));
    let link = desk.expect_dial();
    desk.handle(PeerEvent::Dialed { link });
    desk.packet(link, Packet::LeaderInfo { zxid: Zxid::new(7, 0), protocol: LEARNER_PROTOCOL, zebu: None });
    let last = Packet::AckEpoch { last: Zxid::new(6, 1), current_epoch: -1 };
    assert!(desk.take_sent(link).contains(&last));
}

/// Its disk ends before the target of the TRUNC: it discards all data in memory and reconnects.
#[test]
fn a_cut_in_what_is_only_in_memory_makes_it_go_back_to_its_disk() {
    let (mut desk, link) = Desk::learner_with(IN_MEMORY, recovered(LAST, 5), Role::Observer);
    let leader = Packet::LeaderInfo { zxid: Zxid::new(6, 0), protocol: LEARNER_PROTOCOL, zebu: None };
    for packet in [leader, Packet::Diff { zxid: LAST }, inform(Zxid::new(6, 1)), inform(Zxid::new(6, 2))] {
        desk.packet(link, packet);
    }
    desk.handle(PeerEvent::LinkDown { link });
    desk.actions.clear();
    desk.notify(1, ServerState::Following, ServerId(3));
    desk.notify(3, ServerState::Leading, ServerId(3));
    let link = desk.expect_dial();
    desk.handle(PeerEvent::Dialed { link });
    desk.packet(link, Packet::LeaderInfo { zxid: Zxid::new(6, 0), protocol: LEARNER_PROTOCOL, zebu: None });
    desk.actions.clear();
    desk.packet(link, Packet::Trunc { zxid: Zxid::new(6, 1) });
    let [Action::Disk(DiskCommand::Truncate { to, .. })] = orders_of_disk(&desk)[..] else {
        panic!("{:?}", desk.actions)
    };
    assert_eq!(*to, LAST);
    assert_eq!(desk.peer.status().logged, LAST);
    assert_eq!(desk.peer.status().current_epoch, 5);
}
