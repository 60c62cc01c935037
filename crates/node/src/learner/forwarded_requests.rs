//! Writes that were forwarded to the leader. Per session, their transactions arrive in the order of the
//! requests, among those of other servers. Session and cxid identify them.

use std::collections::{BTreeMap, VecDeque};

use zebu_proto::SessionId;
use zebu_proto::client::{KeeperWrite, WriteRequest};
use zebu_proto::txn::{Txn, TxnEntry};

use crate::consensus::RequestOrigin;
use crate::pending_request::PendingRequest;
use crate::request_copy::RequestCopy;

/// The kind of transaction that a request becomes, unless it becomes an error. Cxids are the client's and may
/// repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForwardedKind {
    CreateSession,
    CloseSession,
    Create,
    Delete,
    SetData,
    SetAcl,
    Check,
    Multi,
    /// A create of ClickHouse Keeper, which may be without effect.
    CreateIfNotExists,
    /// The same for a delete.
    TryRemove,
    /// A multi with ephemeral nodes for a local session. The leader answers that the session is expired; this
    /// server knows the true error.
    MultiOfLocalSession,
    Reconfig,
}

impl ForwardedKind {
    pub(super) fn from_request(request: &WriteRequest) -> ForwardedKind {
        match request {
            WriteRequest::Create(_) => ForwardedKind::Create,
            WriteRequest::Delete(_) | WriteRequest::DeleteContainer { .. } => ForwardedKind::Delete,
            WriteRequest::SetData(_) => ForwardedKind::SetData,
            WriteRequest::SetAcl(_) => ForwardedKind::SetAcl,
            WriteRequest::Multi(_) | WriteRequest::Refused(_) | WriteRequest::DeleteTree(_) => {
                ForwardedKind::Multi
            }
            WriteRequest::Keeper(write) => match &**write {
                KeeperWrite::CreateIfNotExists(_) => ForwardedKind::CreateIfNotExists,
                KeeperWrite::TryRemove(_) => ForwardedKind::TryRemove,
                KeeperWrite::RemoveRecursive(_) => ForwardedKind::Multi,
            },
            WriteRequest::Reconfig(_) => ForwardedKind::Reconfig,
            WriteRequest::CreateSession { .. } => ForwardedKind::CreateSession,
            WriteRequest::CloseSession => ForwardedKind::CloseSession,
        }
    }

    /// Whether a request of this kind can have become this transaction.
    fn can_become(self, txn: &Txn) -> bool {
        match txn {
            Txn::Error(_) => true,
            Txn::CreateSession { .. } => self == ForwardedKind::CreateSession,
            Txn::CloseSession(_) => self == ForwardedKind::CloseSession,
            Txn::Create(_) | Txn::Create2(_) | Txn::CreateContainer(_) | Txn::CreateTtl(_) => {
                matches!(self, ForwardedKind::Create | ForwardedKind::CreateIfNotExists)
            }
            Txn::Delete(_) | Txn::DeleteContainer(_) => {
                matches!(self, ForwardedKind::Delete | ForwardedKind::TryRemove)
            }
            Txn::SetData(_) => self == ForwardedKind::SetData,
            Txn::SetAcl(_) => self == ForwardedKind::SetAcl,
            Txn::Check(_) => self == ForwardedKind::Check,
            Txn::Multi(_) => matches!(
                self,
                ForwardedKind::Multi
                    | ForwardedKind::MultiOfLocalSession
                    | ForwardedKind::CreateIfNotExists
                    | ForwardedKind::TryRemove
            ),
            Txn::Reconfig(_) => self == ForwardedKind::Reconfig,
        }
    }
}

#[derive(Debug)]
struct ForwardedRequest {
    cxid: i32,
    kind: ForwardedKind,
    origin: RequestOrigin,
    /// The request itself, if it may be sent again under another leader.
    copy: Option<Box<RequestCopy>>,
}

/// A request that no transaction has answered.
#[derive(Debug)]
pub(super) struct UnansweredRequest {
    pub(super) session: SessionId,
    pub(super) cxid: i32,
    pub(super) origin: RequestOrigin,
    pub(super) copy: Option<Box<RequestCopy>>,
}

