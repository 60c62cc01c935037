//! The shape of a write's reply. It is known when the request is received; the transaction alone does not
//! tell it, because create and create2 make the same one.

use zebu_proto::client::create::CreateOp;
use zebu_proto::client::{MultiOp, WriteRequest};
use zebu_proto::{OpCode, Text};

/// What the body of a successful reply consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyShape {
    /// Nothing.
    Empty,
    /// The path of the new node.
    Path,
    /// Path and stat of the new node.
    PathAndStat,
    /// The node's new stat.
    Stat,
    /// The new configuration and the stat of its node.
    DataAndStat,
    /// One result per operation, of these codes.
    Multi(Box<[OpCode]>),
    /// Nothing, and the connection ends.
    Close,
    /// The path that came with a sync.
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
