//! A client for tests: encodes requests and decodes replies.

use std::sync::Arc;

use zebu_proto::client::auth::AuthPacket;
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::client::multi::MULTI_END;
use zebu_proto::client::reply::{Create2Response, GetDataResponse};
use zebu_proto::client::{
    CheckRequest, ConnectRequest, CreateOp, CreateRequest, DeleteRequest, EventType, MultiOp,
    ReconfigRequest, ReplyHeader, RequestHeader, SetAclRequest, SetDataRequest, WatcherEvent,
};
use zebu_proto::frame::{Framed, LENGTH_SIZE, peek};
use zebu_proto::jute::encode_bytes;
use zebu_proto::{Acl, Buffer, ErrorCode, Jute, OpCode, Reader, Stat, Text};

pub(crate) const PERSISTENT: i32 = 0;
pub(crate) const EPHEMERAL: i32 = 1;
pub(crate) const SEQUENTIAL: i32 = 2;
pub(crate) const CONTAINER: i32 = 4;
pub(crate) const TTL: i32 = 5;

/// A request without its xid.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) op: i32,
    pub(crate) body: Vec<u8>,
}

impl Ask {
    pub(crate) fn raw(op: i32, body: &[u8]) -> Ask {
        Ask { op, body: body.to_vec() }
    }

