//! Local sessions on three servers with real sockets: many of them leave no transaction in the log, and one
//! that creates an ephemeral node becomes a global session.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod common;

use std::time::{Duration, Instant};

use common::*;
use tokio::runtime::Runtime;
use zebu_client::{Client, SessionState};
use zebu_proto::{Acl, ErrorCode, OpCode, SessionId, Zxid};
use zebu_testing::raw::new_session_request;
use zebu_testing::{RawClient, Session, TestEnsemble, four_letter};

/// How long anything may take. Far more than it needs: it decides nothing.
const TIME_LIMIT: Duration = Duration::from_secs(60);

const EPHEMERAL: i32 = 1;

/// An ensemble that runs while the test waits for sockets.
struct Servers {
    ensemble: TestEnsemble,
    leader: usize,
    runtime: Runtime,
}

impl Servers {
    fn start(upgrading: &str) -> Servers {
        let runtime = Runtime::new().unwrap();
        let ensemble = TestEnsemble::builder(3)
            .line("localSessionsEnabled=true")
            .line(format!("localSessionsUpgradingEnabled={upgrading}"));
        let ensemble = runtime.block_on(ensemble.start()).unwrap();
        let leader = runtime.block_on(ensemble.wait_for_leader()).unwrap();
        Servers { ensemble, leader, runtime }
    }

    fn follower(&self) -> usize {
        (self.leader + 1) % 3
    }

    fn open(&self, server: usize, timeout_ms: i32) -> (RawClient, Session) {
        let mut client = RawClient::connect(self.ensemble.address(server)).unwrap();
        let mut request = new_session_request();
        request.timeout_ms = timeout_ms;
        let response = client.handshake(&request).unwrap();
        assert_ne!(response.session_id, 0);
        (client, Session { id: SessionId(response.session_id), password: response.password })
    }

    /// The session at a server; `None` if that does not know it.
    fn resume(&self, server: usize, session: &Session) -> Option<RawClient> {
        let (client, response) = RawClient::resume(self.ensemble.address(server), session).unwrap();
        (response.session_id == session.id.0).then_some(client)
    }

    fn ask(&self, server: usize, word: &str) -> String {
        four_letter::ask(self.ensemble.address(server), word, TIME_LIMIT).unwrap()
    }

    fn zxids(&self) -> Vec<Zxid> {
        let zxid = |server| four_letter::last_zxid(self.ensemble.address(server), TIME_LIMIT).unwrap();
        (0..3).map(zxid).collect()
    }

