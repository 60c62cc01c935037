//! A standalone server on a small file system of its own: below `disk.stop` it refuses what makes the tree
//! larger, and goes on without a restart when there is room. A snapshot that would fill the disk is refused.
//! The file system needs a user namespace or root.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod admin_common;
mod common;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use admin_common::{AS_SUPER, SUPER_DIGEST, get_as};
use common::*;
use zebu_proto::{ErrorCode, OpCode};
use zebu_testing::{RawClient, four_letter, port};

const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Mounts a small file system and runs the server on it; the shell fills it at SIGUSR1 and empties it at
/// SIGUSR2.
const SCRIPT: &str = r#"
mount -t tmpfs -o size=48m tmpfs "$1" || exit 77
mkdir "$1/data"
printf 'tickTime=2000\ndataDir=%s\nclientPort=%s\n4lw.commands.whitelist=*\npreAllocSize=64\n' \
    "$1/data" "$2" > "$1/zoo.cfg"
printf 'disk.low=24\ndisk.stop=12\ndisk.reserve=4\n%s\n' "$3" >> "$1/zoo.cfg"
"$0" serve "$1/zoo.cfg" &
server=$!
trap 'head -c 36m /dev/zero > "$1/filler"' USR1
trap 'rm -f "$1/filler"' USR2
while kill -0 $server 2> /dev/null; do wait $server; done
"#;

/// Whether this user may mount a file system in namespaces of its own.
fn may_mount() -> bool {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs"]);
    let status = command.arg(directory.path()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// The shell and its server, in namespaces of their own. All of its processes end with the first one.
struct Namespaces(Child);

impl Namespaces {
    /// Signals the shell below `unshare`.
    fn signal(&self, signal: &str) {
        let children = format!("/proc/{0}/task/{0}/children", self.0.id());
        let list = std::fs::read_to_string(children).unwrap();
        for child in list.split_whitespace() {
            let status = Command::new("kill").args(["-s", signal, child]).status().unwrap();
            assert!(status.success(), "the shell has ended");
        }
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn state(address: std::net::SocketAddr) -> Option<String> {
    let text = four_letter::ask(address, "mntr", Duration::from_secs(1)).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("zk_disk_state\t"))?;
    Some(line.trim().to_owned())
}

fn await_state(address: std::net::SocketAddr, wanted: &str) {
    let deadline = Instant::now() + TIME_LIMIT;
    while state(address).as_deref() != Some(wanted) {
        assert!(Instant::now() < deadline, "disk_state is {:?}, not {wanted}", state(address));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The error code of a request; zero if it was carried out.
fn code_of(client: &mut RawClient, op: OpCode, body: impl FnOnce(&mut Vec<u8>)) -> i32 {
    let (_, header, _) = client.call(op, body).unwrap();
    header.err
}

/// Starts a server with further lines of configuration.
fn start(directory: &std::path::Path, lines: &str) -> (Namespaces, std::net::SocketAddr) {
    let address = port::free_address().unwrap();
    let mut command = Command::new("unshare");
    command.args([
        "--user",
        "--map-root-user",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "sh",
        "-c",
        SCRIPT,
    ]);
    command.arg(env!("CARGO_BIN_EXE_zebu")).arg(directory).arg(address.port().to_string()).arg(lines);
    let shell = Namespaces(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    await_state(address, "0");
    (shell, address)
}

fn delete(client: &mut RawClient, path: &str) -> i32 {
    let delete = zebu_proto::client::DeleteRequest { path: Some(path.into()), version: -1 };
    code_of(client, OpCode::Delete, |out| zebu_proto::Jute::encode(&delete, out))
}

#[test]
fn a_full_disk_refuses_growth_and_nothing_else() {
    if !may_mount() {
        eprintln!("skipped: this user may not mount a file system of its own (unshare --user --mount)");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (shell, address) = start(directory.path(), "admin.enableServer=false");
    let (mut client, _) = RawClient::open(address).unwrap();
    client.set_patience(TIME_LIMIT);
    let create = |client: &mut RawClient, path: &str| {
        code_of(client, OpCode::Create, create_body(path, b"some data", zebu_proto::Acl::open(), 0))
    };
    assert_eq!(create(&mut client, "/before"), 0);

    shell.signal("USR1");
    await_state(address, "2");
    assert_eq!(create(&mut client, "/refused"), ErrorCode::SystemError.wire());
    assert_eq!(four_letter::ask(address, "ruok", Duration::from_secs(5)).unwrap(), "imok");
    assert_eq!(delete(&mut client, "/before"), 0);
    assert!(RawClient::open(address).is_err(), "a new session makes the tree larger");

    shell.signal("USR2");
    await_state(address, "0");
    assert_eq!(create(&mut client, "/after"), 0);
}

#[test]
fn a_snapshot_that_would_fill_the_disk_is_refused() {
    const NODES: usize = 20;
    if !may_mount() {
        eprintln!("skipped: this user may not mount a file system of its own (unshare --user --mount)");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let admin = port::free_address().unwrap();
    let lines =
        format!("admin.serverPort={}\nDigestAuthenticationProvider.superDigest={SUPER_DIGEST}", admin.port());
    let (_shell, address) = start(directory.path(), &lines);
    let (mut client, _) = RawClient::open(address).unwrap();
    client.set_patience(TIME_LIMIT);
    // The log and the reserve leave 26 MiB, of which the snapshot would take 17: less than `disk.stop` is
    // left.
    for number in 0..NODES {
        let path = format!("/n{number}");
        let body = create_body(&path, &[7; 900_000], zebu_proto::Acl::open(), 0);
        assert_eq!(code_of(&mut client, OpCode::Create, body), 0);
    }
    assert_eq!(state(address).as_deref(), Some("0"));
    let refused = get_as(admin, "/commands/snapshot", AS_SUPER);
    assert_eq!(refused.status, 507, "{}", refused.text());
    assert!(refused.text().contains("no room"), "{}", refused.text());
    assert_eq!(state(address).as_deref(), Some("0"), "the refused snapshot took room");

    for number in 0..NODES * 3 / 4 {
        assert_eq!(delete(&mut client, &format!("/n{number}")), 0);
    }
    let written = get_as(admin, "/commands/snapshot?streaming=false", AS_SUPER);
    assert_eq!(written.status, 200, "{}", written.text());
}
