//! Planned stops of real server processes: `zebu rolling-restart` under load, SIGTERM with clients of all
//! kinds, and `zebu drain`.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod common;
#[path = "common/ensemble.rs"]
mod processes;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use processes::{Ensemble, TIME_LIMIT, block_on};
use zebu_client::Client;
use zebu_proto::OpCode;
use zebu_proto::client::CreateMode;
use zebu_proto::client::connect::ConnectRequest;
use zebu_testing::raw::{Message, RawClient, Received, new_session_request};
use zebu_testing::{four_letter, port};

const ZEBU: &str = env!("CARGO_BIN_EXE_zebu");

/// A connection is kept for a quarter of this. The machine of a test may be busy for long.
const SESSION_TIMEOUT_MS: i32 = 240_000;

/// Clients ask their servers for features after a third of this.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(15);

const LINE: &str = "initLimit=60\nmaxSessionTimeout=240000\nzebu.electionGrace=60000\nzebu.drainTime=20000";

/// `super:secret` as `superDigest`.
const SUPER_DIGEST: &str = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=";

/// Servers in the background, as `zebu start` runs them. They are stopped at the end.
struct Background {
    ensemble: Ensemble,
}

impl Background {
    fn start(count: usize, line: &str) -> Background {
        let background = Background { ensemble: Ensemble::prepare(count, line) };
        for index in 0..count {
            let from = background.ensemble.home.path().join(format!("zoo{index}.cfg"));
            fs::rename(from, background.config(background.ensemble.clients[index])).unwrap();
            let started = background.zebu("start", background.ensemble.clients[index]);
            assert!(started.status.success(), "{started:?}");
        }
        background.ensemble.await_leader(count);
        background
    }

    /// The configuration of a server, named after its port: the restart command knows no more.
    fn config(&self, address: SocketAddr) -> PathBuf {
        self.ensemble.home.path().join(format!("{}.cfg", address.port()))
    }

    fn zebu(&self, word: &str, address: SocketAddr) -> Output {
        self.command().arg(word).arg(self.config(address)).output().unwrap()
    }

    /// A command in the directory of the ensemble: a server in the background writes its log below it.
    fn command(&self) -> Command {
        let mut command = Command::new(ZEBU);
        command.current_dir(self.ensemble.home.path());
        command
    }

    fn servers(&self) -> String {
        let names: Vec<String> = self.ensemble.clients.iter().map(ToString::to_string).collect();
        names.join(",")
    }

    /// The sum of a counter over all servers.
    fn counted(&self, name: &str) -> u64 {
        self.ensemble.clients.iter().filter_map(|address| mntr(*address, name)).sum()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        for address in &self.ensemble.clients {
            let _ = self.zebu("stop", *address);
        }
    }
}

