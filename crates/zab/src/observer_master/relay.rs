//! Who asked the leader what, over one connection: this server or an observer. The leader answers in the order in
//! which it was asked, and does not say whom.

use std::collections::{BTreeMap, VecDeque};

use zebu_proto::quorum::Packet;
use zebu_proto::quorum::packet::Touch;
use zebu_proto::{OpCode, SessionId};

use crate::event::LinkId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    Here,
    Observer(LinkId),
}

/// What the leader was asked and has not answered, and what it is to hear with the next ping.
#[derive(Debug, Default)]
pub(super) struct Relay {
    syncs: VecDeque<Asker>,
    revalidations: VecDeque<(SessionId, Asker)>,
    /// Sessions of observers that were heard of, with their timeouts.
    touched: BTreeMap<SessionId, i32>,
}

impl Relay {
    pub(super) fn asked_here(&mut self, packet: &Packet) {
        self.asked(Asker::Here, packet);
    }

    pub(super) fn asked_by(&mut self, observer: LinkId, packet: &Packet) {
        self.asked(Asker::Observer(observer), packet);
    }

    fn asked(&mut self, asker: Asker, packet: &Packet) {
        match packet {
            Packet::Request { op, .. } if *op == OpCode::Sync.wire() => self.syncs.push_back(asker),
            Packet::Revalidate { session, .. } => self.revalidations.push_back((*session, asker)),
            _ => {}
        }
    }

    /// The observer that an answer is for; `None` if it is for this server.
    pub(super) fn asker_of(&mut self, answer: &Packet) -> Option<LinkId> {
        let asker = match answer {
            Packet::Sync => self.syncs.pop_front(),
            Packet::Revalidated { session, .. } => {
                let place = self.revalidations.iter().position(|(asked, _)| asked == session);
                place.and_then(|place| self.revalidations.remove(place)).map(|(_, asker)| asker)
            }
            _ => None,
        };
        match asker {
            Some(Asker::Observer(link)) => Some(link),
            Some(Asker::Here) | None => None,
        }
    }

    pub(super) fn touch(&mut self, touched: Vec<Touch>) {
        self.touched.extend(touched.into_iter().map(|touch| (touch.session, touch.timeout_ms)));
    }

    /// What observers have heard of, behind what this server has heard of itself.
    pub(super) fn take_touched(&mut self, mut own: Vec<Touch>) -> Vec<Touch> {
        for touch in &own {
            self.touched.remove(&touch.session);
        }
        let touched = std::mem::take(&mut self.touched);
        own.extend(touched.into_iter().map(|(session, timeout_ms)| Touch { session, timeout_ms }));
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sync() -> Packet {
        let payload = [].into();
        Packet::Request { session: SessionId(1), cxid: 1, op: OpCode::Sync.wire(), payload, auth: None }
    }

    #[test]
    fn answers_find_those_who_asked_in_their_order() {
        let mut relay = Relay::default();
        let (one, other) = (LinkId(2), LinkId(4));
        relay.asked_by(one, &sync());
        relay.asked_here(&sync());
        relay.asked_by(other, &sync());
        let askers: Vec<_> = (0..4).map(|_| relay.asker_of(&Packet::Sync)).collect();
        assert_eq!(askers, [Some(one), None, Some(other), None]);
    }

    #[test]
    fn a_session_is_answered_to_who_asked_for_it_first() {
        let mut relay = Relay::default();
        let ask = |id| Packet::Revalidate { session: SessionId(id), timeout_ms: 9 };
        let answer = |id| Packet::Revalidated { session: SessionId(id), valid: true };
        relay.asked_here(&ask(7));
        relay.asked_by(LinkId(2), &ask(8));
        relay.asked_by(LinkId(4), &ask(7));
        assert_eq!(relay.asker_of(&answer(8)), Some(LinkId(2)));
        assert_eq!(relay.asker_of(&answer(7)), None);
        assert_eq!(relay.asker_of(&answer(7)), Some(LinkId(4)));
        assert_eq!(relay.asker_of(&answer(9)), None, "whoever asked for that is gone, or nobody has");
    }

    #[test]
    fn sessions_that_were_heard_of_are_told_once() {
        let mut relay = Relay::default();
        let touch = |id, timeout_ms| Touch { session: SessionId(id), timeout_ms };
        relay.touch(vec![touch(1, 10), touch(2, 20)]);
        relay.touch(vec![touch(1, 30)]);
        assert_eq!(relay.take_touched(vec![touch(2, 5)]), [touch(2, 5), touch(1, 30)]);
        assert_eq!(relay.take_touched(vec![]), []);
    }
}