    pub(crate) fn frame(&self, xid: i32) -> Vec<u8> {
        let mut bytes = Vec::new();
        RequestHeader { xid, op: self.op }.encode(&mut bytes);
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

pub(crate) fn ask(op: OpCode, fill: impl FnOnce(&mut Vec<u8>)) -> Ask {
    let mut body = Vec::new();
    fill(&mut body);
    Ask { op: op.wire(), body }
}

fn text(value: &str) -> Text {
    Some(value.into())
}

fn buffer(value: &str) -> Buffer {
    Some(Arc::from(value.as_bytes()))
}

pub(crate) fn create_request(op: CreateOp, path: &str, data: &str, flags: i32) -> CreateRequest {
    let ttl_ms = if op == CreateOp::Ttl { 1000 } else { -1 };
    CreateRequest { op, path: text(path), data: buffer(data), acl: Some(Acl::open().into()), flags, ttl_ms }
}

pub(crate) fn create(path: &str, data: &str, flags: i32) -> Ask {
    ask(OpCode::Create, |out| create_request(CreateOp::Create, path, data, flags).encode(out))
}

pub(crate) fn create2(path: &str, data: &str, flags: i32) -> Ask {
    ask(OpCode::Create2, |out| create_request(CreateOp::Create2, path, data, flags).encode(out))
}

pub(crate) fn create_container(path: &str) -> Ask {
    let op = CreateOp::Container;
    ask(OpCode::CreateContainer, |out| create_request(op, path, "", CONTAINER).encode(out))
}

pub(crate) fn create_ttl(path: &str, ttl_ms: i64) -> Ask {
    let request = CreateRequest { ttl_ms, ..create_request(CreateOp::Ttl, path, "", TTL) };
    ask(OpCode::CreateTtl, |out| request.encode(out))
}

pub(crate) fn create_with_acl(path: &str, acl: Vec<Acl>) -> Ask {
    let request =
        CreateRequest { acl: Some(acl.into()), ..create_request(CreateOp::Create, path, "", PERSISTENT) };
    ask(OpCode::Create, |out| request.encode(out))
}

pub(crate) fn delete(path: &str) -> Ask {
    ask(OpCode::Delete, |out| DeleteRequest { path: text(path), version: -1 }.encode(out))
}

pub(crate) fn set(path: &str, data: &str) -> Ask {
    set_if(path, data, -1)
}

pub(crate) fn set_if(path: &str, data: &str, version: i32) -> Ask {
    ask(OpCode::SetData, |out| SetDataRequest { path: text(path), data: buffer(data), version }.encode(out))
}

pub(crate) fn set_acl(path: &str, acl: Vec<Acl>) -> Ask {
    ask(OpCode::SetAcl, |out| {
        SetAclRequest { path: text(path), acl: Some(acl.into()), version: -1 }.encode(out)
    })
}

pub(crate) fn multi(ops: &[MultiOp]) -> Ask {
    ask(OpCode::Multi, |out| {
        ops.iter().for_each(|op| op.encode(out));
        MULTI_END.encode(out);
    })
}

pub(crate) fn multi_create(op: CreateOp, path: &str, flags: i32) -> MultiOp {
    MultiOp::Create(create_request(op, path, "m", flags))
}

pub(crate) fn multi_set(path: &str, data: &str) -> MultiOp {
    MultiOp::SetData(SetDataRequest { path: text(path), data: buffer(data), version: -1 })
}

pub(crate) fn multi_delete(path: &str) -> MultiOp {
    MultiOp::Delete(DeleteRequest { path: text(path), version: -1 })
}

pub(crate) fn multi_check(path: &str, version: i32) -> MultiOp {
    MultiOp::Check(CheckRequest { path: text(path), version })
}

pub(crate) fn reconfig() -> Ask {
    let request = ReconfigRequest {
        joining: text("server.2=h:1:2"),
        leaving: None,
        new_members: None,
        current_config_id: -1,
    };
    ask(OpCode::Reconfig, |out| request.encode(out))
}

pub(crate) fn close_session() -> Ask {
    ask(OpCode::CloseSession, |_| ())
}

pub(crate) fn ping() -> Ask {
    ask(OpCode::Ping, |_| ())
}

pub(crate) fn sync(path: &str) -> Ask {
    ask(OpCode::Sync, |out| encode_bytes(path.as_bytes(), out))
}

/// A read of a path that can register a one-shot watch.
fn watched(op: OpCode, path: &str, watch: bool) -> Ask {
    ask(op, |out| {
        encode_bytes(path.as_bytes(), out);
        watch.encode(out);
    })
}

pub(crate) fn get(path: &str) -> Ask {
    watched(OpCode::GetData, path, false)
}

pub(crate) fn get_watch(path: &str) -> Ask {
    watched(OpCode::GetData, path, true)
}

pub(crate) fn exists(path: &str) -> Ask {
    watched(OpCode::Exists, path, false)
}

pub(crate) fn exists_watch(path: &str) -> Ask {
    watched(OpCode::Exists, path, true)
}

pub(crate) fn children_watch(path: &str) -> Ask {
    watched(OpCode::GetChildren, path, true)
}

pub(crate) fn children2(path: &str) -> Ask {
    watched(OpCode::GetChildren2, path, false)
}

pub(crate) fn get_acl(path: &str) -> Ask {
    ask(OpCode::GetAcl, |out| encode_bytes(path.as_bytes(), out))
}

pub(crate) fn get_ephemerals(prefix: &str) -> Ask {
    ask(OpCode::GetEphemerals, |out| encode_bytes(prefix.as_bytes(), out))
}

pub(crate) fn all_children_number(path: &str) -> Ask {
    ask(OpCode::GetAllChildrenNumber, |out| encode_bytes(path.as_bytes(), out))
}

pub(crate) fn who_am_i() -> Ask {
    ask(OpCode::WhoAmI, |_| ())
}

/// addWatch: 0 is persistent, 1 recursive.
pub(crate) fn add_watch(path: &str, mode: i32) -> Ask {
    path_and_number(OpCode::AddWatch, path, mode)
}

pub(crate) fn check_watches(path: &str, kind: i32) -> Ask {
    path_and_number(OpCode::CheckWatches, path, kind)
}

pub(crate) fn remove_watches(path: &str, kind: i32) -> Ask {
    path_and_number(OpCode::RemoveWatches, path, kind)
}

fn path_and_number(op: OpCode, path: &str, number: i32) -> Ask {
    ask(op, |out| {
        encode_bytes(path.as_bytes(), out);
        number.encode(out);
    })
}

/// setWatches (three lists) or setWatches2 (five).
pub(crate) fn set_watches(seen: i64, lists: &[&[&str]]) -> Ask {
    let op = if lists.len() == 3 { OpCode::SetWatches } else { OpCode::SetWatches2 };
    ask(op, |out| {
        seen.encode(out);
        for list in lists {
            let list: Vec<Text> = list.iter().map(|path| text(path)).collect();
            list.encode(out);
        }
    })
}

pub(crate) fn auth(scheme: &str, data: &str) -> Ask {
    ask(OpCode::Auth, |out| AuthPacket { kind: 0, scheme: text(scheme), auth: buffer(data) }.encode(out))
}

pub(crate) fn hello(timeout_ms: i32) -> ConnectRequest {
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout_ms,
        session_id: 0,
        password: Some(Arc::from([0; 16])),
        read_only: ReadOnlyField::Present(false),
    }
}

/// A frame as a client reads it after the handshake.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    Event { zxid: i64, kind: EventType, path: String },
    Reply(Reply),
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) xid: i32,
    pub(crate) zxid: i64,
    pub(crate) error: Option<ErrorCode>,
    pub(crate) body: Vec<u8>,
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Frame::Event { zxid, kind, path } => write!(f, "{kind:?} {path} at {zxid}"),
            Frame::Reply(reply) => reply.fmt(f),
        }
    }
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Reply { xid, zxid, error, body } = self;
        write!(f, "reply {xid} at {zxid} {error:?} {} bytes", body.len())
    }
}

