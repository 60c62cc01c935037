//! Writes that were forwarded to the leader. Per session, their transactions arrive in the order of the
//! requests, among those of other servers. Session and cxid identify them.

use std::collections::{BTreeMap, VecDeque};

use zebu_proto::SessionId;
use zebu_proto::client::WriteRequest;
use zebu_proto::txn::{Txn, TxnEntry};

use crate::consensus::RequestOrigin;

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
            WriteRequest::Multi(_) | WriteRequest::Refused(_) => ForwardedKind::Multi,
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
                self == ForwardedKind::Create
            }
            Txn::Delete(_) | Txn::DeleteContainer(_) => self == ForwardedKind::Delete,
            Txn::SetData(_) => self == ForwardedKind::SetData,
            Txn::SetAcl(_) => self == ForwardedKind::SetAcl,
            Txn::Check(_) => self == ForwardedKind::Check,
            Txn::Multi(_) => matches!(self, ForwardedKind::Multi | ForwardedKind::MultiOfLocalSession),
            Txn::Reconfig(_) => self == ForwardedKind::Reconfig,
        }
    }
}

#[derive(Debug)]
struct ForwardedRequest {
    cxid: i32,
    kind: ForwardedKind,
    origin: RequestOrigin,
}

impl ForwardedRequest {
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
        self.sessions.entry(session).or_default().push_back(ForwardedRequest { cxid, kind, origin });
        self.len += 1;
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
