//! The requests that ClickHouse Keeper has beside ZooKeeper's: conditional writes, checks, and lists of
//! nodes. A multi may contain the writes and the checks, and a multiRead the lists.

use crate::client::create::{CreateOp, CreateRequest};
use crate::client::page::ChildKind;
use crate::client::read::Watch;
use crate::client::request::RequestError;
use crate::client::write::{CheckRequest, DeleteRequest};
use crate::jute::{DecodeError, Jute, Reader, Text};
use crate::op::OpCode;
use crate::record;
use crate::stat::Stat;

/// A field of [`CheckStatRequest::stat`] with this value may have any value.
pub const ANY: i64 = -1;

record! {
    /// checkStat: a check of any fields of a stat.
    pub struct CheckStatRequest {
        /// Path.
        pub path: Text,
        /// Required data version, or -1.
        pub version: i32,
        /// Required fields; -1 in a field accepts each value.
        pub stat: Stat,
    }
}

/// A condition on one node. Changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeeperCheck {
    /// checkNotExists: the node is missing, or has another version than this one. -1 is any version.
    NotExists(CheckRequest),
    /// checkStat. Boxed: it is large and rare.
    Stat(Box<CheckStatRequest>),
}

/// removeRecursive: deletes a subtree, or nothing of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoveRecursiveRequest {
    /// The first node of the subtree.
    pub path: Text,
    /// Most nodes that may be deleted, the first one counted.
    pub limit: u32,
}

/// A write that does nothing where ZooKeeper's fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeeperWrite {
    /// createIfNotExists: an existing node is no error.
    CreateIfNotExists(CreateRequest),
    /// removeRecursive: a missing node is no error.
    RemoveRecursive(RemoveRecursiveRequest),
    /// tryRemove: a missing node, another version and children are no errors.
    TryRemove(DeleteRequest),
}

/// A part of a multi that only Keeper has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeeperPart {
    /// A write.
    Write(KeeperWrite),
    /// A condition.
    Check(KeeperCheck),
}

/// filteredList, and listWithStatsAndData, which has options for the content of the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilteredListRequest {
    /// The parent.
    pub path: Box<str>,
    /// Whether a watch of the children is set.
    pub watch: Watch,
    /// Which children are listed.
    pub kind: ChildKind,
    /// The options of listWithStatsAndData; `None` for filteredList.
    pub content: Option<ListedContent>,
}

/// The content of the reply to listWithStatsAndData beside names and the stat of the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedContent {
    /// Stats of the children.
    pub stats: bool,
    /// Data of the children.
    pub data: bool,
}

/// listRecursive: the paths of a subtree, without its first node, level by level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRecursiveRequest {
    /// The first node of the subtree.
    pub root: Box<str>,
    /// Most paths of the reply. Further nodes are left out.
    pub limit: u32,
}

/// A read that only Keeper has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeeperRead {
    /// filteredList and listWithStatsAndData.
    List(FilteredListRequest),
    /// listRecursive.
    ListRecursive(ListRecursiveRequest),
    /// checkNotExists and checkStat outside a multi.
    Check(KeeperCheck),
}

impl CheckStatRequest {
    /// Whether a node with this stat passes.
    pub const fn accepts(&self, stat: &Stat) -> bool {
        const fn int(wanted: i32, found: i32) -> bool {
            wanted as i64 == ANY || wanted == found
        }
        const fn long(wanted: i64, found: i64) -> bool {
            wanted == ANY || wanted == found
        }
        let wanted = &self.stat;
        int(self.version, stat.version)
            && long(wanted.czxid, stat.czxid)
            && long(wanted.mzxid, stat.mzxid)
            && long(wanted.ctime, stat.ctime)
            && long(wanted.mtime, stat.mtime)
            && int(wanted.version, stat.version)
            && int(wanted.cversion, stat.cversion)
            && int(wanted.aversion, stat.aversion)
            && long(wanted.ephemeral_owner, stat.ephemeral_owner)
            && int(wanted.data_length, stat.data_length)
            && int(wanted.num_children, stat.num_children)
            && long(wanted.pzxid, stat.pzxid)
    }
}

