//! What the requests of the load say, without their headers.

use zebu_proto::client::Freshness;
use zebu_proto::client::multi::{MULTI_END, MultiHeader};
use zebu_proto::jute::encode_bytes;
use zebu_proto::{Acl, Jute, OpCode};

/// Reads in one multiRead.
const MULTI_READS: usize = 4;

/// Any version: the load never wants to fail.
const ANY_VERSION: i32 = -1;

/// Flags of a create: how long the node stays, under the given name.
pub(crate) const PERSISTENT: i32 = 0;
pub(crate) const EPHEMERAL: i32 = 1;

pub(crate) fn path(path: &str, out: &mut Vec<u8>) {
    encode_bytes(path.as_bytes(), out);
}

pub(crate) fn path_and_no_watch(path: &str, out: &mut Vec<u8>) {
    encode_bytes(path.as_bytes(), out);
    false.encode(out);
}

/// getData whose answer shows everything that was answered before.
pub(crate) fn linear_get(path: &str, out: &mut Vec<u8>) {
    Freshness::LINEARIZABLE.encode(out);
    OpCode::GetData.wire().encode(out);
    path_and_no_watch(path, out);
}

pub(crate) fn path_and_watch(path: &str, out: &mut Vec<u8>) {
    encode_bytes(path.as_bytes(), out);
    true.encode(out);
}

pub(crate) fn set(path: &str, data: &[u8], out: &mut Vec<u8>) {
    encode_bytes(path.as_bytes(), out);
    encode_bytes(data, out);
    ANY_VERSION.encode(out);
}

pub(crate) fn create(path: &str, data: &[u8], flags: i32, out: &mut Vec<u8>) {
    encode_bytes(path.as_bytes(), out);
    encode_bytes(data, out);
    Acl::open().encode(out);
    flags.encode(out);
}

pub(crate) fn path_and_any_version(path: &str, out: &mut Vec<u8>) {
    encode_bytes(path.as_bytes(), out);
    ANY_VERSION.encode(out);
}

/// Four reads of the same node.
pub(crate) fn multi_read(path: &str, out: &mut Vec<u8>) {
    for _ in 0..MULTI_READS {
        MultiHeader { op: OpCode::GetData.wire(), done: false, err: -1 }.encode(out);
        path_and_no_watch(path, out);
    }
    MULTI_END.encode(out);
}

/// A check and a setData of the same node.
pub(crate) fn multi(path: &str, data: &[u8], out: &mut Vec<u8>) {
    MultiHeader { op: OpCode::Check.wire(), done: false, err: -1 }.encode(out);
    path_and_any_version(path, out);
    MultiHeader { op: OpCode::SetData.wire(), done: false, err: -1 }.encode(out);
    set(path, data, out);
    MULTI_END.encode(out);
}
