//! The operations of clients, as the simulator represents them: small, complete, and independent of the
//! decoder of the server under test.

use std::sync::Arc;

use zebu_client::core::WatchIntent;
use zebu_proto::client::multi::{MULTI_END, MultiHeader, MultiOp};
use zebu_proto::client::{
    AddWatchMode, CheckRequest, ClientHello, CreateMode, CreateOp, CreateRequest, DeleteRequest,
    DeleteTreeRequest, FeedOpen, Freshness, KeeperPart, KeeperWrite, SetAclRequest, SetDataRequest,
};
use zebu_proto::{Acl, Jute, OpCode};

use crate::listing::ListingRead;
use crate::members::ReconfigChange;

/// A path, shared by call, model and history.
pub(crate) type NodePath = Arc<str>;

/// The path that the workload syncs; the session state machine uses another one to renew its lease.
pub(crate) const SYNCED: &str = "/synced";

/// A write, alone or in a multi.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WriteOperation {
    Create {
        path: NodePath,
        data: Arc<[u8]>,
        mode: CreateMode,
        op: CreateOp,
        permissions: i32,
    },
    Delete {
        path: NodePath,
        version: i32,
    },
    Set {
        path: NodePath,
        data: Arc<[u8]>,
        version: i32,
    },
    Check {
        path: NodePath,
        version: i32,
    },
    SetAcl {
        path: NodePath,
        permissions: i32,
        version: i32,
    },
    /// A write of ClickHouse Keeper; in a multi, also one of its checks.
    Keeper(Box<KeeperPart>),
}

/// A read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReadOperation {
    Get(NodePath),
    Exists(NodePath),
    Children(NodePath),
    ChildrenAndStat(NodePath),
    Acl(NodePath),
    DescendantCount(NodePath),
    Ephemerals(NodePath),
    Several(Vec<MultiReadOperation>),
    /// A list that ZooKeeper does not have.
    Listing(ListingRead),
}

impl ReadOperation {
    fn op_code(&self) -> OpCode {
        match self {
            ReadOperation::Get(_) => OpCode::GetData,
            ReadOperation::Exists(_) => OpCode::Exists,
            ReadOperation::Children(_) => OpCode::GetChildren,
            ReadOperation::ChildrenAndStat(_) => OpCode::GetChildren2,
            ReadOperation::Acl(_) => OpCode::GetAcl,
            ReadOperation::DescendantCount(_) => OpCode::GetAllChildrenNumber,
            ReadOperation::Ephemerals(_) => OpCode::GetEphemerals,
            ReadOperation::Several(_) => OpCode::MultiRead,
            ReadOperation::Listing(listing) => listing.op_code(),
        }
    }
}

/// A read inside a multiRead.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MultiReadOperation {
    Get(NodePath),
    Children(NodePath),
}

/// A call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operation {
    Write(WriteOperation),
    Multi(Vec<WriteOperation>),
    /// A part of a subtree is deleted in one transaction.
    DeleteTree(DeleteTreeRequest),
    Read {
        read: ReadOperation,
        watch: bool,
        freshness: Freshness,
    },
    AddWatch {
        path: NodePath,
        mode: AddWatchMode,
    },
    Sync(NodePath),
    /// The client says what it understands beyond ZooKeeper.
    Hello(ClientHello),
    /// A feed of committed transactions is opened.
    Feed(FeedOpen),
    /// A reconfig that requires this version of the current config; -1 accepts any.
    Reconfig {
        change: ReconfigChange,
        version: i64,
    },
}

impl WriteOperation {
    fn multi_op(&self) -> MultiOp {
        let text = |path: &NodePath| Some(Box::from(&**path));
        match self {
            WriteOperation::Create { path, data, mode, op, permissions } => MultiOp::Create(CreateRequest {
                op: *op,
                path: text(path),
                data: Some(data.clone()),
                acl: Some(acl(*permissions).into()),
                flags: mode.flags(),
                ttl_ms: -1,
            }),
            WriteOperation::Delete { path, version } => {
                MultiOp::Delete(DeleteRequest { path: text(path), version: *version })
            }
            WriteOperation::Set { path, data, version } => MultiOp::SetData(SetDataRequest {
                path: text(path),
                data: Some(data.clone()),
                version: *version,
            }),
            WriteOperation::Keeper(part) => MultiOp::Keeper(part.clone()),
            // A multi has no setACL; the workload never puts one there.
            WriteOperation::Check { path, version } | WriteOperation::SetAcl { path, version, .. } => {
                MultiOp::Check(CheckRequest { path: text(path), version: *version })
            }
        }
    }
}

/// An ACL that grants these permissions to every client.
pub(crate) fn acl(permissions: i32) -> Vec<Acl> {
    vec![Acl::new(permissions, "world", "anyone")]
}

