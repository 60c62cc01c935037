//! What clients ask for, as the simulator thinks of it: small, complete, and independent of how the server
//! under test decodes it.

use std::sync::Arc;

use zebu_client::core::WatchIntent;
use zebu_proto::client::multi::{MULTI_END, MultiHeader, MultiOp};
use zebu_proto::client::{
    AddWatchMode, CheckRequest, CreateMode, CreateOp, CreateRequest, DeleteRequest, SetAclRequest,
    SetDataRequest,
};
use zebu_proto::{Acl, Jute, OpCode};

use crate::members::Wish;

/// A path, shared by call, model and history.
pub(crate) type Path = Arc<str>;

/// What the workload syncs: not the path that the client's machine names when it renews its lease.
pub(crate) const SYNCED: &str = "/synced";

/// A write, alone or in a multi.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Write {
    Create { path: Path, data: Arc<[u8]>, mode: CreateMode, op: CreateOp, permissions: i32 },
    Delete { path: Path, version: i32 },
    Set { path: Path, data: Arc<[u8]>, version: i32 },
    Check { path: Path, version: i32 },
    SetAcl { path: Path, permissions: i32, version: i32 },
}

/// A read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Read {
    Get(Path),
    Exists(Path),
    Children(Path),
    ChildrenAndStat(Path),
    Acl(Path),
    DescendantCount(Path),
    Ephemerals(Path),
    Several(Vec<SeveralRead>),
}

/// A read inside a multiRead.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SeveralRead {
    Get(Path),
    Children(Path),
}

/// A call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operation {
    Write(Write),
    Multi(Vec<Write>),
    Read {
        read: Read,
        watch: bool,
    },
    AddWatch {
        path: Path,
        mode: AddWatchMode,
    },
    Sync(Path),
    /// Other members, if the present ones have this version; -1 if any.
    Reconfig {
        wish: Wish,
        version: i64,
    },
}

impl Write {
    fn multi_op(&self) -> MultiOp {
        let text = |path: &Path| Some(Box::from(&**path));
        match self {
            Write::Create { path, data, mode, op, permissions } => MultiOp::Create(CreateRequest {
                op: *op,
                path: text(path),
                data: Some(data.clone()),
                acl: Some(acl(*permissions).into()),
                flags: mode.flags(),
                ttl_ms: -1,
            }),
            Write::Delete { path, version } => {
                MultiOp::Delete(DeleteRequest { path: text(path), version: *version })
            }
            Write::Set { path, data, version } => MultiOp::SetData(SetDataRequest {
                path: text(path),
                data: Some(data.clone()),
                version: *version,
            }),
            // A multi has no setACL; the workload never puts one there.
            Write::Check { path, version } | Write::SetAcl { path, version, .. } => {
                MultiOp::Check(CheckRequest { path: text(path), version: *version })
            }
        }
    }
}

/// Everybody, with these permissions.
pub(crate) fn acl(permissions: i32) -> Vec<Acl> {
    vec![Acl::new(permissions, "world", "anyone")]
}

impl Operation {
    pub(crate) fn op_code(&self) -> OpCode {
        match self {
            Operation::Write(Write::SetAcl { .. }) => OpCode::SetAcl,
            Operation::Write(write) => write.multi_op().op_code(),
            Operation::Multi(_) => OpCode::Multi,
            Operation::Read { read, .. } => match read {
                Read::Get(_) => OpCode::GetData,
                Read::Exists(_) => OpCode::Exists,
                Read::Children(_) => OpCode::GetChildren,
                Read::ChildrenAndStat(_) => OpCode::GetChildren2,
                Read::Acl(_) => OpCode::GetAcl,
                Read::DescendantCount(_) => OpCode::GetAllChildrenNumber,
                Read::Ephemerals(_) => OpCode::GetEphemerals,
                Read::Several(_) => OpCode::MultiRead,
            },
            Operation::AddWatch { .. } => OpCode::AddWatch,
            Operation::Sync(_) => OpCode::Sync,
            Operation::Reconfig { .. } => OpCode::Reconfig,
        }
    }

    /// Whether it becomes a transaction.
    pub(crate) fn is_write(&self) -> bool {
        matches!(self, Operation::Write(_) | Operation::Multi(_) | Operation::Reconfig { .. })
    }

    /// The watch that it leaves, with its path.
    pub(crate) fn watch(&self) -> Option<(WatchIntent, &Path)> {
        match self {
            Operation::Read { read, watch: true } => match read {
                Read::Get(path) => Some((WatchIntent::Data, path)),
                Read::Exists(path) => Some((WatchIntent::Exists, path)),
                Read::Children(path) | Read::ChildrenAndStat(path) => Some((WatchIntent::Children, path)),
                Read::Acl(_) | Read::DescendantCount(_) | Read::Ephemerals(_) | Read::Several(_) => None,
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

    /// The record behind the request header.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Operation::Write(Write::SetAcl { path, permissions, version }) => {
                let path = Some(Box::from(&**path));
                SetAclRequest { path, acl: Some(acl(*permissions).into()), version: *version }.encode(out);
            }
            Operation::Write(write) => match write.multi_op() {
                MultiOp::Create(create) => create.encode(out),
                MultiOp::Delete(delete) => delete.encode(out),
                MultiOp::SetData(set) => set.encode(out),
                MultiOp::Check(check) => check.encode(out),
            },
            Operation::Multi(writes) => {
                writes.iter().for_each(|write| write.multi_op().encode(out));
                MULTI_END.encode(out);
            }
            Operation::Read { read, watch } => encode_read(read, *watch, out),
            Operation::AddWatch { path, mode } => {
                Box::<str>::from(&**path).encode(out);
                mode.wire().encode(out);
            }
            Operation::Sync(path) => Box::<str>::from(&**path).encode(out),
            Operation::Reconfig { wish, version } => wish.encode(*version, out),
        }
    }
}

fn encode_read(read: &Read, watch: bool, out: &mut Vec<u8>) {
    let text = |path: &Path, out: &mut Vec<u8>| Box::<str>::from(&**path).encode(out);
    match read {
        Read::Get(path) | Read::Exists(path) | Read::Children(path) | Read::ChildrenAndStat(path) => {
            text(path, out);
            watch.encode(out);
        }
        Read::Acl(path) | Read::DescendantCount(path) | Read::Ephemerals(path) => text(path, out),
        Read::Several(reads) => {
            for read in reads {
                let (op, path) = match read {
                    SeveralRead::Get(path) => (OpCode::GetData, path),
                    SeveralRead::Children(path) => (OpCode::GetChildren, path),
                };
                MultiHeader { op: op.wire(), done: false, err: -1 }.encode(out);
                text(path, out);
                false.encode(out);
            }
            MULTI_END.encode(out);
        }
    }
}
