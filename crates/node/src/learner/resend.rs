//! The end of a learner role whose connections are kept, and the requests that the next leader gets. A
//! request that no transaction of the next history answers was never committed, so it is sent again.

use std::collections::VecDeque;

use zebu_proto::SessionId;
use zebu_proto::txn::TxnEntry;

use super::attached_session::AttachedSession;
use super::forwarded_requests::{ForwardedKind, UnansweredRequest};
use super::{LearnerRole, PendingSync};
use crate::connection::{ConnectionId, ConnectionSession, Connections};
use crate::consensus::RequestOrigin;
use crate::context::ServeContext;
use crate::core::{NodeState, reply_to_sync};
use crate::pending_request::{PendingRequest, UnansweredSync};
use crate::receive::{RequestKind, SubmittedRequest};
use crate::request_copy::RequestCopy;
use crate::serving_mode::ServingMode;
use crate::session::{LocalSessions, MoveRecords};

/// The clients of a leader that has ended.
pub(crate) struct EndedLeader {
    pub(crate) serving_mode: ServingMode,
    pub(crate) epoch: u32,
    /// Global sessions and their connections.
    pub(crate) sessions: Vec<(ConnectionSession, ConnectionId)>,
    pub(crate) local_sessions: LocalSessions,
}

/// The clients of an ended role that the next role serves.
#[derive(Debug, Default)]
pub(crate) struct KeptClients {
    /// Global sessions and their connections.
    pub(crate) sessions: Vec<(ConnectionSession, ConnectionId)>,
    /// `None` if no session continues.
    pub(crate) local_sessions: Option<LocalSessions>,
    /// Requests without an answer, in request order per connection.
    pub(crate) requests: Vec<SubmittedRequest>,
    /// Connections without a session, whose connect requests wait.
    pub(crate) connects: Vec<ConnectionId>,
}

impl LearnerRole {
    /// The clients of an ended leader, as those of a learner whose leader was this server. It asks nothing.
    pub(crate) fn from_leader(ended: EndedLeader, state: &NodeState) -> LearnerRole {
        let EndedLeader { serving_mode, epoch, sessions, local_sessions } = ended;
        let mut learner = LearnerRole::in_epoch(state, serving_mode, epoch);
        learner.adopt(sessions, Some(local_sessions));
        learner
    }

    /// A write of a client was proposed by this server and has no answer.
    pub(crate) fn await_write(
        &mut self,
        session: SessionId,
        cxid: i32,
        pending: PendingRequest,
        copy: Box<RequestCopy>,
    ) {
        let Some(RequestKind::Write(request)) = copy.kind() else {
            unreachable!("only a write that was decoded is proposed");
        };
        let kind = ForwardedKind::from_request(&request);
        self.forwarded.push_request(session, cxid, kind, pending, Some(copy));
    }

    /// A createSession was proposed by this server and has no answer.
    pub(crate) fn await_session(&mut self, session: SessionId, origin: RequestOrigin) {
        self.forwarded.push(session, 0, ForwardedKind::CreateSession, origin);
    }

