//! Requests that become transactions.

use crate::acl::AclList;
use crate::client::create::CreateRequest;
use crate::client::delete_tree::DeleteTreeRequest;
use crate::client::keeper::KeeperWrite;
use crate::client::multi::MultiOp;
use crate::client::reconfig::ReconfigRequest;
use crate::error_code::ErrorCode;
use crate::jute::{Buffer, Text};
use crate::record;

record! {
    /// delete: remove a node.
    pub struct DeleteRequest {
        /// Path.
        pub path: Text,
        /// Required data version, or -1.
        pub version: i32,
    }
}

record! {
    /// setData: replace a node's data.
    pub struct SetDataRequest {
        /// Path.
        pub path: Text,
        /// New data.
        pub data: Buffer,
        /// Required data version, or -1.
        pub version: i32,
    }
}

record! {
    /// setACL: replace a node's ACL.
    pub struct SetAclRequest {
        /// Path.
        pub path: Text,
        /// New ACL.
        pub acl: Option<AclList>,
        /// Required ACL version, or -1.
        pub version: i32,
    }
}

record! {
    /// check: only inside a multi.
    pub struct CheckRequest {
        /// Path.
        pub path: Text,
        /// Required data version, or -1 for mere existence.
        pub version: i32,
    }
}

impl WriteRequest {
    /// Whether only Zebu has the request.
    pub const fn is_private(&self) -> bool {
        matches!(self, WriteRequest::DeleteTree(_))
    }

    /// Whether only ClickHouse Keeper and Zebu have the request, or a part of it.
    pub fn is_keeper(&self) -> bool {
        match self {
            WriteRequest::Keeper(_) => true,
            WriteRequest::Multi(ops) => ops.iter().any(|op| matches!(op, MultiOp::Keeper(_))),
            WriteRequest::DeleteTree(_)
            | WriteRequest::Create(_)
            | WriteRequest::Delete(_)
            | WriteRequest::SetData(_)
            | WriteRequest::SetAcl(_)
            | WriteRequest::Reconfig(_)
            | WriteRequest::Refused(_)
            | WriteRequest::CreateSession { .. }
            | WriteRequest::CloseSession
            | WriteRequest::DeleteContainer { .. } => false,
        }
    }

    /// Whether the leader must be a Zebu server: another one does not answer the request.
    pub fn needs_zebu_leader(&self) -> bool {
        self.is_private() || self.is_keeper()
    }
}

/// A request that is prepared into a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteRequest {
    /// create, create2, createContainer, createTTL.
    Create(CreateRequest),
    /// delete.
    Delete(DeleteRequest),
    /// setData.
    SetData(SetDataRequest),
    /// setACL.
    SetAcl(SetAclRequest),
    /// multi.
    Multi(Vec<MultiOp>),
    /// reconfig.
    Reconfig(ReconfigRequest),
    /// deltree.
    DeleteTree(DeleteTreeRequest),
    /// A write of ClickHouse Keeper. Boxed: other writes are smaller.
    Keeper(Box<KeeperWrite>),
    /// A request that takes a zxid although it fails before it is checked: an undecodable multi.
    Refused(ErrorCode),
    /// The server opens a session.
    CreateSession {
        /// Negotiated timeout, milliseconds.
        timeout_ms: i32,
    },
    /// A client or the server closes a session.
    CloseSession,
    /// The server removes an empty container or an expired TTL node.
    DeleteContainer {
        /// Path.
        path: Box<str>,
    },
}
