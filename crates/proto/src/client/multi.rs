//! multi and multiRead: a list of (header, record) closed by a header that says done.

use crate::client::create::{CreateMode, CreateOp, CreateRequest};
use crate::client::keeper::{KeeperPart, KeeperRead};
use crate::client::read::Watch;
use crate::client::request::RequestError;
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
    /// A part that only ClickHouse Keeper has. Boxed: it is rare.
    Keeper(Box<KeeperPart>),
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
            MultiOp::Keeper(part) => part.op(),
        }
    }

    /// The operation code of the request.
    pub const fn op_code(&self) -> OpCode {
        match self {
            MultiOp::Create(create) => create.op.op_code(),
            MultiOp::Delete(_) => OpCode::Delete,
            MultiOp::SetData(_) => OpCode::SetData,
            MultiOp::Check(_) => OpCode::Check,
            MultiOp::Keeper(part) => part.op(),
        }
    }

    /// The path of the request.
    pub const fn path(&self) -> &Text {
        match self {
            MultiOp::Create(create) => &create.path,
            MultiOp::Delete(delete) => &delete.path,
            MultiOp::SetData(set) => &set.path,
            MultiOp::Check(check) => &check.path,
            MultiOp::Keeper(part) => part.path(),
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
            MultiOp::Keeper(part) => part.encode(out),
        }
    }
}

/// One read of a multiRead. ZooKeeper has getData and getChildren, and ignores their watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MultiReadOp {
    /// getData.
    GetData(Box<str>, Watch),
    /// getChildren.
    GetChildren(Box<str>, Watch),
    /// exists. Of ClickHouse Keeper, as the following ones.
    Exists(Box<str>, Watch),
    /// getChildren2.
    GetChildren2(Box<str>, Watch),
    /// A list. Boxed: it is rare.
    Keeper(Box<KeeperRead>),
}

impl MultiReadOp {
    /// The operation code of the request, and of its result.
    pub const fn op(&self) -> OpCode {
        match self {
            MultiReadOp::GetData(..) => OpCode::GetData,
            MultiReadOp::GetChildren(..) => OpCode::GetChildren,
            MultiReadOp::Exists(..) => OpCode::Exists,
            MultiReadOp::GetChildren2(..) => OpCode::GetChildren2,
            MultiReadOp::Keeper(request) => request.op(),
        }
    }

    /// The path of the request.
    pub fn path(&self) -> &str {
        match self {
            MultiReadOp::GetData(path, _)
            | MultiReadOp::GetChildren(path, _)
            | MultiReadOp::Exists(path, _)
            | MultiReadOp::GetChildren2(path, _) => path,
            // Only the path of a check may be null, and a multiRead has no check.
            MultiReadOp::Keeper(request) => request.path().unwrap_or(""),
        }
    }

