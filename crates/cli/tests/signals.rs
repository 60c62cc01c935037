//! Signals, and failures that no code expects: what ends a server, what does not, and with which status.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod common;
#[path = "common/preloaded.rs"]
mod preloaded;

use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{create, create_body, monitored, open, server};
use tempfile::TempDir;
use zebu_proto::{Acl, OpCode};
use zebu_testing::{RawClient, four_letter, port};

const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Waits for something, with a bound.
fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIME_LIMIT;
    while !happened() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn signal(id: u32, name: &str) {
    assert!(Command::new("kill").args([name, &id.to_string()]).status().unwrap().success());
}

/// `zebu serve` with a directory, as a service manager starts it.
fn serve(address: SocketAddr, data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
    command.args(["serve", &address.port().to_string()]).arg(data);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn is_served(address: SocketAddr) -> bool {
    four_letter::ask(address, "srvr", Duration::from_secs(2)).is_ok_and(|text| text.contains("Mode: "))
}

/// The status and the log of a server that ends.
fn ends(mut child: Child) -> (Option<i32>, String) {
    until("the server does not end", || child.try_wait().unwrap().is_some());
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    (child.wait().unwrap().code(), text)
}

#[test]
fn a_server_without_a_terminal_goes_on_after_a_hang_up() {
    let directory = TempDir::new().unwrap();
    let address = port::free_address().unwrap();
    let mut child = serve(address, directory.path()).spawn().unwrap();
    until("it does not serve", || is_served(address));
    signal(child.id(), "-HUP");
    // A signal is handled before the next one is.
    let (mut client, _) = RawClient::open(address).unwrap();
    create(&mut client, "/a", b"");
    assert!(child.try_wait().unwrap().is_none());
    signal(child.id(), "-TERM");
    let (code, text) = ends(child);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("SIGHUP: the log filter was read again"), "{text}");
}

/// A snapshot that is a pipe without a writer: its recovery lasts for ever.
#[test]
fn a_server_that_is_told_to_stop_while_it_recovers_ends_with_status_0() {
    let directory = TempDir::new().unwrap();
    let version = directory.path().join("version-2");
    fs::create_dir(&version).unwrap();
    assert!(Command::new("mkfifo").arg(version.join("snapshot.0")).status().unwrap().success());
    let address = port::free_address().unwrap();
    let mut child = serve(address, directory.path()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let caught = || {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
        u64::from_str_radix(mask.trim(), 16).unwrap_or(0)
    };
    until("SIGTERM is not looked at while the server recovers", || caught() & (1 << 14) != 0);
    assert!(child.try_wait().unwrap().is_none(), "it recovers");
    signal(child.id(), "-TERM");
    let (code, text) = ends(child);
    assert_eq!(code, Some(0), "{text}");
}

/// The disk thread panics: without it no write would ever be answered.
#[test]
fn a_server_whose_disk_thread_panics_ends_with_an_error() {
    let directory = TempDir::new().unwrap();
    let Some(library) = preloaded::build("lying_write.c", directory.path()) else { return };
    let (trigger, data) = (directory.path().join("trigger"), directory.path().join("data"));
    let address = port::free_address().unwrap();
    let mut command = serve(address, &data);
    let child = command.env("LD_PRELOAD", library).env("ZEBU_TEST_PRELOADED_FILE", &trigger).spawn().unwrap();
    until("it does not serve", || is_served(address));
    let (mut client, _) = RawClient::open(address).unwrap();
    create(&mut client, "/kept", b"");
    fs::write(&trigger, "version-2/log.").unwrap();
    client.send(OpCode::Create, create_body("/lost", b"", Acl::open(), 0)).unwrap();
    let (code, text) = ends(child);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("the disk thread failed unexpectedly"), "{text}");
}

#[test]
fn a_snapshot_that_panics_is_counted_and_the_server_goes_on() {
    let directory = TempDir::new().unwrap();
    let Some(library) = preloaded::build("lying_write.c", directory.path()) else { return };
    let (trigger, data) = (directory.path().join("trigger"), directory.path().join("data"));
    let address = port::free_address().unwrap();
    let config = directory.path().join("zoo.cfg");
    let text = format!(
        "dataDir={}\nclientPort={}\nsnapCount=10\n4lw.commands.whitelist=*\nadmin.enableServer=false\n",
        data.display(),
        address.port()
    );
    fs::write(&config, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
    command.arg("serve").arg(&config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.env("LD_PRELOAD", library).env("ZEBU_TEST_PRELOADED_FILE", &trigger).spawn().unwrap();
    until("it does not serve", || is_served(address));
    fs::write(&trigger, "snapshot.").unwrap();
    let (mut client, _) = RawClient::open(address).unwrap();
    let mut count = 0;
    until("no snapshot was tried", || {
        create(&mut client, &format!("/n{count}"), b"");
        count += 1;
        let text = four_letter::ask(address, "mntr", TIME_LIMIT).unwrap();
        !text.contains("zk_snapshot_error_count\t0\n") && text.contains("zk_snapshot_error_count\t")
    });
    create(&mut client, "/after", b"");
    signal(child.id(), "-TERM");
    let (code, text) = ends(child);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("writing a snapshot failed unexpectedly"), "{text}");
}

/// A client that asks for more than the sockets hold, closes its session and reads nothing. The reads wait
/// for the write in front of them, so that all requests are taken before there is anything to send.
#[test]
fn a_client_that_does_not_read_its_last_answers_is_not_kept() {
    let server = server().property("zookeeper.nio.sessionlessCnxnTimeout", "500").start().unwrap();
    let (mut writes, _) = open(&server);
    create(&mut writes, "/large", &vec![b'x'; 1_000_000]);
    create(&mut writes, "/small", b"");
    let connections = || monitored(&server, "num_alive_connections");
    let before = connections();
    let (mut silent, _) = open(&server);
    silent.queue(OpCode::SetData, common::set_data_body("/small", b"", -1));
    for _ in 0..14 {
        silent.queue(OpCode::GetData, common::path_and_watch("/large", false));
    }
    silent.queue(OpCode::CloseSession, |_| {});
    silent.flush().unwrap();
    until("the connection is kept", || connections() == before);
    drop(silent);
}
