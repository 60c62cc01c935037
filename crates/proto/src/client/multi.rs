//! multi and multiRead: a list of (header, record) closed by a header that says done.

use crate::client::create::{CreateMode, CreateOp, CreateRequest};
use crate::client::write::{CheckRequest, DeleteRequest, SetDataRequest};
use crate::error_code::ErrorCode;
use crate::jute::{DecodeError, Jute, Reader, Text};
use crate::op::OpCode;
use crate::record;

record! {
    /// In front of every operation and every result of a multi.
    #[derive(Copy)]
    pub struct MultiHeader {
        /// Operation code; -1 for an error result and at the end.
        pub op: i32,
        /// Whether this ends the list.
        pub done: bool,
        /// Error code of an error result.
        pub err: i32,
    }
}

/// The end of every list.
pub const MULTI_END: MultiHeader = MultiHeader { op: -1, done: true, err: -1 };

/// One write of a multi.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MultiOp {
    /// create, create2, createContainer, createTTL.
    Create(CreateRequest),
    /// delete.
    Delete(DeleteRequest),
    /// setData.
    SetData(SetDataRequest),
    /// check.
    Check(CheckRequest),
}

impl MultiOp {
    /// The operation code that the result carries on success.
    pub const fn result_op(&self) -> OpCode {
        match self {
            MultiOp::Create(create) => match create.op {
                CreateOp::Create => OpCode::Create,
                CreateOp::Create2 | CreateOp::Container | CreateOp::Ttl => OpCode::Create2,
            },
            MultiOp::Delete(_) => OpCode::Delete,
            MultiOp::SetData(_) => OpCode::SetData,
            MultiOp::Check(_) => OpCode::Check,
        }
    }

    /// The operation code of the request.
    pub const fn op_code(&self) -> OpCode {
        match self {
            MultiOp::Create(create) => create.op.op_code(),
            MultiOp::Delete(_) => OpCode::Delete,
            MultiOp::SetData(_) => OpCode::SetData,
            MultiOp::Check(_) => OpCode::Check,
        }
    }

    fn path(&self) -> &Text {
        match self {
            MultiOp::Create(create) => &create.path,
            MultiOp::Delete(delete) => &delete.path,
            MultiOp::SetData(set) => &set.path,
            MultiOp::Check(check) => &check.path,
        }
    }

    /// Appends header and record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        MultiHeader { op: self.op_code().wire(), done: false, err: -1 }.encode(out);
        match self {
            MultiOp::Create(create) => create.encode(out),
            MultiOp::Delete(delete) => delete.encode(out),
            MultiOp::SetData(set) => set.encode(out),
            MultiOp::Check(check) => check.encode(out),
        }
    }
}

/// One read of a multiRead. Its watch flag is read and ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MultiReadOp {
    /// getData.
    GetData(Box<str>),
    /// getChildren.
    GetChildren(Box<str>),
}

/// Why a multi was refused as a whole, and whether ZooKeeper assigns a zxid to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MultiError {
    /// The list does not decode, or mixes reads and writes, or has a null path: takes a zxid.
    Undecodable,
    /// A create without an ACL: takes no zxid.
    NullAcl,
}

impl From<DecodeError> for MultiError {
    fn from(_: DecodeError) -> MultiError {
        MultiError::Undecodable
    }
}

enum AnyOp {
    Write(MultiOp),
    Read(MultiReadOp),
}

/// Decodes the operations of a multi.
pub fn decode_multi(reader: &mut Reader<'_>) -> Result<Vec<MultiOp>, MultiError> {
    let mut ops = Vec::new();
    while let Some(op) = decode_op(reader)? {
        match op {
            AnyOp::Write(op) => ops.push(op),
            AnyOp::Read(_) => return Err(MultiError::Undecodable),
        }
    }
    // Only after the complete list, as in ZooKeeper: a later null ACL takes precedence there.
    if ops.iter().any(|op| op.path().is_none()) { Err(MultiError::Undecodable) } else { Ok(ops) }
}

/// Decodes the operations of a multiRead.
pub fn decode_multi_read(reader: &mut Reader<'_>) -> Result<Vec<MultiReadOp>, MultiError> {
    let mut ops = Vec::new();
    while let Some(op) = decode_op(reader)? {
        match op {
            AnyOp::Read(op) => ops.push(op),
            AnyOp::Write(_) => return Err(MultiError::Undecodable),
        }
    }
    Ok(ops)
}