impl KeeperCheck {
    /// The operation code of the request, and of its result in a multi.
    pub const fn op(&self) -> OpCode {
        match self {
            KeeperCheck::NotExists(_) => OpCode::CheckNotExists,
            KeeperCheck::Stat(_) => OpCode::CheckStat,
        }
    }

    /// The path.
    pub const fn path(&self) -> &Text {
        match self {
            KeeperCheck::NotExists(request) => &request.path,
            KeeperCheck::Stat(request) => &request.path,
        }
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            KeeperCheck::NotExists(request) => request.encode(out),
            KeeperCheck::Stat(request) => request.encode(out),
        }
    }
}

impl KeeperWrite {
    /// The operation code of the request, and of its result in a multi.
    pub const fn op(&self) -> OpCode {
        match self {
            KeeperWrite::CreateIfNotExists(_) => OpCode::CreateIfNotExists,
            KeeperWrite::RemoveRecursive(_) => OpCode::RemoveRecursive,
            KeeperWrite::TryRemove(_) => OpCode::TryRemove,
        }
    }

    /// The path.
    pub const fn path(&self) -> &Text {
        match self {
            KeeperWrite::CreateIfNotExists(request) => &request.path,
            KeeperWrite::RemoveRecursive(request) => &request.path,
            KeeperWrite::TryRemove(request) => &request.path,
        }
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            KeeperWrite::CreateIfNotExists(request) => request.encode(out),
            KeeperWrite::RemoveRecursive(request) => {
                request.path.encode(out);
                out.extend_from_slice(&request.limit.to_be_bytes());
            }
            KeeperWrite::TryRemove(request) => request.encode(out),
        }
    }

    /// Fails for codes of other requests.
    pub(super) fn decode(op: OpCode, reader: &mut Reader<'_>) -> Result<KeeperWrite, RequestError> {
        Ok(match op {
            OpCode::CreateIfNotExists => {
                KeeperWrite::CreateIfNotExists(CreateRequest::decode(CreateOp::Create, reader)?)
            }
            OpCode::RemoveRecursive => {
                let path = Text::decode(reader)?;
                KeeperWrite::RemoveRecursive(RemoveRecursiveRequest { path, limit: limit(reader)? })
            }
            OpCode::TryRemove => KeeperWrite::TryRemove(DeleteRequest::decode(reader)?),
            _ => return Err(RequestError::UnknownOp),
        })
    }
}

impl KeeperPart {
    /// The operation code of the request, and of its result in a multi.
    pub const fn op(&self) -> OpCode {
        match self {
            KeeperPart::Write(write) => write.op(),
            KeeperPart::Check(check) => check.op(),
        }
    }

    /// The path.
    pub const fn path(&self) -> &Text {
        match self {
            KeeperPart::Write(write) => write.path(),
            KeeperPart::Check(check) => check.path(),
        }
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            KeeperPart::Write(write) => write.encode(out),
            KeeperPart::Check(check) => check.encode(out),
        }
    }

    /// Fails for codes of other requests.
    pub(super) fn decode(op: OpCode, reader: &mut Reader<'_>) -> Result<KeeperPart, RequestError> {
        match op {
            OpCode::CheckNotExists | OpCode::CheckStat => decode_check(op, reader).map(KeeperPart::Check),
            _ => KeeperWrite::decode(op, reader).map(KeeperPart::Write),
        }
    }
}

impl KeeperRead {
    /// The operation code of the request, and of its result in a multiRead.
    pub const fn op(&self) -> OpCode {
        match self {
            KeeperRead::List(FilteredListRequest { content: None, .. }) => OpCode::FilteredList,
            KeeperRead::List(_) => OpCode::ListWithStatsAndData,
            KeeperRead::ListRecursive(_) => OpCode::ListRecursive,
            KeeperRead::Check(check) => check.op(),
        }
    }

