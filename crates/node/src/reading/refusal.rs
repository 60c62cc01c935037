//! What a server that is cut off from its ensemble does not do for clients. It is decided by the operation alone,
//! before anybody looks at what follows: ZooKeeper does it so.

use zebu_proto::{OpCode, SessionId};
use zebu_tree::Tree;

/// Whether a request needs somebody to decide. A session of the ensemble can only be closed by it; one that was
/// made here is not in the tree.
pub(crate) fn is_refused(op: OpCode, session: Option<SessionId>, tree: &Tree) -> bool {
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
        | OpCode::Sasl => false,
        // No client may send these to any server, and the answer to that comes first.
        OpCode::Error | OpCode::CreateSession | OpCode::Check | OpCode::DeleteContainer => false,
    }
}
