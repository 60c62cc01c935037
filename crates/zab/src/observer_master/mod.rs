//! A follower that serves observers, so that the leader need not: it teaches them what it has itself, tells them what
//! becomes decided, and carries what their clients ask to the leader. It decides nothing, and has nothing to promise.

mod greeting;
mod liveness;
mod relay;

use std::collections::BTreeMap;

use zebu_proto::quorum::Packet;
use zebu_proto::{ServerId, Zxid};

use crate::action::{Action, CloseReason};
use crate::event::{Event, LinkId};
use crate::member::Member;
use crate::packet_name::packet_name;
use crate::peer::LearnerStatus;
use crate::teaching::{Course, LearnerLink, LearnerStep, Phase};
use relay::Relay;

/// The observers of a follower, as long as it follows.
#[derive(Debug)]
pub(crate) struct ObserverMaster {
    /// The epoch of its leader.
    epoch: u32,
    /// Its connection to the leader.
    leader: LinkId,
    observers: BTreeMap<LinkId, LearnerLink>,
    relay: Relay,
    next_beat_ms: i64,
    /// Configurations that have taken effect since it follows, and whom each made the leader.
    activated: BTreeMap<Zxid, ServerId>,
}

impl ObserverMaster {
    pub(crate) fn new(epoch: u32, leader: LinkId, member: &Member, now_ms: i64) -> ObserverMaster {
        ObserverMaster {
            epoch,
            leader,
            observers: BTreeMap::new(),
            relay: Relay::default(),
            next_beat_ms: now_ms + (member.settings.tick_ms / 2).max(1),
            activated: BTreeMap::new(),
        }
    }

    /// An observer has connected.
    pub(crate) fn accept(&mut self, link: LinkId, now_ms: i64) {
        self.observers.insert(link, LearnerLink::new(now_ms));
    }

