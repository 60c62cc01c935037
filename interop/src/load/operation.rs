//! What a writer does: requests whose outcome its model can tell beforehand.

use zebu_proto::client::{
    CheckRequest, CreateOp, CreateRequest, DeleteRequest, MultiOp, SetAclRequest, SetDataRequest,
    WriteRequest,
};
use zebu_proto::{Acl, Permissions, Text};

/// Who a node belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Nobody,
    Session,
}

/// An access control list that leaves every right to the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Open,
    AddressToo,
    DigestToo,
}

impl Access {
    pub(crate) const ALL: [Access; 3] = [Access::Open, Access::AddressToo, Access::DigestToo];

    pub(crate) fn acl(self) -> Vec<Acl> {
        let mut acl = Acl::open();
        match self {
            Access::Open => {}
            Access::AddressToo => acl.push(Acl::new(Permissions::READ, "ip", "127.0.0.1/8")),
            Access::DigestToo => {
                let id = "user:smGaoVKd/cQkjm7b88GyorAUz20=";
                acl.insert(0, Acl::new(Permissions::READ | Permissions::ADMIN, "digest", id));
            }
        }
        acl
    }
}

/// One write. Paths are relative to the writer's directory, whose own path is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create {
        path: String,
        data: Vec<u8>,
        owner: Owner,
        op: CreateOp,
    },
    /// Below `parent`, with a name that the server numbers.
    CreateNumbered {
        parent: String,
        data: Vec<u8>,
        owner: Owner,
    },
    /// A version of -1 is none.
    Set {
        path: String,
        data: Vec<u8>,
        version: i32,
    },
    Delete {
        path: String,
    },
    SetAccess {
        path: String,
        access: Access,
    },
    /// Both or none, with the same data.
    SetBoth {
        paths: [String; 2],
        data: Vec<u8>,
    },
    /// Both or none.
    CreateBoth {
        paths: [String; 2],
        data: Vec<u8>,
    },
    /// Both or none.
    DeleteBoth {
        paths: [String; 2],
    },
    /// Sets the first, then fails by the version of the second.
    SetBothAndFail {
        paths: [String; 2],
        data: Vec<u8>,
        wrong_version: i32,
    },
}

impl Operation {
    /// The request for a writer whose directory is `top`.
    pub(crate) fn request(&self, top: &str) -> WriteRequest {
        let at = |path: &str| -> Text { Some(format!("{top}{path}").into()) };
        let create = |path: &str, data: &[u8], flags, op| {
            let acl = Some(Acl::open().into());
            CreateRequest { op, path: at(path), data: Some(data.into()), acl, flags, ttl_ms: -1 }
        };
        let set = |path: &str, data: &[u8], version| SetDataRequest {
            path: at(path),
            data: Some(data.into()),
            version,
        };
        let delete = |path: &str| DeleteRequest { path: at(path), version: -1 };
        match self {
            Operation::Create { path, data, owner, op } => {
                let flags = if *owner == Owner::Session { 1 } else { 0 };
                WriteRequest::Create(create(path, data, flags, *op))
            }
            Operation::CreateNumbered { parent, data, owner } => {
                let flags = if *owner == Owner::Session { 3 } else { 2 };
                WriteRequest::Create(create(&format!("{parent}/q"), data, flags, CreateOp::Create2))
            }
            Operation::Set { path, data, version } => WriteRequest::SetData(set(path, data, *version)),
            Operation::Delete { path } => WriteRequest::Delete(delete(path)),
            Operation::SetAccess { path, access } => WriteRequest::SetAcl(SetAclRequest {
                path: at(path),
                acl: Some(access.acl().into()),
                version: -1,
            }),
            Operation::SetBoth { paths, data } => {
                WriteRequest::Multi(paths.iter().map(|path| MultiOp::SetData(set(path, data, -1))).collect())
            }
            Operation::CreateBoth { paths, data } => {
                // One of each kind: they leave different traces in a log.
                let kinds = [CreateOp::Create, CreateOp::Create2];
                let parts = paths.iter().zip(kinds);
                WriteRequest::Multi(
                    parts.map(|(path, op)| MultiOp::Create(create(path, data, 0, op))).collect(),
                )
            }
            Operation::DeleteBoth { paths } => {
                WriteRequest::Multi(paths.iter().map(|path| MultiOp::Delete(delete(path))).collect())
            }
            Operation::SetBothAndFail { paths, data, wrong_version } => WriteRequest::Multi(vec![
                MultiOp::SetData(set(&paths[0], data, -1)),
                MultiOp::Check(CheckRequest { path: at(&paths[1]), version: *wrong_version }),
                MultiOp::SetData(set(&paths[1], data, -1)),
            ]),
        }
    }
}
