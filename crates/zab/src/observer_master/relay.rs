//! The requesters of replies. Requests of this server and of observers share one connection to the leader.
//! The leader replies in order, without naming the requester.

use std::collections::{BTreeMap, VecDeque};

use zebu_proto::quorum::Packet;
use zebu_proto::quorum::packet::Touch;
use zebu_proto::{OpCode, ServerId, SessionId};

use crate::action::LinkCloseReason;
use crate::event::LinkId;

/// The number of syncs and session revalidations of observers without a reply. An entry stays after its
/// observer has gone, because replies come in order.
const UNANSWERED_MAX: usize = 1 << 18;

/// The number of touched sessions of observers that wait for the next ping of the leader.
const TOUCHED_MAX: usize = 1 << 20;

/// The bytes of the unanswered requests, and those of the touched sessions, about. Entries have a fixed size,
/// so that their number bounds their bytes.
const RELAY_BYTES_MAX: usize = 16 << 20;

const _: () = assert!(UNANSWERED_MAX * size_of::<(SessionId, Requester)>() <= RELAY_BYTES_MAX);
const _: () = assert!(TOUCHED_MAX * size_of::<(SessionId, i32)>() <= RELAY_BYTES_MAX);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requester {
    ThisServer,
    Observer(LinkId),
}

/// The requests without a reply, and the touched sessions for the next ping reply.
#[derive(Debug, Default)]
pub(super) struct RequestRelay {
    syncs: VecDeque<Requester>,
    revalidations: VecDeque<(SessionId, Requester)>,
    /// The number of entries in `syncs` and `revalidations` that belong to observers.
    of_observers: usize,
    /// Touched sessions of observers, with their timeouts in milliseconds.
    touched: BTreeMap<SessionId, i32>,
}

impl RequestRelay {
    pub(super) fn record_own(&mut self, packet: &Packet) {
        self.record(Requester::ThisServer, packet);
    }

    /// Refuses a sync or a revalidation of an observer if too many are without a reply.
    pub(super) fn has_room_for(&self, server: ServerId, packet: &Packet) -> Result<(), LinkCloseReason> {
        if is_question(packet) && self.of_observers >= UNANSWERED_MAX {
            let what = "syncs and session revalidations of observers wait for a reply of the leader";
            return Err(LinkCloseReason::RelayFull { server, limit: UNANSWERED_MAX, what });
        }
        Ok(())
    }

    pub(super) fn record_from_observer(&mut self, observer: LinkId, packet: &Packet) {
        self.record(Requester::Observer(observer), packet);
    }

    fn record(&mut self, requester: Requester, packet: &Packet) {
        match packet {
            Packet::Request { op, .. } if *op == OpCode::Sync.wire() => self.syncs.push_back(requester),
            Packet::Revalidate { session, .. } => self.revalidations.push_back((*session, requester)),
            _ => {}
        }
        if requester != Requester::ThisServer && is_question(packet) {
            self.of_observers += 1;
        }
    }

    /// The observer that a reply is for; `None` if it is for this server.
    pub(super) fn requester_of(&mut self, answer: &Packet) -> Option<LinkId> {
        let requester = match answer {
            Packet::Sync => self.syncs.pop_front(),
            Packet::Revalidated { session, .. } => {
                let index = self.revalidations.iter().position(|(requested, _)| requested == session);
                index.and_then(|index| self.revalidations.remove(index)).map(|(_, requester)| requester)
            }
            _ => None,
        };
        match requester {
            Some(Requester::Observer(link)) => {
                self.of_observers -= 1;
                Some(link)
            }
            Some(Requester::ThisServer) | None => None,
        }
    }

    /// Records the touched sessions of an observer. Above the limit its connection is closed.
    pub(super) fn record_touches(
        &mut self,
        server: ServerId,
        touched: Vec<Touch>,
    ) -> Result<(), LinkCloseReason> {
        for Touch { session, timeout_ms } in touched {
            if self.touched.len() >= TOUCHED_MAX && !self.touched.contains_key(&session) {
                let what = "touched sessions of observers wait for the next ping of the leader";
                return Err(LinkCloseReason::RelayFull { server, limit: TOUCHED_MAX, what });
            }
            self.touched.insert(session, timeout_ms);
        }
        Ok(())
    }

