//! Operations that a read-only server refuses. The operation code alone is checked, before the request is
//! decoded, as in ZooKeeper.

use zebu_proto::{OpCode, SessionId};
use zebu_tree::Tree;

/// Whether an operation needs a leader. A session of the ensemble can be closed only by the ensemble; a
/// session that was opened here is not in the tree.
pub(crate) fn needs_leader(op: OpCode, session: Option<SessionId>, tree: &Tree) -> bool {
    match op {
        OpCode::Create
        | OpCode::Create2
        | OpCode::CreateContainer
        | OpCode::CreateTtl
        | OpCode::Delete
        | OpCode::SetData
        | OpCode::SetAcl
        | OpCode::Multi
        | OpCode::Reconfig
        | OpCode::DeleteTree
        | OpCode::CreateIfNotExists
        | OpCode::RemoveRecursive
        | OpCode::TryRemove
        | OpCode::Sync => true,
        OpCode::CloseSession => session.is_some_and(|session| tree.sessions().contains_key(&session)),
        OpCode::Exists
        | OpCode::GetData
        | OpCode::GetAcl
        | OpCode::GetChildren
        | OpCode::GetChildren2
        | OpCode::GetEphemerals
        | OpCode::GetAllChildrenNumber
        | OpCode::MultiRead
        | OpCode::Ping
        | OpCode::WhoAmI
        | OpCode::CheckWatches
        | OpCode::RemoveWatches
        | OpCode::SetWatches
        | OpCode::SetWatches2
        | OpCode::AddWatch
        | OpCode::Auth
        | OpCode::Sasl
        | OpCode::Hello
        | OpCode::With
        | OpCode::GetChildrenPaginated
        | OpCode::Page
        | OpCode::FilteredList
        | OpCode::CheckNotExists
        | OpCode::CheckStat
        | OpCode::ListWithStatsAndData
        | OpCode::ListRecursive
        | OpCode::Scan
        | OpCode::Feed
        | OpCode::FeedCredit => false,
        // Clients may send these to no server; the error for that takes precedence.
        OpCode::Error | OpCode::CreateSession | OpCode::Check | OpCode::DeleteContainer => false,
    }
}
