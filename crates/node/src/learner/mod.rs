//! The learner role: answers reads itself, forwards other requests to the leader, and answers them when their
//! transaction is applied. It owns the pending requests of its clients.

mod attached_session;
mod forwarded_requests;
mod leader_packets;
mod leader_room;
mod local_session;
mod on_applied;
mod resend;
mod session;

pub(crate) use resend::{EndedLeader, KeptClients};

use std::collections::{BTreeMap, VecDeque};

use zebu_proto::client::WriteRequest;
use zebu_proto::jute::encode_bytes;
use zebu_proto::quorum::{Packet, Touch};
use zebu_proto::{ErrorCode, OpCode, SessionId};
use zebu_zab::ServingRole;

use crate::connect::PendingConnect;
use crate::connection::{ClientConnection, Connections};
use crate::consensus::RequestOrigin;
use crate::context::ServeContext;
use crate::core::NodeState;
use crate::pending_request::{PendingRequest, UnansweredSync};
use crate::receive::{ForwardPayload, RequestKind, SubmittedRequest};
use crate::request_copy::RequestCopy;
use crate::serving_mode::ServingMode;
use crate::session::{LocalSessions, MoveRecords, question_of};
use attached_session::AttachedSession;
use forwarded_requests::ForwardedRequests;
use leader_packets::LeaderReply;
use leader_room::LeaderRoom;
use local_session::LocalSessionOutcome;

/// A sync that the leader has not answered.
#[derive(Debug)]
enum PendingSync {
    /// The sync of a client.
    Client(UnansweredSync),
    /// The sync of a batch of fenced reads.
    Fences,
}

