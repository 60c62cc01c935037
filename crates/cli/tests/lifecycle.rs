//! A server's life from outside: it answers soon, keeps what it acknowledged, refuses to share its
//! directory, ends when asked.

mod common;
#[path = "common/falsify.rs"]
mod falsify;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::*;
use zebu_proto::{Acl, ErrorCode, OpCode, StatPersisted, Zxid};
use zebu_testing::{RawClient, ServerProcess, four_letter, port};

const ZEBU: &str = env!("CARGO_BIN_EXE_zebu");
const TIME_LIMIT: Duration = Duration::from_secs(20);

#[test]
fn what_was_acknowledged_survives_a_kill_and_so_do_sessions() {
    let mut server = server().start().unwrap();
    let (mut client, session) = open(&server);
    create(&mut client, "/kept", b"first");
    done(&mut client, OpCode::SetData, set_data_body("/kept", b"second", 0));
    done(&mut client, OpCode::Create, create_body("/kept/ephemeral", b"", Acl::open(), 1));
    for round in 0..3 {
        server.kill().unwrap();
        server.start().unwrap();
        let (mut again, response) = RawClient::resume(server.address(), &session).unwrap();
        assert_eq!(response.session_id, session.id.0, "round {round}");
        let (_, body) = done(&mut again, OpCode::GetData, path_and_watch("/kept", false));
        assert!(body.starts_with(b"\0\0\0\x06second"));
        done(&mut again, OpCode::Exists, path_and_watch("/kept/ephemeral", false));
    }
    // The farewell removes the ephemeral node, and that survives too.
    let (mut last, _) = RawClient::resume(server.address(), &session).unwrap();
    done(&mut last, OpCode::CloseSession, |_| ());
    server.stop().unwrap();
    server.start().unwrap();
    let (mut other, _) = open(&server);
    let gone = refused(&mut other, OpCode::Exists, path_and_watch("/kept/ephemeral", false));
    assert_eq!(gone, Some(ErrorCode::NoNode));
}

#[test]
fn snapshots_are_taken_while_serving_and_are_enough_to_start() {
    let mut server = server().line("snapCount=50").start().unwrap();
    let (mut client, _) = open(&server);
    create(&mut client, "/many", b"");
    for number in 0..500 {
        client.queue(OpCode::Create, create_body(&format!("/many/{number}"), b"data", Acl::open(), 0));
    }
    client.flush().unwrap();
    client.receive_messages(500).unwrap();
    let zxid = four_letter::last_zxid(server.address(), TIME_LIMIT).unwrap();
    let snapshots = || {
        let names = std::fs::read_dir(server.data_dir().join("version-2")).unwrap();
        names
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("snapshot."))
            .count()
    };
    let deadline = Instant::now() + TIME_LIMIT;
    while snapshots() < 2 {
        assert!(Instant::now() < deadline, "no snapshot was written");
        std::thread::sleep(Duration::from_millis(20));
    }
    server.kill().unwrap();
    server.start().unwrap();
    assert!(four_letter::last_zxid(server.address(), TIME_LIMIT).unwrap() >= zxid);
    let (mut client, _) = open(&server);
    let (_, body) = done(&mut client, OpCode::GetAllChildrenNumber, path_only("/many"));
    assert_eq!(body, 500i32.to_be_bytes());
}

#[test]
fn a_wrong_digest_in_the_log_is_counted() {
    let mut server = server().start().unwrap();
    assert_eq!(monitored(&server, "digest_mismatches_count"), 0);
    let (mut client, _) = open(&server);
    create(&mut client, "/a", b"");
    create(&mut client, "/b", b"");
    server.stop().unwrap();
    falsify::falsify_last_digest(&server.data_dir().join("version-2/log.1"));
    server.start().unwrap();
    assert_eq!(monitored(&server, "digest_mismatches_count"), 1);
}

#[test]
fn ephemeral_nodes_without_a_session_are_deleted_for_good() {
    let directory = tempfile::TempDir::new().unwrap();
    let files = directory.path().join("version-2");
    std::fs::create_dir(&files).unwrap();
    write_snapshot_with_orphan(&files);
    let mut server = server().line(format!("dataDir={}", directory.path().display())).start().unwrap();
    let (mut client, _) = open(&server);
    let deadline = Instant::now() + TIME_LIMIT;
    while client.call(OpCode::Exists, path_and_watch("/orphan", false)).unwrap().1.err == 0 {
        assert!(Instant::now() < deadline, "the node of a session that does not exist stays");
        std::thread::sleep(Duration::from_millis(20));
    }
    create(&mut client, "/orphan", b"somebody's now");
    server.kill().unwrap();
    server.start().unwrap();
    let (mut client, _) = open(&server);
    let (_, body) = done(&mut client, OpCode::GetData, path_and_watch("/orphan", false));
    assert!(body[4..].starts_with(b"somebody's now"));
    assert_eq!(monitored(&server, "digest_mismatches_count"), 0);
}