    /// The path; null only in a check.
    pub fn path(&self) -> Option<&str> {
        match self {
            KeeperRead::List(request) => Some(&request.path),
            KeeperRead::ListRecursive(request) => Some(&request.root),
            KeeperRead::Check(check) => check.path().as_deref(),
        }
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            KeeperRead::List(request) => {
                request.path.encode(out);
                (request.watch == Watch::Set).encode(out);
                out.push(match request.kind {
                    ChildKind::All => 0,
                    ChildKind::Persistent => 1,
                    ChildKind::Ephemeral => 2,
                });
                if let Some(ListedContent { stats, data }) = request.content {
                    stats.encode(out);
                    data.encode(out);
                }
            }
            KeeperRead::ListRecursive(request) => {
                request.root.encode(out);
                out.extend_from_slice(&request.limit.to_be_bytes());
            }
            KeeperRead::Check(check) => check.encode(out),
        }
    }

    /// Fails for codes of other requests, and for a kind of children that is not known.
    pub(super) fn decode(op: OpCode, reader: &mut Reader<'_>) -> Result<KeeperRead, RequestError> {
        Ok(match op {
            OpCode::FilteredList => KeeperRead::List(decode_list(reader)?),
            OpCode::ListWithStatsAndData => {
                let request = decode_list(reader)?;
                let content = ListedContent { stats: reader.boolean()?, data: reader.boolean()? };
                KeeperRead::List(FilteredListRequest { content: Some(content), ..request })
            }
            OpCode::ListRecursive => {
                let root = Jute::decode(reader)?;
                KeeperRead::ListRecursive(ListRecursiveRequest { root, limit: limit(reader)? })
            }
            _ => {
                let check = decode_check(op, reader)?;
                if check.path().is_none() {
                    return Err(RequestError::Undecodable);
                }
                KeeperRead::Check(check)
            }
        })
    }
}

fn decode_check(op: OpCode, reader: &mut Reader<'_>) -> Result<KeeperCheck, RequestError> {
    match op {
        OpCode::CheckNotExists => Ok(KeeperCheck::NotExists(CheckRequest::decode(reader)?)),
        OpCode::CheckStat => Ok(KeeperCheck::Stat(Box::new(CheckStatRequest::decode(reader)?))),
        _ => Err(RequestError::UnknownOp),
    }
}

fn decode_list(reader: &mut Reader<'_>) -> Result<FilteredListRequest, RequestError> {
    let (path, watch) = (Jute::decode(reader)?, Watch::from(reader.boolean()?));
    let kind = match reader.take(1)? {
        [0] => ChildKind::All,
        [1] => ChildKind::Persistent,
        [2] => ChildKind::Ephemeral,
        _ => return Err(RequestError::BadArguments),
    };
    Ok(FilteredListRequest { path, watch, kind, content: None })
}