impl PendingSync {
    fn client(&self) -> Option<PendingRequest> {
        match self {
            PendingSync::Client(sync) => Some(sync.pending),
            PendingSync::Fences => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct LearnerRole {
    serving_mode: ServingMode,
    epoch: u32,
    /// Whether the leader records the moves of sessions.
    move_records: MoveRecords,
    /// Global sessions whose connection is here.
    sessions: BTreeMap<SessionId, AttachedSession>,
    /// Local sessions, which the leader does not know.
    local_sessions: LocalSessions,
    /// Connections that resume a local session with requests in flight.
    resuming_local: BTreeMap<SessionId, PendingConnect>,
    /// Requests that were forwarded and not answered.
    forwarded: ForwardedRequests,
    /// Connections that wait for the validation of their session, by session, in request order.
    revalidations: BTreeMap<SessionId, VecDeque<PendingConnect>>,
    /// Syncs that the leader has not answered; its replies carry no number.
    pending_syncs: VecDeque<PendingSync>,
    leader_room: LeaderRoom,
    /// Replies of the leader whose transactions are not applied yet.
    leader_replies: VecDeque<LeaderReply>,
    /// Touches of closed connections and of new sessions for the next ping reply.
    touched: Vec<Touch>,
    /// Time of the last scan for touches, in monotonic milliseconds.
    touches_scanned_ms: Option<i64>,
}

impl LearnerRole {
    pub(crate) fn new(state: &NodeState, serving: ServingRole) -> LearnerRole {
        LearnerRole::in_epoch(state, serving.into(), serving.epoch())
    }

    fn in_epoch(state: &NodeState, serving_mode: ServingMode, epoch: u32) -> LearnerRole {
        LearnerRole {
            serving_mode,
            epoch,
            move_records: MoveRecords::Unknown,
            sessions: BTreeMap::new(),
            local_sessions: LocalSessions::new(state.local_sessions(), state.settings.tick_ms),
            resuming_local: BTreeMap::new(),
            forwarded: ForwardedRequests::default(),
            revalidations: BTreeMap::new(),
            pending_syncs: VecDeque::new(),
            leader_room: LeaderRoom::default(),
            leader_replies: VecDeque::new(),
            touched: Vec::new(),
            touches_scanned_ms: None,
        }
    }

    /// Asks the leader whether it records the moves of sessions. Only then connections outlive this role.
    pub(crate) fn ask_for_move_records(&mut self, state: &mut NodeState) {
        let asks = state.settings.election_grace_ms > 0
            && state.member().is_some_and(|member| member.peer.shows_moves());
        if asks {
            self.move_records = MoveRecords::Asked;
            let session = question_of(state.settings.server_id);
            send_to_leader(state, Packet::Revalidate { session, timeout_ms: 0 });
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.forwarded.len()
    }

    /// Ends the role: pending requests get no reply, and their connections are closed.
    pub(crate) fn abort(self, state: &mut NodeState, connections: &mut impl Connections) {
        for origin in self.forwarded.into_origins() {
            match origin {
                RequestOrigin::Request(_) => state.abort_request(origin, connections),
                // Connections that wait for a session are closed with all others, or go on waiting.
                RequestOrigin::Connect { .. } | RequestOrigin::NoClient => {}
            }
        }
        let replied = self.leader_replies.iter().filter_map(LeaderReply::sync_slot);
        for request in replied.chain(self.pending_syncs.iter().filter_map(PendingSync::client)) {
            state.abort_request(RequestOrigin::Request(request), connections);
        }
    }

    /// Handles a request of a client of this server.
    pub(crate) fn handle_request(
        &mut self,
        state: &mut NodeState,
        submitted: SubmittedRequest,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let pending = submitted.pending();
        let SubmittedRequest { session, xid, kind, credentials, received_ms, forward, .. } = submitted;
        if !self.is_served_by(session, pending.connection) {
            // The session has ended or moved to another connection; this one is closed.
            state.drop_request(&pending);
            return;
        }
        let request = match kind {
            RequestKind::Sync | RequestKind::Fence(_) => None,
            RequestKind::Write(WriteRequest::Refused(error)) => {
                // A request that cannot be decoded is not forwarded.
                return state.reply_error(pending, error, context);
            }
            // The next leader of a kept connection may be one that does not know the request.
            RequestKind::Write(request)
                if request.needs_zebu_leader() && !context.replica.freshness.has_private_leader() =>
            {
                state.reply_error(pending, ErrorCode::Unimplemented, context);
                if request.is_keeper() {
                    // ClickHouse opens another session and reads again what the server can do.
                    context.connections.with(pending.connection, ClientConnection::drain);
                }
                return;
            }
            RequestKind::Write(request) => Some(request),
        };
        if request != Some(WriteRequest::CloseSession) && state.is_stale(received_ms, context.now) {
            return state.reply_error(pending, ErrorCode::ThrottledOp, context);
        }
        if let Some(request) = &request
            && self.lacks_room_for(state, request, context)
        {
            state.metrics.growth_refused.increment();
            return state.reply_error(pending, ErrorCode::SystemError, context);
        }
        let outcome = request
            .map(|request| self.apply_local_session_effect(state, session, pending.connection, &request));
        let kind = match outcome {
            None => None,
            Some(LocalSessionOutcome::Forward(kind)) => Some(kind),
            Some(LocalSessionOutcome::Refuse(error)) => return state.reply_error(pending, error, context),
            Some(LocalSessionOutcome::AckClose) => return state.ack_close(pending, context),
        };
        let Some(ForwardPayload { op, record }) = forward else {
            unreachable!("a connection that was accepted by a learner keeps what is to be sent on");
        };
        let copy = (self.move_records != MoveRecords::Unknown).then(|| {
            let payload = ForwardPayload { op, record: record.clone() };
            Box::new(RequestCopy::new(payload, None, credentials.clone(), received_ms))
        });
        // The request is queued before it is sent, so that the reply finds it.
        match kind {
            None => {
                let sync = UnansweredSync { pending, session, xid, copy };
                self.pending_syncs.push_back(PendingSync::Client(sync));
            }
            Some(kind) => self.forwarded.push_request(session, xid, kind, pending, copy),
        }
        let auth = Some(credentials.shared());
        send_to_leader(state, Packet::Request { session, cxid: xid, op, payload: record, auth });
    }

    /// Sends one sync for a batch of fenced reads, in the name of the first reader.
    pub(crate) fn send_fence_sync(&mut self, state: &mut NodeState, first: &SubmittedRequest) {
        self.pending_syncs.push_back(PendingSync::Fences);
        let (session, cxid, op) = (first.session, first.xid, OpCode::Sync.wire());
        let mut path = Vec::new();
        encode_bytes(b"/", &mut path);
        let auth = Some(first.credentials.shared());
        send_to_leader(state, Packet::Request { session, cxid, op, payload: path.into(), auth });
    }
}

fn send_to_leader(state: &mut NodeState, packet: Packet) {
    if let Some(member) = state.member_mut() {
        member.send_to_leader(packet);
    }
}
