//! A server that a test has for itself, so that it can be ended and started again.

use std::ffi::OsString;
use std::net::SocketAddr;

use tokio::task::block_in_place;
use zebu_client::{Client, ClientBuilder};
use zebu_testing::{Launch, ServerProcess, ServerProcessBuilder, TestServer, four_letter};

use super::TIMEOUT;

/// In the test or a process; a process blocks, so tests that use it need a runtime with several threads.
pub(crate) enum DedicatedServer {
    InProcess(Box<TestServer>),
    Process(ServerProcess),
}

/// Apache ZooKeeper, if its jars are named.
pub(crate) fn apache() -> Option<Launch> {
    let jars = std::env::var_os("ZOOKEEPER_CLASSPATH")?;
    let before: Vec<OsString> = vec!["-Xmx256m".into(), "-XX:+UseSerialGC".into(), "-cp".into(), jars];
    let main = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
    Some(Launch { program: "java".into(), before, after: vec![main.into()] })
}

/// What every server of the tests is started with.
pub(crate) fn settings(builder: ServerProcessBuilder) -> ServerProcessBuilder {
    builder
        .property("zookeeper.4lw.commands.whitelist", "*")
        .property("zookeeper.extendedTypesEnabled", "true")
        .line("minSessionTimeout=1000")
}

impl DedicatedServer {
    pub(crate) async fn start() -> DedicatedServer {
        let zebu = std::env::var_os("ZEBU").map(Launch::zebu);
        match apache().or(zebu) {
            None => DedicatedServer::InProcess(Box::new(TestServer::start().await.expect("a server"))),
            Some(launch) => {
                let builder = settings(ServerProcess::launch(launch));
                DedicatedServer::Process(block_in_place(|| builder.start()).expect("a server"))
            }
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            DedicatedServer::InProcess(server) => server.address(),
            DedicatedServer::Process(server) => server.address(),
        }
    }

    pub(crate) fn builder(&self) -> ClientBuilder {
        Client::builder(&self.address().to_string()).expect("an address is a connection string")
    }

    pub(crate) async fn stop(&mut self) {
        match self {
            DedicatedServer::InProcess(server) => server.stop().await.expect("stopped"),
            DedicatedServer::Process(server) => block_in_place(|| server.stop()).expect("stopped"),
        }
    }

    pub(crate) async fn kill(&mut self) {
        match self {
            DedicatedServer::InProcess(server) => server.kill().await.expect("killed"),
            DedicatedServer::Process(server) => block_in_place(|| server.kill()).expect("killed"),
        }
    }

    /// Starts it again after its end.
    pub(crate) async fn start_again(&mut self) {
        match self {
            DedicatedServer::InProcess(server) => server.restart().await.expect("started again"),
            DedicatedServer::Process(server) => block_in_place(|| server.start()).expect("started again"),
        }
    }

    /// A value of the `mntr` word.
    pub(crate) fn monitored(&self, key: &str) -> i64 {
        let text = four_letter::ask(self.address(), "mntr", TIMEOUT).expect("mntr answers");
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("zk_{key}\t")));
        line.unwrap_or_else(|| panic!("mntr has no {key}: {text}")).trim().parse().expect("a number")
    }
}
