//! The owners of sessions that observers use. The leader sees one link for this server and its observers.
//! This table finds requests that arrive late, over the old connection of a session that has moved between
//! them. The rule is the leader's: createSession and a revalidation make a sender the owner, and requests of
//! other senders are refused. An owner stays when its link is gone, until another sender or the session's
//! end replaces it.

use std::collections::BTreeMap;

use zebu_proto::quorum::Packet;
use zebu_proto::{OpCode, ServerId, SessionId};

use super::relay::Requester;
use crate::action::LinkCloseReason;
use crate::moved_session::refused_request;

/// The number of sessions that observers have used and that have not ended.
const OWNED_MAX: usize = 1 << 20;

#[derive(Debug)]
struct OwnedSession {
    owner: Requester,
    /// Another sender whose request was refused, and when that happened first, in monotonic milliseconds.
    refused: Option<(Requester, i64)>,
}

/// The owner of each session that an observer has used since this server serves.
#[derive(Debug, Default)]
pub(super) struct SessionOwners {
    sessions: BTreeMap<SessionId, OwnedSession>,
}

/// The sender of a packet for the leader.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketSender {
    pub(super) requester: Requester,
    /// The id of the sender's server.
    pub(super) server: ServerId,
    pub(super) now_ms: i64,
    /// The time in which an observer must have closed the old connection of a session.
    pub(super) patience_ms: i64,
}

impl SessionOwners {
    /// Returns the packet for the leader: the same one, or a request that fails if the session has moved.
    /// An error means that the sender ignores the refusals, or that there are too many sessions.
    pub(super) fn check(&mut self, packet: Packet, sender: PacketSender) -> Result<Packet, LinkCloseReason> {
        if let Some(session) = attached_session(&packet) {
            self.check_room(session, sender)?;
        }
        let Some(refused) = self.refusal(&packet, sender.requester) else { return Ok(packet) };
        if let Packet::Request { session, .. } = packet
            && let Some(owned) = self.sessions.get_mut(&session)
        {
            owned.refuse(session, sender)?;
        }
        Ok(refused)
    }

    /// Returns the packet of this server for the leader, as [`SessionOwners::check`] does.
    pub(super) fn check_own(&self, packet: Packet) -> Packet {
        self.refusal(&packet, Requester::ThisServer).unwrap_or(packet)
    }

    /// The failing request in place of a write whose session has moved from this sender.
    fn refusal(&self, packet: &Packet, requester: Requester) -> Option<Packet> {
        let Packet::Request { session, cxid, op, .. } = *packet else { return None };
        if op == OpCode::Sync.wire() || attached_session(packet).is_some() {
            return None;
        }
        let has_moved = self.sessions.get(&session)?.owner != requester;
        has_moved.then(|| refused_request(session, cxid, op))
    }

    fn check_room(&self, session: SessionId, sender: PacketSender) -> Result<(), LinkCloseReason> {
        if self.sessions.len() >= OWNED_MAX && !self.sessions.contains_key(&session) {
            let what = "sessions of observers pass through this server";
            return Err(LinkCloseReason::RelayFull { server: sender.server, limit: OWNED_MAX, what });
        }
        Ok(())
    }

    /// Records the owner that a packet for the leader makes. A session that no observer has used needs none.
    pub(super) fn record(&mut self, requester: Requester, packet: &Packet) {
        let Some(session) = attached_session(packet) else { return };
        let owned = OwnedSession { owner: requester, refused: None };
        match requester {
            Requester::Observer(_) => drop(self.sessions.insert(session, owned)),
            Requester::ThisServer => {
                if let Some(before) = self.sessions.get_mut(&session) {
                    *before = owned;
                }
            }
        }
    }

    /// The leader does not know the session that this requester wants. It has ended, or it is a local
    /// session of another server, which may go on.
    pub(super) fn invalid(&mut self, session: SessionId, requester: Requester) {
        if self.sessions.get(&session).is_some_and(|owned| owned.owner == requester) {
            self.sessions.remove(&session);
        }
    }

    /// A session has ended.
    pub(super) fn remove(&mut self, session: SessionId) {
        self.sessions.remove(&session);
    }
}

/// The session whose owner a packet determines.
fn attached_session(packet: &Packet) -> Option<SessionId> {
    if let Packet::Revalidate { session, .. } = *packet {
        return Some(session);
    }
    let Packet::Request { session, op, .. } = *packet else { return None };
    (op == OpCode::CreateSession.wire()).then_some(session)
}