fn decode_op(reader: &mut Reader<'_>) -> Result<Option<AnyOp>, MultiError> {
    let header = MultiHeader::decode(reader)?;
    if header.done {
        return Ok(None);
    }
    let write = |op| Ok(Some(AnyOp::Write(op)));
    match OpCode::from_wire(header.op) {
        Some(OpCode::Create) => write(MultiOp::Create(decode_create(CreateOp::Create, reader)?)),
        Some(OpCode::Create2) => write(MultiOp::Create(decode_create(CreateOp::Create2, reader)?)),
        Some(OpCode::CreateContainer) => write(MultiOp::Create(decode_create(CreateOp::Container, reader)?)),
        Some(OpCode::CreateTtl) => write(MultiOp::Create(decode_create_ttl(reader)?)),
        Some(OpCode::Delete) => write(MultiOp::Delete(DeleteRequest::decode(reader)?)),
        Some(OpCode::SetData) => write(MultiOp::SetData(SetDataRequest::decode(reader)?)),
        Some(OpCode::Check) => write(MultiOp::Check(CheckRequest::decode(reader)?)),
        Some(OpCode::GetData) => Ok(Some(AnyOp::Read(MultiReadOp::GetData(decode_read_path(reader)?)))),
        Some(OpCode::GetChildren) => {
            Ok(Some(AnyOp::Read(MultiReadOp::GetChildren(decode_read_path(reader)?))))
        }
        _ => Err(MultiError::Undecodable),
    }
}

fn decode_read_path(reader: &mut Reader<'_>) -> Result<Box<str>, MultiError> {
    let path = Text::decode(reader)?.ok_or(MultiError::Undecodable)?;
    let _watch = reader.boolean()?;
    Ok(path)
}

/// The flags may turn a create into a container; they cannot request a TTL here.
fn decode_create(op: CreateOp, reader: &mut Reader<'_>) -> Result<CreateRequest, MultiError> {
    let mut create = CreateRequest::decode(op, reader)?;
    // The order is ZooKeeper's, and the zxid depends on it: impossible flags, then a null ACL, then a missing
    // TTL.
    let mode = CreateMode::from_flags(create.flags).ok_or(MultiError::Undecodable)?;
    if create.acl.is_none() {
        return Err(MultiError::NullAcl);
    }
    if mode.has_ttl() {
        return Err(MultiError::Undecodable);
    }
    if mode == CreateMode::Container {
        create.op = CreateOp::Container;
    }
    Ok(create)
}

/// With flags without TTL the flags determine the record, and the TTL is dropped.
fn decode_create_ttl(reader: &mut Reader<'_>) -> Result<CreateRequest, MultiError> {
    let mut create = CreateRequest::decode(CreateOp::Ttl, reader)?;
    match CreateMode::from_flags(create.flags) {
        Some(mode) if mode.has_ttl() => {}
        mode => {
            let container = mode == Some(CreateMode::Container);
            create.op = if container { CreateOp::Container } else { CreateOp::Create };
            create.ttl_ms = -1;
        }
    }
    Ok(create)
}

/// One result, as a client decodes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MultiResult {
    /// The operation's error; zero for one that was rolled back.
    Error(i32),
    /// Body of a successful operation, still encoded, with its operation code.
    Success(OpCode),
}

/// Appends an error result: the code is in the header and again in the body.
pub fn encode_error_result(error: Option<ErrorCode>, out: &mut Vec<u8>) {
    let err = error.map_or(0, ErrorCode::wire);
    MultiHeader { op: -1, done: false, err }.encode(out);
    err.encode(out);
}

/// Appends the header of a successful result.
pub fn encode_result_header(op: OpCode, out: &mut Vec<u8>) {
    MultiHeader { op: op.wire(), done: false, err: 0 }.encode(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::{Acl, AclList};

    fn create(op: CreateOp, flags: i32, acl: Option<AclList>) -> MultiOp {
        MultiOp::Create(CreateRequest { op, path: Some("/a".into()), data: None, acl, flags, ttl_ms: -1 })
    }

    fn decode(ops: &[MultiOp]) -> Result<Vec<MultiOp>, MultiError> {
        let mut bytes = Vec::new();
        ops.iter().for_each(|op| op.encode(&mut bytes));
        MULTI_END.encode(&mut bytes);
        decode_multi(&mut Reader::new(&bytes))
    }

    #[test]
    fn flags_decide_what_a_create_is() {
        let open = Some(Acl::open().into());
        assert_eq!(
            decode(&[create(CreateOp::Create2, 4, open.clone())]),
            Ok(vec![create(CreateOp::Container, 4, open.clone())])
        );
        assert_eq!(decode(&[create(CreateOp::Create, 5, open.clone())]), Err(MultiError::Undecodable));
        assert_eq!(decode(&[create(CreateOp::Create, 9, open.clone())]), Err(MultiError::Undecodable));
        for flags in 0..=6 {
            assert_eq!(decode(&[create(CreateOp::Create, flags, None)]), Err(MultiError::NullAcl), "{flags}");
        }
        for flags in [7, -1, 100] {
            assert_eq!(decode(&[create(CreateOp::Create, flags, None)]), Err(MultiError::Undecodable));
        }
        assert_eq!(decode(&[create(CreateOp::Ttl, 9, None)]), Ok(vec![create(CreateOp::Create, 9, None)]));
        assert_eq!(decode(&[]), Ok(vec![]));
    }

    #[test]
    fn a_missing_end_is_an_error() {
        let mut bytes = Vec::new();
        create(CreateOp::Create, 0, Some(Acl::open().into())).encode(&mut bytes);
        assert_eq!(decode_multi(&mut Reader::new(&bytes)), Err(MultiError::Undecodable));
    }
}
