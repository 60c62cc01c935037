//! The requests of ClickHouse Keeper on real server processes: through every member of an ensemble, and the
//! handshakes and settings that a server refuses.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod common;
#[path = "common/manual.rs"]
mod manual;
#[path = "common/ensemble.rs"]
mod processes;

use common::{create_body, error, monitored, server};
use processes::{Ensemble, TIME_LIMIT};
use zebu_proto::client::multi::{MULTI_END, MultiHeader};
use zebu_proto::jute::encode_bytes;
use zebu_proto::{Acl, ErrorCode, Jute, OpCode, Permissions, Reader, Stat};
use zebu_testing::raw::{Received, new_session_request};
use zebu_testing::{RawClient, four_letter};

/// A path with its length, and bytes behind it.
fn body(path: &str, rest: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_bytes(path.as_bytes(), &mut bytes);
    bytes.extend_from_slice(rest);
    bytes
}

fn created(path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    create_body(path, b"x", Acl::open(), 0)(&mut bytes);
    bytes
}

/// The error of a reply and its body. The zxid of a write is that of its transaction.
fn call(client: &mut RawClient, op: OpCode, body: &[u8]) -> (Option<ErrorCode>, Vec<u8>) {
    let (_, header, reply) = client.call(op, |out| out.extend_from_slice(body)).unwrap();
    (error(&header), reply)
}

fn get(client: &mut RawClient, path: &str) -> Result<Vec<u8>, ErrorCode> {
    let (error, reply) = call(client, OpCode::GetData, &body(path, &[0]));
    match error {
        None => Ok(Reader::new(&reply).buffer().unwrap().unwrap_or_default().to_vec()),
        Some(error) => Err(error),
    }
}

fn names(client: &mut RawClient, path: &str, kind: u8) -> Vec<String> {
    let (error, reply) = call(client, OpCode::FilteredList, &body(path, &[0, kind]));
    assert_eq!(error, None);
    let mut reader = Reader::new(&reply);
    let mut names: Vec<String> =
        Vec::<Box<str>>::decode(&mut reader).unwrap().into_iter().map(String::from).collect();
    Stat::decode(&mut reader).unwrap();
    assert_eq!(reader.remaining(), 0);
    names.sort();
    names
}

/// All requests through one member. The nodes are gone afterwards.
fn all_requests(client: &mut RawClient, top: &str) {
    let any = i32::to_be_bytes(-1);
    let node = |name: &str| format!("{top}/{name}");
    assert_eq!(call(client, OpCode::CreateIfNotExists, &created(top)), (None, body(top, &[])));
    for name in ["a", "b", "a/c"] {
        let path = node(name);
        for _ in 0..2 {
            assert_eq!(call(client, OpCode::CreateIfNotExists, &created(&path)), (None, body(&path, &[])));
        }
    }
    let missing = call(client, OpCode::CreateIfNotExists, &created(&node("none/b")));
    assert_eq!(missing.0, Some(ErrorCode::NoNode));
    assert_eq!(names(client, top, 0), ["a", "b"]);
    assert_eq!(names(client, top, 1), ["a", "b"]);
    assert!(names(client, top, 2).is_empty());
    for (path, version, expected) in [
        (node("a"), any, Some(ErrorCode::NodeExists)),
        (node("a"), 0i32.to_be_bytes(), Some(ErrorCode::NodeExists)),
        (node("a"), 5i32.to_be_bytes(), None),
        (node("none"), any, None),
    ] {
        assert_eq!(call(client, OpCode::CheckNotExists, &body(&path, &version)).0, expected, "{path}");
    }
    let (_, stat) = call(client, OpCode::Exists, &body(&node("a"), &[0]));
    for (version, expected) in [(0i32, None), (3, Some(ErrorCode::BadVersion))] {
        let check = [&version.to_be_bytes()[..], &stat].concat();
        assert_eq!(call(client, OpCode::CheckStat, &body(&node("a"), &check)).0, expected);
    }
    let (_, listed) = call(client, OpCode::ListRecursive, &body(top, &10u32.to_be_bytes()));
    let paths = Vec::<Box<str>>::decode(&mut Reader::new(&listed)).unwrap();
    assert_eq!(paths, [node("a"), node("b"), node("a/c")].map(Box::from));
    let (error, listed) = call(client, OpCode::ListWithStatsAndData, &body(&node("a"), &[0, 0, 1, 1]));
    assert_eq!(error, None);
    let expected_length = 4 + 5 + 68 + 4 + 68 + 4 + 5;
    assert_eq!(listed.len(), expected_length);
    for path in [node("a"), node("none")] {
        assert_eq!(call(client, OpCode::TryRemove, &body(&path, &any)), (None, Vec::new()));
    }
    let limit = 3u32.to_be_bytes();
    assert_eq!(call(client, OpCode::RemoveRecursive, &body(top, &limit)).0, Some(ErrorCode::NotEmpty));
    multi(client, top);
    assert_eq!(call(client, OpCode::RemoveRecursive, &body(top, &limit)), (None, Vec::new()));
    assert_eq!(call(client, OpCode::Exists, &body(top, &[0])).0, Some(ErrorCode::NoNode));
}

