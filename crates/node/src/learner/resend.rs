//! The end of a learner role whose connections are kept, and the requests that the next leader gets. A
//! request that no transaction of the next history answers was never committed, so it is sent again.

use std::collections::VecDeque;
use std::sync::Arc;

use zebu_proto::client::{ReadRequest, Request};
use zebu_proto::txn::TxnEntry;
use zebu_proto::{Reader, SessionId};
use zebu_tree::Credentials;

use super::attached_session::AttachedSession;
use super::forwarded_requests::UnansweredRequest;
use super::{LearnerRole, PendingSync};
use crate::connection::{ConnectionId, ConnectionSession, Connections, ServingTerm};
use crate::consensus::RequestOrigin;
use crate::context::ServeContext;
use crate::core::{NodeState, reply_to_sync};
use crate::pending_request::PendingRequest;
use crate::receive::{ForwardPayload, RequestKind, SubmittedRequest};
use crate::session::{LocalSessions, MoveRecords};

/// A forwarded request that can be sent again.
#[derive(Debug)]
pub(super) struct RequestCopy {
    pub(super) op: i32,
    /// The bytes after the request header, shared with the packet.
    pub(super) record: Arc<[u8]>,
    pub(super) credentials: Credentials,
    pub(super) received_ms: i64,
}

/// A sync of a client that the leader has not answered.
#[derive(Debug)]
pub(super) struct PendingClientSync {
    pub(super) pending: PendingRequest,
    pub(super) session: SessionId,
    pub(super) xid: i32,
    pub(super) copy: Option<RequestCopy>,
}

/// The clients of an ended role that the next role serves.
#[derive(Debug)]
pub(crate) struct KeptClients {
    /// Global sessions and their connections.
    pub(crate) sessions: Vec<(ConnectionSession, ConnectionId)>,
    pub(crate) local_sessions: LocalSessions,
    /// Requests without an answer, in request order per connection.
    pub(crate) requests: Vec<SubmittedRequest>,
}

impl LearnerRole {
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
                // The caller has dropped the fenced reads.
                PendingSync::Fences => {}
            }
        }
        self.leader_replies.retain(|reply| reply.validated().is_none());
        // Their connections are in the handshake, and the caller closes those.
        self.revalidations.clear();
        self.resuming_local.clear();
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
                (origin, _) => state.abort_request(origin, connections),
            }
        }
        for sync in self.pending_syncs {
            let PendingSync::Client(PendingClientSync { pending, session, xid, copy }) = sync else {
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
        KeptClients { sessions, local_sessions: self.local_sessions, requests }
    }

    /// Serves the sessions of an ended role. Their touches are reported again.
    pub(crate) fn adopt(
        &mut self,
        sessions: Vec<(ConnectionSession, ConnectionId)>,
        local_sessions: LocalSessions,
    ) {
        for (ConnectionSession { id, timeout_ms }, connection) in sessions {
            self.sessions.insert(id, AttachedSession::new(connection, timeout_ms));
        }
        self.local_sessions = local_sessions;
    }
}

impl RequestCopy {
    /// The request as it was submitted. Only a request that can be decoded was forwarded.
    fn into_submitted(
        self,
        session: SessionId,
        xid: i32,
        pending: PendingRequest,
        serving_term: ServingTerm,
    ) -> Option<SubmittedRequest> {
        let kind = match Request::decode(self.op, &mut Reader::new(&self.record)) {
            Ok(Request::Write(request)) => RequestKind::Write(request),
            Ok(Request::Read(ReadRequest::Sync(_))) => RequestKind::Sync,
            Ok(
                Request::Read(_)
                | Request::Auth(_)
                | Request::Sasl(_)
                | Request::With(..)
                | Request::Hello(_),
            )
            | Err(_) => return None,
        };
        Some(SubmittedRequest {
            connection: pending.connection,
            slot: pending.slot,
            session,
            xid,
            kind,
            credentials: self.credentials,
            received_ms: self.received_ms,
            charged_bytes: pending.charged_bytes,
            serving_term,
            forward: Some(ForwardPayload { op: self.op, record: self.record }),
        })
    }
}
