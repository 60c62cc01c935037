//! What a learner knows about the room on the disks of a quorum. The leader answers what makes the tree
//! larger with an error transaction, and makes few of them. While it refuses, this server refuses such
//! requests itself, so that they do not take the places of deletes.

use zebu_proto::ErrorCode;
use zebu_proto::client::WriteRequest;
use zebu_proto::txn::{Txn, TxnEntry};
use zebu_tree::Overlay;

use super::LearnerRole;
use crate::context::ServeContext;
use crate::core::NodeState;

/// Milliseconds after a refusal in which no request is forwarded that makes the tree larger.
const PAUSE_MS: i64 = 1_000;

/// Milliseconds after a refusal in which such a request is forwarded only if few requests are unanswered.
const CAUTION_MS: i64 = 10_000;

/// Unanswered requests that are few.
const UNANSWERED_FEW: usize = 100;

/// The last refusal of the leader.
#[derive(Debug, Default)]
pub(super) struct LeaderRoom {
    /// Monotonic milliseconds.
    refused_ms: Option<i64>,
}

impl LeaderRoom {
    /// Notes whether a transaction is a refusal, for any server, or shows that there is room.
    pub(super) fn note(&mut self, entry: &TxnEntry, now_ms: i64) {
        match &entry.txn {
            txn if *txn == Txn::error(ErrorCode::SystemError) => self.refused_ms = Some(now_ms),
            Txn::Create(_)
            | Txn::Create2(_)
            | Txn::CreateContainer(_)
            | Txn::CreateTtl(_)
            | Txn::CreateSession { .. } => self.refused_ms = None,
            Txn::Delete(_)
            | Txn::DeleteContainer(_)
            | Txn::SetData(_)
            | Txn::SetAcl(_)
            | Txn::Check(_)
            | Txn::Multi(_)
            | Txn::Reconfig(_)
            | Txn::CloseSession(_)
            | Txn::Error(_) => {}
        }
    }

    /// Whether a request is refused here if it makes the tree larger.
    fn refuses_growth(&self, unanswered: usize, now_ms: i64) -> bool {
        self.refused_ms.is_some_and(|refused_ms| {
            let age_ms = now_ms - refused_ms;
            age_ms < PAUSE_MS || (age_ms < CAUTION_MS && unanswered >= UNANSWERED_FEW)
        })
    }
}

impl LearnerRole {
    /// Whether this server refuses a request because its leader lacks room. While the leader refuses, no
    /// pending request makes a node longer, so the applied state will do.
    pub(super) fn lacks_room_for(
        &self,
        state: &NodeState,
        request: &WriteRequest,
        context: &ServeContext<'_, impl Sized>,
    ) -> bool {
        let (unanswered, now_ms) = (self.forwarded.len(), context.now.monotonic_ms);
        self.leader_room.refuses_growth(unanswered, now_ms)
            && context.replica.tree.grows_by(&Overlay::new(state.settings.seed), request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zebu_proto::txn::TxnHeader;
    use zebu_proto::{SessionId, Zxid};

    fn entry(txn: Txn) -> TxnEntry {
        let header = TxnHeader { session: SessionId(1), cxid: 1, zxid: Zxid(1), time_ms: 0 };
        TxnEntry { header, txn, digest: None }
    }

    #[test]
    fn a_session_that_is_opened_shows_that_there_is_room() {
        let mut room = LeaderRoom::default();
        room.note(&entry(Txn::error(ErrorCode::NoNode)), 0);
        assert!(!room.refuses_growth(0, 0));
        room.note(&entry(Txn::error(ErrorCode::SystemError)), 0);
        room.note(&entry(Txn::Delete("/a".into())), 0);
        assert!(room.refuses_growth(0, 0));
        room.note(&entry(Txn::CreateSession { timeout_ms: 5_000 }), 0);
        assert!(!room.refuses_growth(0, 0));
    }

    #[test]
    fn a_refusal_is_remembered_and_few_requests_try_again() {
        let mut room = LeaderRoom::default();
        assert!(!room.refuses_growth(UNANSWERED_FEW, 0));
        room.refused_ms = Some(0);
        assert!(room.refuses_growth(0, PAUSE_MS - 1));
        assert!(!room.refuses_growth(UNANSWERED_FEW - 1, PAUSE_MS));
        assert!(room.refuses_growth(UNANSWERED_FEW, CAUTION_MS - 1));
        assert!(!room.refuses_growth(UNANSWERED_FEW, CAUTION_MS));
    }
}
