//! The audit log of real servers: Apache's recorded lines, forged ones, rotation, and disks that are full or
//! do not answer.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod common;
#[path = "common/ensemble.rs"]
mod ensemble;

use std::fs;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use common::*;
use ensemble::Ensemble;
use rustix::fs::{Mode, OFlags};
use tempfile::TempDir;
use zebu_proto::client::create::{CreateOp, CreateRequest};
use zebu_proto::client::multi::{MULTI_END, MultiOp};
use zebu_proto::client::write::{DeleteRequest, SetDataRequest};
use zebu_proto::jute::encode_bytes;
use zebu_proto::{Acl, ErrorCode, Jute, OpCode};
use zebu_testing::{RawClient, ServerProcess, ServerProcessBuilder};

/// Far more than is needed: it decides nothing.
const TIME_LIMIT: Duration = Duration::from_secs(30);

fn audited(file: &Path) -> ServerProcessBuilder {
    let server = server().line("audit.enable=true").line("extendedTypesEnabled=true");
    server.line(format!("zebu.audit.file={}", file.display()))
}

/// Waits until the condition holds.
fn await_that(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIME_LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn lines(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Level and message without time, with the session and the server's user replaced.
fn comparable(line: &str) -> String {
    let (head, message) = line.split_once(" o.a.z.a.Slf4jAuditLogger: ").expect(line);
    let level = head.rsplit(' ').next().unwrap();
    let time = &head[..head.len() - level.len() - 1];
    assert!(time.len() == 23 && time.as_bytes()[10] == b' ' && time.as_bytes()[19] == b',', "{line}");
    let field = |field: &str| match field.split_once('=') {
        Some(("session", value)) => {
            assert!(value.starts_with("0x1"), "{line}");
            "session=0xSESSION".to_owned()
        }
        Some(("user", _)) if !message.contains("\tip=") => "user=SERVERUSER".to_owned(),
        _ => field.to_owned(),
    };
    format!("{level} {}", message.split('\t').map(field).collect::<Vec<_>>().join("\t"))
}

fn set_acl_body(path: &'static str, acl: Vec<Acl>) -> impl FnOnce(&mut Vec<u8>) {
    move |out| {
        encode_bytes(path.as_bytes(), out);
        acl.encode(out);
        (-1i32).encode(out);
    }
}

fn delete_body(path: &'static str) -> impl FnOnce(&mut Vec<u8>) {
    move |out| DeleteRequest { path: Some(path.into()), version: -1 }.encode(out)
}

fn ttl_body(path: &'static str, flags: i32) -> impl FnOnce(&mut Vec<u8>) {
    move |out| {
        create_body(path, b"", Acl::open(), flags)(out);
        100_000i64.encode(out);
    }
}

fn create_op(op: CreateOp, path: &str, flags: i32) -> MultiOp {
    let ttl_ms = if op == CreateOp::Ttl { 100_000 } else { -1 };
    let acl = Some(Acl::open().into());
    MultiOp::Create(CreateRequest { op, path: Some(path.into()), data: None, acl, flags, ttl_ms })
}

fn multi_body(ops: Vec<MultiOp>) -> impl FnOnce(&mut Vec<u8>) {
    move |out| {
        ops.iter().for_each(|op| op.encode(out));
        MULTI_END.encode(out);
    }
}

fn check_op(path: &str) -> MultiOp {
    MultiOp::Check(zebu_proto::client::write::CheckRequest { path: Some(path.into()), version: -1 })
}

/// The requests of the recorded session, in order.
fn send_recorded_requests(client: &mut RawClient) {
    let two = || vec![Acl::new(31, "world", "anyone"), Acl::new(1, "ip", "10.0.0.0/8")];
    create(client, "/a", b"");
    assert_eq!(
        refused(client, OpCode::Create, create_body("/a", b"", Acl::open(), 0)),
        Some(ErrorCode::NodeExists)
    );
    done(client, OpCode::Create2, create_body("/b", b"", Acl::open(), 0));
    for (path, flags) in [("/s-", 2), ("/e", 1), ("/e-", 3)] {
        done(client, OpCode::Create, create_body(path, b"", Acl::open(), flags));
    }
    done(client, OpCode::CreateContainer, create_body("/c", b"", Acl::open(), 4));
    done(client, OpCode::CreateTtl, ttl_body("/t", 5));
    done(client, OpCode::CreateTtl, ttl_body("/t-", 6));
    done(client, OpCode::SetData, set_data_body("/a", b"x", -1));
    for (path, version) in [("/a", 77), ("/none", -1)] {
        assert!(refused(client, OpCode::SetData, set_data_body(path, b"x", version)).is_some());
    }
    done(client, OpCode::SetAcl, set_acl_body("/a", two()));
    assert!(refused(client, OpCode::SetAcl, set_acl_body("/none", two())).is_some());
    assert!(refused(client, OpCode::SetAcl, set_acl_body("/a", Vec::new())).is_some());
    done(client, OpCode::Auth, auth_body("digest", b"eve:pw"));
    done(client, OpCode::SetData, set_data_body("/a", b"y", -1));
    let set = MultiOp::SetData(SetDataRequest { path: Some("/m1".into()), data: None, version: -1 });
    let delete = MultiOp::Delete(DeleteRequest { path: Some("/m1".into()), version: -1 });
    let creates = [create_op(CreateOp::Create, "/m1", 0), create_op(CreateOp::Create, "/m-", 2)];
    let ops = creates.into_iter().chain([set, check_op("/m1"), delete]).collect();
    done(client, OpCode::Multi, multi_body(ops));
    let ops = vec![create_op(CreateOp::Ttl, "/mt", 5), create_op(CreateOp::Container, "/mc", 4)];
    done(client, OpCode::Multi, multi_body(ops));
    done(client, OpCode::Multi, multi_body(vec![create_op(CreateOp::Create, "/m2", 0), check_op("/none")]));
    done(client, OpCode::Create, create_body("/ro", b"", Acl::read_only(), 0));
    assert_eq!(refused(client, OpCode::SetData, set_data_body("/ro", b"", -1)), Some(ErrorCode::NoAuth));
    done(client, OpCode::GetData, path_and_watch("/ro", false));
    assert!(refused(client, OpCode::Delete, delete_body("/none")).is_some());
    for path in ["a", "/bad\tname\n"] {
        assert!(refused(client, OpCode::Create, create_body(path, b"", Acl::open(), 0)).is_some());
    }
    let reconfig = |out: &mut Vec<u8>| {
        [-1i32; 3].iter().for_each(|null| null.encode(out));
        (-1i64).encode(out);
    };
    assert!(refused(client, OpCode::Reconfig, reconfig).is_some());
    for path in ["/a", "/b", "/c", "/t"] {
        done(client, OpCode::Delete, delete_body(path));
    }
    done(client, OpCode::CloseSession, |_| {});
}

#[test]
fn the_recorded_lines_of_apache_are_written() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("audit.log");
    let server = audited(&file).start().unwrap();
    let (mut client, _) = open(&server);
    send_recorded_requests(&mut client);

    let recorded = include_str!("../testdata/audit.log");
    // The one difference: a path of a client does not break the line.
    let recorded = recorded.replace("/bad\tname\n", r"/bad\tname\n");
    let start = "INFO user=SERVERUSER\toperation=serverStart\tresult=success";
    let expected: Vec<&str> = [start].into_iter().chain(recorded.lines()).collect();
    await_that("all lines", || lines(&file).len() >= expected.len());
    let written: Vec<String> = lines(&file).iter().map(|line| comparable(line)).collect();
    assert_eq!(written, expected);
    assert_eq!(monitored(&server, "audit_lines_written"), expected.len() as i64);
    assert_eq!(monitored(&server, "audit_lines_dropped"), 0);
    assert_eq!(monitored(&server, "audit_lines_failed"), 0);
}

#[test]
fn starts_and_stops_of_the_server_are_written() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("audit.log");
    let mut server = audited(&file).start().unwrap();
    server.stop().unwrap();
    let messages = || lines(&file).iter().map(|line| comparable(line)).collect::<Vec<_>>();
    let expected = [
        "INFO user=SERVERUSER\toperation=serverStart\tresult=success",
        "INFO user=SERVERUSER\toperation=serverStop\tresult=invoked",
    ];
    assert_eq!(messages(), expected);

    let _taken = std::net::TcpListener::bind(server.address()).unwrap();
    server.start().unwrap_err();
    assert_eq!(messages().last().unwrap(), "ERROR user=SERVERUSER\toperation=serverStart\tresult=failure");
}