fn mntr(address: SocketAddr, name: &str) -> Option<u64> {
    let text = four_letter::ask(address, "mntr", Duration::from_secs(5)).ok()?;
    let value =
        text.lines().find_map(|line| line.strip_prefix(&format!("zk_{name}\t")).map(str::to_owned))?;
    value.trim().parse().ok()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIME_LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not within {TIME_LIMIT:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Creates nodes one after the other until it is told to stop. Returns their number; an error ends the test.
async fn write(client: Client, name: usize, stops: Arc<AtomicBool>) -> usize {
    let mut written = 0;
    while !stops.load(Ordering::Relaxed) {
        let path = format!("/writes/{name}-{written}");
        // No retry is allowed here: a call that fails once fails the test.
        client.create(&path).await.unwrap_or_else(|error| panic!("{path}: {error}"));
        let read = client.get(&path).await.unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(read.data.len(), 0);
        written += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    written
}

#[test]
fn rust_clients_do_not_notice_a_rolling_restart() {
    let background = Background::start(3, LINE);
    block_on(async {
        const CLIENTS: usize = 6;
        let setup = Client::connect(&background.servers()).await.unwrap();
        setup.create("/writes").await.unwrap();
        setup.close().await.unwrap();
        let stops = Arc::new(AtomicBool::new(false));
        let (mut writers, mut idle) = (Vec::new(), Vec::new());
        for name in 0..CLIENTS {
            let open = async || {
                let builder =
                    Client::builder(&background.servers()).unwrap().retry(zebu_client::Retry::Never);
                builder.session_timeout(CLIENT_TIMEOUT).connect().await.unwrap()
            };
            writers.push(tokio::spawn(write(open().await, name, stops.clone())));
            idle.push(open().await);
        }
        let raw: Vec<RawClient> = background.ensemble.clients.iter().map(|address| open(*address)).collect();
        // From here on the servers know that all of these clients can move.
        eventually("all clients have said hello", || {
            background.counted("client_hellos") >= 2 * CLIENTS as u64
        });
        let restart =
            format!("'{ZEBU}' restart '{}'/{{port}}.cfg", background.ensemble.home.path().display());
        let servers = background.servers();
        let mut command = background.command();
        command.args(["rolling-restart", &servers, "--json", "--restart-command", &restart]);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap());
        let output = output.await.unwrap();
        stops.store(true, Ordering::Relaxed);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
        let events: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(events.iter().filter(|event| event["event"] == "restarted").count(), 3);
        assert_eq!(events.last().unwrap()["event"], "done");
        let mut written = 0;
        for writer in writers {
            written += writer.await.unwrap();
        }
        for client in &idle {
            let names = client.children("/writes").await.unwrap().names;
            assert_eq!(names.len(), written, "each write was carried out once");
        }
        for mut client in raw {
            assert_eq!(
                client.receive(TIME_LIMIT).unwrap(),
                Received::Closed,
                "an idle client gets nothing but the end"
            );
        }
    });
}

fn open(address: SocketAddr) -> RawClient {
    let mut client = RawClient::connect(address).unwrap();
    let request = ConnectRequest { timeout_ms: SESSION_TIMEOUT_MS, ..new_session_request() };
    client.handshake(&request).unwrap();
    client.set_patience(TIME_LIMIT);
    client
}

#[test]
fn a_connection_is_closed_when_all_that_was_sent_is_answered() {
    const REQUESTS: i32 = 400;
    let mut ensemble = Ensemble::start_with(3, LINE);
    let leader = ensemble.await_leader(3);
    for index in [(leader + 1) % 3, leader] {
        let mut client = open(ensemble.clients[index]);
        for _ in 0..REQUESTS {
            let flags = CreateMode::PersistentSequential.flags();
            let body = common::create_body("/n", b"", zebu_proto::Acl::open(), flags);
            client.send(OpCode::Create, body).unwrap();
        }
        let child = ensemble.children[index].as_mut().unwrap();
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        for xid in 1..=REQUESTS {
            match client.receive_message().unwrap() {
                Message::Reply { header, .. } => assert_eq!((header.xid, header.err), (xid, 0)),
                Message::Event { event, .. } => panic!("{event:?} for a client without a watch"),
            }
        }
        assert_eq!(client.receive(TIME_LIMIT).unwrap(), Received::Closed);
        assert!(child.wait().unwrap().success());
        ensemble.run(index);
        ensemble.await_leader(3);
    }
}

#[test]
fn a_dry_run_shows_the_leader_last_and_changes_nothing() {
    let ensemble = Ensemble::start_with(3, LINE);
    let leader = ensemble.await_leader(3);
    let servers: Vec<String> = ensemble.clients.iter().map(ToString::to_string).collect();
    let output =
        Command::new(ZEBU).args(["rolling-restart", &servers.join(","), "--dry-run"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 3 && lines[2].contains(&servers[leader]), "{text}");
    ensemble.await_leader(3);
}

#[test]
fn the_first_problem_stops_a_rolling_restart() {
    let ensemble = Ensemble::start_with(3, LINE);
    ensemble.await_leader(3);
    let servers: Vec<String> = ensemble.clients.iter().map(ToString::to_string).collect();
    let restart = |arguments: &[&str]| {
        let mut command = Command::new(ZEBU);
        let output = command.args(["rolling-restart", &servers.join(",")]).args(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), text)
    };
    let (status, text) = restart(&["--restart-command", "exit 7"]);
    assert!(status == Some(1) && text.contains("the command failed"), "{text}");
    let (status, text) = restart(&["--restart-command", "true", "--wait-limit", "3"]);
    assert!(status == Some(1) && text.contains("still runs as before"), "{text}");
    let (status, _) = restart(&[]);
    assert_eq!(status, Some(2), "a command is needed");
    ensemble.await_leader(3);
}

#[test]
fn an_admin_server_drains_for_the_super_user_only() {
    let admin = port::free_address().unwrap();
    let line = format!(
        "{LINE}\nadmin.enableServer=true\nadmin.serverAddress=127.0.0.1\nadmin.serverPort={}",
        admin.port()
    );
    // The port can belong to one server only; the other two go without.
    let mut ensemble = Ensemble::prepare(3, LINE);
    let config = ensemble.home.path().join("zoo0.cfg");
    let text = fs::read_to_string(&config).unwrap().replace("admin.enableServer=false\n", "");
    let added = line.strip_prefix(LINE).unwrap();
    fs::write(&config, format!("{text}{added}\nDigestAuthenticationProvider.superDigest={SUPER_DIGEST}\n"))
        .unwrap();
    (0..3).for_each(|index| ensemble.run(index));
    ensemble.await_leader(3);
    let auth = ensemble.home.path().join("auth");
    let drain = |credential: &str| {
        fs::write(&auth, credential).unwrap();
        let mut command = Command::new(ZEBU);
        command.args(["drain", &admin.to_string(), "--wait", "--auth-file"]).arg(&auth);
        command.output().unwrap()
    };
    let refused = drain("digest super:wrong\n");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert_eq!(ensemble.mode(0).as_deref().map(str::is_empty), Some(false), "it serves on");
    let client = open(ensemble.clients[0]);
    let drained = drain("digest super:secret\n");
    assert_eq!(drained.status.code(), Some(0), "{drained:?}");
    assert!(ensemble.children[0].as_mut().unwrap().wait().unwrap().success());
    drop(client);
    ensemble.children[0] = None;
    ensemble.await_leader(2);
}
