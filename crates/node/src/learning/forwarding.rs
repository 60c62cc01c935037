//! Writes between this server and the leader. They come back as transactions in the order in which they were sent,
//! per session, among those of all other servers; the session and the client's number of the request tell them.

use std::collections::{BTreeMap, VecDeque};

use zebu_proto::SessionId;
use zebu_proto::client::WriteRequest;
use zebu_proto::txn::{Txn, TxnEntry};

use crate::agreement::Origin;

/// What a request becomes, if it does not become an error. Numbers of requests are the client's and may repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    CreateSession,
    CloseSession,
    Create,
    Delete,
    SetData,
    SetAcl,
    Check,
    Multi,
    /// With ephemeral nodes for a local session. The leader says that it does not know the session; why, is known
    /// here.
    MultiOfLocal,
    Reconfig,
}

impl Kind {
    pub(super) fn of_request(request: &WriteRequest) -> Kind {
        match request {
            WriteRequest::Create(_) => Kind::Create,
            WriteRequest::Delete(_) | WriteRequest::DeleteContainer { .. } => Kind::Delete,
            WriteRequest::SetData(_) => Kind::SetData,
            WriteRequest::SetAcl(_) => Kind::SetAcl,
            WriteRequest::Multi(_) | WriteRequest::Refused(_) => Kind::Multi,
            WriteRequest::Reconfig(_) => Kind::Reconfig,
            WriteRequest::CreateSession { .. } => Kind::CreateSession,
            WriteRequest::CloseSession => Kind::CloseSession,
        }
    }

    /// Whether a request of this kind can have become this transaction.
    fn can_be(self, txn: &Txn) -> bool {
        match txn {
            Txn::Error(_) => true,
            Txn::CreateSession { .. } => self == Kind::CreateSession,
            Txn::CloseSession(_) => self == Kind::CloseSession,
            Txn::Create(_) | Txn::Create2(_) | Txn::CreateContainer(_) | Txn::CreateTtl(_) => {
                self == Kind::Create
            }
            Txn::Delete(_) | Txn::DeleteContainer(_) => self == Kind::Delete,
            Txn::SetData(_) => self == Kind::SetData,
            Txn::SetAcl(_) => self == Kind::SetAcl,
            Txn::Check(_) => self == Kind::Check,
            Txn::Multi(_) => matches!(self, Kind::Multi | Kind::MultiOfLocal),
            Txn::Reconfig(_) => self == Kind::Reconfig,
        }
    }
}

#[derive(Debug)]
struct Forwarded {
    cxid: i32,
    kind: Kind,
    origin: Origin,
}

impl Forwarded {
    fn is(&self, entry: &TxnEntry) -> bool {
        self.cxid == entry.header.cxid && self.kind.can_be(&entry.txn)
    }
}

/// Who waits for a transaction.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The one who does.
    pub(super) origin: Origin,
    /// What was asked for; `None` if nobody waits.
    pub(super) kind: Option<Kind>,
    /// Those of the same session who were before: their requests will not come back any more.
    pub(super) lost: Vec<Origin>,
}

/// All that was sent to the leader and has not come back, oldest first, per session.
#[derive(Debug, Default)]
pub(super) struct Forwarding {
    sessions: BTreeMap<SessionId, VecDeque<Forwarded>>,
    len: usize,
}

