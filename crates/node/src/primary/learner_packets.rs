//! Packets of learners: writes and syncs of their clients, touches, and session validation. The leader trusts
//! the credentials that a learner forwards, and checks the permissions itself.

use std::sync::Arc;

use zebu_proto::client::{Request, RequestError, WriteRequest};
use zebu_proto::quorum::{Packet, Touch};
use zebu_proto::{ErrorCode, Id, OpCode, Reader, SessionId};
use zebu_tree::Credentials;
use zebu_zab::LinkId;

use super::deferred::{DeferredRequest, OrderingKey};
use super::room::GrowthVerdict;
use super::{Primary, TxnRequest, TxnSource};
use crate::clock::Now;
use crate::connection::{ConnectionSession, Connections};
use crate::consensus::RequestOrigin;
use crate::context::ServeContext;
use crate::core::NodeState;
use crate::session::{SessionIdGenerator, SessionOwner, TrackedState, is_question};

/// A request that a learner has forwarded.
struct LearnerRequest<'a> {
    session: SessionId,
    cxid: i32,
    op: Option<OpCode>,
    record: &'a [u8],
    auth: Option<Arc<[Id]>>,
}

impl Primary {
    /// Handles a packet that the Zab peer does not handle itself.
    pub(crate) fn handle_learner_packet(
        &mut self,
        state: &mut NodeState,
        link: LinkId,
        packet: Packet,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let now_ms = context.now.monotonic_ms;
        match packet {
            Packet::PingReply { touched, .. } => {
                for Touch { session, timeout_ms } in touched {
                    self.sessions.touch(session, SessionOwner::Learner(link), timeout_ms, now_ms);
                }
            }
            Packet::Request { session, op, .. } => {
                let (unconfirmed, key) = if op == OpCode::Sync.wire() {
                    // The touches of this session arrive with the next ping reply, which may be late.
                    self.sessions.claim(session, SessionOwner::Learner(link), now_ms);
                    (state.start_leadership_check(context.now), OrderingKey::Learner(link))
                } else {
                    (None, OrderingKey::Session(link, session))
                };
                if unconfirmed.is_some() || self.deferred.contains(key) {
                    self.deferred.push(unconfirmed, DeferredRequest::Forwarded { link, packet });
                } else {
                    self.serve_learner_packet(state, link, packet, context);
                }
            }
            Packet::Revalidate { session, .. } if is_question(session) => {
                reply_to_learner(
                    state,
                    link,
                    Packet::Revalidated { session, valid: self.records_moves(state) },
                );
            }
            Packet::Revalidate { session, timeout_ms } => {
                self.sessions.touch(session, SessionOwner::Learner(link), timeout_ms, now_ms);
                match state.start_leadership_check(context.now) {
                    unconfirmed @ Some(_) => {
                        self.deferred.push(unconfirmed, DeferredRequest::Revalidate { link, packet })
                    }
                    None => self.serve_learner_packet(state, link, packet, context),
                }
            }
            // The Zab peer handles all other packets.
            Packet::Proposal { .. }
            | Packet::Ack { .. }
            | Packet::Commit { .. }
            | Packet::Ping { .. }
            | Packet::Revalidated { .. }
            | Packet::Sync
            | Packet::Inform { .. }
            | Packet::CommitAndActivate { .. }
            | Packet::NewLeader { .. }
            | Packet::FollowerInfo { .. }
            | Packet::UpToDate
            | Packet::Diff { .. }
            | Packet::Trunc { .. }
            | Packet::Snap { .. }
            | Packet::ObserverInfo { .. }
            | Packet::LeaderInfo { .. }
            | Packet::AckEpoch { .. }
            | Packet::InformAndActivate { .. } => {}
        }
    }

    /// Handles a learner's packet, if this server may still confirm sessions.
    pub(super) fn serve_learner_packet(
        &mut self,
        state: &mut NodeState,
        link: LinkId,
        packet: Packet,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let request = DeferredRequest::Forwarded { link, packet };
        match request {
            request if self.refused.precede(&request) => self.wait_for_refusal(request),
            DeferredRequest::Forwarded { link, packet } => {
                self.serve_learner_packet_now(state, link, packet, context);
            }
            DeferredRequest::Client(_) | DeferredRequest::Resume(_) | DeferredRequest::Revalidate { .. } => {}
        }
    }

