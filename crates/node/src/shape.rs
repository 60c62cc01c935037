//! The shape of the reply to a write. It comes from the request: the transaction does not tell it, because
//! create and create2 make the same one.

use zebu_proto::client::create::CreateOp;
use zebu_proto::client::{KeeperPart, KeeperWrite, MultiOp, WriteRequest};
use zebu_proto::{OpCode, Text};

/// The body of a successful reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyShape {
    /// An empty body.
    Empty,
    /// The path of the new node.
    Path,
    /// Path and stat of the new node.
    PathAndStat,
    /// The new stat of the node.
    Stat,
    /// The new config and the stat of its node.
    DataAndStat,
    /// One result per operation, with these operation codes.
    Multi(Box<[OpCode]>),
    /// The same with operations that become one part per node of a subtree.
    MultiOfSubtrees {
        /// The operation codes.
        ops: Box<[OpCode]>,
        /// The first nodes of the subtrees, in the order of their operations.
        roots: Box<[Box<str>]>,
    },
    /// The path of a node that the request has created, unless it existed.
    NewOrOldPath,
    /// The number of deleted nodes, and whether more are left.
    DeletedTree,
    /// An empty body, after which the connection is closed.
    Close,
    /// The path of a sync request.
    Sync(Text),
}

impl ReplyShape {
    /// The shape of the reply to `request`.
    pub fn of(request: &WriteRequest) -> ReplyShape {
        match request {
            WriteRequest::Create(create) => match create.op {
                CreateOp::Create => ReplyShape::Path,
                CreateOp::Create2 | CreateOp::Container | CreateOp::Ttl => ReplyShape::PathAndStat,
            },
            WriteRequest::SetData(_) | WriteRequest::SetAcl(_) => ReplyShape::Stat,
            WriteRequest::Multi(ops) => {
                let codes = ops.iter().map(MultiOp::result_op).collect();
                let roots: Box<[_]> = ops.iter().filter_map(subtree_root).collect();
                match roots.is_empty() {
                    true => ReplyShape::Multi(codes),
                    false => ReplyShape::MultiOfSubtrees { ops: codes, roots },
                }
            }
            WriteRequest::Keeper(write) => match &**write {
                KeeperWrite::CreateIfNotExists(_) => ReplyShape::NewOrOldPath,
                KeeperWrite::RemoveRecursive(_) | KeeperWrite::TryRemove(_) => ReplyShape::Empty,
            },
            WriteRequest::Reconfig(_) => ReplyShape::DataAndStat,
            WriteRequest::DeleteTree(_) => ReplyShape::DeletedTree,
            WriteRequest::CloseSession => ReplyShape::Close,
            WriteRequest::Delete(_)
            | WriteRequest::Refused(_)
            | WriteRequest::CreateSession { .. }
            | WriteRequest::DeleteContainer { .. } => ReplyShape::Empty,
        }
    }
}

fn subtree_root(op: &MultiOp) -> Option<Box<str>> {
    let MultiOp::Keeper(part) = op else { return None };
    match &**part {
        KeeperPart::Write(KeeperWrite::RemoveRecursive(request)) => request.path.clone(),
        KeeperPart::Write(_) | KeeperPart::Check(_) => None,
    }
}
