//! A disk that fails under a running server: no write is acknowledged that is not on disk, the process logs
//! why it ends, and a failed snapshot stops no client.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::*;
use zebu_proto::{Acl, OpCode};
use zebu_testing::{RawClient, four_letter, port};

const TIME_LIMIT: Duration = Duration::from_secs(20);

/// A server that may not write files beyond a size: its log fails as on a full disk.
#[test]
fn a_log_that_cannot_be_written_ends_the_server_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let address = port::free_address().unwrap();
    let serve = |limit: &str| {
        let script = format!("trap '' XFSZ; ulimit -f {limit}; exec \"$0\" serve {} \"$1\"", address.port());
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_zebu")]).arg(directory.path().join("data"));
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut healthy = serve("unlimited");
    let (mut client, _) = first_session(address);
    create(&mut client, "/kept", b"acknowledged");
    healthy.kill().unwrap();
    healthy.wait().unwrap();

    // 100 blocks of 512 or 1024 bytes: the snapshot is there already, a log does not fit.
    let sick = serve("100");
    wait_for(address);
    let mut client = RawClient::connect(address).unwrap();
    let answer = client.handshake(&zebu_testing::raw::new_session_request());
    assert!(answer.is_err(), "a session needs the log, so nobody gets one: {answer:?}");
    let output = sick.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("cannot be written") && text.contains("start the server again"), "{text}");

    let mut healed = serve("unlimited");
    let (mut client, _) = first_session(address);
    let (_, body) = done(&mut client, OpCode::GetData, path_and_watch("/kept", false));
    assert!(body.starts_with(b"\0\0\0\x0cacknowledged"));
    healed.kill().unwrap();
    healed.wait().unwrap();
}

/// Snapshots and logs on different disks, and that of the snapshots is gone.
#[test]
fn a_snapshot_that_cannot_be_written_is_reported_and_stops_nobody() {
    let logs = tempfile::tempdir().unwrap();
    let server =
        server().line("snapCount=20").line(format!("dataLogDir={}", logs.path().display())).start().unwrap();
    let snapshots = server.data_dir().join("version-2");
    move_away(&snapshots);
    let (mut client, _) = open(&server);
    create(&mut client, "/many", b"");
    let deadline = Instant::now() + TIME_LIMIT;
    let mut number = 0;
    while monitored(&server, "snapshot_error_count") == 0 {
        assert!(Instant::now() < deadline, "no snapshot was tried");
        for _ in 0..20 {
            number += 1;
            client.queue(OpCode::Create, create_body(&format!("/many/{number}"), b"", Acl::open(), 0));
        }
        client.flush().unwrap();
        client.receive_messages(20).unwrap();
    }
    create(&mut client, "/after", b"still served");
    assert!(server.output().contains("no snapshot was written"), "{}", server.output());
}

fn move_away(directory: &Path) {
    std::fs::rename(directory, directory.with_extension("gone")).expect("the directory is there");
}

fn wait_for(address: std::net::SocketAddr) {
    let deadline = Instant::now() + TIME_LIMIT;
    while four_letter::ask(address, "srvr", Duration::from_secs(1)).is_err() {
        assert!(Instant::now() < deadline, "it never answered");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn first_session(address: std::net::SocketAddr) -> (RawClient, zebu_testing::Session) {
    wait_for(address);
    RawClient::open(address).expect("a session")
}