/// A multi that deletes the subtree and makes its root again.
fn multi(client: &mut RawClient, top: &str) {
    let any = i32::to_be_bytes(-1);
    let parts = [
        (OpCode::CheckNotExists, body(&format!("{top}/none"), &any)),
        (OpCode::RemoveRecursive, body(top, &9u32.to_be_bytes())),
        (OpCode::TryRemove, body(top, &any)),
        (OpCode::CreateIfNotExists, created(top)),
    ];
    let mut request = Vec::new();
    for (op, body) in &parts {
        MultiHeader { op: op.wire(), done: false, err: -1 }.encode(&mut request);
        request.extend_from_slice(body);
    }
    MULTI_END.encode(&mut request);
    let (error, reply) = call(client, OpCode::Multi, &request);
    assert_eq!(error, None);
    let mut expected = Vec::new();
    for (op, _) in &parts {
        MultiHeader { op: op.wire(), done: false, err: 0 }.encode(&mut expected);
        if *op == OpCode::CreateIfNotExists {
            encode_bytes(top.as_bytes(), &mut expected);
        }
    }
    MULTI_END.encode(&mut expected);
    assert_eq!(reply, expected);
}

#[test]
fn every_member_has_all_requests() {
    let ensemble = Ensemble::start_as(
        &["participant", "participant", "observer"],
        "initLimit=20\nextendedTypesEnabled=true",
    );
    ensemble.await_leader(3);
    for index in 0..3 {
        let (mut client, _) = RawClient::open(ensemble.clients[index]).unwrap();
        assert_eq!(get(&mut client, "/keeper/feature_flags").unwrap(), [0xFF, 0xFE]);
        assert_eq!(get(&mut client, "/keeper/availability_zone"), Err(ErrorCode::NoNode));
        assert_eq!(
            get(&mut client, "/keeper/config").unwrap(),
            get(&mut client, "/zookeeper/config").unwrap()
        );
        all_requests(&mut client, &format!("/top{index}"));
        let monitor = four_letter::ask(ensemble.clients[index], "mntr", TIME_LIMIT).unwrap();
        let count = monitor.lines().find_map(|line| line.strip_prefix("zk_keeper_requests\t")).unwrap();
        assert!(count.parse::<u64>().unwrap() > 20, "{count}");
    }
}