    /// All connections, to be closed when the role ends.
    pub(crate) fn links(&self) -> impl Iterator<Item = LinkId> + '_ {
        self.observers.keys().copied()
    }

    pub(crate) fn status(&self) -> Vec<LearnerStatus> {
        self.observers.iter().filter_map(|(&link, observer)| observer.status(link)).collect()
    }

    /// Takes an event of one of its connections; those of others do not concern it.
    pub(crate) fn handle(&mut self, event: Event, member: &Member, now_ms: i64, out: &mut Vec<Action>) {
        match event {
            Event::LinkDown { link } => drop(self.observers.remove(&link)),
            Event::Packet { link, packet } => {
                if let Some(observer) = self.observers.get_mut(&link) {
                    observer.heard_ms = now_ms;
                    let result = self.packet(link, packet, member, out);
                    self.close_if_wrong(link, result, out);
                }
            }
            Event::Sent { link, weight } => {
                if let Some(observer) = self.observers.get_mut(&link) {
                    observer.took(weight, now_ms);
                }
                self.teach(link, member, |observer, course| observer.pump(link, course, out));
            }
            Event::SnapshotMoves { link } => {
                if let Some(observer) = self.observers.get_mut(&link) {
                    observer.heard_ms = now_ms;
                }
            }
            Event::SnapshotSent { link } => {
                self.teach(link, member, |observer, course| {
                    observer.heard_ms = now_ms;
                    observer.snapshot_sent(link, course, out);
                });
            }
            Event::LogRead { link, read } => {
                let result =
                    self.teach(link, member, |observer, course| observer.log_read(link, read, course, out));
                self.close_if_wrong(link, result.unwrap_or(Ok(())), out);
            }
            Event::Notification { .. }
            | Event::Dialed { .. }
            | Event::DialFailed { .. }
            | Event::Accepted { .. }
            | Event::ObserverAccepted { .. }
            | Event::SnapshotReceived { .. }
            | Event::Persisted { .. }
            | Event::TruncateRefused { .. } => {}
        }
    }

    fn packet(
        &mut self,
        link: LinkId,
        packet: Packet,
        member: &Member,
        out: &mut Vec<Action>,
    ) -> Result<(), CloseReason> {
        match packet {
            Packet::ObserverInfo { info, .. } => self.introduce(link, info, member, out),
            Packet::AckEpoch { last, .. } => self.begin(link, last, member, out),
            Packet::Ack { zxid } => self.acknowledged(link, zxid, member, out),
            Packet::PingReply { touched, .. } => {
                self.relay.touch(touched);
                Ok(())
            }
            Packet::Request { .. } | Packet::Revalidate { .. } => self.pass_on(link, packet, out),
            other => Err(self.out_of_place(link, &other)),
        }
    }

    /// What the clients of an observer ask goes to the leader as it came.
    fn pass_on(&mut self, link: LinkId, packet: Packet, out: &mut Vec<Action>) -> Result<(), CloseReason> {
        if !self.observers.get(&link).is_some_and(LearnerLink::is_up_to_date) {
            return Err(self.out_of_place(link, &packet));
        }
        self.relay.asked_by(link, &packet);
        out.push(Action::Send { link: self.leader, packet });
        Ok(())
    }

    /// This server tells its leader something: what observers have to say in the same words goes with it.
    pub(crate) fn telling(&mut self, packet: Packet) -> Packet {
        self.relay.asked_here(&packet);
        match packet {
            Packet::PingReply { zxid, touched } => {
                Packet::PingReply { zxid, touched: self.relay.take_touched(touched) }
            }
            other => other,
        }
    }

    /// The leader answers, with everything up to `after` decided. Returns what is for this server.
    pub(crate) fn answered(
        &mut self,
        packet: Packet,
        after: Zxid,
        member: &Member,
        out: &mut Vec<Action>,
    ) -> Option<Packet> {
        let Some(link) = self.relay.asker_of(&packet) else { return Some(packet) };
        self.teach(link, member, |observer, course| observer.answer(link, after, packet, course, out));
        None
    }

    /// A configuration is about to take effect.
    pub(crate) fn activates(&mut self, zxid: Zxid, leader: ServerId) {
        self.activated.insert(zxid, leader);
    }

    /// More is decided: everybody hears of it, and who was ahead of this server need not wait any more.
    pub(crate) fn decided_more(&mut self, member: &Member, out: &mut Vec<Action>) {
        let links: Vec<LinkId> = self.links().collect();
        for link in links {
            self.teach(link, member, |observer, course| observer.pump(link, course, out));
            self.synchronise(link, member, out);
        }
    }

    fn acknowledged(
        &mut self,
        link: LinkId,
        zxid: Zxid,
        member: &Member,
        out: &mut Vec<Action>,
    ) -> Result<(), CloseReason> {
        let Some(observer) = self.observers.get_mut(&link) else { return Ok(()) };
        let LearnerStep::Flowing(_, cursor) = &mut observer.step else {
            return Err(CloseReason::OutOfPlace { step: observer.step.name(), packet: "ACK" });
        };
        if zxid.counter() != 0 {
            // An observer has no say, and who believes that it has one is no observer.
            return Err(CloseReason::UnknownZxid(zxid));
        }
        if let Phase::AwaitingAck { up_to } = cursor.phase {
            cursor.phase = Phase::Accepted;
            cursor.acked = cursor.acked.max(up_to);
            self.teach(link, member, |observer, course| observer.release(link, course, out));
        }
        Ok(())
    }

    fn teach<R>(
        &mut self,
        link: LinkId,
        member: &Member,
        lesson: impl FnOnce(&mut LearnerLink, &Course<'_>) -> R,
    ) -> Option<R> {
        let course = Course {
            history: &member.history,
            epoch: self.epoch,
            decided: member.committed(),
            delivered: member.delivered(),
            config: &member.settings.config,
            activated: &self.activated,
            window: member.settings.window,
            oversize: member.oversize,
        };
        self.observers.get_mut(&link).map(|observer| lesson(observer, &course))
    }

    fn out_of_place(&self, link: LinkId, packet: &Packet) -> CloseReason {
        let step = self.observers.get(&link).map_or("nothing", |observer| observer.step.name());
        CloseReason::OutOfPlace { step, packet: packet_name(packet) }
    }

    fn close_if_wrong(&mut self, link: LinkId, result: Result<(), CloseReason>, out: &mut Vec<Action>) {
        if let Err(reason) = result
            && self.observers.remove(&link).is_some()
        {
            out.push(Action::Close { link, reason });
        }
    }
}
