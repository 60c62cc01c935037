//! A server that a test has for itself, so that it can be ended and started again.

use std::ffi::OsString;
use std::net::SocketAddr;

use tokio::task::block_in_place;
use zebu_client::{Client, ClientBuilder};
use zebu_testing::{Launch, ServerProcess, ServerProcessBuilder, TestServer, four_letter};

use super::TIMEOUT;

/// In the test or a process; a process blocks, so tests that use it need a runtime with several threads.
pub(crate) enum Own {
    Inside(Box<TestServer>),
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

impl Own {
    pub(crate) async fn start() -> Own {
        let zebu = std::env::var_os("ZEBU").map(Launch::zebu);
        match apache().or(zebu) {
            None => Own::Inside(Box::new(TestServer::start().await.expect("a server"))),
            Some(launch) => {
                let builder = settings(ServerProcess::launch(launch));
                Own::Process(block_in_place(|| builder.start()).expect("a server"))
            }
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Own::Inside(server) => server.address(),
            Own::Process(server) => server.address(),
        }
    }

    pub(crate) fn builder(&self) -> ClientBuilder {
        Client::builder(&self.address().to_string()).expect("an address is a connection string")
    }

    pub(crate) async fn stop(&mut self) {
        match self {
            Own::Inside(server) => server.stop().await.expect("stopped"),
            Own::Process(server) => block_in_place(|| server.stop()).expect("stopped"),
        }
    }

    pub(crate) async fn kill(&mut self) {
        match self {
            Own::Inside(server) => server.kill().await.expect("killed"),
            Own::Process(server) => block_in_place(|| server.kill()).expect("killed"),
        }
    }

    /// Starts it again after its end.
    pub(crate) async fn start_again(&mut self) {
        match self {
            Own::Inside(server) => server.restart().await.expect("started again"),
            Own::Process(server) => block_in_place(|| server.start()).expect("started again"),
        }
    }

    /// A value of the `mntr` word.
    pub(crate) fn monitored(&self, key: &str) -> i64 {
        let text = four_letter::ask(self.address(), "mntr", TIMEOUT).expect("mntr answers");
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("zk_{key}\t")));
        line.unwrap_or_else(|| panic!("mntr has no {key}: {text}")).trim().parse().expect("a number")
    }
}