/// A tree with an ephemeral node whose session is not in the list of sessions.
fn write_snapshot_with_orphan(directory: &std::path::Path) {
    use zebu_storage::{Compression, FileDisk, Sections, SnapshotTarget, SnapshotWriter};
    let plain = Compression::Plain;
    let mut writer = SnapshotWriter::begin(
        FileDisk,
        SnapshotTarget::new(directory, Zxid(5), plain),
        [].into_iter(),
        [].into_iter(),
    )
    .expect("the file can be written");
    let root = StatPersisted { cversion: 1, pzxid: 4, ..StatPersisted::default() };
    let orphan = StatPersisted {
        czxid: 4,
        mzxid: 4,
        pzxid: 4,
        ephemeral_owner: 0x0100_0000_0000_0099,
        ..StatPersisted::default()
    };
    writer.node("", None, -1, &root).expect("the file can be written");
    writer.node("/orphan", Some(b"nobody's"), -1, &orphan).expect("the file can be written");
    writer.finish(Sections::None).expect("the file can be written");
}

#[test]
fn sessions_expire_and_take_their_ephemeral_nodes_along() {
    let server = server().line("tickTime=100").start().unwrap();
    let (mut silent, _) = open_with_timeout(&server, 200);
    done(&mut silent, OpCode::Create, create_body("/mine", b"", Acl::open(), 1));
    let (mut watcher, _) = open(&server);
    done(&mut watcher, OpCode::Exists, path_and_watch("/mine", true));
    // The silent one never pings. Its node goes; how soon is not this test's matter.
    watcher.set_patience(TIME_LIMIT);
    match watcher.receive_message().unwrap() {
        zebu_testing::Message::Event { event, .. } => assert_eq!(event.path.as_deref(), Some("/mine")),
        reply => panic!("{reply:?}"),
    }
    assert_eq!(monitored(&server, "ephemerals_count"), 0);
}

#[test]
fn a_second_server_on_the_same_directory_is_refused() {
    let server = server().start().unwrap();
    let output = Command::new(ZEBU)
        .args(["serve", &port::free_address().unwrap().port().to_string()])
        .arg(server.data_dir())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("in use by another server"), "{text}");
    create(&mut open(&server).0, "/still", b"here");
}

#[test]
fn while_another_has_its_port_a_server_touches_no_files() {
    let directory = tempfile::tempdir().unwrap();
    let files = directory.path().join("version-2");
    std::fs::create_dir(&files).unwrap();
    // As a ZooKeeper that runs leaves it for a moment: the last record is not whole yet.
    let mut torn = b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0".to_vec();
    torn.extend([0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 40, 1, 1, 1]);
    std::fs::write(files.join("log.1"), &torn).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let config = directory.path().join("zoo.cfg");
    let port = listener.local_addr().unwrap().port();
    let text =
        format!("dataDir={}\nclientPortAddress=127.0.0.1\nclientPort={port}\n", directory.path().display());
    std::fs::write(&config, text).unwrap();
    let output = Command::new(ZEBU).arg("serve").arg(&config).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let names: Vec<_> = std::fs::read_dir(&files).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["log.1"]);
    assert_eq!(std::fs::read(files.join("log.1")).unwrap(), torn);
}

#[test]
fn sigterm_ends_it_with_status_zero() {
    let directory = tempfile::tempdir().unwrap();
    let address = port::free_address().unwrap();
    let started = Instant::now();
    let mut server = Command::new(ZEBU)
        .args(["serve", &address.port().to_string()])
        .arg(directory.path())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while four_letter::ask(address, "srvr", Duration::from_millis(200)).is_err() {
        assert!(started.elapsed() < TIME_LIMIT, "it never answered");
        std::thread::sleep(Duration::from_millis(10));
    }
    let id = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn an_address_in_use_is_an_error_that_names_it() {
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("zoo.cfg");
    let port = holder.local_addr().unwrap().port();
    let text = format!(
        "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\n",
        directory.path().join("data").display()
    );
    std::fs::write(&config, text).unwrap();
    let output = Command::new(ZEBU).arg("serve").arg(&config).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains(&format!("127.0.0.1:{port}")), "{text}");
}

#[test]
fn the_background_commands_work_as_the_scripts_do() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("zoo.cfg");
    let port = port::free_address().unwrap().port();
    let text = format!("dataDir={}\nclientPort={port}\n", directory.path().join("data").display());
    std::fs::write(&config, text).unwrap();
    let zebu = |command: &str| {
        let output = Command::new(ZEBU)
            .arg(command)
            .arg(&config)
            .env("ZOO_LOG_DIR", directory.path().join("logs"))
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, text) = zebu("start");
    assert_eq!((code, text.contains("STARTED")), (Some(0), true), "{text}");
    let (code, text) = zebu("start");
    assert_eq!((code, text.contains("already running")), (Some(1), true), "{text}");
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        let (code, text) = zebu("status");
        if code == Some(0) {
            assert!(text.contains("Mode: standalone"), "{text}");
            break;
        }
        assert!(Instant::now() < deadline, "{text}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let (code, text) = zebu("stop");
    assert_eq!((code, text.contains("STOPPED")), (Some(0), true), "{text}");
    assert_eq!(zebu("status").0, Some(1));
}

fn open_with_timeout(server: &ServerProcess, timeout_ms: i32) -> (RawClient, i64) {
    let mut request = zebu_testing::raw::new_session_request();
    request.timeout_ms = timeout_ms;
    let mut client = RawClient::connect(server.address()).expect("a connection");
    let response = client.handshake(&request).expect("a session");
    assert_eq!(response.timeout_ms, timeout_ms);
    (client, response.session_id)
}