#[test]
fn permissions_are_checked() {
    let server = server().start().unwrap();
    let (mut client, _) = RawClient::open(server.address()).unwrap();
    let closed = vec![Acl::new(Permissions::READ, "world", "anyone")];
    for (path, acl) in [("/s", closed), ("/o", Acl::open())] {
        let (_, header, _) = client.call(OpCode::Create, create_body(path, b"", acl, 0)).unwrap();
        assert_eq!(error(&header), None);
    }
    let any = i32::to_be_bytes(-1);
    assert_eq!(call(&mut client, OpCode::CreateIfNotExists, &created("/s/a")).0, Some(ErrorCode::NoAuth));
    assert_eq!(call(&mut client, OpCode::TryRemove, &body("/s/a", &any)).0, Some(ErrorCode::NoAuth));
    let limit = 9u32.to_be_bytes();
    assert_eq!(call(&mut client, OpCode::RemoveRecursive, &body("/s/a", &limit)).0, Some(ErrorCode::NoAuth));
    for path in ["/", "/zookeeper", "/zookeeper/quota", "/keeper"] {
        let reply = call(&mut client, OpCode::RemoveRecursive, &body(path, &limit));
        assert_eq!(reply.0, Some(ErrorCode::BadArguments), "{path}");
    }
    let secret = vec![Acl::new(Permissions::CREATE, "world", "anyone")];
    client.call(OpCode::Create, create_body("/o/secret", b"", secret, 0)).unwrap();
    assert_eq!(names(&mut client, "/o", 0), ["secret"]);
    assert_eq!(
        call(&mut client, OpCode::FilteredList, &body("/o", &[0, 1])).0,
        Some(ErrorCode::NoAuth),
        "a kind needs a permission on each child"
    );
}

#[test]
fn handshakes_of_clickhouse_are_refused_with_the_name_of_the_setting() {
    let server = server().line("zebu.zone=eu-1a").start().unwrap();
    for (version, setting) in
        [(10, "use_compression"), (11, "use_xid_64"), (12, "pass_opentelemetry_tracing_context")]
    {
        let mut client = RawClient::connect(server.address()).unwrap();
        let mut request = new_session_request();
        request.protocol_version = version;
        client.send_connect(&request).unwrap();
        // What ClickHouse sends behind the request, outside its length.
        let _ = client.send_bytes(&[1, 0]);
        assert_eq!(client.receive(TIME_LIMIT).unwrap(), Received::Closed);
        let log = server.output();
        assert!(log.contains("refused: a ClickHouse server") && log.contains(setting), "{log}");
    }
    let (mut client, _) = RawClient::open(server.address()).unwrap();
    assert_eq!(get(&mut client, "/keeper/availability_zone").unwrap(), b"eu-1a");
    assert_eq!(get(&mut client, "/keeper/max_request_size").unwrap(), b"1048575");
    assert_eq!(get(&mut client, "/keeper/api_version").unwrap(), b"2");
    assert!(monitored(&server, "znode_count") > 0);
}

#[test]
fn without_extensions_nothing_is_known() {
    let server = server().line("keeperExtensions=off").start().unwrap();
    let mut request = new_session_request();
    request.protocol_version = 11;
    let mut client = RawClient::connect(server.address()).unwrap();
    assert_ne!(client.handshake(&request).unwrap().session_id, 0, "ZooKeeper ignores the version");
    assert_eq!(get(&mut client, "/keeper/feature_flags"), Err(ErrorCode::NoNode));
    let reply = call(&mut client, OpCode::FilteredList, &body("/", &[0, 0]));
    assert_eq!(reply.0, Some(ErrorCode::Unimplemented));
    assert_eq!(client.receive(TIME_LIMIT).unwrap(), Received::Closed);
}

/// The commands of docs/clickhouse.md.
#[test]
fn the_page_shows_what_a_server_answers() {
    let server = server().start().unwrap();
    let page = include_str!("../../../docs/clickhouse.md");
    let block = manual::blocks(page).into_iter().find(|block| block.kind == "sh").unwrap();
    let answers: Vec<String> = block
        .lines
        .iter()
        .map(|line| line.replace("127.0.0.1:2181", &server.address().to_string()))
        .map(|line| manual::succeed(server.directory(), &line).trim().to_owned())
        .collect();
    assert_eq!(answers, ["2", "1048575"]);
}