#[test]
fn a_client_that_leaves_at_once_does_not_escape() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("audit.log");
    let server = audited(&file).start().unwrap();
    for index in 0..20 {
        let (mut client, _) = open(&server);
        client.send(OpCode::Create, create_body(&format!("/{index}"), b"", Acl::open(), 0)).unwrap();
        drop(client);
    }
    let (mut other, _) = open(&server);
    for index in 0..20 {
        let path = format!("/{index}");
        let exists = || refused(&mut other, OpCode::Exists, path_and_watch(&path, false)).is_none();
        await_that("the write is carried out", exists);
        let line = format!("\toperation=create\tznode={path}\tznode_type=persistent\tresult=success");
        await_that(&line, || lines(&file).iter().any(|written| written.ends_with(&line)));
    }
}

#[test]
fn users_cannot_forge_lines() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("audit.log");
    let server = audited(&file).start().unwrap();
    let (mut client, _) = open(&server);
    let user = "eve\t\n2026-11-17 18:46:33,298 INFO x: user=root\u{1b}[2K\u{2028}";
    done(&mut client, OpCode::Auth, auth_body("digest", format!("{user}:pw").as_bytes()));
    let acl = vec![Acl::new(31, "digest", "a\nb:c")];
    create(&mut client, "/a", b"");
    done(&mut client, OpCode::SetAcl, set_acl_body("/a", acl));
    await_that("three lines", || lines(&file).len() >= 3);
    let written = lines(&file);
    assert_eq!(written.len(), 3, "{written:?}");
    // A colon ends the name of a digest user.
    assert!(written[1].contains("user=127.0.0.1,eve\\t\\n2026-11-17 18\t"), "{}", written[1]);
    assert!(written[2].contains("acl=digest:a\\nb:c:cdrwa\t"), "{}", written[2]);
}