impl Forwarding {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether a session has anything on its way.
    pub(super) fn knows(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Whether a session has still to be made.
    pub(super) fn is_making(&self, session: SessionId) -> bool {
        let makes = |forwarded: &Forwarded| forwarded.kind == Kind::CreateSession;
        self.sessions.get(&session).is_some_and(|queue| queue.iter().any(makes))
    }

    pub(super) fn push(&mut self, session: SessionId, cxid: i32, kind: Kind, origin: Origin) {
        self.sessions.entry(session).or_default().push_back(Forwarded { cxid, kind, origin });
        self.len += 1;
    }

    /// Who waits for this transaction. It may have come from the session's connection at another server; then
    /// nobody does.
    pub(super) fn take(&mut self, entry: &TxnEntry) -> Found {
        let nobody = Found { origin: Origin::Nobody, kind: None, lost: Vec::new() };
        let Some(queue) = self.sessions.get_mut(&entry.header.session) else { return nobody };
        let Some(index) = queue.iter().position(|forwarded| forwarded.is(entry)) else { return nobody };
        let lost = queue.drain(..index).map(|forwarded| forwarded.origin).collect();
        let found = queue.pop_front();
        let origin = found.as_ref().map_or(Origin::Nobody, |forwarded| forwarded.origin);
        let kind = found.map(|forwarded| forwarded.kind);
        self.len -= index + 1;
        if queue.is_empty() {
            self.sessions.remove(&entry.header.session);
        }
        Found { origin, kind, lost }
    }

    pub(super) fn into_origins(self) -> impl Iterator<Item = Origin> {
        self.sessions.into_values().flatten().map(|forwarded| forwarded.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::LaneId;
    use zebu_proto::txn::TxnHeader;
    use zebu_proto::{ErrorCode, Zxid};

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);

    fn at(slot: u64) -> Origin {
        Origin::Request { lane: LaneId(1), slot }
    }

    fn entry(session: SessionId, cxid: i32, txn: Txn) -> TxnEntry {
        TxnEntry { header: TxnHeader { session, cxid, zxid: Zxid(1), time_ms: 0 }, txn, digest: None }
    }

    fn delete(session: SessionId, cxid: i32) -> TxnEntry {
        entry(session, cxid, Txn::Delete("/a".into()))
    }

    #[test]
    fn the_oldest_of_the_session_with_that_number_is_found() {
        let mut forwarding = Forwarding::default();
        forwarding.push(A, 5, Kind::Delete, at(0));
        forwarding.push(A, 5, Kind::Delete, at(1));
        forwarding.push(B, 5, Kind::Delete, at(2));
        assert_eq!(
            forwarding.take(&delete(A, 5)),
            Found { origin: at(0), kind: Some(Kind::Delete), lost: vec![] }
        );
        assert_eq!(
            forwarding.take(&delete(B, 5)),
            Found { origin: at(2), kind: Some(Kind::Delete), lost: vec![] }
        );
        assert_eq!(forwarding.take(&delete(B, 5)).origin, Origin::Nobody);
        assert_eq!(forwarding.take(&entry(A, 5, Txn::error(ErrorCode::NoNode))).origin, at(1));
        assert_eq!((forwarding.len(), forwarding.knows(A)), (0, false));
    }

    #[test]
    fn a_transaction_from_elsewhere_leaves_the_queue_alone() {
        let mut forwarding = Forwarding::default();
        forwarding.push(A, 0, Kind::Delete, at(0));
        for other in [delete(A, 4), entry(A, 0, Txn::CloseSession(None)), delete(B, 0)] {
            assert_eq!(forwarding.take(&other), Found { origin: Origin::Nobody, kind: None, lost: vec![] });
        }
        assert_eq!(forwarding.len(), 1);
    }

    #[test]
    fn a_session_is_made_until_its_transaction_comes() {
        let mut forwarding = Forwarding::default();
        forwarding.push(A, 4, Kind::Delete, at(0));
        assert!(forwarding.knows(A) && !forwarding.is_making(A));
        forwarding.push(A, 0, Kind::CreateSession, Origin::Nobody);
        forwarding.take(&delete(A, 4));
        assert!(forwarding.is_making(A) && !forwarding.is_making(B));
        forwarding.take(&entry(A, 0, Txn::CreateSession { timeout_ms: 5 }));
        assert!(!forwarding.is_making(A));
    }

    #[test]
    fn what_a_later_answer_passes_over_is_lost() {
        let mut forwarding = Forwarding::default();
        for slot in 0..3 {
            forwarding.push(A, slot as i32 + 1, Kind::Delete, at(slot));
        }
        assert_eq!(
            forwarding.take(&delete(A, 3)),
            Found { origin: at(2), kind: Some(Kind::Delete), lost: vec![at(0), at(1)] }
        );
        assert_eq!(forwarding.len(), 0);
    }
}
