//! Bodies of transactions, one record per type.

use crate::acl::AclList;
use crate::error_code::ErrorCode;
use crate::jute::{Buffer, DecodeError, Jute, Reader};
use crate::op::OpCode;
use crate::record;

record! {
    /// A new plain or ephemeral node.
    pub struct CreateTxn {
        /// Final path, counter included.
        pub path: Box<str>,
        /// Data.
        pub data: Buffer,
        /// ACL after expansion; ZooKeeper writes null for the open one in very old logs.
        pub acl: Option<AclList>,
        /// Whether it belongs to the session of the header.
        pub ephemeral: bool,
        /// The parent's new stored cversion; -1 means one more than it has.
        pub parent_cversion: i32,
    }
}

record! {
    /// A new container node.
    pub struct CreateContainerTxn {
        /// Final path.
        pub path: Box<str>,
        /// Data.
        pub data: Buffer,
        /// ACL after expansion.
        pub acl: Option<AclList>,
        /// The parent's new stored cversion.
        pub parent_cversion: i32,
    }
}

record! {
    /// A new TTL node.
    pub struct CreateTtlTxn {
        /// Final path.
        pub path: Box<str>,
        /// Data.
        pub data: Buffer,
        /// ACL after expansion.
        pub acl: Option<AclList>,
        /// The parent's new stored cversion.
        pub parent_cversion: i32,
        /// Milliseconds without modification after which it expires.
        pub ttl_ms: i64,
    }
}

record! {
    /// New data.
    pub struct SetDataTxn {
        /// Path.
        pub path: Box<str>,
        /// Data.
        pub data: Buffer,
        /// The data version after the change.
        pub version: i32,
    }
}

record! {
    /// New ACL.
    pub struct SetAclTxn {
        /// Path.
        pub path: Box<str>,
        /// ACL after expansion.
        pub acl: Option<AclList>,
        /// The ACL version after the change.
        pub version: i32,
    }
}

record! {
    /// A successful check. Changes nothing.
    pub struct CheckTxn {
        /// Path.
        pub path: Box<str>,
        /// One more than the version that was checked.
        pub version: i32,
    }
}

/// The digest version that Zebu computes and compares.
pub const DIGEST_VERSION: i32 = 2;

record! {
    /// The tree digest after the transaction.
    #[derive(Copy)]
    pub struct TxnDigest {
        /// [`DIGEST_VERSION`].
        pub version: i32,
        /// The sum over all nodes.
        pub tree_digest: i64,
    }
}

/// The body of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Txn {
    /// A request that failed; it took a zxid nevertheless.
    Error(i32),
    /// A session begins.
    CreateSession {
        /// Negotiated timeout, milliseconds.
        timeout_ms: i32,
    },
    /// A session ends. `None` is the form before 3.6: every replica deletes the ephemerals that it has.
    CloseSession(Option<Vec<Box<str>>>),
    /// create.
    Create(CreateTxn),
    /// create2.
    Create2(CreateTxn),
    /// createContainer.
    CreateContainer(CreateContainerTxn),
    /// createTTL.
    CreateTtl(CreateTtlTxn),
    /// delete.
    Delete(Box<str>),
    /// Removal of an empty container or an expired TTL node.
    DeleteContainer(Box<str>),
    /// setData.
    SetData(SetDataTxn),
    /// setACL.
    SetAcl(SetAclTxn),
    /// A version check; top level only in logs of releases that wrote it by mistake.
    Check(CheckTxn),
    /// Several at once. If any part is an error, none of them changes anything.
    Multi(Vec<SubTxn>),
    /// A new configuration of the ensemble, as data of `/zookeeper/config`.
    Reconfig(SetDataTxn),
}

/// A part of a multi: any transaction that is allowed there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubTxn(pub Txn);

impl Txn {
    /// An error transaction.
    pub const fn error(code: ErrorCode) -> Txn {
        Txn::Error(code.wire())
    }

    /// The path of the node that the transaction creates; `None` for other kinds and for a multi.
    pub fn created_path(&self) -> Option<&str> {
        match self {
            Txn::Create(create) | Txn::Create2(create) => Some(&create.path),
            Txn::CreateContainer(create) => Some(&create.path),
            Txn::CreateTtl(create) => Some(&create.path),
            Txn::Error(_)
            | Txn::CreateSession { .. }
            | Txn::CloseSession(_)
            | Txn::Delete(_)
            | Txn::DeleteContainer(_)
            | Txn::SetData(_)
            | Txn::SetAcl(_)
            | Txn::Check(_)
            | Txn::Multi(_)
            | Txn::Reconfig(_) => None,
        }
    }