    fn monitored(&self, server: usize, name: &str) -> i64 {
        let text = self.ask(server, "mntr");
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("zk_{name}\t")));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    /// Local and global sessions, as a server counts them.
    fn counts(&self, server: usize) -> (i64, i64) {
        (self.monitored(server, "local_sessions"), self.monitored(server, "global_sessions"))
    }

    fn await_counts(&self, server: usize, wanted: (i64, i64)) {
        let deadline = Instant::now() + TIME_LIMIT;
        while self.counts(server) != wanted {
            assert!(Instant::now() < deadline, "{:?} instead of {wanted:?}", self.counts(server));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn create_ephemeral(client: &mut RawClient, path: &str) -> Option<ErrorCode> {
    let (_, header, _) = client.call(OpCode::Create, create_body(path, b"", Acl::open(), EPHEMERAL)).unwrap();
    error(&header)
}

#[test]
fn a_thousand_local_sessions_make_no_transaction() {
    const EACH: usize = 334;
    let servers = Servers::start("true");
    let before = servers.zxids();
    let crowds: Vec<Vec<RawClient>> =
        (0..3).map(|server| (0..EACH).map(|_| servers.open(server, 60_000).0).collect()).collect();
    for server in 0..3 {
        assert_eq!(servers.counts(server), (EACH as i64, 0));
        assert!(servers.monitored(server, "num_alive_connections") >= EACH as i64);
        let sessions = servers.ask(server, "cons").lines().filter(|line| line.contains("sid=0x")).count();
        assert_eq!(sessions, EACH);
        let dump = servers.ask(server, "dump");
        let local = dump.lines().find(|line| line.starts_with("Local Session Sets (")).unwrap();
        assert!(local.ends_with(&format!("/({EACH}):")), "{local}");
        let global =
            if server == servers.leader { "Global Session Sets (0)/(0):" } else { "Global Sessions(0):" };
        assert!(dump.lines().any(|line| line == global), "{dump}");
        let srvr = servers.ask(server, "srvr");
        let connections = srvr.lines().find_map(|line| line.strip_prefix("Connections: ")).unwrap();
        assert!(connections.parse::<usize>().unwrap() >= EACH, "{srvr}");
    }
    for mut client in crowds.into_iter().flatten() {
        done(&mut client, OpCode::CloseSession, |_| ());
    }
    (0..3).for_each(|server| servers.await_counts(server, (0, 0)));
    assert_eq!(servers.zxids(), before, "they came and went unseen");
}

#[test]
fn silent_local_sessions_expire_where_they_are() {
    let servers = Servers::start("true");
    let before = servers.zxids();
    for server in 0..3 {
        let (silent, session) = servers.open(server, 300);
        let (mut heard, _) = servers.open(server, 60_000);
        servers.await_counts(server, (1, 0));
        assert!(servers.resume(server, &session).is_none());
        done(&mut heard, OpCode::Ping, |_| ());
        drop(silent);
    }
    assert_eq!(servers.zxids(), before);
}

#[test]
fn an_ephemeral_node_makes_the_session_known_to_all() {
    let servers = Servers::start("true");
    for home in 0..3 {
        let (mut client, session) = servers.open(home, 60_000);
        let elsewhere = (home + 1) % 3;
        assert!(servers.resume(elsewhere, &session).is_none(), "as long as it is local");
        let path = format!("/of-{home}");
        assert_eq!(create_ephemeral(&mut client, &path), None);
        assert_eq!(create_ephemeral(&mut client, &format!("{path}-too")), None);
        (0..3).for_each(|server| servers.await_counts(server, (0, 1)));
        let dump = servers.ask(servers.follower(), "dump");
        let shown = format!("Global Sessions(1):\n0x{:x}\t60000ms\n", session.id.0);
        assert!(dump.contains(&shown), "{dump}");
        let mut moved = servers.resume(elsewhere, &session).expect("now it may go");
        done(&mut moved, OpCode::SetData, set_data_body(&path, b"from elsewhere", -1));
        done(&mut moved, OpCode::CloseSession, |_| ());
        (0..3).for_each(|server| servers.await_counts(server, (0, 0)));
        (0..3).for_each(|server| assert_eq!(servers.monitored(server, "ephemerals_count"), 0));
    }
}

#[test]
fn without_upgrading_an_ephemeral_node_is_refused() {
    let servers = Servers::start("false");
    for home in 0..3 {
        let (mut client, session) = servers.open(home, 60_000);
        let refused = Some(ErrorCode::EphemeralOnLocalSession);
        assert_eq!(create_ephemeral(&mut client, "/refused"), refused);
        create(&mut client, &format!("/kept-{home}"), b"");
        assert_eq!(servers.counts(home), (1, 0));
        drop(client);
        let mut client = servers.resume(home, &session).expect("it lives on at home");
        done(&mut client, OpCode::CloseSession, |_| ());
    }
}

#[test]
fn a_client_loses_a_local_session_with_its_server_and_keeps_one_with_a_node() {
    let servers = Servers::start("true");
    let (home, list) = (servers.follower(), servers.ensemble.connect_string());
    let at_home = servers.ensemble.address(home).to_string();
    let Servers { ensemble, runtime, .. } = &servers;
    runtime.block_on(async {
        let clients = [Client::connect(&at_home).await.unwrap(), Client::connect(&at_home).await.unwrap()];
        let [local, upgraded] = &clients;
        upgraded.create("/mine").ephemeral().await.unwrap();
        local.create("/ours").await.unwrap();
        let ids = clients.each_ref().map(|client| client.session().id);
        clients.iter().for_each(|client| client.update_servers(&list).unwrap());
        let mut states = upgraded.states();
        ensemble.kill(home).await.unwrap();
        // A request before the client has noticed the disconnect would have an unknown outcome.
        states.wait_for(|status| status.state == SessionState::Reconnected).await.unwrap();
        upgraded.set("/mine", "still here").await.unwrap();
        assert_eq!(upgraded.session().id, ids[1]);
        let lost = local.get("/ours").await;
        let other = Client::connect(&list).await.unwrap();
        assert!(other.exists("/mine").await.unwrap().is_some());
        assert!(lost.is_err() || local.session().id != ids[0], "nobody else knows it: {lost:?}");
    });
}