impl Frame {
    fn decode(payload: &[u8]) -> Frame {
        let mut reader = Reader::new(payload);
        let header = ReplyHeader::decode(&mut reader).unwrap();
        if header.xid != -1 {
            let error = ErrorCode::from_wire(header.err);
            assert_eq!(header.err == 0, error.is_none(), "code {} is known", header.err);
            let body = reader.rest().to_vec();
            assert!(error.is_none() || body.is_empty(), "an error has no body");
            return Frame::Reply(Reply { xid: header.xid, zxid: header.zxid, error, body });
        }
        assert_eq!(header.err, 0);
        let event = WatcherEvent::decode(&mut reader).unwrap();
        assert_eq!((event.state, reader.remaining()), (3, 0));
        let kind = match event.kind {
            1 => EventType::NodeCreated,
            2 => EventType::NodeDeleted,
            3 => EventType::NodeDataChanged,
            4 => EventType::NodeChildrenChanged,
            other => panic!("no event has type {other}"),
        };
        Frame::Event { zxid: header.zxid, kind, path: event.path.unwrap().into() }
    }

    pub(crate) fn reply(self) -> Reply {
        match self {
            Frame::Reply(reply) => reply,
            event => panic!("a reply was expected, found {event:?}"),
        }
    }
}

impl Reply {
    /// The body decoded to its end.
    pub(crate) fn read<T>(&self, decode: impl FnOnce(&mut Reader<'_>) -> T) -> T {
        assert_eq!(self.error, None);
        let mut reader = Reader::new(&self.body);
        let value = decode(&mut reader);
        assert_eq!(reader.remaining(), 0, "the body is read to its end");
        value
    }

    pub(crate) fn data(&self) -> String {
        let response = self.read(|reader| GetDataResponse::decode(reader).unwrap());
        String::from_utf8(response.data.unwrap().to_vec()).unwrap()
    }

    pub(crate) fn stat(&self) -> Stat {
        self.read(|reader| Stat::decode(reader).unwrap())
    }

    pub(crate) fn path(&self) -> String {
        self.read(|reader| reader.text().unwrap().unwrap().into_owned())
    }

    pub(crate) fn path_and_stat(&self) -> (String, Stat) {
        let response = self.read(|reader| Create2Response::decode(reader).unwrap());
        (response.path.unwrap().into(), response.stat)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let names = self.read(|reader| Vec::<Box<str>>::decode(reader).unwrap());
        names.into_iter().map(String::from).collect()
    }
}

/// Cuts bytes into the payloads of their frames; nothing may be left over.
pub(crate) fn payloads(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut payloads = Vec::new();
    while !bytes.is_empty() {
        let Framed::Complete { length } = peek(bytes, usize::MAX) else { panic!("half a frame") };
        payloads.push(bytes[LENGTH_SIZE..LENGTH_SIZE + length].to_vec());
        bytes = &bytes[LENGTH_SIZE + length..];
    }
    payloads
}

pub(crate) fn frames(bytes: &[u8]) -> Vec<Frame> {
    payloads(bytes).iter().map(|payload| Frame::decode(payload)).collect()
}