#[test]
fn files_are_rotated() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("audit.log");
    let server = audited(&file).line("zebu.audit.fileBytes=2048").line("zebu.audit.files=2").start().unwrap();
    let (mut client, _) = open(&server);
    for index in 0..60 {
        create(&mut client, &format!("/node-{index}"), b"");
    }
    await_that("all lines", || monitored(&server, "audit_lines_written") == 61);
    let mut names: Vec<String> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["audit.log", "audit.log.1", "audit.log.2"]);
    let all: Vec<String> = ["audit.log.2", "audit.log.1", "audit.log"]
        .iter()
        .flat_map(|name| lines(&directory.path().join(name)))
        .collect();
    let first = 60 - all.len();
    for (line, index) in all.iter().zip(first..) {
        assert!(line.contains(&format!("znode=/node-{index}\t")), "{line}");
    }
}

#[test]
fn a_full_disk_is_counted_and_writes_go_on() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("audit.log");
    std::os::unix::fs::symlink("/dev/full", &file).unwrap();
    let server = audited(&file).start().unwrap();
    let (mut client, _) = open(&server);
    create(&mut client, "/a", b"");
    await_that("failures are counted", || monitored(&server, "audit_lines_failed") == 2);
    assert!(server.output().contains("the audit log cannot be written"), "{}", server.output());
    fs::remove_file(&file).unwrap();
    create(&mut client, "/b", b"");
    await_that("the file is opened again", || lines(&file).iter().any(|line| line.contains("znode=/b\t")));
}