    /// Takes the touched sessions of observers, appended to those of this server.
    pub(super) fn take_touched(&mut self, mut own: Vec<Touch>) -> Vec<Touch> {
        for touch in &own {
            self.touched.remove(&touch.session);
        }
        let touched = std::mem::take(&mut self.touched);
        own.extend(touched.into_iter().map(|(session, timeout_ms)| Touch { session, timeout_ms }));
        own
    }
}

/// Whether the leader answers a packet with a packet, not with a transaction.
fn is_question(packet: &Packet) -> bool {
    match packet {
        Packet::Request { op, .. } => *op == OpCode::Sync.wire(),
        Packet::Revalidate { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NINE: ServerId = ServerId(9);

    fn sync() -> Packet {
        let payload = [].into();
        Packet::Request { session: SessionId(1), cxid: 1, op: OpCode::Sync.wire(), payload, auth: None }
    }

    #[test]
    fn answers_find_those_who_asked_in_their_order() {
        let mut relay = RequestRelay::default();
        let (one, other) = (LinkId(2), LinkId(4));
        relay.record_from_observer(one, &sync());
        relay.record_own(&sync());
        relay.record_from_observer(other, &sync());
        let askers: Vec<_> = (0..4).map(|_| relay.requester_of(&Packet::Sync)).collect();
        assert_eq!(askers, [Some(one), None, Some(other), None]);
    }

    #[test]
    fn a_session_is_answered_to_who_asked_for_it_first() {
        let mut relay = RequestRelay::default();
        let ask = |id| Packet::Revalidate { session: SessionId(id), timeout_ms: 9 };
        let answer = |id| Packet::Revalidated { session: SessionId(id), valid: true };
        relay.record_own(&ask(7));
        relay.record_from_observer(LinkId(2), &ask(8));
        relay.record_from_observer(LinkId(4), &ask(7));
        assert_eq!(relay.requester_of(&answer(8)), Some(LinkId(2)));
        assert_eq!(relay.requester_of(&answer(7)), None);
        assert_eq!(relay.requester_of(&answer(7)), Some(LinkId(4)));
        assert_eq!(relay.requester_of(&answer(9)), None, "its requester is gone, or there was none");
    }

    #[test]
    fn sessions_that_were_heard_of_are_told_once() {
        let mut relay = RequestRelay::default();
        let touch = |id, timeout_ms| Touch { session: SessionId(id), timeout_ms };
        relay.record_touches(NINE, vec![touch(1, 10), touch(2, 20)]).unwrap();
        relay.record_touches(NINE, vec![touch(1, 30)]).unwrap();
        assert_eq!(relay.take_touched(vec![touch(2, 5)]), [touch(2, 5), touch(1, 30)]);
        assert_eq!(relay.take_touched(vec![]), []);
    }

    fn limit_of(result: Result<(), LinkCloseReason>) -> Option<usize> {
        match result {
            Ok(()) => None,
            Err(LinkCloseReason::RelayFull { server: NINE, limit, .. }) => Some(limit),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn unanswered_questions_of_observers_have_a_limit() {
        let mut relay = RequestRelay::default();
        for _ in 0..UNANSWERED_MAX {
            relay.record_own(&sync());
            relay.record_from_observer(LinkId(2), &sync());
        }
        assert_eq!(limit_of(relay.has_room_for(NINE, &sync())), Some(UNANSWERED_MAX));
        assert_eq!(relay.requester_of(&Packet::Sync), None);
        assert_eq!(limit_of(relay.has_room_for(NINE, &sync())), Some(UNANSWERED_MAX), "that was an own one");
        assert_eq!(relay.requester_of(&Packet::Sync), Some(LinkId(2)));
        assert_eq!(limit_of(relay.has_room_for(NINE, &sync())), None);
    }

    #[test]
    fn sessions_that_were_heard_of_have_a_limit() {
        let mut relay = RequestRelay::default();
        let touch = |id| Touch { session: SessionId(id), timeout_ms: 9 };
        let all: Vec<Touch> = (0..TOUCHED_MAX as i64).map(touch).collect();
        relay.record_touches(NINE, all.clone()).unwrap();
        relay.record_touches(NINE, all).unwrap();
        assert_eq!(limit_of(relay.record_touches(NINE, vec![touch(-1)])), Some(TOUCHED_MAX));
        assert_eq!(relay.take_touched(vec![]).len(), TOUCHED_MAX);
        assert_eq!(limit_of(relay.record_touches(NINE, vec![touch(-1)])), None);
    }
}