    /// Whether ZooKeeper refuses this part of a multiRead.
    pub const fn is_keeper(&self) -> bool {
        match self {
            MultiReadOp::GetData(..) | MultiReadOp::GetChildren(..) => false,
            MultiReadOp::Exists(..) | MultiReadOp::GetChildren2(..) | MultiReadOp::Keeper(_) => true,
        }
    }
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

impl From<RequestError> for MultiError {
    fn from(_: RequestError) -> MultiError {
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
    let op = OpCode::from_wire(header.op).ok_or(MultiError::Undecodable)?;
    Ok(Some(match op {
        OpCode::GetData | OpCode::GetChildren | OpCode::Exists | OpCode::GetChildren2 => {
            AnyOp::Read(decode_read(op, reader)?)
        }
        OpCode::FilteredList | OpCode::ListWithStatsAndData | OpCode::ListRecursive => {
            AnyOp::Read(MultiReadOp::Keeper(Box::new(KeeperRead::decode(op, reader)?)))
        }
        op => AnyOp::Write(decode_write(op, reader)?),
    }))
}

fn decode_write(op: OpCode, reader: &mut Reader<'_>) -> Result<MultiOp, MultiError> {
    Ok(match op {
        OpCode::Create => MultiOp::Create(decode_create(CreateOp::Create, reader)?),
        OpCode::Create2 => MultiOp::Create(decode_create(CreateOp::Create2, reader)?),
        OpCode::CreateContainer => MultiOp::Create(decode_create(CreateOp::Container, reader)?),
        OpCode::CreateTtl => MultiOp::Create(decode_create_ttl(reader)?),
        OpCode::Delete => MultiOp::Delete(DeleteRequest::decode(reader)?),
        OpCode::SetData => MultiOp::SetData(SetDataRequest::decode(reader)?),
        OpCode::Check => MultiOp::Check(CheckRequest::decode(reader)?),
        OpCode::CheckNotExists
        | OpCode::CreateIfNotExists
        | OpCode::RemoveRecursive
        | OpCode::CheckStat
        | OpCode::TryRemove => MultiOp::Keeper(Box::new(KeeperPart::decode(op, reader)?)),
        _ => return Err(MultiError::Undecodable),
    })
}

fn decode_read(op: OpCode, reader: &mut Reader<'_>) -> Result<MultiReadOp, MultiError> {
    let path = Text::decode(reader)?.ok_or(MultiError::Undecodable)?;
    let watch = Watch::from(reader.boolean()?);
    Ok(match op {
        OpCode::GetData => MultiReadOp::GetData(path, watch),
        OpCode::GetChildren => MultiReadOp::GetChildren(path, watch),
        OpCode::Exists => MultiReadOp::Exists(path, watch),
        OpCode::GetChildren2 => MultiReadOp::GetChildren2(path, watch),
        _ => return Err(MultiError::Undecodable),
    })
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
    fn parts_of_keeper_are_writes_or_reads() {
        let header = |op: i32| [&op.to_be_bytes()[..], &[0], &[255; 4]].concat();
        let path = [0, 0, 0, 2, b'/', b'a'];
        let check = [&header(501)[..], &path, &[255; 4]].concat();
        let list = [&header(500)[..], &path, &[1, 2]].concat();
        let exists = [&header(3)[..], &path, &[1]].concat();
        let end = [&(-1i32).to_be_bytes()[..], &[1], &[255; 4]].concat();
        let writes = [&check[..], &end].concat();
        let reads = [&list[..], &exists, &end].concat();
        let ops = decode_multi(&mut Reader::new(&writes)).unwrap();
        assert_eq!(ops.iter().map(MultiOp::result_op).collect::<Vec<_>>(), [OpCode::CheckNotExists]);
        let mut again = Vec::new();
        ops[0].encode(&mut again);
        assert_eq!(again, check);
        let ops = decode_multi_read(&mut Reader::new(&reads)).unwrap();
        assert!(matches!(&ops[0], MultiReadOp::Keeper(list) if list.op() == OpCode::FilteredList));
        assert_eq!(ops[1], MultiReadOp::Exists("/a".into(), Watch::Set));
        assert!(ops.iter().all(|op| op.path() == "/a" && op.is_keeper()));
        // A check is no part of a multiRead, and a list none of a multi.
        assert!(decode_multi(&mut Reader::new(&reads)).is_err());
        assert!(decode_multi_read(&mut Reader::new(&writes)).is_err());
        let null = [&header(505)[..], &[255; 4], &[255; 4], &end].concat();
        assert_eq!(decode_multi(&mut Reader::new(&null)), Err(MultiError::Undecodable));
        for length in 0..writes.len() {
            assert!(decode_multi(&mut Reader::new(&writes[..length])).is_err(), "{length}");
        }
    }

    #[test]
    fn a_missing_end_is_an_error() {
        let mut bytes = Vec::new();
        create(CreateOp::Create, 0, Some(Acl::open().into())).encode(&mut bytes);
        assert_eq!(decode_multi(&mut Reader::new(&bytes)), Err(MultiError::Undecodable));
    }
}