#[test]
fn writes_are_refused_while_a_required_log_cannot_be_written() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("audit.log");
    std::os::unix::fs::symlink("/dev/full", &file).unwrap();
    let server = audited(&file).line("zebu.audit.onFailure=refuseWrites").start().unwrap();
    let (mut client, _) = open(&server);
    let create_a =
        |client: &mut RawClient| refused(client, OpCode::Create, create_body("/a", b"", Acl::open(), 0));
    // The failure of the first line, that of the start, is noticed in a moment.
    await_that("a write is refused", || match create_a(&mut client) {
        Some(ErrorCode::NotReadOnly) => true,
        None => {
            done(&mut client, OpCode::Delete, delete_body("/a"));
            false
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(create_a(&mut client), Some(ErrorCode::NotReadOnly));
    done(&mut client, OpCode::GetData, path_and_watch("/", false));
    fs::remove_file(&file).unwrap();
    await_that("writes are accepted again", || create_a(&mut client).is_none());
    await_that("no line is lost", || lines(&file).iter().any(|line| line.contains("znode=/a\t")));
    assert!(lines(&file)[0].contains("operation=serverStart"), "{:?}", lines(&file));
    assert_eq!(monitored(&server, "audit_lines_failed"), 0);
    done(&mut client, OpCode::CloseSession, |_| {});
}

/// A pipe without a reader takes 64 KiB, then its writer waits for ever.
#[test]
fn a_disk_that_does_not_answer_does_not_slow_writes() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("audit.log");
    rustix::fs::mkfifoat(rustix::fs::CWD, &file, Mode::RUSR | Mode::WUSR).unwrap();
    let reader = rustix::fs::open(&file, OFlags::RDWR | OFlags::NONBLOCK, Mode::empty()).unwrap();
    let mut reader = fs::File::from(reader);
    let mut server = audited(&file).start().unwrap();
    let (mut client, _) = open(&server);
    for index in 0..2000 {
        create(&mut client, &format!("/node-{index}"), b"");
    }
    assert!(monitored(&server, "audit_lines_written") < 1000, "the pipe is full");

    let mut text = Vec::new();
    await_that("the waiting lines are written", || {
        let mut part = [0; 64 << 10];
        if let Ok(count) = reader.read(&mut part) {
            text.extend_from_slice(&part[..count]);
        }
        String::from_utf8_lossy(&text).contains("znode=/node-1999\t")
    });
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.lines().count(), 2001);
    for index in 0..2000 {
        create(&mut client, &format!("/more-{index}"), b"");
    }
    // A stop does not wait for ever.
    server.stop().unwrap();
}