impl ForwardedRequest {
    /// Whether the next leader can get this request.
    fn is_repeatable(&self) -> bool {
        self.copy.is_some() || matches!(self.origin, RequestOrigin::Connect { .. })
    }

    fn matches(&self, entry: &TxnEntry) -> bool {
        self.cxid == entry.header.cxid && self.kind.can_become(&entry.txn)
    }
}

/// The request of a transaction.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MatchedRequest {
    /// The origin of the request.
    pub(super) origin: RequestOrigin,
    /// The kind of the request; `None` if no request matches.
    pub(super) kind: Option<ForwardedKind>,
    /// Earlier requests of the same session, which the leader has skipped.
    pub(super) skipped: Vec<RequestOrigin>,
}

/// Requests that were forwarded and not answered, oldest first, per session.
#[derive(Debug, Default)]
pub(super) struct ForwardedRequests {
    sessions: BTreeMap<SessionId, VecDeque<ForwardedRequest>>,
    len: usize,
}

impl ForwardedRequests {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether a session has a request in flight.
    pub(super) fn has_pending(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Whether the createSession request of a session is in flight.
    pub(super) fn is_creating_session(&self, session: SessionId) -> bool {
        let makes = |forwarded: &ForwardedRequest| forwarded.kind == ForwardedKind::CreateSession;
        self.sessions.get(&session).is_some_and(|queue| queue.iter().any(makes))
    }

    pub(super) fn push(&mut self, session: SessionId, cxid: i32, kind: ForwardedKind, origin: RequestOrigin) {
        self.push_with_copy(session, ForwardedRequest { cxid, kind, origin, copy: None });
    }

    /// Queues a request of a client, with the copy that can be sent again.
    pub(super) fn push_request(
        &mut self,
        session: SessionId,
        cxid: i32,
        kind: ForwardedKind,
        pending: PendingRequest,
        copy: Option<Box<RequestCopy>>,
    ) {
        let origin = RequestOrigin::Request(pending);
        self.push_with_copy(session, ForwardedRequest { cxid, kind, origin, copy });
    }

    fn push_with_copy(&mut self, session: SessionId, request: ForwardedRequest) {
        self.sessions.entry(session).or_default().push_back(request);
        self.len += 1;
    }

    /// The client request of this transaction.
    pub(super) fn find(&self, entry: &TxnEntry) -> Option<PendingRequest> {
        let queue = self.sessions.get(&entry.header.session)?;
        match queue.iter().find(|forwarded| forwarded.matches(entry))?.origin {
            RequestOrigin::Request(pending) => Some(pending),
            RequestOrigin::Connect { .. } | RequestOrigin::NoClient => None,
        }
    }

    /// Removes the requests of each session that has a request without a copy. The leader of the next epoch
    /// cannot get such a request, and the later ones of the session must not overtake it. The connection of a
    /// new session has its connect request.
    pub(super) fn take_unrepeatable(&mut self) -> Vec<RequestOrigin> {
        let mut taken = Vec::new();
        self.sessions.retain(|_, queue| {
            let repeatable = queue.iter().all(ForwardedRequest::is_repeatable);
            if !repeatable {
                taken.extend(queue.drain(..).map(|forwarded| forwarded.origin));
            }
            repeatable
        });
        self.len -= taken.len();
        taken
    }

    /// The requests that no transaction has answered, in order per session.
    pub(super) fn into_unanswered(self) -> impl Iterator<Item = UnansweredRequest> {
        self.sessions.into_iter().flat_map(|(session, queue)| {
            queue.into_iter().map(move |ForwardedRequest { cxid, origin, copy, .. }| UnansweredRequest {
                session,
                cxid,
                origin,
                copy,
            })
        })
    }

    /// Removes the request of this transaction. No request matches if the transaction came from the session's
    /// connection at another server.
    pub(super) fn take_match(&mut self, entry: &TxnEntry) -> MatchedRequest {
        let nobody = MatchedRequest { origin: RequestOrigin::NoClient, kind: None, skipped: Vec::new() };
        let Some(queue) = self.sessions.get_mut(&entry.header.session) else { return nobody };
        let Some(index) = queue.iter().position(|forwarded| forwarded.matches(entry)) else { return nobody };
        let skipped = queue.drain(..index).map(|forwarded| forwarded.origin).collect();
        let found = queue.pop_front();
        let origin = found.as_ref().map_or(RequestOrigin::NoClient, |forwarded| forwarded.origin);
        let kind = found.map(|forwarded| forwarded.kind);
        self.len -= index + 1;
        if queue.is_empty() {
            self.sessions.remove(&entry.header.session);
        }
        MatchedRequest { origin, kind, skipped }
    }

    pub(super) fn into_origins(self) -> impl Iterator<Item = RequestOrigin> {
        self.sessions.into_values().flatten().map(|forwarded| forwarded.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::ConnectionId;
    use crate::pending_request::PendingRequest;
    use zebu_proto::txn::TxnHeader;
    use zebu_proto::{ErrorCode, Zxid};

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);

    fn at(slot: u64) -> RequestOrigin {
        RequestOrigin::Request(PendingRequest { connection: ConnectionId(1), slot, charged_bytes: 0 })
    }

    fn entry(session: SessionId, cxid: i32, txn: Txn) -> TxnEntry {
        TxnEntry { header: TxnHeader { session, cxid, zxid: Zxid(1), time_ms: 0 }, txn, digest: None }
    }

    fn delete(session: SessionId, cxid: i32) -> TxnEntry {
        entry(session, cxid, Txn::Delete("/a".into()))
    }

    #[test]
    fn the_oldest_of_the_session_with_that_number_is_found() {
        let mut forwarding = ForwardedRequests::default();
        forwarding.push(A, 5, ForwardedKind::Delete, at(0));
        forwarding.push(A, 5, ForwardedKind::Delete, at(1));
        forwarding.push(B, 5, ForwardedKind::Delete, at(2));
        assert_eq!(
            forwarding.take_match(&delete(A, 5)),
            MatchedRequest { origin: at(0), kind: Some(ForwardedKind::Delete), skipped: vec![] }
        );
        assert_eq!(
            forwarding.take_match(&delete(B, 5)),
            MatchedRequest { origin: at(2), kind: Some(ForwardedKind::Delete), skipped: vec![] }
        );
        assert_eq!(forwarding.take_match(&delete(B, 5)).origin, RequestOrigin::NoClient);
        assert_eq!(forwarding.take_match(&entry(A, 5, Txn::error(ErrorCode::NoNode))).origin, at(1));
        assert_eq!((forwarding.len(), forwarding.has_pending(A)), (0, false));
    }

    #[test]
    fn a_transaction_from_elsewhere_leaves_the_queue_alone() {
        let mut forwarding = ForwardedRequests::default();
        forwarding.push(A, 0, ForwardedKind::Delete, at(0));
        for other in [delete(A, 4), entry(A, 0, Txn::CloseSession(None)), delete(B, 0)] {
            assert_eq!(
                forwarding.take_match(&other),
                MatchedRequest { origin: RequestOrigin::NoClient, kind: None, skipped: vec![] }
            );
        }
        assert_eq!(forwarding.len(), 1);
    }

    #[test]
    fn a_session_is_made_until_its_transaction_comes() {
        let mut forwarding = ForwardedRequests::default();
        forwarding.push(A, 4, ForwardedKind::Delete, at(0));
        assert!(forwarding.has_pending(A) && !forwarding.is_creating_session(A));
        forwarding.push(A, 0, ForwardedKind::CreateSession, RequestOrigin::NoClient);
        forwarding.take_match(&delete(A, 4));
        assert!(forwarding.is_creating_session(A) && !forwarding.is_creating_session(B));
        forwarding.take_match(&entry(A, 0, Txn::CreateSession { timeout_ms: 5 }));
        assert!(!forwarding.is_creating_session(A));
    }

    #[test]
    fn what_a_later_answer_passes_over_is_lost() {
        let mut forwarding = ForwardedRequests::default();
        for slot in 0..3 {
            forwarding.push(A, slot as i32 + 1, ForwardedKind::Delete, at(slot));
        }
        assert_eq!(
            forwarding.take_match(&delete(A, 3)),
            MatchedRequest { origin: at(2), kind: Some(ForwardedKind::Delete), skipped: vec![at(0), at(1)] }
        );
        assert_eq!(forwarding.len(), 0);
    }
}