impl Operation {
    pub(crate) fn op_code(&self) -> OpCode {
        match self {
            Operation::Write(WriteOperation::SetAcl { .. }) => OpCode::SetAcl,
            Operation::Write(write) => write.multi_op().op_code(),
            Operation::Multi(_) => OpCode::Multi,
            Operation::DeleteTree(_) => OpCode::DeleteTree,
            Operation::Read { freshness, .. } if !freshness.is_any() => OpCode::With,
            Operation::Read { read, .. } => read.op_code(),
            Operation::AddWatch { .. } => OpCode::AddWatch,
            Operation::Sync(_) => OpCode::Sync,
            Operation::Hello(_) => OpCode::Hello,
            Operation::Feed(_) => OpCode::Feed,
            Operation::Reconfig { .. } => OpCode::Reconfig,
        }
    }

    /// A read of any state that the session may see.
    pub(crate) fn plain_read(read: ReadOperation, watch: bool) -> Operation {
        Operation::Read { read, watch, freshness: Freshness::default() }
    }

    /// Whether it becomes a transaction.
    pub(crate) fn is_write(&self) -> bool {
        matches!(
            self,
            Operation::Write(_) | Operation::Multi(_) | Operation::DeleteTree(_) | Operation::Reconfig { .. }
        )
    }

    /// Whether it creates an ephemeral node.
    pub(crate) fn creates_ephemeral(&self) -> bool {
        let is_ephemeral = |write: &WriteOperation| match write {
            WriteOperation::Create { mode, .. } => mode.is_ephemeral(),
            WriteOperation::Keeper(part) => match &**part {
                KeeperPart::Write(KeeperWrite::CreateIfNotExists(create)) => {
                    create.flags == CreateMode::Ephemeral.flags()
                }
                KeeperPart::Write(_) | KeeperPart::Check(_) => false,
            },
            _ => false,
        };
        match self {
            Operation::Write(write) => is_ephemeral(write),
            Operation::Multi(writes) => writes.iter().any(is_ephemeral),
            _ => false,
        }
    }

    /// The watch that it sets, with its path.
    pub(crate) fn watch(&self) -> Option<(WatchIntent, &NodePath)> {
        match self {
            Operation::Read { read, watch: true, .. } => match read {
                ReadOperation::Get(path) => Some((WatchIntent::Data, path)),
                ReadOperation::Exists(path) => Some((WatchIntent::Exists, path)),
                ReadOperation::Children(path) | ReadOperation::ChildrenAndStat(path) => {
                    Some((WatchIntent::Children, path))
                }
                ReadOperation::Acl(_)
                | ReadOperation::DescendantCount(_)
                | ReadOperation::Ephemerals(_)
                | ReadOperation::Several(_)
                | ReadOperation::Listing(_) => None,
            },
            Operation::AddWatch { path, mode: AddWatchMode::Persistent } => {
                Some((WatchIntent::Persistent, path))
            }
            Operation::AddWatch { path, mode: AddWatchMode::PersistentRecursive } => {
                Some((WatchIntent::Recursive, path))
            }
            _ => None,
        }
    }

    /// The record after the request header.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Operation::Write(WriteOperation::SetAcl { path, permissions, version }) => {
                let path = Some(Box::from(&**path));
                SetAclRequest { path, acl: Some(acl(*permissions).into()), version: *version }.encode(out);
            }
            Operation::Write(write) => {
                // The record of a part alone, behind the header of the part.
                let mut part = Vec::new();
                write.multi_op().encode(&mut part);
                out.extend_from_slice(part.get(MultiHeader::SIZE_MIN..).unwrap_or_default());
            }
            Operation::Multi(writes) => {
                writes.iter().for_each(|write| write.multi_op().encode(out));
                MULTI_END.encode(out);
            }
            Operation::DeleteTree(request) => request.encode(out),
            Operation::Read { read, watch, freshness } => {
                if !freshness.is_any() {
                    freshness.encode(out);
                    read.op_code().wire().encode(out);
                }
                encode_read(read, *watch, out);
            }
            Operation::AddWatch { path, mode } => {
                Box::<str>::from(&**path).encode(out);
                mode.wire().encode(out);
            }
            Operation::Sync(path) => Box::<str>::from(&**path).encode(out),
            Operation::Hello(hello) => hello.encode(out),
            Operation::Feed(open) => open.encode(out),
            Operation::Reconfig { change, version } => change.encode(*version, out),
        }
    }
}

fn encode_read(read: &ReadOperation, watch: bool, out: &mut Vec<u8>) {
    let text = |path: &NodePath, out: &mut Vec<u8>| Box::<str>::from(&**path).encode(out);
    match read {
        ReadOperation::Get(path)
        | ReadOperation::Exists(path)
        | ReadOperation::Children(path)
        | ReadOperation::ChildrenAndStat(path) => {
            text(path, out);
            watch.encode(out);
        }
        ReadOperation::Acl(path) | ReadOperation::DescendantCount(path) | ReadOperation::Ephemerals(path) => {
            text(path, out)
        }
        ReadOperation::Listing(listing) => listing.encode(out),
        ReadOperation::Several(reads) => {
            for read in reads {
                let (op, path) = match read {
                    MultiReadOperation::Get(path) => (OpCode::GetData, path),
                    MultiReadOperation::Children(path) => (OpCode::GetChildren, path),
                };
                MultiHeader { op: op.wire(), done: false, err: -1 }.encode(out);
                text(path, out);
                false.encode(out);
            }
            MULTI_END.encode(out);
        }
    }
}
