//! Quorum checks of a leader: a ping that a quorum has answered proves leadership at the time it was sent.

use zebu_proto::Zxid;
use zebu_proto::quorum::Packet;
use zebu_proto::quorum::packet::{LEARNER_PROTOCOL, LearnerInfo};
use zebu_zab::{LinkId, PeerEvent, PingNumber};

use crate::desk::{Desk, Disk, ME, follower_info, recovered};

const LAST: Zxid = Zxid::new(5, 7);
/// Half a tick.
const BEAT_MS: i64 = 50;

impl Desk {
    fn ask(&mut self) -> PingNumber {
        let mut out = Vec::new();
        let ping = self.peer.start_quorum_check(self.now, &mut out);
        self.take(out);
        ping
    }

    fn answer(&mut self, link: LinkId, zxid: Zxid) {
        self.packet(link, Packet::PingReply { zxid, touched: vec![], room: None });
    }

    /// The number of pings sent on a connection; drops all other actions.
    fn pings(&mut self, link: LinkId) -> usize {
        self.take_sent(link).iter().filter(|packet| matches!(packet, Packet::Ping { .. })).count()
    }

    /// Advances the time until a ping is sent.
    fn beat(&mut self, link: LinkId) -> i64 {
        self.pings(link);
        while self.pings(link) == 0 {
            self.wait(1);
        }
        self.now
    }
}

#[test]
fn an_answer_is_worth_the_moment_when_its_ping_was_sent() {
    let (mut desk, link) = Desk::established();
    let first = desk.beat(link);
    assert!(!desk.peer.has_quorum_since(i64::MIN + 1), "nobody has said anything");
    let second = desk.beat(link);
    desk.answer(link, LAST);
    assert!(desk.peer.has_quorum_since(first) && !desk.peer.has_quorum_since(first + 1));
    desk.wait(BEAT_MS / 2);
    desk.answer(link, LAST);
    assert!(desk.peer.has_quorum_since(second) && !desk.peer.has_quorum_since(second + 1));
    desk.answer(link, LAST);
    assert!(!desk.peer.has_quorum_since(second + 1), "nobody was asked");
}

#[test]
fn who_is_asked_answers_for_that_moment() {
    let (mut desk, link) = Desk::established();
    desk.beat(link);
    let ping = desk.ask();
    assert_eq!(desk.pings(link), 1, "at once");
    desk.answer(link, LAST);
    assert!(!desk.peer.quorum_has_answered(ping), "that is the answer to the one before");
    desk.answer(link, LAST);
    assert!(desk.peer.quorum_has_answered(ping) && desk.peer.has_quorum_since(desk.now));
}

#[test]
fn one_ping_leaves_out_of_turn_at_a_time() {
    let (mut desk, link) = Desk::established();
    desk.beat(link);
    desk.answer(link, LAST);
    let first = desk.ask();
    let [second, third] = [desk.ask(), desk.ask()];
    assert_eq!(desk.pings(link), 1);
    desk.answer(link, LAST);
    assert!(desk.peer.quorum_has_answered(first));
    assert!(!desk.peer.quorum_has_answered(second) && !desk.peer.quorum_has_answered(third));
    desk.wait(1);
    assert_eq!(desk.pings(link), 1, "one for both");
    desk.answer(link, LAST);
    assert!(desk.peer.quorum_has_answered(second) && desk.peer.quorum_has_answered(third));
    desk.wait(10);
    assert_eq!(desk.pings(link), 0, "everything is known");
}

#[test]
fn who_is_silent_is_not_asked_again_and_again() {
    let (mut desk, link) = Desk::established();
    desk.beat(link);
    let ping = desk.ask();
    desk.pings(link);
    desk.wait(BEAT_MS - 1);
    assert_eq!(desk.pings(link), 0);
    desk.wait(2 * BEAT_MS);
    desk.ask();
    assert_eq!(desk.pings(link), 2, "those of every half tick");
    assert!(!desk.peer.quorum_has_answered(ping));
}

/// Before UPTODATE a learner does not answer pings.
#[test]
fn pings_that_nobody_answers_are_not_waited_for() {
    let mut desk = Desk::elected(recovered(LAST, 5));
    let link = LinkId::accepted(1);
    desk.handle(PeerEvent::Accepted { link });
    desk.packet(link, follower_info(1, 5));
    desk.disk = Disk::ByHand;
    desk.packet(link, Packet::AckEpoch { last: LAST, current_epoch: 5 });
    desk.packet(link, Packet::Ack { zxid: Zxid::new(6, 0) });
    desk.wait(3 * BEAT_MS);
    let pings = desk.actions.iter().filter(|action| {
        matches!(
            action,
            zebu_zab::Action::Peer(zebu_zab::PeerEffect::Send { packet: Packet::Ping { .. }, .. })
        )
    });
    assert!(pings.count() >= 2);
    assert_eq!(desk.peer.serving(), None);
    desk.finish_disk();
    assert!(desk.peer.serving().is_some());
    desk.pings(link);
    let ping = desk.ask();
    assert_eq!(desk.pings(link), 1);
    desk.answer(link, LAST);
    assert!(desk.peer.quorum_has_answered(ping));
}

#[test]
fn who_has_no_vote_does_not_count() {
    let (mut desk, link) = Desk::established();
    let observer = LinkId::accepted(2);
    desk.handle(PeerEvent::Accepted { link: observer });
    let info = LearnerInfo {
        server: zebu_proto::ServerId(9),
        protocol: LEARNER_PROTOCOL,
        config_version: 0,
        zebu: None,
    };
    desk.packet(observer, Packet::ObserverInfo { accepted: Zxid::new(5, 0), info });
    desk.packet(observer, Packet::AckEpoch { last: LAST, current_epoch: 5 });
    desk.packet(observer, Packet::Ack { zxid: Zxid::new(6, 0) });
    desk.beat(link);
    let ping = desk.ask();
    for _ in 0..3 {
        desk.answer(observer, LAST);
    }
    assert!(!desk.peer.quorum_has_answered(ping) && !desk.peer.has_quorum_since(0));
}

#[test]
fn a_leader_alone_knows_itself() {
    let mut desk = Desk::alone(recovered(LAST, 5));
    desk.wait(100);
    assert_eq!(desk.peer.status().leader, Some(ME));
    let ping = desk.ask();
    assert!(desk.peer.quorum_has_answered(ping) && desk.peer.has_quorum_since(desk.now));
    desk.wait(10);
    let ping = desk.ask();
    assert!(desk.peer.quorum_has_answered(ping));
}

#[test]
fn what_was_known_stays_known_and_ends_with_the_role() {
    let (mut desk, link) = Desk::established();
    let ping = desk.ask();
    desk.answer(link, LAST);
    assert!(desk.peer.quorum_has_answered(ping));
    let asked = desk.now;
    desk.handle(PeerEvent::LinkDown { link });
    assert!(desk.peer.quorum_has_answered(ping) && desk.peer.has_quorum_since(asked));
    assert!(!desk.peer.has_quorum_since(asked + 1));
    desk.wait(60);
    assert_eq!(desk.peer.serving(), None);
    assert!(!desk.peer.quorum_has_answered(ping) && !desk.peer.has_quorum_since(asked));
}