#[test]
fn lines_in_json_and_further_events() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("audit.log");
    let server = audited(&file)
        .line("zebu.audit.format=json")
        .line("zebu.audit.extraEvents=true")
        .property("zookeeper.DigestAuthenticationProvider.superDigest", "super:xQJmxLMiHGwaqBvst5y6rkB6HQs=")
        .start()
        .unwrap();
    let (mut client, _) = open(&server);
    done(&mut client, OpCode::Auth, auth_body("digest", b"super:admin"));
    create(&mut client, "/a\"b", b"");
    let (mut other, _) = open(&server);
    assert_eq!(refused(&mut other, OpCode::Auth, auth_body("unknown", b"x")), Some(ErrorCode::AuthFailed));
    await_that("four lines", || lines(&file).len() >= 4);
    let written = lines(&file);
    assert!(written[1].contains(r#""operation":"superLogin","result":"success"}"#), "{}", written[1]);
    let created = r#""user":["127.0.0.1","super"],"ip":"127.0.0.1","operation":"create","znode":"/a\"b","znode_type":"persistent","result":"success"}"#;
    assert!(written[2].starts_with("{\"time\":\"") && written[2].ends_with(created), "{}", written[2]);
    assert!(
        written[3].contains(r#""level":"ERROR""#) && written[3].contains("authFailure"),
        "{}",
        written[3]
    );
}

fn audit_lines(ensemble: &Ensemble, index: usize) -> Vec<String> {
    let log = fs::read_to_string(ensemble.home.path().join(format!("log{index}"))).unwrap();
    let lines = log.lines().filter(|line| line.contains("operation=") && line.contains("znode=/"));
    lines.map(str::to_owned).collect()
}

/// Without a file, the lines are in the log of the server.
#[test]
fn the_server_of_the_client_writes_and_every_server_writes_the_end_of_a_session() {
    let ensemble = Ensemble::start_with(3, "initLimit=20\naudit.enable=true");
    for server in 0..3 {
        await_that("an ensemble serves", || ensemble.mode(server).is_some_and(|mode| mode != "looking"));
    }
    for server in 0..3 {
        let (mut client, _) = RawClient::open(ensemble.clients[server]).unwrap();
        let path = format!("/of-{server}");
        done(&mut client, OpCode::Create, create_body(&path, b"", Acl::open(), 1));
        assert!(refused(&mut client, OpCode::Create, create_body(&path, b"", Acl::open(), 1)).is_some());
        done(&mut client, OpCode::CloseSession, |_| {});
    }
    for server in 0..3 {
        for of in 0..3 {
            let deleted = format!("operation=ephemeralZNodeDeletionOnSessionCloseOrExpire\tznode=/of-{of}\t");
            let deletion = |line: &String| line.replace("\\t", "\t").contains(&deleted);
            await_that(&deleted, || audit_lines(&ensemble, server).iter().any(deletion));
        }
        let creates: Vec<String> = audit_lines(&ensemble, server)
            .into_iter()
            .filter(|line| line.contains("operation=create"))
            .collect();
        assert_eq!(creates.len(), 2, "{creates:?}");
        assert!(creates[0].contains(&format!("znode=/of-{server}")) && creates[0].contains("result=success"));
        assert!(creates[1].contains(&format!("znode=/of-{server}")) && creates[1].contains("result=failure"));
    }
}

#[test]
fn failed_handshakes_are_written_on_request() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("audit.log");
    let stores = Path::new(env!("CARGO_MANIFEST_DIR")).join("../security/testdata/keystores");
    let secure = zebu_testing::port::free_address().unwrap();
    let server = audited(&file)
        .line("zebu.audit.extraEvents=true")
        .line(format!("secureClientPort={}", secure.port()))
        .line(format!("secureClientPortAddress={}", secure.ip()))
        .line(format!("ssl.keyStore.location={}", stores.join("server.pem").display()))
        .line(format!("ssl.trustStore.location={}", stores.join("trust.pem").display()))
        .start()
        .unwrap();
    let mut client = RawClient::connect(secure).unwrap();
    client.send_bytes(b"\x16\x03\x03\x00\x05hello").unwrap();
    let expected = "user=127.0.0.1\tip=127.0.0.1\toperation=handshakeFailure\tresult=failure";
    await_that(expected, || lines(&file).iter().any(|line| line.ends_with(expected)));
    drop(server);
}

#[test]
fn a_server_without_audit_log_writes_none() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("audit.log");
    let server = server().line(format!("zebu.audit.file={}", file.display())).start().unwrap();
    let (mut client, _) = open(&server);
    create(&mut client, "/a", b"");
    assert!(!file.exists() && !server.output().contains("operation="));
}

#[test]
fn an_unknown_audit_class_refuses_the_start() {
    let error = server().line("audit.impl.class=com.example.Audit").start().map(|_: ServerProcess| ());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("com.example.Audit"), "{error}");
}
