//! What learners ask of their leader: writes and syncs of their clients, and whether a session lives. A learner is
//! believed who its client is; whether it may do something is decided here.

use std::sync::Arc;

use zebu_proto::client::{Request, RequestError, WriteRequest};
use zebu_proto::quorum::{Packet, Touch};
use zebu_proto::{ErrorCode, Id, OpCode, Reader, SessionId};
use zebu_tree::Credentials;
use zebu_zab::LinkId;

use super::held::{Matter, Source};
use super::{Decider, Via, Wanted};
use crate::agreement::Origin;
use crate::clock::Moment;
use crate::core::Desk;
use crate::lane::Lanes;
use crate::replica::Replica;
use crate::session::{Owner, SessionIds, SessionState};

/// A request as a learner has sent it on.
struct Forwarded<'a> {
    session: SessionId,
    cxid: i32,
    op: Option<OpCode>,
    record: &'a [u8],
    auth: Option<Arc<[Id]>>,
}

impl Decider {
    /// Takes a packet that is not agreement's business.
    pub(crate) fn hear_learner(
        &mut self,
        desk: &mut Desk,
        link: LinkId,
        packet: Packet,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        let now_ms = now.monotonic_ms;
        match packet {
            Packet::PingReply { touched, .. } => {
                for Touch { session, timeout_ms } in touched {
                    self.sessions.touch(session, Owner::Link(link), timeout_ms, now_ms);
                }
            }
            Packet::Request { session, op, .. } => {
                let (doubt, source) = if op == OpCode::Sync.wire() {
                    // The touches of this session come with the answer to the next ping, which may be far behind.
                    self.sessions.claim(session, Owner::Link(link), now_ms);
                    (desk.doubt(now), Source::Link(link))
                } else {
                    (None, Source::Session(link, session))
                };
                if doubt.is_some() || self.held.holds(source) {
                    self.held.push(doubt, Matter::Forwarded { link, packet });
                } else {
                    self.serve_learner(desk, link, packet, replica, lanes, now);
                }
            }
            Packet::Revalidate { session, timeout_ms } => {
                self.sessions.touch(session, Owner::Link(link), timeout_ms, now_ms);
                match desk.doubt(now) {
                    doubt @ Some(_) => self.held.push(doubt, Matter::Question { link, packet }),
                    None => self.serve_learner(desk, link, packet, replica, lanes, now),
                }
            }
            // Whatever else a learner may say is agreement's business.
            _ => {}
        }
    }

    /// Does what a learner asks for, if anybody may.
    pub(super) fn serve_learner(
        &mut self,
        desk: &mut Desk,
        link: LinkId,
        packet: Packet,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        match packet {
            Packet::Request { session, cxid, op, payload, auth } => {
                let op = OpCode::from_wire(op);
                let forwarded = Forwarded { session, cxid, op, record: &payload, auth };
                self.forwarded(desk, link, forwarded, replica, lanes, now);
            }
            Packet::Revalidate { session, timeout_ms } => {
                if !desk.can_confirm() {
                    return;
                }
                let valid = self.sessions.state(session) == Some(SessionState::Open);
                if valid {
                    self.move_session(session, Owner::Link(link), timeout_ms, lanes, now);
                }
                // Behind everything that is proposed: some of it may be writes of the former connection.
                answer(desk, link, Packet::Revalidated { session, valid });
            }
            // Nothing else is a question.
            _ => {}
        }
    }

    /// A learner is gone, and with it the connections of its clients.
    pub(crate) fn lose_learner(&mut self, link: LinkId) {
        self.held.forget_link(link);
        self.sessions.detach_link(link);
    }

    fn forwarded(
        &mut self,
        desk: &mut Desk,
        link: LinkId,
        forwarded: Forwarded<'_>,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        if forwarded.op == Some(OpCode::Sync) {
            if desk.can_confirm() {
                answer(desk, link, Packet::Sync);
            }
            return;
        }
        let request = self.decide(link, &forwarded, now);
        if request == WriteRequest::CloseSession {
            self.sessions.close(forwarded.session);
        }
        let credentials = forwarded.auth.map(Credentials::from).unwrap_or_default();
        let wanted = Wanted {
            session: forwarded.session,
            cxid: forwarded.cxid,
            request,
            origin: Origin::Nobody,
            credentials: Some(&credentials),
            via: Via::Learner,
        };
        self.propose(desk, wanted, replica, lanes, now);
    }

    /// The request, or the error that takes its place in the history: the learner waits for one of them.
    fn decide(&mut self, link: LinkId, forwarded: &Forwarded<'_>, now: Moment) -> WriteRequest {
        let Forwarded { session, op, record, .. } = *forwarded;
        let owner = Owner::Link(link);
        if op == Some(OpCode::CreateSession) {
            let Ok(timeout_ms) = Reader::new(record).int() else {
                return WriteRequest::Refused(ErrorCode::MarshallingError);
            };
            if self.sessions.state(session).is_some() || !SessionIds::is_usable(session) {
                return WriteRequest::Refused(ErrorCode::SessionExpired);
            }
            self.sessions.track(session, timeout_ms, Some(owner), now.monotonic_ms);
            return WriteRequest::CreateSession { timeout_ms };
        }
        if self.sessions.has_moved_from(session, owner) {
            return WriteRequest::Refused(ErrorCode::SessionMoved);
        }
        self.sessions.claim(session, owner, now.monotonic_ms);
        match Request::decode(op.map_or(0, OpCode::wire), &mut Reader::new(record)) {
            Ok(Request::Write(request)) => request,
            Err(RequestError::Undecodable) => WriteRequest::Refused(ErrorCode::MarshallingError),
            Ok(Request::Read(_) | Request::Auth(_) | Request::Sasl(_))
            | Err(RequestError::UnknownOp | RequestError::CloseSilently) => {
                WriteRequest::Refused(ErrorCode::Unimplemented)
            }
        }
    }
}

fn answer(desk: &mut Desk, link: LinkId, packet: Packet) {
    if let Some(member) = desk.member() {
        member.answer_learner(link, packet);
    }
}
