//! Requests in the words of the tests.
#![allow(dead_code, reason = "every test file uses its own part of this")]

use zebu_proto::client::{ReplyHeader, WatcherEvent};
use zebu_proto::jute::{encode_bytes, encode_count};
use zebu_proto::{Acl, ErrorCode, Jute, OpCode};
use zebu_testing::{RawClient, ServerProcess, ServerProcessBuilder, Session};

pub(crate) fn server() -> ServerProcessBuilder {
    ServerProcess::builder(env!("CARGO_BIN_EXE_zebu")).property("zookeeper.4lw.commands.whitelist", "*")
}

pub(crate) fn open(server: &ServerProcess) -> (RawClient, Session) {
    RawClient::open(server.address()).expect("a new session")
}

pub(crate) fn path_and_watch(path: &str, watch: bool) -> impl FnOnce(&mut Vec<u8>) {
    move |out| {
        encode_bytes(path.as_bytes(), out);
        watch.encode(out);
    }
}

pub(crate) fn path_only(path: &str) -> impl FnOnce(&mut Vec<u8>) {
    move |out| encode_bytes(path.as_bytes(), out)
}

pub(crate) fn create_body(path: &str, data: &[u8], acl: Vec<Acl>, flags: i32) -> impl FnOnce(&mut Vec<u8>) {
    move |out| {
        encode_bytes(path.as_bytes(), out);
        encode_bytes(data, out);
        acl.encode(out);
        flags.encode(out);
    }
}

pub(crate) fn set_data_body(path: &str, data: &[u8], version: i32) -> impl FnOnce(&mut Vec<u8>) {
    move |out| {
        encode_bytes(path.as_bytes(), out);
        encode_bytes(data, out);
        version.encode(out);
    }
}

pub(crate) fn auth_body(scheme: &str, auth: &[u8]) -> impl FnOnce(&mut Vec<u8>) {
    move |out| {
        0i32.encode(out);
        encode_bytes(scheme.as_bytes(), out);
        encode_bytes(auth, out);
    }
}

/// setWatches with data watches on these paths.
pub(crate) fn set_watches_body(seen: i64, data: &[String]) -> impl FnOnce(&mut Vec<u8>) {
    move |out| {
        seen.encode(out);
        encode_count(data.len(), out);
        data.iter().for_each(|path| encode_bytes(path.as_bytes(), out));
        encode_count(0, out);
        encode_count(0, out);
    }
}

/// The error of a reply.
pub(crate) fn error(header: &ReplyHeader) -> Option<ErrorCode> {
    match header.err {
        0 => None,
        code => Some(ErrorCode::from_wire(code).expect("a code that clients know")),
    }
}

/// Sends a request that must succeed.
pub(crate) fn done(
    client: &mut RawClient,
    op: OpCode,
    body: impl FnOnce(&mut Vec<u8>),
) -> (Vec<WatcherEvent>, Vec<u8>) {
    let (events, header, body) = client.call(op, body).expect("an answer");
    assert_eq!(error(&header), None, "{op:?}");
    (events, body)
}

/// Sends a request and returns its error.
pub(crate) fn refused(
    client: &mut RawClient,
    op: OpCode,
    body: impl FnOnce(&mut Vec<u8>),
) -> Option<ErrorCode> {
    let (_, header, _) = client.call(op, body).expect("an answer");
    error(&header)
}

pub(crate) fn create(client: &mut RawClient, path: &str, data: &[u8]) {
    done(client, OpCode::Create, create_body(path, data, Acl::open(), 0));
}

/// A value of the `mntr` word.
pub(crate) fn monitored(server: &ServerProcess, key: &str) -> i64 {
    let text = zebu_testing::four_letter::ask(server.address(), "mntr", std::time::Duration::from_secs(5))
        .expect("mntr answers");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("zk_{key}\t")));
    let value = line.unwrap_or_else(|| panic!("mntr has no {key}:\n{text}"));
    value.parse::<f64>().expect("a number") as i64
}

/// Resident memory of the server in KiB.
pub(crate) fn resident_kib(server: &ServerProcess) -> u64 {
    let id = server.id().expect("the server runs");
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("the system tells");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a resident size");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