fn limit(reader: &mut Reader<'_>) -> Result<u32, DecodeError> {
    Ok(u32::from_be_bytes(reader.int()?.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::Acl;
    use crate::client::{ReadRequest, Request, WriteRequest};

    fn unhex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text
            .bytes()
            .filter(u8::is_ascii_hexdigit)
            .map(|byte| char::from(byte).to_digit(16).unwrap() as u8)
            .collect();
        digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    fn read(request: KeeperRead) -> Request<'static> {
        Request::Read(ReadRequest::Keeper(Box::new(request)))
    }

    fn write(request: KeeperWrite) -> Request<'static> {
        Request::Write(WriteRequest::Keeper(Box::new(request)))
    }

    fn list(watch: Watch, kind: ChildKind, content: Option<ListedContent>) -> Request<'static> {
        read(KeeperRead::List(FilteredListRequest { path: "/a".into(), watch, kind, content }))
    }

    /// Bodies as another encoder writes them: `interop/systems/keeper/requests.py --print`.
    fn vectors() -> Vec<(i32, &'static str, Request<'static>)> {
        let content = |stats, data| Some(ListedContent { stats, data });
        let check = |version| CheckRequest { path: Some("/a".into()), version };
        let stat = Stat {
            czxid: 1,
            mzxid: -1,
            ctime: 3,
            mtime: -1,
            version: 5,
            cversion: -1,
            aversion: 7,
            ephemeral_owner: -1,
            data_length: 9,
            num_children: -1,
            pzxid: 11,
        };
        let created = CreateRequest {
            op: CreateOp::Create,
            path: Some("/a".into()),
            data: Some([120].as_slice().into()),
            acl: Some(Acl::open().into()),
            flags: 1,
            ttl_ms: -1,
        };
        vec![
            (500, "00000002 2f61 00 00", list(Watch::None, ChildKind::All, None)),
            (500, "00000002 2f61 01 01", list(Watch::Set, ChildKind::Persistent, None)),
            (500, "00000002 2f61 00 02", list(Watch::None, ChildKind::Ephemeral, None)),
            (501, "00000002 2f61 ffffffff", read(KeeperRead::Check(KeeperCheck::NotExists(check(-1))))),
            (501, "00000002 2f61 00000007", read(KeeperRead::Check(KeeperCheck::NotExists(check(7))))),
            (
                502,
                "00000002 2f61 00000001 78 00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65 00000001",
                write(KeeperWrite::CreateIfNotExists(created)),
            ),
            (
                503,
                "00000002 2f61 ffffffff",
                write(KeeperWrite::RemoveRecursive(RemoveRecursiveRequest {
                    path: Some("/a".into()),
                    limit: u32::MAX,
                })),
            ),
            (
                504,
                "00000002 2f61 00000005 0000000000000001 ffffffffffffffff 0000000000000003 ffffffffffffffff \
                 00000005 ffffffff 00000007 ffffffffffffffff 00000009 ffffffff 000000000000000b",
                read(KeeperRead::Check(KeeperCheck::Stat(Box::new(CheckStatRequest {
                    path: Some("/a".into()),
                    version: 5,
                    stat,
                })))),
            ),
            (
                505,
                "00000002 2f61 00000003",
                write(KeeperWrite::TryRemove(DeleteRequest { path: Some("/a".into()), version: 3 })),
            ),
            (506, "00000002 2f61 00 00 01 00", list(Watch::None, ChildKind::All, content(true, false))),
            (506, "00000002 2f61 01 02 00 01", list(Watch::Set, ChildKind::Ephemeral, content(false, true))),
            (
                507,
                "00000002 2f61 00000064",
                read(KeeperRead::ListRecursive(ListRecursiveRequest { root: "/a".into(), limit: 100 })),
            ),
        ]
    }

    fn encode(request: &Request<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        match request {
            Request::Read(ReadRequest::Keeper(request)) => request.encode(&mut bytes),
            Request::Write(WriteRequest::Keeper(request)) => request.encode(&mut bytes),
            other => panic!("{other:?}"),
        }
        bytes
    }

    #[test]
    fn bodies_have_the_form_of_clickhouse() {
        for (op, hex, request) in vectors() {
            let bytes = unhex(hex);
            assert_eq!(Request::decode(op, &mut Reader::new(&bytes)).as_ref(), Ok(&request), "{op} {hex}");
            assert_eq!(encode(&request), bytes, "{op} {hex}");
            assert!(request.is_keeper() && !request.is_private(), "{op}");
        }
    }

    #[test]
    fn shorter_bodies_are_refused() {
        for (op, hex, _) in vectors() {
            let bytes = unhex(hex);
            for length in 0..bytes.len() {
                let decoded = Request::decode(op, &mut Reader::new(&bytes[..length]));
                assert_eq!(decoded, Err(RequestError::Undecodable), "{op} {length}");
            }
        }
    }

    #[test]
    fn impossible_bodies_are_refused() {
        for (op, hex, error) in [
            (500, "00000002 2f61 00 03", RequestError::BadArguments),
            (506, "00000002 2f61 00 ff 00 00", RequestError::BadArguments),
            // A null path, a length beyond the end, and a length that is negative.
            (500, "ffffffff 00 00", RequestError::Undecodable),
            (501, "ffffffff ffffffff", RequestError::Undecodable),
            (507, "ffffffff 00000001", RequestError::Undecodable),
            (507, "7fffffff 2f61 00000001", RequestError::Undecodable),
            (507, "80000000 2f61 00000001", RequestError::Undecodable),
            (502, "00000002 2f61 ffffffff 7fffffff", RequestError::Undecodable),
        ] {
            let bytes = unhex(hex);
            assert_eq!(Request::decode(op, &mut Reader::new(&bytes)), Err(error), "{op} {hex}");
        }
        // The codes that Keeper uses between its servers are no requests.
        for op in [499, 508, 997, 998] {
            assert_eq!(Request::decode(op, &mut Reader::new(&[0; 64])), Err(RequestError::UnknownOp));
        }
    }
}
