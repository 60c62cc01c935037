//! The part of a client's write that its audit line needs.

use zebu_proto::AclList;
use zebu_proto::client::create::{CreateMode, CreateOp, CreateRequest};
use zebu_proto::client::{KeeperPart, KeeperWrite, MultiOp, WriteRequest};

/// A write that gives audit lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AuditedRequest {
    Create {
        path: Option<Box<str>>,
        /// `None` if the flags are invalid.
        mode: Option<CreateMode>,
    },
    Delete {
        path: Option<Box<str>>,
    },
    SetData {
        path: Option<Box<str>>,
    },
    SetAcl {
        path: Option<Box<str>>,
        acl: AclList,
    },
    /// A line for each deleted node, as for the deletes of a multi.
    DeleteTree {
        root: Box<str>,
    },
    Multi {
        /// Requested paths of creates and their modes. ZooKeeper has none for TTL nodes.
        modes: Vec<(Box<str>, CreateMode)>,
    },
    Reconfig,
}

impl AuditedRequest {
    /// `None` for a request without line.
    pub(super) fn of(request: &WriteRequest) -> Option<AuditedRequest> {
        Some(match request {
            WriteRequest::Create(create) => {
                AuditedRequest::Create { path: create.path.clone(), mode: mode_of(create) }
            }
            WriteRequest::Delete(delete) => AuditedRequest::Delete { path: delete.path.clone() },
            WriteRequest::DeleteContainer { path } => AuditedRequest::Delete { path: Some(path.clone()) },
            WriteRequest::SetData(set) => AuditedRequest::SetData { path: set.path.clone() },
            WriteRequest::SetAcl(set) => {
                AuditedRequest::SetAcl { path: set.path.clone(), acl: set.acl.clone().unwrap_or_default() }
            }
            WriteRequest::Multi(ops) => AuditedRequest::Multi { modes: modes_of(ops) },
            WriteRequest::Refused(_) => AuditedRequest::Multi { modes: Vec::new() },
            WriteRequest::Reconfig(_) => AuditedRequest::Reconfig,
            WriteRequest::DeleteTree(request) => AuditedRequest::DeleteTree { root: request.root.clone() },
            WriteRequest::Keeper(write) => AuditedRequest::of_keeper(write),
            WriteRequest::CreateSession { .. } | WriteRequest::CloseSession => return None,
        })
    }
}

impl AuditedRequest {
    fn of_keeper(write: &KeeperWrite) -> AuditedRequest {
        match write {
            KeeperWrite::CreateIfNotExists(create) => {
                AuditedRequest::Create { path: create.path.clone(), mode: mode_of(create) }
            }
            KeeperWrite::TryRemove(delete) => AuditedRequest::Delete { path: delete.path.clone() },
            KeeperWrite::RemoveRecursive(request) => {
                AuditedRequest::DeleteTree { root: request.path.clone().unwrap_or_default() }
            }
        }
    }

    /// The modes of the creates of a multi.
    pub(super) fn into_modes(self) -> Vec<(Box<str>, CreateMode)> {
        match self {
            AuditedRequest::Multi { modes } => modes,
            // Wildcard: no other request has several creates.
            _ => Vec::new(),
        }
    }
}

fn mode_of(create: &CreateRequest) -> Option<CreateMode> {
    CreateMode::from_flags(create.flags)
}

fn modes_of(ops: &[MultiOp]) -> Vec<(Box<str>, CreateMode)> {
    let mode = |op: &MultiOp| match op {
        MultiOp::Create(create) if create.op != CreateOp::Ttl => {
            Some((create.path.clone()?, mode_of(create)?))
        }
        MultiOp::Keeper(part) => match &**part {
            KeeperPart::Write(KeeperWrite::CreateIfNotExists(create)) => {
                Some((create.path.clone()?, mode_of(create)?))
            }
            KeeperPart::Write(_) | KeeperPart::Check(_) => None,
        },
        MultiOp::Create(_) | MultiOp::Delete(_) | MultiOp::SetData(_) | MultiOp::Check(_) => None,
    };
    ops.iter().filter_map(mode).collect()
}