    /// A sync that this leader has confirmed waits for earlier transactions.
    pub(crate) fn await_sync(&mut self, sync: UnansweredSync) {
        self.pending_syncs.push_back(PendingSync::Client(sync));
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Whether the connections of this role may be kept when it ends.
    pub(crate) fn can_keep_connections(&self) -> bool {
        self.move_records == MoveRecords::Kept
    }

    /// Ends the role without its connections. Connections without a session are closed, and so are those
    /// with a request that cannot be sent again.
    pub(crate) fn suspend(&mut self, state: &mut NodeState, connections: &mut impl Connections) {
        for origin in self.forwarded.take_unrepeatable() {
            state.abort_request(origin, connections);
        }
        for sync in std::mem::take(&mut self.pending_syncs) {
            match sync {
                PendingSync::Client(sync) if sync.copy.is_some() => {
                    self.pending_syncs.push_back(PendingSync::Client(sync));
                }
                PendingSync::Client(sync) => {
                    state.abort_request(RequestOrigin::Request(sync.pending), connections);
                }
                // The next leader gets a sync for the fenced reads.
                PendingSync::Fences => {}
            }
        }
        self.leader_replies.retain(|reply| reply.validated().is_none());
        // Their connections are in the handshake and have their connect requests.
        self.revalidations.clear();
        for (session, connect) in std::mem::take(&mut self.resuming_local) {
            // If the connection is closed, no disconnect event will name the session.
            self.local_sessions.detach(session, connect.connection, i64::MIN);
        }
    }

    /// A transaction is applied while no leader is known. It may be the answer of a write behind a sync. The
    /// leader got that sync before it gave the write a zxid, so the sync is complete too.
    pub(crate) fn complete_syncs_before(
        &mut self,
        state: &mut NodeState,
        entry: &TxnEntry,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let Some(write) = self.forwarded.find(entry) else { return };
        let is_before = |sync: &PendingSync| {
            sync.client()
                .is_some_and(|pending| pending.connection == write.connection && pending.slot < write.slot)
        };
        let (before, rest): (VecDeque<_>, _) =
            std::mem::take(&mut self.pending_syncs).into_iter().partition(is_before);
        self.pending_syncs = rest;
        for PendingRequest { connection, slot, charged_bytes } in
            before.iter().filter_map(PendingSync::client)
        {
            state.completed_requests.add(charged_bytes);
            context.connections.with(connection, |connection| {
                if connection.is_first(slot) {
                    reply_to_sync(connection, slot, context.replica, context.now.monotonic_ms);
                }
            });
        }
    }

    /// The clients of this role, and their requests that have no answer.
    pub(crate) fn into_kept(self, state: &mut NodeState, connections: &mut impl Connections) -> KeptClients {
        // All transactions before these replies are applied, so that there are none.
        for request in self.leader_replies.iter().filter_map(|reply| reply.sync_slot()) {
            state.abort_request(RequestOrigin::Request(request), connections);
        }
        let term = state.serving_term(self.serving_mode);
        let mut requests = Vec::new();
        for UnansweredRequest { session, cxid, origin, copy } in self.forwarded.into_unanswered() {
            match (origin, copy) {
                (RequestOrigin::Request(pending), Some(copy)) => {
                    match copy.into_submitted(session, cxid, pending, term) {
                        Some(submitted) => requests.push(submitted),
                        None => state.abort_request(origin, connections),
                    }
                }
                // The connection asks for another session. This one was never opened.
                (RequestOrigin::Connect { .. }, _) => {}
                (origin, _) => state.abort_request(origin, connections),
            }
        }
        for sync in self.pending_syncs {
            let PendingSync::Client(UnansweredSync { pending, session, xid, copy }) = sync else {
                continue;
            };
            match copy {
                Some(copy) => requests.extend(copy.into_submitted(session, xid, pending, term)),
                None => state.abort_request(RequestOrigin::Request(pending), connections),
            }
        }
        let session = |(id, attached): (SessionId, AttachedSession)| {
            (ConnectionSession { id, timeout_ms: attached.timeout_ms }, attached.connection)
        };
        let sessions = self.sessions.into_iter().map(session).collect();
        let local_sessions = Some(self.local_sessions);
        KeptClients { sessions, local_sessions, requests, connects: Vec::new() }
    }

    /// Serves the sessions of an ended role. Their touches are reported again.
    pub(crate) fn adopt(
        &mut self,
        sessions: Vec<(ConnectionSession, ConnectionId)>,
        local_sessions: Option<LocalSessions>,
    ) {
        for (ConnectionSession { id, timeout_ms }, connection) in sessions {
            self.sessions.insert(id, AttachedSession::new(connection, timeout_ms));
        }
        if let Some(local_sessions) = local_sessions {
            self.local_sessions = local_sessions;
        }
    }
}