impl OwnedSession {
    /// Refuses a request. Zebu's observers close the connection then. An observer that does not must not
    /// keep a client whose every write fails: its link is closed.
    fn refuse(&mut self, session: SessionId, sender: PacketSender) -> Result<(), LinkCloseReason> {
        match self.refused {
            Some((requester, since_ms)) if requester == sender.requester => {
                let is_patient = sender.now_ms - since_ms <= sender.patience_ms;
                let server = sender.server;
                if is_patient { Ok(()) } else { Err(LinkCloseReason::MovedSession { server, session }) }
            }
            Some(_) | None => {
                self.refused = Some((sender.requester, sender.now_ms));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::LinkId;

    const S: SessionId = SessionId(7);
    const A: Requester = Requester::Observer(LinkId(2));
    const B: Requester = Requester::Observer(LinkId(4));
    const OWN: Requester = Requester::ThisServer;

    fn request(cxid: i32, op: OpCode) -> Packet {
        Packet::Request { session: S, cxid, op: op.wire(), payload: [].into(), auth: None }
    }

    fn revalidate(session: SessionId) -> Packet {
        Packet::Revalidate { session, timeout_ms: 9 }
    }

    fn sender(requester: Requester) -> PacketSender {
        PacketSender { requester, server: ServerId(9), now_ms: 0, patience_ms: 100 }
    }

    fn send(owners: &mut SessionOwners, requester: Requester, packet: Packet) {
        let sent = owners.check(packet.clone(), sender(requester));
        assert_eq!(sent, Ok(packet.clone()));
        owners.record(requester, &packet);
    }

    fn is_refused(owners: &mut SessionOwners, requester: Requester) -> bool {
        let packet = request(3, OpCode::Delete);
        match owners.check(packet.clone(), sender(requester)) {
            Ok(sent) if sent == packet => false,
            Ok(sent) => {
                assert_eq!(sent, refused_request(S, 3, OpCode::Delete.wire()));
                true
            }
            Err(reason) => panic!("{reason}"),
        }
    }

    fn refused(owners: &mut SessionOwners) -> [bool; 3] {
        [A, B, OWN].map(|requester| is_refused(owners, requester))
    }

    #[test]
    fn a_session_moves_and_comes_back() {
        let mut owners = SessionOwners::default();
        assert_eq!(refused(&mut owners), [false; 3], "a local session passes");
        send(&mut owners, A, request(0, OpCode::CreateSession));
        assert_eq!(refused(&mut owners), [false, true, true]);
        send(&mut owners, B, revalidate(S));
        assert_eq!(refused(&mut owners), [true, false, true]);
        send(&mut owners, OWN, revalidate(S));
        assert_eq!(refused(&mut owners), [true, true, false]);
        send(&mut owners, A, revalidate(S));
        assert_eq!(refused(&mut owners), [false, true, true]);
        assert_eq!(owners.check(request(4, OpCode::Sync), sender(B)), Ok(request(4, OpCode::Sync)));
        owners.remove(S);
        assert_eq!(refused(&mut owners), [false; 3], "the leader knows that it has ended");
    }

    #[test]
    fn sessions_of_this_server_alone_take_no_memory() {
        let mut owners = SessionOwners::default();
        send(&mut owners, OWN, request(0, OpCode::CreateSession));
        send(&mut owners, OWN, revalidate(S));
        assert!(owners.sessions.is_empty());
    }

    #[test]
    fn a_revalidation_that_fails_makes_no_owner() {
        let mut owners = SessionOwners::default();
        send(&mut owners, B, revalidate(S));
        owners.invalid(S, B);
        assert_eq!(refused(&mut owners), [false; 3]);
        // The upgrade of a local session at one server follows the revalidation of another one.
        send(&mut owners, B, revalidate(S));
        send(&mut owners, A, request(0, OpCode::CreateSession));
        owners.invalid(S, B);
        assert_eq!(refused(&mut owners), [false, true, true]);
    }

    #[test]
    fn an_observer_that_ignores_refusals_loses_its_link() {
        let mut owners = SessionOwners::default();
        send(&mut owners, A, revalidate(S));
        let mut at = |requester, now_ms| {
            let late = PacketSender { now_ms, ..sender(requester) };
            owners.check(request(3, OpCode::SetData), late).err()
        };
        assert_eq!([at(B, 10), at(B, 110), at(OWN, 111), at(B, 112)], [None, None, None, None]);
        assert_eq!(at(B, 213), Some(LinkCloseReason::MovedSession { server: ServerId(9), session: S }));
    }

    #[test]
    fn sessions_have_a_limit() {
        let mut owners = SessionOwners::default();
        for session in 0..OWNED_MAX as i64 {
            owners.record(A, &revalidate(SessionId(session)));
        }
        let next = revalidate(SessionId(-1));
        match owners.check(next.clone(), sender(B)) {
            Err(LinkCloseReason::RelayFull { server: ServerId(9), limit: OWNED_MAX, .. }) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(owners.check(revalidate(S), sender(B)), Ok(revalidate(S)), "it is known");
        owners.remove(S);
        assert_eq!(owners.check(next.clone(), sender(B)), Ok(next));
    }
}