    /// Handles a learner's packet that no request of its session precedes.
    pub(super) fn serve_learner_packet_now(
        &mut self,
        state: &mut NodeState,
        link: LinkId,
        packet: Packet,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        match packet {
            Packet::Request { session, cxid, op, payload, auth } => {
                let op = OpCode::from_wire(op);
                let forwarded = LearnerRequest { session, cxid, op, record: &payload, auth };
                self.serve_learner_request(state, link, forwarded, context);
            }
            Packet::Revalidate { session, timeout_ms } => {
                if !state.can_confirm_sessions() {
                    return;
                }
                let valid = self.sessions.state(session) == Some(TrackedState::Open);
                if valid {
                    let session = ConnectionSession { id: session, timeout_ms };
                    self.move_session(state, session, SessionOwner::Learner(link), context);
                }
                // The reply follows all proposals: some may be writes of the former connection.
                reply_to_learner(state, link, Packet::Revalidated { session, valid });
            }
            // No other packet is deferred.
            Packet::Proposal { .. }
            | Packet::Ack { .. }
            | Packet::Commit { .. }
            | Packet::Ping { .. }
            | Packet::PingReply { .. }
            | Packet::Revalidated { .. }
            | Packet::Sync
            | Packet::Inform { .. }
            | Packet::CommitAndActivate { .. }
            | Packet::NewLeader { .. }
            | Packet::FollowerInfo { .. }
            | Packet::UpToDate
            | Packet::Diff { .. }
            | Packet::Trunc { .. }
            | Packet::Snap { .. }
            | Packet::ObserverInfo { .. }
            | Packet::LeaderInfo { .. }
            | Packet::AckEpoch { .. }
            | Packet::InformAndActivate { .. } => {}
        }
    }

    /// Detaches the sessions of a learner that is disconnected.
    pub(crate) fn learner_lost(&mut self, link: LinkId) {
        self.deferred.remove_learner(link);
        self.refused.remove_learner(link);
        self.sessions.detach_link(link);
    }

    fn serve_learner_request(
        &mut self,
        state: &mut NodeState,
        link: LinkId,
        forwarded: LearnerRequest<'_>,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        if forwarded.op == Some(OpCode::Sync) {
            if state.can_confirm_sessions() {
                reply_to_learner(state, link, Packet::Sync);
            }
            return;
        }
        let (verdict, request) = if forwarded.op == Some(OpCode::CreateSession) {
            let verdict = self.admit_growth(state, &WriteRequest::CreateSession { timeout_ms: 0 }, context);
            let is_accepted = verdict == GrowthVerdict::Accepted;
            (verdict, is_accepted.then(|| self.write_request_of(link, &forwarded, context.now)))
        } else {
            let request = self.write_request_of(link, &forwarded, context.now);
            (self.admit_growth(state, &request, context), Some(request))
        };
        let request = match (verdict, request) {
            (GrowthVerdict::Accepted, Some(request)) => request,
            (GrowthVerdict::Accepted, None) | (GrowthVerdict::Refused, _) => {
                WriteRequest::Refused(ErrorCode::SystemError)
            }
            (GrowthVerdict::Waits, _) => {
                let LearnerRequest { session, cxid, op, record, auth } = forwarded;
                let op = op.map_or(0, OpCode::wire);
                let packet = Packet::Request { session, cxid, op, payload: record.into(), auth };
                return self.wait_for_refusal(DeferredRequest::Forwarded { link, packet });
            }
        };
        if request == WriteRequest::CloseSession {
            self.sessions.close(forwarded.session);
        }
        let credentials = forwarded.auth.map(Credentials::from).unwrap_or_default();
        let txn_request = TxnRequest {
            session: forwarded.session,
            cxid: forwarded.cxid,
            request,
            origin: RequestOrigin::NoClient,
            copy: None,
            credentials: Some(&credentials),
            source: TxnSource::Learner,
        };
        self.propose(state, txn_request, context);
    }

    /// Returns the request, or the error that is committed in its place: the learner waits for one of them.
    fn write_request_of(&mut self, link: LinkId, forwarded: &LearnerRequest<'_>, now: Now) -> WriteRequest {
        let LearnerRequest { session, op, record, .. } = *forwarded;
        let owner = SessionOwner::Learner(link);
        if op == Some(OpCode::CreateSession) {
            let Ok(timeout_ms) = Reader::new(record).int() else {
                return WriteRequest::Refused(ErrorCode::MarshallingError);
            };
            if self.sessions.state(session).is_some() || !SessionIdGenerator::is_usable(session) {
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
            Ok(
                Request::Read(_)
                | Request::With(..)
                | Request::Hello(_)
                | Request::Feed(_)
                | Request::Auth(_)
                | Request::Sasl(_),
            )
            | Err(RequestError::UnknownOp | RequestError::BadArguments | RequestError::CloseSilently) => {
                WriteRequest::Refused(ErrorCode::Unimplemented)
            }
        }
    }
}

fn reply_to_learner(state: &mut NodeState, link: LinkId, packet: Packet) {
    if let Some(member) = state.member_mut() {
        member.reply_to_learner(link, packet);
    }
}