    /// The type field of the header.
    pub const fn op_code(&self) -> OpCode {
        match self {
            Txn::Error(_) => OpCode::Error,
            Txn::CreateSession { .. } => OpCode::CreateSession,
            Txn::CloseSession(_) => OpCode::CloseSession,
            Txn::Create(_) => OpCode::Create,
            Txn::Create2(_) => OpCode::Create2,
            Txn::CreateContainer(_) => OpCode::CreateContainer,
            Txn::CreateTtl(_) => OpCode::CreateTtl,
            Txn::Delete(_) => OpCode::Delete,
            Txn::DeleteContainer(_) => OpCode::DeleteContainer,
            Txn::SetData(_) => OpCode::SetData,
            Txn::SetAcl(_) => OpCode::SetAcl,
            Txn::Check(_) => OpCode::Check,
            Txn::Multi(_) => OpCode::Multi,
            Txn::Reconfig(_) => OpCode::Reconfig,
        }
    }

    /// Appends the body.
    pub fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Txn::Error(code) => code.encode(out),
            Txn::CreateSession { timeout_ms } => timeout_ms.encode(out),
            Txn::CloseSession(Some(paths)) => paths.encode(out),
            Txn::CloseSession(None) => {}
            Txn::Create(create) | Txn::Create2(create) => create.encode(out),
            Txn::CreateContainer(create) => create.encode(out),
            Txn::CreateTtl(create) => create.encode(out),
            Txn::Delete(path) | Txn::DeleteContainer(path) => path.encode(out),
            Txn::SetData(set) | Txn::Reconfig(set) => set.encode(out),
            Txn::SetAcl(set) => set.encode(out),
            Txn::Check(check) => check.encode(out),
            Txn::Multi(parts) => parts.encode(out),
        }
    }

    /// Decodes the body of `op`. The entry handles the forms of old releases.
    pub(super) fn decode_body(op: OpCode, reader: &mut Reader<'_>) -> Result<Txn, DecodeError> {
        Ok(match op {
            OpCode::Error => Txn::Error(reader.int()?),
            OpCode::CreateSession => Txn::CreateSession { timeout_ms: reader.int()? },
            OpCode::CloseSession => Txn::CloseSession(Some(Jute::decode(reader)?)),
            OpCode::Create => Txn::Create(Jute::decode(reader)?),
            OpCode::Create2 => Txn::Create2(Jute::decode(reader)?),
            OpCode::CreateContainer => Txn::CreateContainer(Jute::decode(reader)?),
            OpCode::CreateTtl => Txn::CreateTtl(Jute::decode(reader)?),
            OpCode::Delete => Txn::Delete(Jute::decode(reader)?),
            OpCode::DeleteContainer => Txn::DeleteContainer(Jute::decode(reader)?),
            OpCode::SetData => Txn::SetData(Jute::decode(reader)?),
            OpCode::SetAcl => Txn::SetAcl(Jute::decode(reader)?),
            OpCode::Check => Txn::Check(Jute::decode(reader)?),
            OpCode::Multi => Txn::Multi(Jute::decode(reader)?),
            OpCode::Reconfig => Txn::Reconfig(Jute::decode(reader)?),
            other => return Err(unknown_type(other.wire())),
        })
    }
}

pub(super) fn unknown_type(value: i32) -> DecodeError {
    DecodeError::Unknown { what: "transaction type", value: value.into() }
}

impl Jute for SubTxn {
    const SIZE_MIN: usize = 8;

    fn encode(&self, out: &mut Vec<u8>) {
        self.0.op_code().wire().encode(out);
        let start = crate::frame::begin_frame(out);
        self.0.encode_body(out);
        crate::frame::finish_frame(out, start);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let wire = reader.int()?;
        let body = reader.buffer()?.ok_or(DecodeError::Null { at: reader.position() })?;
        match OpCode::from_wire(wire) {
            // A multi inside a multi would allow unbounded recursion; no server writes one.
            None | Some(OpCode::Multi | OpCode::CreateSession | OpCode::CloseSession) => {
                Err(unknown_type(wire))
            }
            Some(op) => Ok(SubTxn(Txn::decode_body(op, &mut Reader::new(body))?)),
        }
    }
}
