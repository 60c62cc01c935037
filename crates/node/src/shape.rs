//! The shape of the reply to a write. It comes from the request: the transaction does not tell it, because
//! create and create2 make the same one.

use zebu_proto::client::create::CreateOp;
use zebu_proto::client::{MultiOp, WriteRequest};
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
            WriteRequest::Multi(ops) => ReplyShape::Multi(ops.iter().map(MultiOp::result_op).collect()),
            WriteRequest::Reconfig(_) => ReplyShape::DataAndStat,
            WriteRequest::CloseSession => ReplyShape::Close,
            WriteRequest::Delete(_)
            | WriteRequest::Refused(_)
            | WriteRequest::CreateSession { .. }
            | WriteRequest::DeleteContainer { .. } => ReplyShape::Empty,
        }
    }
}
